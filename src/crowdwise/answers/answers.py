"""Answers: who said what about which task. The one data structure every method takes.

Columnar and sparse: three int32 arrays `task`, `worker`, `label`, one entry an answer, and the three tables of ids they
point into. Validated once, on entry; everything after that trusts it. Rows are kept sorted by task, then worker, so no
result depends on the order in which answers came.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise.answers import joining
from crowdwise.answers.columns import columns_of, recognise
from crowdwise.answers.encoding import gather, lookup, present, runs, stable_order, starts, to_numpy
from crowdwise.answers.rows import (
    Array,
    Duplicates,
    Nulls,
    as_columns,
    as_flags,
    as_weights,
    assemble,
    id_table,
    sort_rows,
)
from crowdwise.display import as_html
from crowdwise.errors import (
    DuplicateError,
    FormatError,
    MissingDependencyError,
    ParameterError,
    TooLargeError,
    UnknownIdError,
)

if TYPE_CHECKING:
    import scipy.sparse

    from crowdwise.evaluate.summary import Summary

MAX_CLASSES = 1000
SHOWN = 5  # answers, in a notebook
MAX_WIDE_CELLS = 50_000_000


class Pairs(NamedTuple):
    """The distinct (worker, label) pairs that occur, sorted by worker: what confusion counts are kept for."""

    of_answer: Array  # (answers,) int32: the pair of each answer
    label: Array  # (pairs,) int32
    worker_starts: Array  # (workers + 1,) int64: pairs of worker w are worker_starts[w]:worker_starts[w + 1]


@dataclass(frozen=True, eq=False, repr=False)
class Answers:
    """Answers of workers to tasks. Build one with `read`, `from_frame`, `from_wide` or `from_arrays`.

    It also behaves as scikit-learn's `y`: `len(answers)` is the number of tasks and `answers[rows]` selects tasks.

    Attributes
    ----------
    task, worker, label : int32 arrays, one entry an answer
        Positions in the id tables; sorted by task, then worker. Read-only.
    tasks, workers, classes : arrays of ids
        What the positions mean. Features `X` follow `tasks` row by row.
    weight : float64 array or None
        How much each answer counts; None means 1 each.
    pseudo : bool array or None
        Which answers were made by a model (see `merge`); None means none.
    truth : int32 array or None
        Known class of each task, -1 where unknown. Methods use it only when it is passed to them.
    removed : mapping
        How many rows each policy left out on the way in, by reason.

    Examples
    --------
    >>> answers = Answers.from_arrays(["a", "a", "b"], ["ann", "bob", "ann"], ["cat", "dog", "cat"])
    >>> answers
    Answers(2 tasks, 2 workers, 3 answers, 2 classes)
    >>> answers.tasks.tolist(), answers.task.tolist()
    (['a', 'b'], [0, 0, 1])
    """

    task: Array
    worker: Array
    label: Array
    task_ids: pa.Array
    worker_ids: pa.Array
    class_ids: pa.Array
    weight: Array | None = None
    pseudo: Array | None = None
    truth: Array | None = None
    removed: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in (self.task, self.worker, self.label, self.weight, self.pseudo, self.truth):
            if array is not None:
                array.setflags(write=False)

    # Ways in

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
        removed: Mapping[str, int] | None = None,
    ) -> Answers:
        """Take a long table, one row an answer: pandas, polars, Arrow, or a mapping of columns.

        Parameters
        ----------
        frame : table
            Anything that speaks Arrow, or a mapping of column names to values.
        task, worker, label : str, optional
            Column names; recognised by themselves when not given (`item`, `annotator`, `answer`, ...).
        weight, truth, pseudo : str, optional
            Columns with the weight of each answer, with the known class of the row's task (empty where unknown), and
            with whether a model made the answer. Columns called exactly that are taken by themselves.
        tasks, workers, classes : sequence, optional
            Fix the table and order of ids. An id outside it is an error; one that no answer uses is kept.
        duplicates : {"error", "first", "last", "vote"}
            What to do when a worker answered a task twice; "vote" keeps the answer given most often.
        nulls : {"error", "drop"}
            What to do with rows in which the task, worker or label is missing.
        max_classes : int
            More distinct labels than this are taken for a mistake in the column.
        removed : mapping, optional
            Rows a reader has already left out, by reason, to be reported with the rest.

        Examples
        --------
        >>> Answers.from_frame({"item": [1, 1, 2], "annotator": ["x", "y", "x"], "label": [True, False, True]})
        Answers(2 tasks, 2 workers, 3 answers, 2 classes)
        """
        names, column = columns_of(frame)
        found = recognise(names, task=task, worker=worker, label=label)
        extra = {"weight": weight, "truth": truth, "pseudo": pseudo}
        extra = {r: r if n is None and r in names and r not in found.values() else n for r, n in extra.items()}
        found |= recognise(names, **{role: name for role, name in extra.items() if name is not None})
        return cls.from_columns(
            {role: column(name) for role, name in found.items()}, found, tasks=tasks, workers=workers, classes=classes,
            duplicates=duplicates, nulls=nulls, max_classes=max_classes, removed=removed,
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
        removed: Mapping[str, int] | None = None,
    ) -> Answers:
        """Take columns by role (task, worker, label; weight, truth, pseudo), `names` being what errors call them.

        `columns` is emptied, so that a column whose ids have their codes takes no more memory: this is how `read`
        hands over what it has read. Options as in `from_frame`.
        """
        if duplicates not in ("error", "first", "last", "vote") or nulls not in ("error", "drop"):
            message = f"duplicates={duplicates!r}, nulls={nulls!r}: use error, first, last or vote; and error or drop."
            raise ParameterError(message)
        weights, flags = columns.pop("weight", None), columns.pop("pseudo", None)
        arrays = as_columns(columns)
        n_rows = len(arrays["task"])
        fields = assemble(
            arrays, names, None if weights is None else as_weights(weights, n_rows),
            None if flags is None else as_flags(flags, n_rows), tasks=tasks, workers=workers, classes=classes,
            duplicates=duplicates, nulls=nulls, max_classes=max_classes, removed=dict(removed or {}),
        )  # fmt: skip
        return cls(**fields)

    @classmethod
    def from_arrays(cls, task: Any, worker: Any, label: Any, weight: Any = None, **options: Any) -> Answers:
        """Take three sequences of ids, one entry an answer. Options as in `from_frame`.

        >>> Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"]).classes.tolist()
        ['no', 'yes']
        """
        frame = {"task": task, "worker": worker, "label": label}
        if weight is not None:
            frame["weight"] = weight
            options["weight"] = "weight"
        return cls.from_frame(frame, task="task", worker="worker", label="label", **options)

    @classmethod
    def read(cls, path: Any, format: str | None = None, **options: Any) -> Answers:
        """Read a file, several, or a glob of them: the same as `crowdwise.read`."""
        from crowdwise.io import read

        return read(path, format, **options)

    @classmethod
    def from_wide(cls, table: Any, *, missing: Any = None, **options: Any) -> Answers:
        """Take a table with a row for each task and a column for each worker, gaps where there is no answer.

        Parameters
        ----------
        table : 2-D array or data frame
            Names of rows (pandas) and columns become the ids; where there are none, their numbers.
        missing : scalar, optional
            The value that stands for no answer (for example -1), beside None and NaN.
        **options
            As in `from_frame`.

        Examples
        --------
        >>> Answers.from_wide([[0, -1, 1], [1, 1, -1]], missing=-1)
        Answers(2 tasks, 3 workers, 4 answers, 2 classes)
        """
        index = table.index if hasattr(table, "iloc") else None  # pandas alone names its rows
        columns = getattr(table, "column_names", getattr(table, "columns", None))
        if index is not None:  # pandas has several ways to say nothing
            table = table.astype(object).where(table.notna(), None)
        if isinstance(table, pa.Table):
            table = np.column_stack([column.to_numpy() for column in table.columns])
        cells = np.asarray(table)
        if cells.ndim != 2:
            message = f"a wide table has 2 dimensions (tasks x workers), this one {cells.ndim}; use from_arrays."
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
        """Take integer codes and their id tables (a sequence of ids, or how many for 0, 1, 2, ...)."""
        tables = {
            what: id_table(np.arange(ids) if isinstance(ids, int) else ids, what)
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

    # Sizes and views

    @property
    def n_tasks(self) -> int:
        """Number of tasks, answered or not."""
        return len(self.task_ids)

    @property
    def n_workers(self) -> int:
        """Number of workers."""
        return len(self.worker_ids)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_ids)

    @property
    def n_answers(self) -> int:
        """Number of answers."""
        return len(self.task)

    @property
    def shape(self) -> tuple[int]:
        """(tasks,): what scikit-learn asks of a `y`."""
        return (self.n_tasks,)

    @cached_property
    def tasks(self) -> Array:
        """Ids of the tasks."""
        return to_numpy(self.task_ids)

    @cached_property
    def workers(self) -> Array:
        """Ids of the workers."""
        return to_numpy(self.worker_ids)

    @cached_property
    def classes(self) -> Array:
        """The classes."""
        return to_numpy(self.class_ids)

    @cached_property
    def task_starts(self) -> Array:
        """Answers to task t are `task_starts[t]:task_starts[t + 1]`."""
        return starts(self.task, self.n_tasks)

    @cached_property
    def by_worker(self) -> Array:
        """Row numbers sorted by worker, then task."""
        return stable_order(self.worker, self.n_workers)

    @cached_property
    def worker_starts(self) -> Array:
        """Answers of worker w are `by_worker[worker_starts[w]:worker_starts[w + 1]]`."""
        return starts(self.worker, self.n_workers)

    @cached_property
    def pairs(self) -> Pairs:
        """The distinct (worker, label) pairs, so that confusion counts cost no more than the answers do."""
        n_codes = self.n_workers * self.n_classes
        if n_codes <= min(4 * self.n_answers + 1024, np.iinfo(np.int32).max):  # a flag for each beats sorting
            of_answer = self.worker * np.int32(self.n_classes)  # (answers,)
            of_answer += self.label
            found = present(of_answer, n_codes)
            distinct = np.flatnonzero(found)
            of_answer = gather(np.cumsum(found, dtype=np.int32) - np.int32(1), of_answer)
        else:
            code = self.worker.astype(np.int64) * self.n_classes + self.label  # (answers,)
            distinct, inverse = np.unique(code, return_inverse=True)
            of_answer = inverse.astype(np.int32)
        worker, label = np.divmod(distinct, max(self.n_classes, 1))
        return Pairs(of_answer, label.astype(np.int32), starts(worker, self.n_workers))

    def counts(self, *, dense: bool = False) -> scipy.sparse.csr_array | Array:
        """Votes for each class: tasks x classes, sparse unless `dense`. Weights count.

        >>> Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"]).counts(dense=True)
        array([[1., 1.], [1., 0.]])
        """
        shape = (self.n_tasks, self.n_classes)
        votes = np.ones(self.n_answers) if self.weight is None else self.weight
        if dense:
            cell = self.task.astype(np.int64) * self.n_classes + self.label
            return np.bincount(cell, votes, minlength=shape[0] * shape[1]).reshape(shape)
        from scipy.sparse import coo_array

        return coo_array((votes, (self.task, self.label)), shape=shape).tocsr()

    def summary(self) -> Summary:
        """Sizes, sparsity, imbalance and agreement."""
        from crowdwise.evaluate.summary import summarise

        return summarise(self)

    # Parts and additions

    def __len__(self) -> int:
        return self.n_tasks

    def __getitem__(self, rows: Any) -> Answers:
        """Answers to the tasks at these rows, in this order; workers and classes stay as they are."""
        if isinstance(rows, (int, np.integer)):
            rows = [rows]
        rows = np.arange(self.n_tasks)[rows]
        if len(np.unique(rows)) < len(rows):
            message = "a task is selected twice; answers hold each task once. Use weights to count one more often."
            raise DuplicateError(message)
        kept, task = runs(self.task_starts, rows)
        return replace(
            self.take(kept),
            task=task.astype(np.int32),
            task_ids=self.task_ids.take(pa.array(rows)),
            truth=None if self.truth is None else self.truth[rows],
        )

    def select(self, *, tasks: Any = None, workers: Any = None, classes: Any = None) -> Answers:
        """Narrow the named tables to these ids, leaving out the answers that refer to others.

        The tables not named stay whole, so a task may end up without answers.

        >>> answers = Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"])
        >>> answers.select(workers=["y"])
        Answers(2 tasks, 1 workers, 1 answers, 2 classes)
        """
        out = self
        if tasks is not None:
            out = out[lookup(id_table(tasks, "task"), self.task_ids, "task")]
        for what, ids, codes in (("worker", workers, "worker"), ("class", classes, "label")):
            if ids is None:
                continue
            table = id_table(ids, what)
            chosen = lookup(table, getattr(out, f"{what}_ids"), what)
            new_code = np.full(len(getattr(out, f"{what}_ids")), -1, np.int32)
            new_code[chosen] = np.arange(len(chosen), dtype=np.int32)
            truth = out.truth
            if what == "class" and truth is not None:
                truth = np.where(truth >= 0, new_code[truth], -1).astype(np.int32)
            out = out.take(np.flatnonzero(new_code[getattr(out, codes)] >= 0))
            changed: dict[str, Any] = {
                codes: new_code[getattr(out, codes)],
                f"{what}_ids": table,
                "truth": truth,
            }
            out = replace(out, **changed)
            if what == "worker":  # a new order of workers changes the order of rows
                out = out._resorted()
        return out

    def thin(self, fraction: float, *, keep_one: bool = True, seed: int = 0) -> Answers:
        """Remove a fraction of the answers at random: the papers' sparsity study.

        Parameters
        ----------
        fraction : float
            Share of all answers to remove, from 0 up to but not including 1.
        keep_one : bool
            Leave at least one answer to each task that has one. The share removed is then as close to `fraction` as
            that allows.
        seed : int
            The same seed removes the same answers.
        """
        return self.take(self.thinned(fraction, keep_one=keep_one, seed=seed))

    def thinned(self, fraction: float, *, keep_one: bool = True, seed: int = 0) -> Array:
        """Row numbers of the answers that `thin` keeps."""
        if not 0 <= fraction < 1:
            message = f"fraction={fraction}: give the share of answers to remove, from 0 up to but not including 1."
            raise ParameterError(message)
        draw = np.random.default_rng(seed).random(self.n_answers)
        n_keep = self.n_answers - round(fraction * self.n_answers)
        if keep_one:  # the smallest draw of each task goes before all others
            first = self.task_starts[:-1][np.diff(self.task_starts) > 0]
            smallest = np.repeat(np.minimum.reduceat(draw, first), np.diff(np.append(first, self.n_answers)))
            draw[draw == smallest] -= 1
            n_keep = max(n_keep, len(first))
        return np.sort(np.argsort(draw, kind="stable")[:n_keep])

    def merge(
        self,
        other: Answers,
        *,
        pseudo: bool = False,
        weight: float | None = None,
        duplicates: Duplicates = "error",
    ) -> Answers:
        """Add answers. Ids new to this set are appended to its tables, so the codes of known ids do not change.

        Parameters
        ----------
        other : Answers
            What to add.
        pseudo : bool
            Mark all that is added as made by a model; otherwise its own marks are kept.
        weight : float, optional
            Weight of each added answer, in place of its own.
        duplicates : {"error", "first", "last", "vote"}
            When both hold an answer of a worker to a task; "first" keeps ours, "last" the added one.
        """
        return Answers(**joining.merge(self, other, pseudo=pseudo, weight=weight, duplicates=duplicates))

    def with_truth(self, truth: Any, *, ignore_unknown: bool = False) -> Answers:
        """Attach known labels.

        Parameters
        ----------
        truth : mapping or Series of task to class, pair (tasks, classes), or codes (-1 unknown) in task order
            A class that no worker chose is added to the classes.
        ignore_unknown : bool
            Leave out, and count in `removed`, tasks that are not here; otherwise they are an error.

        Examples
        --------
        >>> answers = Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"])
        >>> answers.with_truth({2: "yes"}).truth.tolist()
        [-1, 1]
        """
        return replace(self, **joining.with_truth(self, truth, ignore_unknown=ignore_unknown))

    def codes_of_truth(self, truth: Any) -> Array:
        """Known labels, given as in `with_truth`, as int32 codes in task order, -1 where unknown."""
        return joining.truth_codes(self, truth)

    # Ways out

    def to_arrow(self) -> pa.Table:
        """Long table `task, worker, label` (and `weight`, `pseudo` where set), as Arrow."""
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
        """Long table `task, worker, label`, as the library of your choice."""
        table = self.to_arrow()
        if kind == "arrow":
            return table
        library = _need(kind)
        return table.to_pandas() if kind == "pandas" else library.from_arrow(table)

    def to_wide(self, *, max_cells: int = MAX_WIDE_CELLS) -> Any:
        """Pandas table with a row a task, a column a worker and None for a gap. Refused when absurdly large."""
        cells = self.n_tasks * self.n_workers
        if cells > max_cells:
            message = (
                f"{self.n_tasks} tasks x {self.n_workers} workers is {cells:,} cells for {self.n_answers:,} answers. "
                f"Use to_frame(), select fewer tasks or workers, or raise max_cells."
            )
            raise TooLargeError(message)
        wide = np.full((self.n_tasks, self.n_workers), None, dtype=object)
        wide[self.task, self.worker] = self.classes[self.label]
        return _need("pandas").DataFrame(wide, index=self.tasks, columns=self.workers)

    def __repr__(self) -> str:
        return (
            f"Answers({self.n_tasks} tasks, {self.n_workers} workers, {self.n_answers} answers, "
            f"{self.n_classes} classes)"
        )

    def _repr_html_(self) -> str:
        first = self.take(np.arange(min(self.n_answers, SHOWN))).to_arrow().to_pylist()
        more = [["..."] * 3] if self.n_answers > SHOWN else []
        rows = [[row["task"], row["worker"], row["label"]] for row in first]
        return as_html(rows + more, ["task", "worker", "label"], [repr(self)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Answers):
            return NotImplemented
        tables = ("task_ids", "worker_ids", "class_ids")
        arrays = ("task", "worker", "label", "weight", "pseudo", "truth")
        return all(getattr(self, t).equals(getattr(other, t)) for t in tables) and all(
            np.array_equal(_or_empty(getattr(self, a)), _or_empty(getattr(other, a))) for a in arrays
        )

    __hash__ = None  # type: ignore[assignment]

    def take(self, rows: Array) -> Answers:
        """Only these answers (row numbers, increasing); all tables stay."""
        return replace(
            self,
            task=self.task[rows],
            worker=self.worker[rows],
            label=self.label[rows],
            weight=None if self.weight is None else self.weight[rows],
            pseudo=None if self.pseudo is None else self.pseudo[rows],
        )

    def _resorted(self) -> Answers:
        fields = sort_rows(
            [self.task, self.worker, self.label], (self.task_ids, self.worker_ids, self.class_ids),
            weight=self.weight, pseudo=self.pseudo, truth=self.truth, duplicates="error", removed=dict(self.removed),
        )  # fmt: skip
        return Answers(**fields)


def _or_empty(array: Array | None) -> Array | Sequence[Any]:
    return [] if array is None else array


def _need(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        message = f"{library} is not installed: pip install 'crowdwise[{library}]', or use to_frame('arrow')."
        raise MissingDependencyError(message) from None
