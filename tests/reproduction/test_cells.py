"""Cells: names, seeds together or apart, stamps."""

from __future__ import annotations

import pytest

from reproduction.cells import VERSIONS, Cell, Family, Setting, cells_of, stamp_of


def family(together: bool) -> Family:
    return Family("toy", lambda cell: [], lambda cell: "", lambda method: together)


def test_seeds_are_one_cell_when_trained_together_and_one_each_otherwise() -> None:
    assert [cell.seeds for cell in cells_of(family(True), "m", "p", 3)] == [(0, 1, 2)]
    assert [cell.seeds for cell in cells_of(family(False), "m", "p", 3)] == [(0,), (1,), (2,)]


def test_keys_of_different_cells_differ() -> None:
    cells = [
        Cell("f", method, problem, seeds, hide)
        for method in ("a", "b")
        for problem in ("p", "p@20")
        for seeds in ((0,), (1,), (0, 1), (0, 1, 2))
        for hide in (False, True)
    ]
    assert len({cell.key for cell in cells}) == len(cells)


def test_quick_settings_are_smaller_but_never_zero() -> None:
    full, quick = Setting("p"), Setting("p", quick=True)
    assert (full.epochs(25), full.rounds(5)) == (25, 5)
    assert (quick.epochs(25), quick.epochs(3), quick.rounds(5), quick.rounds(1)) == (5, 2, 2, 1)


def test_stamp_changes_with_any_setting_and_not_with_their_order() -> None:
    cell = Cell("f", "m", "p@40", (0,))
    assert stamp_of({"a": 1, "b": 2}, cell) == stamp_of({"b": 2, "a": 1}, cell)
    assert stamp_of({"a": 1, "b": 2}, cell) != stamp_of({"a": 1, "b": 3}, cell)
    assert stamp_of({"a": 1}, cell) != stamp_of({"b": 1}, cell)


@pytest.mark.parametrize("changed", ["f", "p"])
def test_new_version_of_a_family_or_a_problem_changes_the_stamp(changed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("f", "m", "p@40", (0,))
    before = stamp_of({"a": 1}, cell)
    monkeypatch.setitem(VERSIONS, changed, 2)
    assert stamp_of({"a": 1}, cell) != before
    assert stamp_of({"a": 1}, Cell("other", "m", "q", (0,))) == before
