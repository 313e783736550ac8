"""What all tables of answers share: ids, reading of frames, selection, conversion, comparison.

A kind of answers is a subclass of `AnswerTable`. An answer is a code into the table of the distinct values that occur:
classes, levels of a scale, sets of labels. A subclass says how a column of values becomes codes (`_as_arrow`,
`_encode_values`) and what the known truth of a task is (`_encode_truth`); everything else works on codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa

from crowdwise._core.display import html_table
from crowdwise._core.frames import convert, import_library
from crowdwise.answers.columns import column_reader, recognise
from crowdwise.answers.encoding import as_arrow, to_numpy
from crowdwise.answers.rows import Array, Duplicates, Nulls, as_arrow_columns, as_flags, as_weights, assemble
from crowdwise.answers.selection import SelectionMixin
from crowdwise.errors import FormatError, ParameterError, TooLargeError

HTML_ROWS = 5  # answers shown in a notebook
MAX_WIDE_CELLS = 50_000_000


@dataclass(frozen=True, eq=False, repr=False)
class AnswerTable(SelectionMixin, ABC):
    """Answers of workers to tasks, of any kind. Attributes as in `Answers`."""

    kind: ClassVar[str]  # the name of the kind in `kind=` and `--kind`
    what: ClassVar[str]  # what a value is called in messages: class, level, ...

    # What a kind defines

    own_fields: ClassVar[tuple[str, ...]] = ()  # fields that only this kind has; model files contain them

    def problem(self) -> str | None:
        """Return what is wrong with the values or the own fields of a table read from a file, or None."""
        return None

    @classmethod
    def _as_arrow(cls, values: Any, role: str) -> pa.Array:
        """Return a column of any origin as Arrow; the label and the truth may hold other types than ids."""
        return as_arrow(values, role)

    @classmethod
    @abstractmethod
    def _encode_values(
        cls, values: pa.Array, known: pa.Array | None, name: str, n_tasks: int, **options: Any
    ) -> tuple[Array, pa.Array]:
        """Return the code (int32) of each answer and the table of distinct values.

        `known` is the column of known truth, `name` the name of the column, `n_tasks` the number of
        tasks, `options` those of the kind.
        """

    @classmethod
    @abstractmethod
    def _encode_truth(cls, known: pa.Array, name: str, task: Array, task_ids: pa.Array, values: pa.Array) -> Array:
        """Return the known truth of each task from a column that is filled in any of its rows."""

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
        **options: Any,
    ) -> Self:
        """Build the table from a long table with one row per answer; see `Answers.from_frame`."""
        names, column = column_reader(frame)
        roles = recognise(names, task=task, worker=worker, label=label)
        extra = {"weight": weight, "truth": truth, "pseudo": pseudo}
        extra = {r: r if n is None and r in names and r not in roles.values() else n for r, n in extra.items()}
        roles |= recognise(names, **{role: name for role, name in extra.items() if name is not None})
        return cls.from_columns({role: column(name) for role, name in roles.items()}, roles, **options)

    @classmethod
    def from_columns(
        cls,
        columns: dict[str, Any],
        names: Mapping[str, str],
        *,
        tasks: Any = None,
        workers: Any = None,
        duplicates: Duplicates = "error",
        nulls: Nulls = "error",
        removed: Mapping[str, int] | None = None,
        abstentions: Mapping[Any, int] | None = None,
        truth_is_gold: bool = False,
        **options: Any,
    ) -> Self:
        """Build the table from columns by role (task, worker, label; weight, truth, pseudo).

        `names` are the column names for error messages. `columns` is emptied, so that each column is freed as soon as
        its ids are encoded; `read` passes large files this way. `abstentions` counts those that a reader found, and
        `truth_is_gold` says whether the column `truth` was marked as gold. `options` are those of the kind.
        """
        if duplicates not in ("error", "first", "last", "vote") or nulls not in ("error", "drop"):
            message = (
                f"duplicates={duplicates!r}, nulls={nulls!r}: duplicates must be 'error', 'first', 'last' or 'vote', "
                "and nulls 'error' or 'drop'."
            )
            raise ParameterError(message)
        weights, flags = columns.pop("weight", None), columns.pop("pseudo", None)
        arrays = cls._prepare_columns(as_arrow_columns(columns, cls._as_arrow), options)
        n_rows = len(arrays["task"])
        fields = assemble(
            arrays, names, None if weights is None else as_weights(weights, n_rows),
            None if flags is None else as_flags(flags, n_rows), tasks=tasks, workers=workers,
            duplicates=duplicates, nulls=nulls, removed=dict(removed or {}), abstentions=abstentions or {},
            encode_values=partial(cls._encode_values, **options), encode_truth=cls._encode_truth,
        )  # fmt: skip
        return cls(**fields, truth_is_gold=truth_is_gold)

    @classmethod
    def _prepare_columns(cls, arrays: dict[str, pa.Array], options: dict[str, Any]) -> dict[str, pa.Array]:
        """Change the columns before rows are dropped; options used here are removed from `options`."""
        return arrays

    @classmethod
    def from_arrays(cls, task: Any, worker: Any, label: Any, weight: Any = None, **options: Any) -> Self:
        """Build answers from three sequences of ids with one entry per answer. Options as in `from_frame`.

        >>> from crowdwise.answers import Answers
        >>> Answers.from_arrays([1, 1, 2], ["x", "y", "x"], ["no", "yes", "no"]).classes.tolist()
        ['no', 'yes']
        """
        frame = {"task": task, "worker": worker, "label": label}
        if weight is not None:
            frame["weight"] = weight
            options["weight"] = "weight"
        return cls.from_frame(frame, task="task", worker="worker", label="label", **options)

    @classmethod
    def from_wide(cls, table: Any, *, missing: Any = None, **options: Any) -> Self:
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
        >>> from crowdwise.answers import Answers
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

    # Conversion

    def to_arrow(self) -> pa.Table:
        """Return a long Arrow table `task, worker, label` (and `weight`, `pseudo` if set)."""
        columns = {
            "task": self.task_ids.take(pa.array(self.task)),
            "worker": self.worker_ids.take(pa.array(self.worker)),
            "label": self.shown_ids.take(pa.array(self.label)),
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
        wide[self.task, self.worker] = to_numpy(self.shown_ids)[self.label]
        return import_library("pandas").DataFrame(wide, index=self.tasks, columns=self.workers)

    @property
    def shown_ids(self) -> pa.Array:
        """The distinct values as users write them, in the order of their codes."""
        return self.class_ids

    def _content(self) -> tuple[Any, ...]:
        """Return the content for fingerprints: all but the truth, on which no fit depends."""
        ids = (self.tasks.tolist(), self.workers.tolist(), self.shown_ids.to_pylist())
        return (self.task, self.worker, self.label, self.weight, self.pseudo, *ids)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.n_tasks} tasks, {self.n_workers} workers, {self.n_answers} answers, "
            f"{self._values_repr()})"
        )

    def _values_repr(self) -> str:
        """Return how many values there are, or their range, for the representation."""
        return f"{self.n_classes} {self.what}{'es' if self.what.endswith('s') else 's'}"

    def _repr_html_(self) -> str:
        first = self.take(np.arange(min(self.n_answers, HTML_ROWS))).to_arrow().to_pylist()
        ellipsis = [["..."] * 3] if self.n_answers > HTML_ROWS else []
        rows = [[row["task"], row["worker"], row["label"]] for row in first]
        return html_table(rows + ellipsis, ["task", "worker", "label"], [repr(self)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        tables = ("task_ids", "worker_ids", "class_ids", "shown_ids")
        arrays = ("task", "worker", "label", "weight", "pseudo", "truth")
        return all(getattr(self, t).equals(getattr(other, t)) for t in tables) and all(
            _equal(getattr(self, a), getattr(other, a)) for a in arrays
        )

    __hash__: ClassVar[None] = None  # type: ignore[assignment]


def _equal(ours: Array | None, theirs: Array | None) -> bool:
    """Compare two optional arrays, None being an empty one; missing numbers are equal."""
    a, b = (np.empty(0) if array is None else array for array in (ours, theirs))
    return np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f")
