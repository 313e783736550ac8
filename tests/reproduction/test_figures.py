"""Figures: every kind is written and shows its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from reproduction.cells import Family
from reproduction.experiments import Experiment, Line
from reproduction.figures import draw

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
FAMILY = Family("toy", lambda cell: [], lambda cell: "s")


def line(method: str, data: str, mean: float, **more: object) -> Line:
    base = {"method": method, "data": data, "measure": "last", "mean": mean, "deviation": 1.0, "x": None}
    return {**base, "paper": 82.0, "ceiling": 93.0, **more}


@pytest.mark.parametrize(
    "options", [{}, {"axis": {"p@20": 20.0, "p@40": 40.0}, "axis_title": "removed"}, {"curve": True}]
)
def test_figure_names_methods_and_data(tmp_path: Path, options: dict[str, object]) -> None:
    made = Experiment("toy", "A toy figure", "", FAMILY, ("MV-DL", "DASC"), ("p@20", "p@40"), **options)  # type: ignore[arg-type]
    found = [line(m, p, 80.0 + i, x=20.0 * (i + 1)) for m in made.methods for i, p in enumerate(made.problems)]
    draw(made, found, tmp_path / "toy.svg")
    text = (tmp_path / "toy.svg").read_text()
    assert text.startswith("<svg")
    for shown in ("A toy figure", "MV-DL", "DASC", ">p<", "test accuracy"):
        assert shown in text
    for key in ("red crosses: the paper", "dashed: trained on the truth"):
        assert (key in text) == (not options)
    assert ("bands: one deviation" in text) == bool(options)


def test_key_names_only_marks_that_are_drawn(tmp_path: Path) -> None:
    made = Experiment("toy", "Toy", "", FAMILY, ("MV-DL",), ("p",))
    draw(made, [line("MV-DL", "p", 80.0, paper=None, ceiling=None)], tmp_path / "toy.svg")
    text = (tmp_path / "toy.svg").read_text()
    assert "Dots" in text
    assert "paper" not in text
    assert "truth" not in text


@pytest.mark.parametrize("options", [{}, {"curve": True}])
def test_panels_are_in_order_each_with_its_axis(tmp_path: Path, options: dict[str, object]) -> None:
    problems = ("z", "y", "x", "w", "v")
    made = Experiment("toy", "Toy", "", FAMILY, ("MV-DL", "DASC"), problems, **options)  # type: ignore[arg-type]
    found = [line(m, p, 80.0 + i, x=i) for m in made.methods for p in problems for i in range(1 + made.curve)]
    draw(made, found, tmp_path / "toy.svg")
    text = (tmp_path / "toy.svg").read_text()
    places = [text.index(f">{name}</text>") for name in problems]
    assert places == sorted(places)
    assert text.count(">iteration</text>" if made.curve else ">test accuracy, %</text>") == len(problems)
