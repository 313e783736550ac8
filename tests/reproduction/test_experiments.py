"""Lines of a table from finished cells: means, deviations, published numbers, curves."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.cells import Cell, Family
from reproduction.experiments import Experiment, lines
from reproduction.store import Store

FAMILY = Family("toy", lambda cell: [], lambda cell: "s", lambda method: method == "many")


def experiment(**options: object) -> Experiment:
    given = {"methods": ("one", "many"), "problems": ("p", "q"), "ceiling": "top", **options}
    return Experiment("toy", "Toy", "nothing", FAMILY, **given)  # type: ignore[arg-type]


def fill(store: Store, made: Experiment, **figures: object) -> None:
    """Seed s of method m gets 80 + s, 10 more with the truth, 5 less where answers are hidden."""
    for cell in made.cells(2):
        base = 90.0 if cell.method == "top" else 80.0
        name, less = ("held_out", 5.0) if cell.hide else ("last", 0.0)
        found = [{name: base + s - less, "oracle": base + s + 1, "seconds": 2.0, **figures} for s in cell.seeds]
        store.put(cell, "s", found)


def test_cells_cover_methods_problems_and_the_ceiling_once() -> None:
    made = experiment(hide=True, except_for=frozenset({("one", "q")}))
    cells = made.cells(2)
    assert len(set(cells)) == len(cells)
    assert Cell("toy", "many", "q", (0, 1), True) in cells
    assert Cell("toy", "top", "p", (1,)) in cells
    assert not any(cell.method == "top" and cell.hide for cell in cells)
    assert not any((cell.method, cell.problem) == ("one", "q") for cell in cells)
    assert not any(cell.hide for cell in made.cells(1, quick=True))
    assert {cell.problem for cell in experiment(hide=True, never_hide=("q",)).cells(2) if cell.hide} == {"p"}


def test_line_has_mean_deviation_and_the_figures_to_compare_with(tmp_path: Path) -> None:
    made, store = experiment(hide=True, published={("one", "p"): (82.0, 0.5)}), Store(tmp_path)
    fill(store, made)
    found = {(line["method"], line["data"]): line for line in lines(made, store, 2)}
    assert set(found) == {(m, p) for m in ("one", "many") for p in ("p", "q")}
    line = found["one", "p"]
    assert (line["mean"], line["seeds"]) == (80.5, 2)
    assert line["deviation"] == pytest.approx(0.5**0.5)
    assert (line["held_out"], line["oracle"], line["ceiling"]) == (75.5, 81.5, 90.5)
    assert (line["paper"], line["paper_deviation"], line["difference"]) == (82.0, 0.5, -1.5)
    assert found["many", "q"]["mean"] == 80.5
    assert found["many", "q"]["paper"] is None


def test_unfinished_cells_have_no_line(tmp_path: Path) -> None:
    made, store = experiment(), Store(tmp_path)
    assert lines(made, store, 2) == []
    store.put(Cell("toy", "one", "p", (1,)), "s", [{"last": 70.0, "seconds": 1.0}])
    (line,) = lines(made, store, 2)
    assert (line["mean"], line["deviation"], line["seeds"], line["ceiling"]) == (70.0, None, 1, None)


def test_curves_have_one_line_per_known_point(tmp_path: Path) -> None:
    made, store = experiment(curve=True, measures=("R",), grid=(0.0, 0.5, 1.0)), Store(tmp_path)
    fill(store, made, R=[None, 2.0, 4.0])
    found = [line for line in lines(made, store, 2) if (line["method"], line["data"]) == ("one", "p")]
    assert [(line["x"], line["mean"]) for line in found] == [(0.5, 2.0), (1.0, 4.0)]


def test_further_measures_have_published_numbers_of_their_own(tmp_path: Path) -> None:
    published = {("one", "p"): (82.0, None), ("one", "p", "ece"): (0.3, 0.05)}
    made, store = experiment(measures=("last", "ece"), published=published), Store(tmp_path)
    fill(store, made, ece=0.1)
    found = [line for line in lines(made, store, 2) if (line["method"], line["data"]) == ("one", "p")]
    assert [line["measure"] for line in found] == ["last", "ece"]
    assert [line["paper"] for line in found] == [82.0, 0.3]
    assert found[1]["mean"] == pytest.approx(0.1)
    assert found[1]["difference"] == pytest.approx(-0.2)
    assert "oracle" not in found[1]


def test_held_out_oracle_and_ceiling_belong_to_test_accuracy_only(tmp_path: Path) -> None:
    made, store = experiment(measures=("mv", "last"), hide=True), Store(tmp_path)
    fill(store, made, mv=70.0)
    found = [line for line in lines(made, store, 2) if (line["method"], line["data"]) == ("one", "p")]
    assert [line["mean"] for line in found] == [70.0, 80.5]
    assert [found[0][name] for name in ("held_out", "oracle", "ceiling")] == [None, None, None]


def test_axis_places_problems_and_methods(tmp_path: Path) -> None:
    store = Store(tmp_path)
    by_problem, by_method = experiment(axis={"p": 20.0, "q": 40.0}), experiment(axis={"one": 0.1, "many": 0.2})
    fill(store, by_problem)
    assert {line["x"] for line in lines(by_problem, store, 2) if line["data"] == "q"} == {40.0}
    assert {line["x"] for line in lines(by_method, store, 2) if line["method"] == "one"} == {0.1}
