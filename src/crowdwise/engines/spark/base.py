"""What all models on Spark share: the answers in, the tables out."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import pyarrow as pa

from crowdwise._core.atomic_io import exclusive_access
from crowdwise._core.validation import require
from crowdwise.answers.answers import MAX_CLASSES
from crowdwise.answers.rows import Duplicates
from crowdwise.engines.spark import steps
from crowdwise.engines.spark.checkpoint import STATE
from crowdwise.engines.spark.columns import Columns
from crowdwise.engines.spark.driver import add_up
from crowdwise.engines.spark.intake import Bad, Data, take
from crowdwise.engines.spark.results import Learned, finish, label_frame, plain, sizes_of
from crowdwise.engines.spark.worker_tables import worker_frame
from crowdwise.errors import NotFittedError, ParameterError, SparkError, WeightError
from crowdwise.truth.base import Array, Callback, TruthModel

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROADCAST_LIMIT = 50_000_000  # numbers: 400 MB on every executor


class SparkModel:
    """A truth model that is fitted on a Spark DataFrame.

    Parameters
    ----------
    *arguments, **parameters
        Those of the local model of the same name. Several starts (`n_init`) and `warm_start` are for one machine.

    Attributes
    ----------
    labels : DataFrame
        task, label, confidence, runner_up, agreement, answers, proba (in the order of the classes); one row a task.
    workers : DataFrame
        worker, answers, quality and its 95 % interval, agreement_with_consensus, informativeness, worst_class: the
        columns of the local `worker_table` with interval="belief"; and what else the model knows of each.
    classes : DataFrame
        class, and its share `prior`.
    confusion : DataFrame or None
        worker, truth, label, probability: the confusion matrices, for models that have them.
    rejected : DataFrame
        task, worker, label, weight (with `weight`), file, reason: rows that were not used. `removed_` counts them.
    history_, n_iter_, converged_
        As of the local model.
    """

    local: ClassVar[type[TruthModel]]
    has_matrices: ClassVar[bool] = False  # of workers, which have to be kept somewhere
    labels: DataFrame
    workers: DataFrame
    classes: DataFrame
    rejected: DataFrame
    confusion: DataFrame | None = None
    removed_: dict[str, int]
    history_: list[float]
    _limit: int
    _kept: list[Any]  # in the cluster's memory

    def __init__(self, *arguments: Any, **parameters: Any) -> None:
        self.model: Any = self.local(*arguments, **parameters)

    def fit(
        self,
        frame: DataFrame,
        *,
        task: str = "task",
        worker: str = "worker",
        label: str = "label",
        weight: str | None = None,
        gold: DataFrame | None = None,
        classes: Any = None,
        duplicates: Duplicates = "error",
        bad: Bad = "aside",
        max_classes: int = MAX_CLASSES,
        parts: int | None = None,
        checkpoint: str | Path | None = None,
        resume: bool = False,
        broadcast_limit: int = BROADCAST_LIMIT,
        callback: Callback | None = None,
    ) -> Self:
        """Infer the truth.

        Parameters
        ----------
        frame : DataFrame
            One row an answer.
        task, worker, label : str
            Its columns: integers, strings or booleans.
        weight : str, optional
            Column that says how much each answer counts.
        gold : DataFrame, optional
            Known labels, held fixed: columns named as those of the task and the label.
        classes : sequence, optional
            The classes and their order; the distinct labels, sorted, when not given.
        duplicates : {"error", "first", "last", "vote"}
            What to do when a worker answered a task twice. First and last are by the order of the rows read.
        bad : {"aside", "error"}
            Rows with a missing id, a label that is not declared, or a weight that is none: set aside in `rejected`,
            or an error.
        max_classes : int
            More distinct labels than this are taken for a mistake in the column.
        parts : int, optional
            In how many parts the tasks are dealt out; by default a million answers each, and one a core at least.
        checkpoint : path, optional
            Folder to which the parameters are written after each iteration. It is the driver's, and has to be shared
            by all machines where state stays in the cluster: GLAD, and crowds above `broadcast_limit`, whose tables
            are read from it. Keep it until they are written.
        resume : bool
            Go on from the checkpoint, if there is one, to the same result.
        broadcast_limit : int
            Confusion matrices of up to so many numbers (workers x classes²) are sent to every executor.
        callback : callable, optional
            Called with the iteration and the bound.
        """
        self._check()
        require(not resume or checkpoint is not None, "resume", resume, "it with checkpoint=, the folder to go on from")
        pattern = checkpoint is not None and set(str(Path(checkpoint).absolute())) & set("[]{}*?")
        require(not pattern, "checkpoint", checkpoint, "a path without [ ] { } * ?, which Spark takes for patterns")
        if weight is not None and not self.model.uses_weights:
            message = f"{type(self).__name__} cannot weigh answers; fit it without weight=."
            raise WeightError(message)
        data = take(
            frame, Columns(task, worker, label, weight), gold=gold, classes=classes, duplicates=duplicates, bad=bad,
            max_classes=max_classes, parts=parts,
            room=broadcast_limit if self.has_matrices and checkpoint is None else None,
        )  # fmt: skip
        self.rejected, self.removed_ = data.rejected, data.removed
        self.history_, self.n_iter_, self.converged_ = [], 0, True
        self._limit, self._kept = broadcast_limit, []
        file = None if checkpoint is None else Path(checkpoint) / STATE
        with nullcontext() if file is None else exclusive_access(file.parent, file.name):
            learned = self._learn(data, file, resume, callback)
        finished, used = finish(data, learned, getattr(self.model, "random_state", 0))
        sizes = add_up(finished.mapValues(sizes_of), data.n_parts).totals
        self.class_prior_ = prior = getattr(self.model, "class_prior_", sizes / data.n_tasks)
        self.classes = data.spark.createDataFrame(pa.table({"class": plain(data.class_ids), "prior": prior}))
        self.labels = label_frame(data, finished, None if learned.more is None else learned.more[0])
        self.workers = worker_frame(data, finished, self._of_workers(data, prior))
        data.release()  # what the results are made from is computed by now
        for held in (*used, *self._kept):
            held.unpersist()
        self._kept = [finished, *data.held, *learned.needs]
        return self

    def _check(self) -> None:
        """Refuse settings that make no sense, and those that are for one machine."""
        model = self.model
        model._check_flags()
        model._check_common_parameters()
        model._check_parameters()
        n_init = getattr(model, "n_init", 1)
        require(n_init == 1, "n_init", n_init, "1 on Spark, where random starts could not be those of one machine")
        require(not getattr(model, "warm_start", False), "warm_start", True, "False on Spark, and resume=True")

    def release(self) -> None:
        """Let the cluster forget the results. What is asked for afterwards is computed again; GLAD has to be fitted."""
        for kept in self._kept:
            kept.unpersist()

    def write(self, path: str, *, overwrite: bool = False) -> None:
        """Write all tables as Parquet: labels, workers, classes, confusion, rejected, and how the fit went (fit).

        A table is written beside its place, and appears there when it is whole; in object stores, which cannot rename,
        by what Spark commits it with. `fit` comes last: where it is there, all of them are, and of this model.
        """
        if not hasattr(self, "labels"):
            message = f"this {type(self).__name__} is not fitted yet; call fit first."
            raise NotFittedError(message)
        settings = {name: repr(value) for name, value in self.model.get_params(deep=False).items()}
        how = {
            "model": [type(self).__name__], "settings": [json.dumps(settings)], "iterations": [self.n_iter_],
            "converged": [self.converged_], "removed": [json.dumps(self.removed_)],
            "bounds": pa.array([self.history_], pa.list_(pa.float64())),
        }  # fmt: skip
        spark, place = self.labels.sparkSession, path.rstrip("/")
        fit = spark.createDataFrame(pa.table(how))
        tables = {"labels": self.labels, "workers": self.workers, "classes": self.classes, "rejected": self.rejected}
        if self.confusion is not None:
            tables["confusion"] = self.confusion
        if overwrite:
            for name in ("fit", *({"confusion"} - set(tables))):  # of another model, which may have had more tables
                _Place(spark, f"{place}/{name}").remove()
        for name, table in {**tables, "fit": fit}.items():
            at = _Place(spark, f"{place}/{name}")
            if at.exists() and not overwrite:
                message = (
                    f"{place} holds results already ({name}). Name another folder, or replace them: overwrite=True."
                )
                raise ParameterError(message)
            if not at.renames():
                table.write.mode("overwrite" if overwrite else "errorifexists").parquet(f"{place}/{name}")
                continue
            beside = _Place(spark, f"{place}/.{name}.partial")
            try:
                table.write.mode("overwrite").parquet(f"{place}/.{name}.partial")
            except Exception:
                with suppress(Exception):  # a disk that is full has to get its room back; Java may be gone
                    beside.remove()
                raise
            at.remove()
            beside.move(at)

    def _learn(self, data: Data, file: Path | None, resume: bool, callback: Callback | None) -> Learned:
        """Fit the parameters."""
        require(file is None, "checkpoint", file, "it with models that iterate")
        return Learned(steps.own_posterior, self.model)

    def _of_workers(self, data: Data, prior: Array) -> DataFrame | None:
        """What the model knows of each worker, by `code`, given the shares of the classes."""
        return None


class _Place:
    """A folder wherever Spark finds it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self.path = jvm.org.apache.hadoop.fs.Path(path)
        self.system = self.path.getFileSystem(spark._jsc.hadoopConfiguration())

    def exists(self) -> bool:
        return bool(self.system.exists(self.path))

    def renames(self) -> bool:
        """Whether a folder is renamed in one step there, and not file by file."""
        return self.system.getScheme() in ("file", "hdfs", "viewfs")

    def remove(self) -> None:
        self.system.delete(self.path, True)

    def move(self, to: _Place) -> None:
        if not self.system.rename(self.path, to.path):
            message = f"{to.path.toString()} cannot be written: is another process at work there?"
            raise SparkError(message)
