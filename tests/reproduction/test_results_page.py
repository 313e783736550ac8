"""docs/results.md is what the saved results say; lines are those that `crowdwise bench` makes of finished cells."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from reproduction import EXPERIMENTS, Experiment, Store, lines

ROOT = Path(__file__).parents[2]
Given = dict[tuple[str, str], dict[str, Any]]  # of each seed, by method and data set
Make = Callable[[Experiment, Given], dict[str, Any]]


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("results_page", ROOT / "benchmarks" / "results_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def saved(tmp_path: Path) -> Make:
    """What is saved of an experiment when some of its cells are finished."""

    def make(experiment: Experiment, given: Given, seeds: int = 4) -> dict[str, Any]:
        store = Store(tmp_path / "cells")
        for cell in experiment.cells(seeds):
            figures = given.get((cell.method, cell.problem))
            if figures is not None and not cell.hide:
                found = [{"seconds": 1.0, **figures} for _ in cell.seeds]
                for seed, each in zip(cell.seeds, found, strict=True):
                    if "last" in each:
                        each["last"] += 2.0 if seed % 2 else -2.0  # of four seeds the standard error is 1.15
                store.put(cell, experiment.family.stamp(cell), found)
        return {"core_seconds": 90.0, "seeds": seeds, "lines": lines(experiment, store, seeds)}

    return make


def test_the_page_is_made_from_the_saved_results(writer: ModuleType) -> None:
    results = {path.stem: json.loads(path.read_text()) for path in sorted(writer.RESULTS.glob("*.json"))}
    assert results, "no results are saved"
    assert writer.PAGE.read_text() == writer.page(results), "run make results-page"


def test_goals_are_of_rows_that_are_computed(writer: ModuleType) -> None:
    for goal in writer.GOALS:
        experiment = EXPERIMENTS[goal.experiment]
        assert goal.measure in experiment.measures
        assert goal.data in experiment.problems
        assert {goal.above, goal.below} <= set(experiment.methods)
        assert not {(goal.above, goal.data), (goal.below, goal.data)} & experiment.except_for
    assert len(set(writer.GOALS)) == len(writer.GOALS)


@pytest.mark.parametrize(
    ("above", "verdict"),
    [(90.0, "yes"), (82.0, "yes, within the error"), (78.0, "no, within the error"), (70.0, "no")],
)
def test_a_goal_is_judged_by_the_error_of_the_difference(
    writer: ModuleType, saved: Make, above: float, verdict: str
) -> None:
    given = {("CrowdLayer: DASC", "labelme"): {"last": above}, ("CrowdLayer: CE", "labelme"): {"last": 80.0}}
    found = list(writer.goals({"dasc-table2": saved(EXPERIMENTS["dasc-table2"], given)}))
    (row,) = [line for line in found if line.startswith("| CrowdLayer: DASC above CrowdLayer: CE |")]
    assert row.split(" | ")[1:] == [f"{verdict}: {above - 80:+.1f} ± 1.6", "not computed |"]
    counted = {"yes": "1 are met", "no": "0 are missed within it and 1 beyond"}
    assert counted.get(verdict, "1 within it" if verdict[0] == "y" else "1 are missed within it") in found[0]
    assert f"{len(writer.GOALS) - 1} are not computed" in found[0]


def test_one_run_is_no_verdict(writer: ModuleType, saved: Make) -> None:
    given = {(method, "labelme"): {"last": 80.0} for method in ("WAUM + CoNAL(0)", "CoNAL(0)")}
    result = saved(replace(EXPERIMENTS["waum-table1"], most_seeds=1), given)
    assert len(result["lines"]) == 2
    assert f"{len(writer.GOALS)} are not computed" in next(writer.goals({"waum-table1": result}))


def test_only_headlines_more_than_two_points_behind_are_listed_and_once(writer: ModuleType, saved: Make) -> None:
    """Labels 10 points behind are no gap, nor is what stands behind on another data set."""
    waum, gaps = EXPERIMENTS["waum-table1"], EXPERIMENTS["waum-gaps"]
    given = {
        ("MV", "labelme"): {"last": 84.0, "labels": 60.0, "oracle": 86.0, "ece": 0.2},
        ("DS", "labelme"): {"last": 80.0, "labels": 60.0, "oracle": 82.0, "ece": 0.2},
        ("ceiling", "labelme"): {"last": 93.0},
    }
    results = {"waum-table1": saved(waum, given), "waum-gaps": saved(gaps, given)}
    rows = [line for line in writer.gaps(results) if line.startswith("| waum")]
    assert rows == ["| waum-table1 | DS | labelme | 80.0 | 82.0 | 86.8 | -6.8 | 93.0 |"]


def test_tables_show_what_was_measured_and_say_what_was_not(writer: ModuleType, saved: Make) -> None:
    waum = EXPERIMENTS["waum-table1"]
    given = {("MV", "labelme"): {"last": 84.0, "oracle": 86.0, "ece": 0.125, "labels": 76.0}}
    text = "\n".join(writer.tables(waum, saved(waum, given)["lines"]))
    assert "| method | last | oracle | paper | difference | ece | labels |" in text  # held out is empty
    assert "| MV | 84.0 ± 2.3 | 86.0 | 85.4 ± 1.0 | -1.4 | 0.125 (0.136) | 76.0 (76.1) |" in text
    assert text.count("| not computed |") == len(waum.methods) - 1
    assert "**music**: not computed" in text


def test_rows_of_fewer_runs_say_so(writer: ModuleType, saved: Make, tmp_path: Path) -> None:
    waum = EXPERIMENTS["waum-table1"]
    given = {(method, "labelme"): {"last": 84.0} for method in ("WAUM + MV", "WAUM + DS")}
    result = saved(waum, given)
    store = Store(tmp_path / "fewer")
    for cell in waum.cells(4):
        if cell.method == "WAUM + DS" and cell.problem == "labelme" and not cell.hide and cell.seeds[0] < 2:
            store.put(cell, waum.family.stamp(cell), [{"last": 80.0, "seconds": 1.0}])
    (few,) = lines(waum, store, 4)
    text = "\n".join(writer.tables(waum, [line for line in result["lines"] if line["method"] != "WAUM + DS"] + [few]))
    assert "| WAUM + DS | 80.0 ± 0.0 (2 runs) |" in text
    assert "| WAUM + MV | 84.0 ± 2.3 |" in text


def test_figures_become_tables_along_their_axis(writer: ModuleType, saved: Make) -> None:
    sparse = EXPERIMENTS["crowding-sparsity"]
    given = {("DL-CL", problem): {"last": 80.0 - x} for problem, x in sparse.axis.items() if "@60" not in problem}
    text = "\n".join(writer.tables(sparse, saved(sparse, given)["lines"]))
    assert "| answers removed, % | 0 | 20 | 40 | 60 |" in text
    assert "| DL-CL | 80.0 | 60.0 | 40.0 | not computed |" in text
    assert "| CrowdInG | not computed |  |  |  |" in text


def test_methods_along_an_axis_share_a_row_that_names_the_data(writer: ModuleType, saved: Make) -> None:
    lambdas = EXPERIMENTS["crowding-sensitivity"]
    given = {(method, "labelme"): {"last": 80.0 + 10 * x} for method, x in lambdas.axis.items()}
    found = list(writer.tables(lambdas, saved(lambdas, given)["lines"]))
    places = sorted(lambdas.axis.values())
    assert "| lambda |" + "".join(f" {x:g} |" for x in places) in found
    expected = [80 + 10 * x - 2 / 3 for x in places]  # of three seeds two are 2 below
    assert "| labelme |" + "".join(f" {mean:.1f} |" for mean in expected) in found
    assert "not computed" not in "".join(found)


def test_curves_have_nine_places_at_most(writer: ModuleType, saved: Make) -> None:
    heavy = EXPERIMENTS["dasc-heavy"]
    given = {("CrowdLayer: DASC", "product"): {"test": [50.0 + i for i in range(15)]}}
    found = list(writer.tables(heavy, saved(heavy, given)["lines"]))
    assert "| iteration | 0 | 2 | 4 | 5 | 7 | 9 | 10 | 12 | 14 |" in found
    assert "| CrowdLayer: DASC | 50.0 | 52.0 | 54.0 | 55.0 | 57.0 | 59.0 | 60.0 | 62.0 | 64.0 |" in found
    assert "**heavy-1**: not computed" in found


def test_a_page_of_what_is_finished_so_far(writer: ModuleType, saved: Make) -> None:
    tables = EXPERIMENTS["difficulty-tables"]
    given = {("Fixed", "gaussian-paper"): {"last": 93.0, "labels": 80.0}}
    text = writer.page({"difficulty-tables": saved(tables, given), "iced-table3": {"core_seconds": 0.0, "lines": []}})
    assert f"| difficulty-tables | {tables.title} | 1 min 30 s |" in text
    assert f"| iced-table3 | {EXPERIMENTS['iced-table3'].title} | not computed |" in text
    assert [line for line in text.splitlines() if line.startswith("## ")][3:] == [f"## {tables.title}"]
    assert "| Fixed | 93.0 ± 2.3 | 94.4 ± 0.1 | -1.4 | 80.0 |" in text
    assert "\n\n\n" not in text


def test_an_empty_page(writer: ModuleType) -> None:
    assert writer.page({}).count("not computed") > len(EXPERIMENTS)
