"""Compare two runs: which labels changed, and whether the result improved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import html_table
from crowdwise.errors import UnknownIdError
from crowdwise.report.source import VERDICTS
from crowdwise.run.folder import Run

WHEN = ("before", "after")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The differences between two runs; `str(comparison)` is a page of text.

    Attributes
    ----------
    before, after : Run
    n_common, n_gone, n_new : int
        Tasks of both runs, of the first only, of the second only.
    changed : pyarrow.Table
        Tasks whose label changed, the most confident change first: `task`, and `label`, `confidence` and `verdict`,
        each `_before` and `_after`.
    verdicts : dict of str to dict
        Number of tasks by verdict before and verdict after.
    expected, known : pair of float
        Before and after, for tasks of both runs: mean confidence, and accuracy on the tasks whose truth both runs know
        (None without such tasks).
    workers : pyarrow.Table
        Workers of both runs, those whose quality changed most first: `worker`, `quality_before`, `quality_after`.
    """

    before: Run
    after: Run
    n_common: int
    n_gone: int
    n_new: int
    changed: pa.Table
    verdicts: dict[str, dict[str, int]]
    expected: tuple[float, float]
    known: tuple[float, float] | None
    workers: pa.Table

    @property
    def words(self) -> list[str]:
        """The comparison in sentences."""
        share = self.changed.num_rows / max(self.n_common, 1)
        words = [f"{self.changed.num_rows:,} of {self.n_common:,} labels changed ({share:.1%})."]
        if self.n_gone or self.n_new:
            words.append(f"{self.n_new:,} tasks were added, {self.n_gone:,} removed.")
        old, new = self.before.metrics, self.after.metrics
        if old["method"] != new["method"]:
            words.append(f"The method changed from {old['method']} to {new['method']}.")
        words.append(f"Expected accuracy of these labels: {_change(self.expected)}.")
        if self.known is not None:
            words.append(f"Accuracy on those with known truth: {_change(self.known)}.")
        return words

    def figures(self) -> list[list[str]]:
        """Rows of a figure's name, its value before and its value after."""
        old, new = self.before.metrics, self.after.metrics
        rows = [["method", old["method"], new["method"]]]
        rows += [[what, f"{old['summary'][f'n_{what}']:,}", f"{new['summary'][f'n_{what}']:,}"]
                 for what in ("tasks", "workers", "answers")]  # fmt: skip
        rows.append(["expected accuracy", f"{old['expected_accuracy']:.1%}", f"{new['expected_accuracy']:.1%}"])
        rows += [[verdict, f"{old['counts'][verdict]:,}", f"{new['counts'][verdict]:,}"] for verdict in VERDICTS]
        if old["truth"] or new["truth"]:
            rows.append(
                ["known accuracy", *("" if m["truth"] is None else f"{m['truth']['accuracy']:.1%}" for m in (old, new))]
            )
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain values, ready for JSON."""
        names = ("n_common", "n_gone", "n_new", "words", "verdicts", "expected", "known")
        return {
            "before": str(self.before.path), "after": str(self.after.path),
            **{name: getattr(self, name) for name in names},
            "figures": {row[0]: row[1:] for row in self.figures()},
            "changed": self.changed.to_pylist(), "workers": self.workers.to_pylist(),
        }  # fmt: skip

    def __str__(self) -> str:
        rows = self.figures()
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*self.words, "", *lines])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.figures(), ["", "before", "after"], self.words)


def compare(before: Run, after: Run) -> Comparison:
    """Compare two runs by the ids of their tasks and workers."""
    classes = [{str(name) for name in run.answers.classes.tolist()} for run in (before, after)]
    if not classes[0] & classes[1]:
        message = f"{before.path} and {after.path} have no class in common. Do they answer the same question?"
        raise UnknownIdError(message)
    tasks = _join(before.tables.labels, after.tables.labels, "task", ("label", "confidence", "verdict"))
    n_common = tasks.num_rows
    if n_common == 0:
        message = f"{before.path} and {after.path} have no task in common. Are the task ids the same?"
        raise UnknownIdError(message)
    pairs = (tasks.column(f"verdict_{when}").to_pylist() for when in WHEN)
    count = Counter(zip(*pairs, strict=True))
    verdicts = {old: {new: count[old, new] for new in VERDICTS} for old in VERDICTS}
    differ = pc.not_equal(tasks.column("label_before").cast(pa.string()), tasks.column("label_after").cast(pa.string()))
    changed = tasks.filter(differ)
    confidence = np.minimum(*(changed.column(f"confidence_{when}").to_numpy() for when in WHEN))
    changed = changed.take(pa.array(np.argsort(-confidence, kind="stable")))
    expected = tuple(float(np.mean(tasks.column(f"confidence_{when}").to_numpy())) for when in WHEN)
    workers = _join(before.tables.workers, after.tables.workers, "worker", ("quality",))
    quality = [workers.column(f"quality_{when}").fill_null(0).to_numpy() for when in WHEN]
    workers = workers.take(pa.array(np.argsort(-np.abs(quality[1] - quality[0]), kind="stable")))
    return Comparison(
        before, after, n_common, before.answers.n_tasks - n_common, after.answers.n_tasks - n_common, changed, verdicts,
        (expected[0], expected[1]), _known_accuracy(before, after), workers,
    )  # fmt: skip


def _known_accuracy(before: Run, after: Run) -> tuple[float, float] | None:
    """Accuracy before and after on the tasks whose truth both runs know."""
    if any("truth" not in run.tables.labels.column_names for run in (before, after)):
        return None
    tasks = _join(before.tables.labels, after.tables.labels, "task", ("label", "truth"))
    tasks = tasks.filter(pc.and_(tasks.column("truth_before").is_valid(), tasks.column("truth_after").is_valid()))
    if not tasks.num_rows:
        return None
    right = [
        pc.mean(pc.equal(*(tasks.column(f"{name}_{when}").cast(pa.string()) for name in ("label", "truth")))).as_py()
        for when in WHEN
    ]
    return right[0], right[1]


def _change(pair: tuple[float, float]) -> str:
    """Return two shares and their difference in percentage points.

    >>> _change((0.8, 0.85))
    '80.0% before, 85.0% after, +5.0 points'
    """
    return f"{pair[0]:.1%} before, {pair[1]:.1%} after, {100 * (pair[1] - pair[0]):+.1f} points"


def _join(before: pa.Table, after: pa.Table, key: str, columns: tuple[str, ...]) -> pa.Table:
    """Join two tables by id, compared as text."""
    old, new = (table.column(key).cast(pa.string()) for table in (before, after))
    at = pc.index_in(old, new)
    common = at.is_valid()
    rows = at.drop_null()
    out = {key: before.column(key).filter(common)}
    for name in columns:
        out[f"{name}_before"] = before.column(name).filter(common)
        out[f"{name}_after"] = after.column(name).take(rows)
    return pa.table(out)
