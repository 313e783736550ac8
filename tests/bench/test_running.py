"""Computing cells: only what is missing, failures named, time left."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdwise.bench.catalogue import FAMILIES
from crowdwise.bench.cells import Cell
from crowdwise.bench.running import Progress, missing, run
from crowdwise.bench.store import Store

MADE = Cell("digits", "MV-DL", "digits", (0,), quick=True)
FAILS = Cell("digits", "MV-DL", "nowhere", (0,), quick=True)


def stamp(cell: Cell) -> str:
    return FAMILIES[cell.family].stamp(cell._replace(problem="digits"))


def families() -> dict[str, object]:
    """The real family, that can name the settings of a problem which is not there."""
    return {"digits": FAMILIES["digits"]._replace(stamp=stamp)}


def test_finished_cells_and_repeated_ones_are_not_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = MADE._replace(method="DS-DL")
    store.put(MADE, stamp(MADE), [{"last": 1.0}])
    assert missing([MADE, other, other], FAMILIES, store) == [other]
    store.put(MADE, "another stamp", [{"last": 1.0}])
    assert missing([MADE, other], FAMILIES, store) == [MADE, other]


def test_cells_are_computed_kept_and_failures_named(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []
    told = lambda progress: seen.append((progress.done, progress.last))  # noqa: E731
    progress = run([MADE, FAILS], families(), store, jobs=1, told=told)  # type: ignore[arg-type]
    assert progress.total == 2
    assert [done for done, _ in seen] == [1, 2]
    assert {cell for _, cell in seen} == {MADE, FAILS}
    assert list(progress.failed) == [FAILS]
    assert "nowhere" in progress.failed[FAILS]
    (figures,) = Store(tmp_path).get(MADE, stamp(MADE))  # type: ignore[misc]
    assert 30 < figures["last"] <= figures["oracle"] <= 100
    assert progress.left == 0
    again = run([MADE], families(), store, jobs=1)  # type: ignore[arg-type]
    assert again.total == 0


def test_time_left_goes_by_cells_of_the_same_kind_then_by_all() -> None:
    progress = Progress(total=10, jobs=2)
    assert progress.left is None
    progress.spent = {("a", "p"): [10.0, 20.0], ("b", "p"): [60.0]}
    progress.waiting = {("a", "p"): 2, ("c", "p"): 1}
    assert progress.left == pytest.approx((2 * 15 + 30) / 2)
