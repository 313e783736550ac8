"""Answers: which worker gave which label to which task. The data structure that every method takes.

Columnar and sparse: three int32 arrays `task`, `worker`, `label`, one entry per answer, and the three id tables they
point into. Validated once, on entry; everything after that relies on it. Rows are sorted by task, then worker, so no
result depends on the order of the input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from crowdwise.answers import kinds
from crowdwise.answers.encoding import decode_dictionary, encode, lookup, preview
from crowdwise.answers.lookalikes import warn_of_lookalikes
from crowdwise.answers.rows import Array, Duplicates, Nulls, all_classes, check_ids, check_one_truth, sort_rows
from crowdwise.answers.table import AnswerTable
from crowdwise.errors import GoldError, TooManyClassesError, UnknownIdError

MAX_CLASSES = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Answers(AnswerTable):
    """Answers of workers to tasks. Build one with `read`, `from_frame`, `from_wide` or `from_arrays`.

    It also behaves as scikit-learn's `y`: `len(answers)` is the number of tasks and `answers[rows]` selects tasks.

    Attributes
    ----------
    task, worker, label : int32 arrays, one entry per answer
        Positions in the id tables, sorted by task, then worker. Read-only.
    tasks, workers, classes : arrays of ids
        The id tables. Rows of features `X` are in the order of `tasks`.
    weight : float64 array or None
        Weight of each answer; None means 1 for all.
    pseudo : bool array or None
        Which answers were made by a model (see `merge`); None means none.
    truth : int32 array or None
        Known class of each task, -1 where unknown. Methods use it only when it is passed to them.
    removed : mapping
        Number of rows dropped when the answers were built, by reason.
    abstentions : mapping
        Number of tasks that each worker was asked about without giving a usable answer, such as a judge whose verdict
        could not be parsed, by worker id. Counted when the answers were built.
    truth_is_gold : bool
        Whether `truth` was marked as gold where it was read, such as by `ground_truth` in Label Studio. `run` and the
        commands use it as gold; otherwise they only score against it.
    tasks_reordered : bool
        Whether the ids of the tasks are text that was sorted, and first appear in another order in the table. Features
        without task ids must follow `tasks`, so `fit` then warns.

    Examples
    --------
    >>> answers = Answers.from_arrays(["a", "a", "b"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    >>> answers
    Answers(2 tasks, 2 workers, 3 answers, 2 classes)
    >>> answers.tasks.tolist(), answers.task.tolist()
    (['a', 'b'], [0, 0, 1])
    """

    kind: ClassVar[str] = "classes"
    what: ClassVar[str] = "class"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the true class of each task, which scikit-learn's scorers such as "accuracy" compare with."""
        unknown = self.n_tasks if self.truth is None else int((self.truth < 0).sum())
        if self.truth is None or unknown:
            message = (
                f"the true class of {unknown:,} of {self.n_tasks:,} tasks is not known: attach it with with_truth, or "
                "select tasks with known classes, answers[answers.truth >= 0]. Without truth, a learner's own score is "
                "the log-likelihood of the answers (leave out scoring=)."
            )
            raise GoldError(message)
        return np.asarray(self.classes[self.truth], dtype=dtype)

    # Constructors

    @classmethod
    def from_frame(  # type: ignore[override]  # lists the options of classes
        cls,
        frame: Any,
        *,
        task: str | None = None,
        worker: str | None = None,
        label: str | None = None,
        weight: str | None = None,
        truth: str | None = None,
        pseudo: str | None = None,
        tasks: Any = None,
        workers: Any = None,
        classes: Any = None,
        duplicates: Duplicates = "error",
        nulls: Nulls = "error",
        max_classes: int = MAX_CLASSES,
        as_classes: bool = False,
        fold_case: bool = False,
        removed: Mapping[str, int] | None = None,
    ) -> Answers:
        """Build answers from a long table with one row per answer: pandas, polars, Arrow, or a mapping of columns.

        Parameters
        ----------
        frame : table
            Any table with the Arrow interface, or a mapping of column names to values.
        task, worker, label : str, optional
            Column names. By default, usual names are recognised (`item`, `annotator`, `answer`, ...).
        weight, truth, pseudo : str, optional
            Columns with the weight of each answer, with the known class of the row's task (empty where unknown), and
            with whether a model made the answer. Columns with exactly these names are used by default.
        tasks, workers, classes : sequence, optional
            All ids, in the order to use. Other ids are an error; ids without answers are kept.
        duplicates : {"error", "first", "last", "vote"}
            What to do if a worker answered a task more than once; "vote" keeps their most frequent answer.
        nulls : {"error", "drop"}
            What to do with rows whose task, worker or label is missing. If only the label is missing, a dropped row
            is also counted as an abstention of its worker.
        max_classes : int
            More distinct labels than this are an error: the label column is probably another one.
        as_classes : bool
            Treat each distinct label as a class even if labels are numbers, lists or free text, which is an error by
            default.
        fold_case : bool
            Treat labels that differ only in case or surrounding spaces as one class, named like the most frequent.
        removed : mapping, optional
            Number of rows that a reader has already dropped, by reason; added to the result's `removed`.

        Examples
        --------
        >>> Answers.from_frame({"item": [1, 1, 2], "annotator": ["x", "y", "x"], "label": [True, False, True]})
        Answers(2 tasks, 2 workers, 3 answers, 2 classes)
        """
        return super().from_frame(
            frame, task=task, worker=worker, label=label, weight=weight, truth=truth, pseudo=pseudo, tasks=tasks,
            workers=workers, classes=classes, duplicates=duplicates, nulls=nulls, max_classes=max_classes,
            as_classes=as_classes, fold_case=fold_case, removed=removed,
        )  # fmt: skip

    @classmethod
    def _prepare_columns(cls, arrays: dict[str, pa.Array], options: dict[str, Any]) -> dict[str, pa.Array]:
        if options.pop("fold_case", False):
            arrays |= kinds.fold_labels({role: arrays[role] for role in ("label", "truth") if role in arrays})
        return arrays

    @classmethod
    def _encode_values(  # type: ignore[override]  # each kind has its own options
        cls,
        values: pa.Array,
        known: pa.Array | None,
        name: str,
        n_tasks: int,
        *,
        classes: Any = None,
        max_classes: int = MAX_CLASSES,
        as_classes: bool = False,
    ) -> tuple[Array, pa.Array]:
        declared = all_classes(values, known) if classes is None and known is not None else classes
        n_rows = len(values)
        codes, class_ids = encode(values, "class", None if declared is None else check_ids(declared, "class"))
        warn_of_lookalikes(class_ids, "class")
        if classes is None and not as_classes:
            kinds.check_kind(class_ids, name, n_rows, n_tasks)
        if len(class_ids) > max_classes:
            message = (
                f"column {name!r} has {len(class_ids):,} distinct values (for example "
                f"{preview(class_ids[:3].to_pylist(), len(class_ids))}): is it the label? Name the label column with "
                f"label= (--label), or pass max_classes={len(class_ids)} (--max-classes)."
            )
            raise TooManyClassesError(message)
        return codes, class_ids

    @classmethod
    def _encode_truth(cls, known: pa.Array, name: str, task: Array, task_ids: pa.Array, values: pa.Array) -> Array:
        truth = np.full(len(task_ids), -1, np.int32)
        rows = np.flatnonzero(known.is_valid().to_numpy(zero_copy_only=False))
        if not len(rows):
            return truth
        codes = lookup(decode_dictionary(known.drop_null()), values, "class")
        truth[task[rows]] = codes
        check_one_truth(truth[task[rows]] != codes, rows, name, task, task_ids)
        return truth

    @classmethod
    def from_codes(
        cls,
        task: Array,
        worker: Array,
        label: Array,
        *,
        tasks: Any,
        workers: Any,
        classes: Any,
        weight: Array | None = None,
        pseudo: Array | None = None,
        truth: Array | None = None,
        duplicates: Duplicates = "error",
        removed: Mapping[str, int] | None = None,
    ) -> Answers:
        """Build answers from integer codes and their id tables (sequences of ids, or a number n for ids 0 to n - 1)."""
        tables = {
            what: check_ids(np.arange(ids) if isinstance(ids, int) else ids, what)
            for what, ids in (("task", tasks), ("worker", workers), ("class", classes))
        }
        codes = {"task": task, "worker": worker, "class": label}
        for what, array in codes.items():
            if len(array) and (np.min(array) < 0 or np.max(array) >= len(tables[what])):
                message = (
                    f"{what} codes run from {np.min(array)} to {np.max(array)}, outside 0..{len(tables[what]) - 1}."
                )
                raise UnknownIdError(message)
        fields = sort_rows(
            [np.ascontiguousarray(array, dtype=np.int32) for array in codes.values()], list(tables.values()),
            weight=weight, pseudo=pseudo, truth=truth, duplicates=duplicates, removed=dict(removed or {}),
        )  # fmt: skip
        return cls(**fields)
