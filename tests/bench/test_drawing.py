"""Figures: every kind is written, and shows what it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdwise.bench.cells import Family
from crowdwise.bench.drawing import draw
from crowdwise.bench.experiments import Experiment, Line

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
FAMILY = Family("toy", lambda cell: [], lambda cell: "s")


def line(method: str, data: str, mean: float, **more: object) -> Line:
    base = {"method": method, "data": data, "measure": "last", "mean": mean, "deviation": 1.0, "x": None}
    return {**base, "paper": 82.0, "ceiling": 93.0, **more}


@pytest.mark.parametrize(
    "options", [{}, {"axis": {"p@20": 20.0, "p@40": 40.0}, "axis_title": "removed"}, {"curve": True}]
)
def test_a_figure_names_methods_and_data(tmp_path: Path, options: dict[str, object]) -> None:
    made = Experiment("toy", "A toy figure", "", FAMILY, ("MV-DL", "DASC"), ("p@20", "p@40"), **options)  # type: ignore[arg-type]
    found = [line(m, p, 80.0 + i, x=20.0 * (i + 1)) for m in made.methods for i, p in enumerate(made.problems)]
    draw(made, found, tmp_path / "toy.svg")
    text = (tmp_path / "toy.svg").read_text()
    assert text.startswith("<svg")
    for shown in ("A toy figure", "MV-DL", "DASC", ">p<", "test accuracy"):
        assert shown in text
