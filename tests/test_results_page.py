"""docs/results.md is what the saved results say."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "benchmarks" / "results_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def line(method: str, mean: float, **more: object) -> dict[str, object]:
    empty = dict.fromkeys(("x", "held_out", "oracle", "paper", "paper_deviation", "difference", "ceiling"))
    base = {"data": "labelme", "measure": "last", "deviation": 1.0, "seeds": 4, "seconds": 1.0}
    return {**empty, "method": method, "mean": mean, **base, **more}


def test_the_page_is_made_from_the_saved_results(writer: ModuleType) -> None:
    saved = {path.stem: json.loads(path.read_text()) for path in sorted(writer.RESULTS.glob("*.json"))}
    assert saved, "no results are saved"
    assert writer.PAGE.read_text() == writer.page(saved), "run benchmarks/results_page.py"


@pytest.mark.parametrize(
    ("above", "verdict"),
    [(90.0, "| yes |"), (80.5, "| within the error |"), (79.5, "| within the error |"), (70.0, "| no |")],
)
def test_a_goal_is_judged_by_the_error_of_the_difference(writer: ModuleType, above: float, verdict: str) -> None:
    lines = [line("CrowdLayer: DASC", above), line("CrowdLayer: CE", 80.0)]  # the error is sqrt(1/4 + 1/4)
    text = "\n".join(writer.goals({"dasc-table2": {"lines": lines}}))
    assert verdict in text
    assert f"{above - 80:+.1f} ± 0.7" in text
    assert "Of 1 orderings" in text


def test_only_gaps_of_more_than_two_points_are_listed(writer: ModuleType) -> None:
    lines = [
        line("near", 85.5, paper=87.0, difference=-1.5),
        line("far", 83.0, paper=87.0, difference=-4.0, oracle=88.0),
        line("above", 90.0, paper=87.0, difference=3.0),
    ]
    text = "\n".join(writer.gaps({"dasc-table2": {"lines": lines}}))
    assert "| far |" in text
    assert "-4.0" in text
    assert "near" not in text
    assert "above" not in text


def test_tables_show_what_lies_beside(writer: ModuleType) -> None:
    lines = [line("a", 85.5, held_out=84.0, paper=87.0, paper_deviation=0.5, difference=-1.5, ceiling=93.0)]
    text = "\n".join(writer.tables([*lines, line("a", 0.125, measure="ece")]))
    assert "| a | 85.5 ± 1.0 | 84.0 |  | 87.0 ± 0.5 | -1.5 | 0.125 |" in text
    assert "ceiling 93.0" in text


def test_figures_become_tables_along_their_axis(writer: ModuleType) -> None:
    lines = [line("a", 80.0 + x, data=f"labelme@{x}", x=x) for x in (20, 40)]
    lines += [line("b", 70.0 + x, data=f"labelme@{x}", x=x) for x in (20, 40)]
    text = "\n".join(writer.tables(lines))
    assert "| method | 20 | 40 |" in text
    assert "| a | 100 | 120 |" in text
    assert "| b | 90 | 110 |" in text
