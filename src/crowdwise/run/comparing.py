"""Two runs side by side: which labels changed, and whether it got better."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.display import as_html
from crowdwise.errors import UnknownIdError
from crowdwise.run.folder import Run
from crowdwise.run.labels import VERDICTS


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What is different in the second run; `str(comparison)` is a page of text.

    Attributes
    ----------
    before, after : Run
    n_common, n_gone, n_new : int
        Tasks of both, of the first only, of the second only.
    changed : pyarrow.Table
        Tasks of both whose label changed, the surest change first: `task`, and `label`, `confidence` and `verdict`,
        each `_before` and `_after`.
    verdicts : dict of str to dict
        How many tasks of each verdict (before) have each verdict now.
    workers : pyarrow.Table
        Workers of both, those whose quality changed most first: `worker`, `quality_before`, `quality_after`.
    """

    before: Run
    after: Run
    n_common: int
    n_gone: int
    n_new: int
    changed: pa.Table
    verdicts: dict[str, dict[str, int]]
    workers: pa.Table

    @property
    def words(self) -> list[str]:
        """What it means, in sentences."""
        share = self.changed.num_rows / max(self.n_common, 1)
        words = [f"{self.changed.num_rows:,} of {self.n_common:,} labels changed ({share:.1%})."]
        if self.n_gone or self.n_new:
            words.append(f"{self.n_new:,} tasks are new, {self.n_gone:,} are gone.")
        old, new = self.before.metrics, self.after.metrics
        if old["method"] != new["method"]:
            words.append(f"The method changed from {old['method']} to {new['method']}.")
        rise = new["expected_accuracy"] - old["expected_accuracy"]
        words.append(f"Labels are expected to be right {abs(rise):.1%} {'more' if rise >= 0 else 'less'} often.")
        if old["truth"] and new["truth"]:
            change = new["truth"]["accuracy"] - old["truth"]["accuracy"]
            words.append(
                f"Against the known truth, accuracy went {'up' if change >= 0 else 'down'} by {abs(change):.1%}."
            )
        return words

    def figures(self) -> list[list[str]]:
        """Rows of what, before and after."""
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
        """Everything, ready for JSON."""
        names = ("n_common", "n_gone", "n_new", "words", "verdicts")
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
        return as_html(self.figures(), ["", "before", "after"], self.words)


def compare(before: Run, after: Run) -> Comparison:
    """Compare two runs by the ids of their tasks and workers."""
    tasks = _joined(before.labels, after.labels, "task", ("label", "confidence", "verdict"))
    n_common = tasks.num_rows
    if n_common == 0:
        message = f"{before.path} and {after.path} have no task in common: are the ids the same?"
        raise UnknownIdError(message)
    pair = (tasks.column(f"verdict_{when}").to_pylist() for when in ("before", "after"))
    count = Counter(zip(*pair, strict=True))
    verdicts = {old: {new: count[old, new] for new in VERDICTS} for old in VERDICTS}
    differ = pc.not_equal(tasks.column("label_before").cast(pa.string()), tasks.column("label_after").cast(pa.string()))
    changed = tasks.filter(differ)
    sure = np.minimum(changed.column("confidence_before").to_numpy(), changed.column("confidence_after").to_numpy())
    changed = changed.take(pa.array(np.argsort(-sure, kind="stable")))
    workers = _joined(before.workers, after.workers, "worker", ("quality",))
    moved = np.abs(
        workers.column("quality_after").fill_null(0).to_numpy()
        - workers.column("quality_before").fill_null(0).to_numpy()
    )
    workers = workers.take(pa.array(np.argsort(-moved, kind="stable")))
    return Comparison(
        before, after, n_common, before.labels.num_rows - n_common, after.labels.num_rows - n_common, changed, verdicts,
        workers,
    )  # fmt: skip


def _joined(before: pa.Table, after: pa.Table, key: str, columns: tuple[str, ...]) -> pa.Table:
    """Rows of both tables by their ids, written as text where their types differ."""
    old, new = (table.column(key).cast(pa.string()) for table in (before, after))
    at = pc.index_in(old, new)
    common = at.is_valid()
    rows = at.drop_null()
    out = {key: before.column(key).filter(common)}
    for name in columns:
        out[f"{name}_before"] = before.column(name).filter(common)
        out[f"{name}_after"] = after.column(name).take(rows)
    return pa.table(out)
