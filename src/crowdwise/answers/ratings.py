"""Ratings: answers on an ordered scale, or numbers.

An answer is a code into a sorted table of values. On a scale, the table holds all its levels, also those that nobody
used; for numbers, the distinct numbers that occur. Names of levels are kept beside their positions 0, 1, 2, ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import merging
from crowdwise.answers.codes import AnswerCodes
from crowdwise.answers.encoding import as_arrow, decode_dictionary, lookup, preview
from crowdwise.answers.rating_columns import (
    are_numbers,
    as_arrow_values,
    as_numbers,
    natural_order,
    positions,
    scale_levels,
)
from crowdwise.answers.rows import Array, Duplicates, check_ids, check_one_truth
from crowdwise.answers.table import AnswerTable
from crowdwise.errors import AnswerKindError, CrowdwiseError, ParameterError, UnknownIdError


@dataclass(frozen=True, eq=False, repr=False)
class Ratings(AnswerTable):
    """Answers on an ordered scale, or numbers. Build one with `read(kind="ratings")`, `from_frame` or `from_arrays`.

    Other attributes and methods as in `Answers`. A worker may leave tasks out, and may use the scale in their own way.

    Attributes
    ----------
    level_names : tuple of str or None
        Names of the levels, lowest first; None if levels are numbers.
    numeric : bool
        Whether answers are numbers rather than levels of a scale.
    truth : float64 array or None
        Known value of each task, NaN where unknown. It need not be a level.

    Examples
    --------
    >>> ratings = Ratings.from_arrays(["a", "a", "b"], ["ann", "bob", "ann"], [4, 5, 1])
    >>> ratings
    Ratings(2 tasks, 2 workers, 3 answers, 5 levels from 1 to 5)
    >>> ratings.value.tolist()
    [4.0, 5.0, 1.0]
    >>> Ratings.from_arrays(["a", "a"], ["ann", "bob"], ["bad", "good"], levels=["bad", "fair", "good"]).value.tolist()
    [0.0, 2.0]
    """

    kind: ClassVar[str] = "ratings"
    what: ClassVar[str] = "level"
    unknown: ClassVar[float] = np.nan

    own_fields: ClassVar[tuple[str, ...]] = ("level_names", "numeric")

    level_names: tuple[str, ...] | None = None
    numeric: bool = False

    def problem(self) -> str | None:
        """Return what is wrong with the values or the own fields of a table read from a file, or None."""
        if (
            self.class_ids.type != pa.float64()
            or not np.isfinite(self.values).all()
            or (np.diff(self.values) <= 0).any()
        ):
            return "the levels are not increasing numbers"
        names, numeric = self.level_names, self.numeric
        text = names is None or (isinstance(names, tuple) and all(isinstance(name, str) for name in names))
        if (
            not text
            or not isinstance(numeric, bool)
            or (names is not None and (numeric or len(names) != self.n_classes))
        ):
            return "the names of the levels do not match the levels"
        return None

    # Values

    @cached_property
    def values(self) -> Array:
        """The value of each code: the levels, or the distinct numbers; positions 0, 1, ... for named levels."""
        return self.class_ids.to_numpy()

    @cached_property
    def value(self) -> Array:
        """The value of each answer, (answers,) float64."""
        return self.values[self.label]

    @property
    def shown_ids(self) -> pa.Array:
        """The levels or numbers as users write them: names, integers where all values are, else floats."""
        if self.level_names is not None:
            return pa.array(self.level_names, pa.large_string())
        whole = bool((self.values == np.round(self.values)).all())
        return self.class_ids.cast(pa.int64()) if whole and not self.numeric else self.class_ids

    @property
    def levels(self) -> Array:
        """The levels of the scale as users write them, lowest first."""
        if self.numeric:
            message = "these ratings are numbers, not levels of a scale. Use `values`."
            raise ParameterError(message)
        return self.classes

    @cached_property
    def classes(self) -> Array:
        """The distinct values as users write them, in the order of their codes."""
        return self.shown_ids.to_numpy(zero_copy_only=False)

    def nearest(self, values: Array) -> Array:
        """Return the code of the level closest to each value, (n,) int32; of two equally close ones, the lower."""
        edges = (self.values[1:] + self.values[:-1]) / 2
        return np.searchsorted(edges, values, side="left").astype(np.int32)

    def _values_repr(self) -> str:
        first, last = (self.shown_ids[i].as_py() for i in (0, len(self.values) - 1))
        if self.numeric:
            return f"numbers from {first:g} to {last:g}"
        return f"{self.n_classes} levels from {first} to {last}"

    # Known truth

    @classmethod
    def is_known(cls, truth: Array) -> Array:
        """Return a mask of the tasks whose truth is known."""
        return np.isfinite(truth)

    def truth_per_task(self, truth: Any) -> Array:
        """Return known values, passed as in `with_truth`, as (tasks,) floats, NaN where unknown."""
        truth = merging.as_pair(truth, self._as_arrow)
        if isinstance(truth, tuple):
            rows = lookup(check_ids(truth[0], "task", distinct=False), self.task_ids, "task")
            known = np.full(self.n_tasks, np.nan)
            known[rows] = self._numbers(truth[1])
            return known
        known = np.asarray(truth, dtype=float)
        if known.shape != (self.n_tasks,):
            message = f"truth of shape {known.shape}: pass a mapping of task to value, or {self.n_tasks} values."
            raise CrowdwiseError(message)
        return known.copy()

    def with_truth(self, truth: Any, *, ignore_unknown: bool = False) -> Self:
        """Return the ratings with known values attached.

        Parameters
        ----------
        truth : mapping or Series of task to value, table, pair (tasks, values), or values in task order (NaN unknown)
            Values need not be levels of the scale.
        ignore_unknown : bool
            Skip tasks that have no answers, and count them in `removed`; otherwise they are an error.

        Examples
        --------
        >>> ratings = Ratings.from_arrays([1, 1, 2], ["x", "y", "x"], [1, 2, 5])
        >>> ratings.with_truth({2: 4.5}).truth.tolist()
        [nan, 4.5]
        """
        if truth is None:
            return replace(self, truth=None, truth_is_gold=False)
        truth, removed = merging.as_pair(truth, self._as_arrow), dict(self.removed)
        if isinstance(truth, tuple) and ignore_unknown:
            tasks, values = decode_dictionary(as_arrow(truth[0], "task")), as_arrow_values(truth[1], "truth")
            if tasks.type == self.task_ids.type:
                known = pc.is_in(tasks, value_set=self.task_ids)
                n_unknown = len(tasks) - pc.sum(known, min_count=0).as_py()
                truth = tasks.filter(known), values.filter(known)
                if n_unknown:
                    removed["known labels of tasks without answers"] = n_unknown
        return replace(self, truth=self.truth_per_task(truth), truth_is_gold=False, removed=removed)

    def _numbers(self, values: Any) -> Array:
        """Return values, or names of levels, as floats."""
        column = as_arrow_values(values, "truth")
        if pa.types.is_large_string(column.type) and self.level_names is not None:
            names = pa.array(self.level_names, pa.large_string())
            return lookup(column, names, "level").astype(float)
        return as_numbers(column, "truth").to_numpy(zero_copy_only=False)

    # Building

    @classmethod
    def from_columns(
        cls, columns: dict[str, Any], names: Mapping[str, str], *,
        levels: Sequence[Any] | None = None, numeric: bool | None = None, **options: Any,
    ) -> Self:  # fmt: skip
        """Build ratings from columns by role; see `AnswerTable.from_columns`.

        Parameters
        ----------
        columns, names, **options
            As in `AnswerTable.from_columns`.
        levels : sequence, optional
            The levels of the scale, lowest first: names or numbers. By default numbers are in their natural order, a
            scale with few equal steps includes the levels that nobody used, and common names of levels are recognised.
        numeric : bool, optional
            Whether the answers are numbers rather than levels. By default they are numbers if there are more than 21
            levels, or unequal steps between them.
        """
        if levels is not None and are_numbers(pa.array([str(level) for level in levels], pa.large_string())):
            levels = [float(level) for level in levels]
        arrays = {role: as_arrow_values(columns.pop(role), role) for role in ("label", "truth") if role in columns}
        text = [
            array for array in arrays.values() if not pa.types.is_floating(array.type) and array.null_count < len(array)
        ]
        level_names: tuple[str, ...] | None = None
        if levels is not None and not all(isinstance(level, (int, float, np.number)) for level in levels):
            level_names = tuple(str(level) for level in levels)
        elif levels is None and not numeric and text and not all(are_numbers(array) for array in text):
            level_names = natural_order(
                pc.unique(pa.concat_arrays([pc.unique(array) for array in text])), names["label"]
            )
        if level_names is not None:
            if numeric:
                message = f"column {names['label']!r} holds names of levels, so that numeric=True does not apply."
                raise ParameterError(message)
            table = check_ids(list(level_names), "level")
            arrays = {role: positions(array, table, names[role]) for role, array in arrays.items()}
            grid: Array | None = np.arange(len(level_names), dtype=float)
        else:
            arrays = {role: as_numbers(array, names[role]) for role, array in arrays.items()}
            given = None if levels is None else np.sort(np.asarray(check_ids(list(levels), "level"), dtype=float))
            grid = given if given is not None else None if numeric else scale_levels(arrays["label"])
        out = super().from_columns(dict(columns, **arrays), names, grid=grid, **options)
        columns.clear()
        return replace(out, level_names=level_names, numeric=grid is None)

    @classmethod
    def _as_arrow(cls, values: Any, role: str) -> pa.Array:
        return as_arrow_values(values, role) if role in ("label", "truth") else as_arrow(values, role)

    @classmethod
    def _encode_values(  # type: ignore[override]
        cls, values: pa.Array, known: pa.Array | None, name: str, n_tasks: int, *, grid: Array | None
    ) -> tuple[Array, pa.Array]:
        numbers = values.to_numpy(zero_copy_only=False)
        if grid is None:
            table, codes = np.unique(numbers, return_inverse=True)
            return codes.astype(np.int32), pa.array(table)
        codes = np.minimum(np.searchsorted(grid, numbers - 1e-9), len(grid) - 1)
        outside = np.flatnonzero(np.abs(grid[codes] - numbers) > 1e-9)
        if len(outside):
            message = (
                f"column {name!r}: {numbers[outside[0]]:g} at row {outside[0]} (and {len(outside) - 1} more) is not "
                f"one of the levels {preview(grid.tolist())}. Add it to levels=, or pass numeric=True."
            )
            raise UnknownIdError(message)
        return codes.astype(np.int32), pa.array(grid)

    @classmethod
    def _encode_truth(cls, known: pa.Array, name: str, task: Array, task_ids: pa.Array, values: pa.Array) -> Array:
        truth, numbers = np.full(len(task_ids), np.nan), known.to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(np.isfinite(numbers))
        truth[task[rows]] = numbers[rows]
        check_one_truth(truth[task[rows]] != numbers[rows], rows, name, task, task_ids)
        return truth

    def merge(
        self, other: AnswerCodes, *, pseudo: bool = False, weight: float | None = None,
        duplicates: Duplicates = "error",
    ) -> Self:  # fmt: skip
        """Add ratings; see `Answers.merge`. Both must have the same named levels; numbers and levels are united."""
        if not isinstance(other, Ratings) or other.level_names != self.level_names:
            message = "these ratings have other levels, so that they cannot be merged. Read both with the same levels."
            raise AnswerKindError(message)
        numeric = self.numeric or other.numeric
        union = np.union1d(self.values, other.values)
        ours, theirs = (part.on_grid(union) for part in (self, other))
        fields = merging.merge(ours, theirs, pseudo=pseudo, weight=weight, duplicates=duplicates)
        return replace(self, **fields, numeric=numeric)

    def on_grid(self, values: Array) -> Self:
        """Return the ratings with this table of values, sorted, which contains all of theirs."""
        code = np.searchsorted(values, self.values).astype(np.int32)
        return replace(self, label=code[self.label], class_ids=pa.array(values))
