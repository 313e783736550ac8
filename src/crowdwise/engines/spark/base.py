"""The base class of the models on Spark: checks the input, packs the answers, and returns and writes the tables."""

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
from crowdwise.engines.spark.packing import BadRows, PackedAnswers, pack_answers
from crowdwise.engines.spark.results import FitResult, class_sizes, finish, label_frame, spark_ids
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
        Those of the local model of the same name. `n_init` above 1 and `warm_start` are not supported.

    Attributes
    ----------
    labels : DataFrame
        task, label, confidence, runner_up, agreement, answers, proba (in the order of the classes); one row per task.
    workers : DataFrame
        worker, answers, quality and its 95 % interval, agreement_with_consensus, informativeness, worst_class: the
        columns of the local `worker_table` with interval="belief". Some models add a column, such as `skill`.
    classes : DataFrame
        class, and its share `prior`.
    confusion : DataFrame or None
        worker, truth, label, probability: the confusion matrices, for models that have them.
    rejected : DataFrame
        task, worker, label, weight (with `weight`), file, reason: rows that were not used. `removed_` counts them.
    history_, n_iter_, converged_
        As in the local model.
    """

    local: ClassVar[type[TruthModel]]
    has_matrices: ClassVar[bool] = False  # one confusion matrix per worker
    labels: DataFrame
    workers: DataFrame
    classes: DataFrame
    rejected: DataFrame
    confusion: DataFrame | None = None
    removed_: dict[str, int]
    history_: list[float]
    _limit: int
    _cached: list[Any]  # DataFrames and RDDs in the cluster's memory

    class_prior_: Any | Array
    converged_: bool
    n_iter_: int

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
        bad: BadRows = "aside",
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
            One row per answer.
        task, worker, label : str
            Names of its columns, which hold integers, strings or booleans.
        weight : str, optional
            Name of the column with the weight of each answer.
        gold : DataFrame, optional
            Known labels, kept fixed. Its columns have the same names as those of the task and the label.
        classes : sequence, optional
            The classes and their order; by default the distinct labels, sorted.
        duplicates : {"error", "first", "last", "vote"}
            What to do if a worker answered a task twice. First and last follow the order in which rows are read.
        bad : {"aside", "error"}
            What to do with rows that have a missing id, an undeclared label or an invalid weight: put them into
            `rejected`, or raise an error.
        max_classes : int
            More distinct labels than this raise an error: the label column is probably the wrong one.
        parts : int, optional
            Number of parts that the tasks are split into. By default one per million answers, and at least one per
            core.
        checkpoint : path, optional
            Folder to which the parameters are written after each iteration. The driver must reach it. All machines
            must share it if state stays in the cluster: for GLAD, and for confusion matrices above `broadcast_limit`.
            Keep the folder until the result tables are written, as they may be read from it.
        resume : bool
            Whether to resume from the checkpoint, if there is one. The result is the same.
        broadcast_limit : int
            Confusion matrices of up to this many numbers (workers x classes²) are sent to every executor.
        callback : callable, optional
            Called after each iteration with its number and the bound.
        """
        self._check()
        require(
            not resume or checkpoint is not None, "resume", resume, "it with checkpoint=, the folder to resume from"
        )
        pattern = checkpoint is not None and set(str(Path(checkpoint).absolute())) & set("[]{}*?")
        require(not pattern, "checkpoint", checkpoint, "a path without [ ] { } * ?, which Spark reads as patterns")
        if weight is not None and not self.model.uses_weights:
            message = f"{type(self).__name__} does not support answer weights; fit it without weight=."
            raise WeightError(message)
        data = pack_answers(
            frame, Columns(task, worker, label, weight), gold=gold, classes=classes, duplicates=duplicates, bad=bad,
            max_classes=max_classes, parts=parts,
            max_cells=broadcast_limit if self.has_matrices and checkpoint is None else None,
        )  # fmt: skip
        self.rejected, self.removed_ = data.rejected, data.removed
        self.history_, self.n_iter_, self.converged_ = [], 0, True
        self._limit, self._cached = broadcast_limit, []
        file = None if checkpoint is None else Path(checkpoint) / STATE
        with nullcontext() if file is None else exclusive_access(file.parent, file.name):
            result = self._fit_parameters(data, file, resume, callback)
        finished, temporary = finish(data, result, getattr(self.model, "random_state", 0))
        sizes = add_up(finished.mapValues(class_sizes), data.n_parts).totals
        self.class_prior_ = prior = getattr(self.model, "class_prior_", sizes / data.n_tasks)
        self.classes = data.spark.createDataFrame(pa.table({"class": spark_ids(data.class_ids), "prior": prior}))
        self.labels = label_frame(data, finished, None if result.extra is None else result.extra[0])
        self.workers = worker_frame(data, finished, self._worker_columns(data, prior))
        data.release()  # the results are computed by now
        for cached in (*temporary, *self._cached):
            cached.unpersist()
        self._cached = [finished, *data.cached, *result.needs]
        return self

    def _check(self) -> None:
        """Validate the settings, and refuse those that Spark does not support."""
        model = self.model
        model._check_flags()
        model._check_common_parameters()
        model._check_parameters()
        n_init = getattr(model, "n_init", 1)
        require(n_init == 1, "n_init", n_init, "1 on Spark, where random starts would differ from the local model's")
        require(not getattr(model, "warm_start", False), "warm_start", True, "False on Spark, or resume=True in fit")

    def release(self) -> None:
        """Free the cluster memory of the results. Using them later recomputes them; GLAD must be fitted again."""
        for cached in self._cached:
            cached.unpersist()

    def write(self, path: str, *, overwrite: bool = False) -> None:
        """Write all tables as Parquet: labels, workers, classes, confusion, rejected, and facts about the fit (fit).

        A table is written to a temporary folder and renamed when complete. Object stores cannot rename; there, Spark's
        own commit protocol applies. `fit` is written last: if it exists, all tables exist and are of this model.
        """
        if not hasattr(self, "labels"):
            message = f"this {type(self).__name__} is not fitted yet; call fit first."
            raise NotFittedError(message)
        settings = {name: repr(value) for name, value in self.model.get_params(deep=False).items()}
        facts = {
            "model": [type(self).__name__], "settings": [json.dumps(settings)], "iterations": [self.n_iter_],
            "converged": [self.converged_], "removed": [json.dumps(self.removed_)],
            "bounds": pa.array([self.history_], pa.list_(pa.float64())),
        }  # fmt: skip
        spark, folder = self.labels.sparkSession, path.rstrip("/")
        fit = spark.createDataFrame(pa.table(facts))
        tables = {"labels": self.labels, "workers": self.workers, "classes": self.classes, "rejected": self.rejected}
        if self.confusion is not None:
            tables["confusion"] = self.confusion
        if overwrite:
            for name in ("fit", *({"confusion"} - set(tables))):  # the earlier model may have had more tables
                _Folder(spark, f"{folder}/{name}").remove()
        for name, table in {**tables, "fit": fit}.items():
            target = _Folder(spark, f"{folder}/{name}")
            if target.exists() and not overwrite:
                message = f"{folder} already contains results ({name}). Use another folder, or overwrite=True."
                raise ParameterError(message)
            if not target.can_rename():
                table.write.mode("overwrite" if overwrite else "errorifexists").parquet(f"{folder}/{name}")
                continue
            partial = _Folder(spark, f"{folder}/.{name}.partial")
            try:
                table.write.mode("overwrite").parquet(f"{folder}/.{name}.partial")
            except Exception:
                with suppress(Exception):  # free the space on a full disk; Java may be gone
                    partial.remove()
                raise
            target.remove()
            partial.move(target)

    def _fit_parameters(
        self, data: PackedAnswers, file: Path | None, resume: bool, callback: Callback | None
    ) -> FitResult:
        """Fit the parameters; `file` is the checkpoint, if there is one."""
        require(file is None, "checkpoint", file, "it only with models that iterate")
        return FitResult(steps.local_posterior, self.model)

    def _worker_columns(self, data: PackedAnswers, prior: Array) -> DataFrame | None:
        """Return the model's own columns of the worker table, with `code`, given the class prior."""
        return None


class _Folder:
    """A folder in any file system that Spark can reach."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self.path = jvm.org.apache.hadoop.fs.Path(path)
        self.system = self.path.getFileSystem(spark._jsc.hadoopConfiguration())

    def exists(self) -> bool:
        return bool(self.system.exists(self.path))

    def can_rename(self) -> bool:
        """Return whether this file system renames a folder in one step."""
        return self.system.getScheme() in ("file", "hdfs", "viewfs")

    def remove(self) -> None:
        self.system.delete(self.path, True)

    def move(self, to: _Folder) -> None:
        if not self.system.rename(self.path, to.path):
            message = f"{to.path.toString()} cannot be written. Is another process writing there?"
            raise SparkError(message)
