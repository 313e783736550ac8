"""Answers: which worker gave which label to which task. The data structure that every method takes.

Columnar and sparse: three int32 arrays `task`, `worker`, `label`, one entry per answer, and the three id tables they
point into. Validated once, on entry; everything after that relies on it. Rows are sorted by task, then worker, so no
result depends on the order of the input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from crowdwise._core.display import html_table
from crowdwise._core.frames import convert, import_library
from crowdwise.answers import kinds
from crowdwise.answers.columns import column_reader, is_table, recognise
from crowdwise.answers.rows import (
    Array,
    Duplicates,
    Nulls,
    as_arrow_columns,
    as_flags,
    as_weights,
    assemble,
    check_ids,
    sort_rows,
)
from crowdwise.answers.selection import SelectionMixin
from crowdwise.errors import (
    FormatError,
    ParameterError,
    TooLargeError,
    UnknownIdError,
)

MAX_CLASSES = 1000
HTML_ROWS = 5  # answers shown in a notebook
MAX_WIDE_CELLS = 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class Answers(SelectionMixin):
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

    # Constructors

    @classmethod
    def from_frame(
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
        names, column = column_reader(frame)
        roles = recognise(names, task=task, worker=worker, label=label)
        extra = {"weight": weight, "truth": truth, "pseudo": pseudo}
        extra = {r: r if n is None and r in names and r not in roles.values() else n for r, n in extra.items()}
        roles |= recognise(names, **{role: name for role, name in extra.items() if name is not None})
        return cls.from_columns(
            {role: column(name) for role, name in roles.items()}, roles, tasks=tasks, workers=workers, classes=classes,
            duplicates=duplicates, nulls=nulls, max_classes=max_classes, as_classes=as_classes, fold_case=fold_case,
            removed=removed,
        )  # fmt: skip

    @classmethod
    def from_columns(
        cls,
        columns: dict[str, Any],
        names: Mapping[str, str],
        *,
        tasks: Any = None,
        workers: Any = None,
        classes: Any = None,
        duplicates: Duplicates = "error",
        nulls: Nulls = "error",
        max_classes: int = MAX_CLASSES,
        as_classes: bool = False,
        fold_case: bool = False,
        removed: Mapping[str, int] | None = None,
        abstentions: Mapping[Any, int] | None = None,
        truth_is_gold: bool = False,
    ) -> Answers:
        """Build answers from columns by role (task, worker, label; weight, truth, pseudo).

        `names` are the column names for error messages. `columns` is emptied, so that each column is freed as soon as
        its ids are encoded; `read` passes large files this way. `abstentions` counts those that a reader found, and
        `truth_is_gold` says whether the column `truth` was marked as gold. Other options as in `from_frame`.
        """
        if duplicates not in ("error", "first", "last", "vote") or nulls not in ("error", "drop"):
            message = (
                f"duplicates={duplicates!r}, nulls={nulls!r}: duplicates must be 'error', 'first', 'last' or 'vote', "
                "and nulls 'error' or 'drop'."
            )
            raise ParameterError(message)
        weights, flags = columns.pop("weight", None), columns.pop("pseudo", None)
        arrays = as_arrow_columns(columns)
        if fold_case:
            arrays |= kinds.fold_labels({role: arrays[role] for role in ("label", "truth") if role in arrays})
        n_rows = len(arrays["task"])
        fields = assemble(
            arrays, names, None if weights is None else as_weights(weights, n_rows),
            None if flags is None else as_flags(flags, n_rows), tasks=tasks, workers=workers, classes=classes,
            duplicates=duplicates, nulls=nulls, max_classes=max_classes, as_classes=as_classes,
            removed=dict(removed or {}), abstentions=abstentions or {},
        )  # fmt: skip
        return cls(**fields, truth_is_gold=truth_is_gold)

    @classmethod
    def from_arrays(cls, task: Any, worker: Any, label: Any, weight: Any = None, **options: Any) -> Answers:
        """Build answers from three sequences of ids with one entry per answer. Options as in `from_frame`.

        >>> Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"]).classes.tolist()
        ['no', 'yes']
        """
        frame = {"task": task, "worker": worker, "label": label}
        if weight is not None:
            frame["weight"] = weight
            options["weight"] = "weight"
        return cls.from_frame(frame, task="task", worker="worker", label="label", **options)

    @classmethod
    def from_wide(cls, table: Any, *, missing: Any = None, **options: Any) -> Answers:
        """Build answers from a table with one row per task and one column per worker, empty where there is no answer.

        Parameters
        ----------
        table : 2-D array or data frame
            Row labels (pandas) and column names become the ids; otherwise the ids are 0, 1, 2, ...
        missing : scalar, optional
            A value that means "no answer" (for example -1), in addition to None and NaN.
        **options
            As in `from_frame`.

        Examples
        --------
        >>> Answers.from_wide([[0, -1, 1], [1, 1, -1]], missing=-1)
        Answers(2 tasks, 3 workers, 4 answers, 2 classes)
        """
        index = table.index if hasattr(table, "iloc") else None  # only pandas has row labels
        columns = getattr(table, "column_names", getattr(table, "columns", None))
        if index is not None:  # pandas has several missing values
            table = table.astype(object).where(table.notna(), None)
        if isinstance(table, pa.Table):
            table = np.column_stack([column.to_numpy() for column in table.columns])
        cells = np.asarray(table)
        if cells.ndim != 2:
            message = (
                f"a wide table has 2 dimensions (tasks x workers), but this one has {cells.ndim}; use from_arrays."
            )
            raise FormatError(message)
        gap = cells != cells
        if cells.dtype == object:
            gap = gap | (cells == np.array(None))
        if missing is not None:
            gap = gap | (cells == missing)
        row, col = np.nonzero(~gap.astype(bool))
        task_ids = np.arange(cells.shape[0]) if index is None else np.asarray(index)
        worker_ids = np.arange(cells.shape[1]) if columns is None else np.asarray(columns)
        options.setdefault("tasks", task_ids)
        options.setdefault("workers", worker_ids)
        return cls.from_arrays(task_ids[row], worker_ids[col], cells[row, col], **options)

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

    # Conversion

    def to_arrow(self) -> pa.Table:
        """Return a long Arrow table `task, worker, label` (and `weight`, `pseudo` if set)."""
        columns = {
            "task": self.task_ids.take(pa.array(self.task)),
            "worker": self.worker_ids.take(pa.array(self.worker)),
            "label": self.class_ids.take(pa.array(self.label)),
        }
        for name in ("weight", "pseudo"):
            if getattr(self, name) is not None:
                columns[name] = pa.array(getattr(self, name))
        return pa.table(columns)

    def to_frame(self, kind: Literal["pandas", "polars", "arrow"] = "pandas") -> Any:
        """Return a long table `task, worker, label` of pandas, polars or Arrow."""
        table = self.to_arrow()
        if kind == "arrow":
            return table
        return convert(table, kind)

    def to_wide(self, *, max_cells: int = MAX_WIDE_CELLS) -> Any:
        """Return a pandas table with one row per task and one column per worker, None where there is no answer.

        A table of more than `max_cells` cells is an error.
        """
        cells = self.n_tasks * self.n_workers
        if cells > max_cells:
            message = (
                f"{self.n_tasks} tasks x {self.n_workers} workers is {cells:,} cells for {self.n_answers:,} answers. "
                f"Use to_frame(), select fewer tasks or workers, or raise max_cells."
            )
            raise TooLargeError(message)
        wide = np.full((self.n_tasks, self.n_workers), None, dtype=object)
        wide[self.task, self.worker] = self.classes[self.label]
        return import_library("pandas").DataFrame(wide, index=self.tasks, columns=self.workers)

    def _content(self) -> tuple[Any, ...]:
        """Return the content for fingerprints: all but the truth, on which no fit depends."""
        ids = (self.tasks.tolist(), self.workers.tolist(), self.classes.tolist())
        return (self.task, self.worker, self.label, self.weight, self.pseudo, *ids)

    def __repr__(self) -> str:
        return (
            f"Answers({self.n_tasks} tasks, {self.n_workers} workers, {self.n_answers} answers, "
            f"{self.n_classes} classes)"
        )

    def _repr_html_(self) -> str:
        first = self.take(np.arange(min(self.n_answers, HTML_ROWS))).to_arrow().to_pylist()
        ellipsis = [["..."] * 3] if self.n_answers > HTML_ROWS else []
        rows = [[row["task"], row["worker"], row["label"]] for row in first]
        return html_table(rows + ellipsis, ["task", "worker", "label"], [repr(self)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answers):
            return NotImplemented
        tables = ("task_ids", "worker_ids", "class_ids")
        arrays = ("task", "worker", "label", "weight", "pseudo", "truth")
        return all(getattr(self, t).equals(getattr(other, t)) for t in tables) and all(
            np.array_equal(_or_empty(getattr(self, a)), _or_empty(getattr(other, a))) for a in arrays
        )

    __hash__ = None  # type: ignore[assignment]


def as_answers(data: Any) -> Answers:
    """Return answers as they are, and build them from a data frame or a mapping of columns.

    >>> as_answers({"task": [1, 1], "worker": ["ann", "bob"], "label": ["cat", "dog"]})
    Answers(1 tasks, 2 workers, 2 answers, 2 classes)
    """
    if isinstance(data, Answers):
        return data
    if is_table(data):
        return Answers.from_frame(data)
    message = (
        f"{type(data).__name__} is not a table of answers. Pass a pandas, polars or Arrow table with the columns task, "
        "worker and label, or Answers, for example from crowdwise.read(path)."
    )
    raise ParameterError(message)


def _or_empty(array: Array | None) -> Array | Sequence[Any]:
    return [] if array is None else array
