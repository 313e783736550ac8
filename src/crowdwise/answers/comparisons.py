"""Comparisons: a worker says which of two items is better, or that they are equal.

A task is a pair of items, the left and the right one as the worker saw them; an answer is `left`, `right` or `tie`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import html_table
from crowdwise.answers import merging
from crowdwise.answers.codes import AnswerCodes
from crowdwise.answers.columns import column_reader
from crowdwise.answers.comparison_columns import OUTCOMES, TIE, encode_items, encode_outcomes, find_columns, pair_ids
from crowdwise.answers.encoding import as_arrow, check_no_nulls, decode_dictionary, encode, lookup
from crowdwise.answers.rows import Array, Duplicates, check_one_truth
from crowdwise.answers.table import HTML_ROWS, AnswerTable
from crowdwise.errors import AnswerKindError, EmptyError, FormatError

EVERYONE = "everyone"  # the worker of tables without a column for them


@dataclass(frozen=True, eq=False, repr=False)
class Comparisons(AnswerTable):
    """Comparisons of items. Build them with `read`, `from_frame` or `from_arrays`.

    Attributes
    ----------
    items : tuple
        Ids of the items, sorted.
    left, right : (tasks,) int32 arrays
        The items of each pair, as positions in `items`.
    label : (answers,) int32 array
        Who won: 0 the left item, 1 the right one, 2 a tie.
    task, worker, weight, ...
        As in `Answers`; a task is a pair of items. A pair that a worker compared twice is two tasks.

    Examples
    --------
    >>> from crowdwise import Comparisons
    >>> rows = {"judge": ["ann", "bob", "bob"], "left": ["x", "x", "y"], "right": ["y", "y", "z"],
    ...         "winner": ["x", "tie", "z"]}
    >>> comparisons = Comparisons.from_frame(rows)
    >>> comparisons
    Comparisons(3 items, 2 pairs, 2 workers, 3 comparisons, 1 tie)
    >>> comparisons.items, comparisons.left.tolist(), comparisons.right.tolist()
    (('x', 'y', 'z'), [0, 1], [1, 2])
    """

    kind: ClassVar[str] = "comparisons"
    what: ClassVar[str] = "outcome"

    own_fields: ClassVar[tuple[str, ...]] = ("items", "left", "right")

    items: tuple[Any, ...] = ()
    left: Array = field(default_factory=lambda: np.empty(0, np.int32))
    right: Array = field(default_factory=lambda: np.empty(0, np.int32))

    def problem(self) -> str | None:
        """Return what is wrong with the values or the own fields of a table read from a file, or None."""
        if self.class_ids.to_pylist() != list(OUTCOMES):
            return f"the outcomes are not {', '.join(OUTCOMES)}"
        for side in (self.left, self.right):
            if not isinstance(side, np.ndarray) or side.dtype != np.int32 or side.shape != (self.n_tasks,):
                return "the items of the pairs do not match the pairs"
            if len(side) and not 0 <= side.min() <= side.max() < len(self.items):
                return "a pair has an item that is not in the table of items"
        return "a pair has the same item twice" if (self.left == self.right).any() else None

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    # Building

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        left: str | None = None,
        right: str | None = None,
        winner: str | None = None,
        worker: str | None = None,
        task: str | None = None,
        weight: str | None = None,
        truth: str | None = None,
        **options: Any,
    ) -> Self:
        """Build comparisons from a table with one row per comparison.

        Parameters
        ----------
        frame : pandas, polars or Arrow table, or mapping of columns
        left, right : str, optional
            Columns with the ids of the two items, in the order in which the worker saw them.
        winner : str, optional
            Column with the winner: the id of one of the two items, or a word such as left, right, model_a, tie.
        worker : str, optional
            Column with the worker. Without one, all comparisons count as those of one worker.
        task : str, optional
            Column with the question or prompt that the items answered. By default pairs are not distinguished by it.
        weight, truth : str, optional
            Columns with the weight of the comparison, and with the item that is known to be better.
        **options
            outcomes (a mapping of other words for the winner to "left", "right" or "tie"), duplicates ("keep" counts
            every comparison of a pair by the same worker, the default; others as in `Answers.from_frame`), nulls.
        """
        names, column = column_reader(frame)
        roles = find_columns(names, left, right, winner, worker, task)
        for role, name in (("weight", weight), ("truth", truth)):
            if name is not None or (role in names and role not in roles.values()):
                roles[role] = name or role
        return cls.from_columns({role: column(name) for role, name in roles.items()}, roles, **options)

    @classmethod
    def from_arrays(  # type: ignore[override]
        cls, left: Any, right: Any, winner: Any, worker: Any = None, weight: Any = None, **options: Any
    ) -> Self:
        """Build comparisons from sequences with one entry per comparison. Options as in `from_frame`.

        >>> Comparisons.from_arrays(["x", "y"], ["y", "z"], ["left", "tie"])
        Comparisons(3 items, 2 pairs, 1 worker, 2 comparisons, 1 tie)
        """
        columns = {"left": left, "right": right, "winner": winner, "worker": worker, "weight": weight}
        return cls.from_frame({name: values for name, values in columns.items() if values is not None}, **options)

    @classmethod
    def from_columns(
        cls, columns: dict[str, Any], names: Mapping[str, str], *,
        outcomes: Mapping[Any, str] | None = None, duplicates: Duplicates | Literal["keep"] = "keep", **options: Any,
    ) -> Self:  # fmt: skip
        """Build comparisons from columns by role (left, right, label; worker, task, weight, truth)."""
        names = {"task": "pair", "worker": EVERYONE, **names}
        sides = [as_arrow(columns.pop(role), "item") for role in ("left", "right")]
        winner = decode_dictionary(as_arrow(columns.pop("label"), "class"))
        n_rows = len(sides[0])
        for role, column in (("right", sides[1]), ("label", winner)):
            if len(column) != n_rows:
                message = f"{n_rows} left items but {len(column)} entries in {names[role]!r}; lengths must be equal."
                raise FormatError(message)
        left, right, items = encode_items(sides[0], sides[1], names)
        if not len(items):
            message = f"no comparisons: the columns {names['left']!r} and {names['right']!r} have no items."
            raise EmptyError(message)
        missing = (left < 0) | (right < 0)
        if options.get("nulls", "error") == "error":
            for role, side in zip(("left", "right"), sides, strict=True):
                check_no_nulls(side, names[role])
        winner = pc.if_else(pa.array(missing), pa.scalar(None, winner.type), winner)
        left, right = (np.where(missing, 0, side).astype(np.int32) for side in (left, right))
        worker = columns.pop("worker", None)
        workers = pa.array([EVERYONE] * n_rows, pa.large_string()) if worker is None else as_arrow(worker, "worker")
        code = decode_dictionary(workers).dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        task = columns.pop("task", None)
        pairs = pair_ids(
            None if task is None else decode_dictionary(as_arrow(task, "task")), left, right, items, code,
            number=duplicates == "keep",
        )  # fmt: skip
        rows: dict[str, Any] = {
            "task": pairs.dictionary.take(pa.array(pairs.indices.to_numpy(), mask=missing)),
            "worker": workers,
            "label": encode_outcomes(winner, left, right, items, names["label"], outcomes),
        }
        if "truth" in columns:
            known = as_arrow(columns.pop("truth"), "class")
            rows["truth"] = encode_outcomes(known, left, right, items, names["truth"], outcomes)
        out = super().from_columns(
            {**rows, **columns}, names, duplicates="error" if duplicates == "keep" else duplicates, **options
        )
        columns.clear()
        at = lookup(out.task_ids, pairs.dictionary, "task")  # one row of each pair tells its items
        first = np.zeros(len(pairs.dictionary), np.int64)
        index = pairs.indices.to_numpy()
        first[index[::-1]] = np.arange(n_rows)[::-1]
        return replace(out, items=tuple(items.to_pylist()), left=left[first[at]], right=right[first[at]])

    @classmethod
    def _encode_values(
        cls, values: pa.Array, known: pa.Array | None, name: str, n_tasks: int, **options: Any
    ) -> tuple[Array, pa.Array]:
        table = pa.array(OUTCOMES, pa.large_string())
        return encode(values, "class", table)

    @classmethod
    def _encode_truth(cls, known: pa.Array, name: str, task: Array, task_ids: pa.Array, values: pa.Array) -> Array:
        truth = np.full(len(task_ids), -1, np.int32)
        rows = np.flatnonzero(known.is_valid().to_numpy(zero_copy_only=False))
        codes = lookup(known.drop_null(), values, "class")
        truth[task[rows]] = codes
        check_one_truth(truth[task[rows]] != codes, rows, name, task, task_ids)
        return truth

    def truth_per_task(self, truth: Any) -> Array:
        """Return known outcomes (mapping of pair to outcome, or codes) as (tasks,) codes, -1 where unknown."""
        return merging.truth_codes(self, truth)

    # Selection and conversion

    def __getitem__(self, rows: Any) -> Self:
        """Return the comparisons of the pairs at these rows; items and workers do not change."""
        at = np.atleast_1d(np.arange(self.n_tasks)[rows])
        return replace(super().__getitem__(rows), left=self.left[at], right=self.right[at])

    def merge(
        self, other: AnswerCodes, *, pseudo: bool = False, weight: float | None = None,
        duplicates: Duplicates = "error",
    ) -> Self:  # fmt: skip
        """Add comparisons; see `Answers.merge`."""
        if not isinstance(other, Comparisons):
            message = f"these are {getattr(other, 'kind', 'other answers')}; only comparisons can be added."
            raise AnswerKindError(message)
        fields = merging.merge(self, other, pseudo=pseudo, weight=weight, duplicates=duplicates)
        items = tuple(sorted({*self.items, *other.items}))
        place = {item: code for code, item in enumerate(items)}
        sides: dict[str, Any] = {}
        for side in ("left", "right"):
            joined = np.full(len(fields["task_ids"]), -1, np.int32)
            for part in (self, other):
                code = np.array([place[item] for item in part.items], np.int32)
                joined[lookup(part.task_ids, fields["task_ids"], "task")] = code[getattr(part, side)]
            sides[side] = joined
        return replace(self, **fields, items=items, **sides)

    def to_arrow(self) -> pa.Table:
        """Return a long Arrow table `worker, left, right, winner` (and `weight`, `pseudo` if set)."""
        items = pa.array(self.items)
        left, right = (side[self.task] for side in (self.left, self.right))  # (answers,)
        won = np.where(self.label == 0, left, right)
        winner = items.take(pa.array(won, mask=self.label == TIE)).cast(pa.large_string()).fill_null(OUTCOMES[TIE])
        columns = {
            "worker": self.worker_ids.take(pa.array(self.worker)),
            "left": items.take(pa.array(left)),
            "right": items.take(pa.array(right)),
            "winner": winner,
        }
        for name in ("weight", "pseudo"):
            if getattr(self, name) is not None:
                columns[name] = pa.array(getattr(self, name))
        return pa.table(columns)

    def __repr__(self) -> str:
        counts = [(self.n_items, "item"), (self.n_tasks, "pair"), (self.n_workers, "worker")]
        counts += [(self.n_answers, "comparison"), (int((self.label == TIE).sum()), "tie")]
        return f"Comparisons({', '.join(f'{n} {what}' + ('' if n == 1 else 's') for n, what in counts)})"

    def _repr_html_(self) -> str:
        first = self.take(np.arange(min(self.n_answers, HTML_ROWS))).to_arrow().to_pylist()
        ellipsis = [["..."] * 4] if self.n_answers > HTML_ROWS else []
        header = ["worker", "left", "right", "winner"]
        return html_table([[row[name] for name in header] for row in first] + ellipsis, header, [repr(self)])
