"""Pages of results: up to date with the stored cells, and right about orderings, gaps and missing rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reproduction import EXPERIMENTS, Experiment, Store, lines, pages

Figures = dict[tuple[str, str], dict[str, Any]]  # of each seed, by method and data set
Make = Callable[[Experiment, Figures], dict[str, Any]]


@pytest.fixture
def saved(tmp_path: Path) -> Make:
    """The results of an experiment of which some cells are finished."""

    def make(experiment: Experiment, figures: Figures, seeds: int = 4) -> dict[str, Any]:
        store = Store(tmp_path / "cells")
        for cell in experiment.cells(seeds):
            of_cell = figures.get((cell.method, cell.problem))
            if of_cell is not None and not cell.hide:
                found = [{"seconds": 1.0, **of_cell} for _ in cell.seeds]
                for seed, each in zip(cell.seeds, found, strict=True):
                    if "last" in each:
                        each["last"] += 2.0 if seed % 2 else -2.0  # four seeds have a standard error of 1.15
                store.put(cell, experiment.family.stamp(cell), found)
        return {"core_seconds": 90.0, "lines": lines(experiment, store, seeds)}

    return make


def test_pages_are_up_to_date_with_the_stored_results() -> None:
    made = pages.make_pages(pages.read_results())
    for name, text in made.items():
        assert (pages.DOCS / name).read_text() == text, "run: python -m reproduction.pages"
    assert {path.name for path in (pages.DOCS / "results").glob("*.md")} == {Path(name).name for name in made} - {
        "results.md"
    }
    assert "not computed" not in made["results.md"].partition("## All orderings")[0]  # every number of the text exists


def test_goals_name_rows_of_experiments() -> None:
    for goal in pages.GOALS:
        experiment = EXPERIMENTS[goal.experiment]
        assert goal.measure in experiment.measures
        assert goal.data in experiment.problems
        assert {goal.above, goal.below} <= set(experiment.methods)
        assert not {(goal.above, goal.data), (goal.below, goal.data)} & experiment.except_for
    assert len(set(pages.GOALS)) == len(pages.GOALS)


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [([9.0, 11.0], "yes: +10.0 ± 1.0"), ([-1.0, 2.0], "yes, within 2 SE: +0.5 ± 1.5"),
     ([1.0, -2.0], "no, within 2 SE: -0.5 ± 1.5"), ([-11.0, -9.0], "no: -10.0 ± 1.0")],
)  # fmt: skip
def test_goal_is_judged_by_the_paired_standard_error(gains: list[float], verdict: str) -> None:
    """Seeds that differ much from each other do not hide a difference that all of them show."""
    rows = {"CrowdLayer: CE": [60.0, 90.0], "CrowdLayer: DASC": [60.0 + gains[0], 90.0 + gains[1]]}
    all_lines = [
        {"method": method, "data": "labelme", "measure": "last", "deviation": 21.0, "by_seed": each, "seeds": 2,
         "mean": sum(each) / 2}
        for method, each in rows.items()
    ]  # fmt: skip
    goals = [goal for goal in pages.GOALS if goal.experiment == "dasc-table2"]
    found = list(pages.goals({"dasc-table2": {"core_seconds": 1.0, "lines": all_lines}}, goals))
    (row,) = [line for line in found if line.startswith("| CrowdLayer: DASC above CrowdLayer: CE |")]
    assert row.split(" | ")[1:] == [verdict, "not computed |"]


def test_single_run_gives_no_verdict(saved: Make) -> None:
    figures = {(method, "labelme"): {"last": 80.0} for method in ("WAUM + CoNAL(0)", "CoNAL(0)")}
    result = saved(replace(EXPERIMENTS["waum-table1"], most_seeds=1), figures)
    assert len(result["lines"]) == 2
    goals = [goal for goal in pages.GOALS if goal.experiment == "waum-table1"]
    assert {pages.judged({"waum-table1": result}, goal) for goal in goals} == {"not computed"}


def test_gaps_are_headlines_more_than_two_points_below_the_paper_each_once(saved: Make) -> None:
    waum, gaps = EXPERIMENTS["waum-table1"], EXPERIMENTS["waum-gaps"]
    figures = {
        ("MV", "labelme"): {"last": 84.0, "labels": 60.0, "oracle": 86.0, "ece": 0.2},
        ("DS", "labelme"): {"last": 80.0, "labels": 60.0, "oracle": 82.0, "ece": 0.2},
        ("ceiling", "labelme"): {"last": 93.0},
    }
    results = {"waum-table1": saved(waum, figures), "waum-gaps": saved(gaps, figures)}
    rows = [line for line in pages.gaps(results, (waum, gaps)) if line.startswith("| waum")]
    assert rows == ["| waum-table1 | DS | labelme | 80.0 | 82.0 | 86.8 | -6.8 | 93.0 |"]


def test_tables_mark_missing_rows(saved: Make) -> None:
    waum = EXPERIMENTS["waum-table1"]
    figures = {("MV", "labelme"): {"last": 84.0, "oracle": 86.0, "ece": 0.125, "labels": 76.0}}
    text = "\n".join(pages.tables(waum, saved(waum, figures)["lines"]))
    assert "| method | last | oracle | paper | difference | ece | labels |" in text  # held out is left out: it is empty
    assert "| MV | 84.0 ± 2.3 | 86.0 | 85.4 ± 1.0 | -1.4 | 0.125 (0.136) | 76.0 (76.1) |" in text
    assert text.count("| not computed |") == len(waum.methods) - 1
    assert "**music**: not computed" in text


def test_rows_with_fewer_runs_are_marked(saved: Make, tmp_path: Path) -> None:
    waum = EXPERIMENTS["waum-table1"]
    figures = {(method, "labelme"): {"last": 84.0} for method in ("WAUM + MV", "WAUM + DS")}
    result = saved(waum, figures)
    store = Store(tmp_path / "fewer")
    for cell in waum.cells(4):
        if cell.method == "WAUM + DS" and cell.problem == "labelme" and not cell.hide and cell.seeds[0] < 2:
            store.put(cell, waum.family.stamp(cell), [{"last": 80.0, "seconds": 1.0}])
    (few,) = lines(waum, store, 4)
    text = "\n".join(pages.tables(waum, [line for line in result["lines"] if line["method"] != "WAUM + DS"] + [few]))
    assert "| WAUM + DS | 80.0 ± 0.0 (2 runs) |" in text
    assert "| WAUM + MV | 84.0 ± 2.3 |" in text


def test_figures_become_tables_along_their_axis(saved: Make) -> None:
    sparse = EXPERIMENTS["crowding-sparsity"]
    figures = {("DL-CL", problem): {"last": 80.0 - x} for problem, x in sparse.axis.items() if "@60" not in problem}
    text = "\n".join(pages.tables(sparse, saved(sparse, figures)["lines"]))
    assert "| answers removed, % | 0 | 20 | 40 | 60 |" in text
    assert "| DL-CL | 80.0 | 60.0 | 40.0 | not computed |" in text
    assert "| CrowdInG | not computed |  |  |  |" in text


def test_methods_along_an_axis_share_a_row_named_after_the_data(saved: Make) -> None:
    lambdas = EXPERIMENTS["crowding-sensitivity"]
    figures = {(method, "labelme"): {"last": 80.0 + 10 * x} for method, x in lambdas.axis.items()}
    found = list(pages.tables(lambdas, saved(lambdas, figures)["lines"]))
    places = sorted(lambdas.axis.values())
    assert "| lambda |" + "".join(f" {x:g} |" for x in places) in found
    expected = [80 + 10 * x - 2 / 3 for x in places]  # two of three seeds are 2 below
    assert "| labelme |" + "".join(f" {mean:.1f} |" for mean in expected) in found
    assert "not computed" not in "".join(found)


def test_curves_have_at_most_nine_columns(saved: Make) -> None:
    heavy = EXPERIMENTS["dasc-heavy"]
    figures = {("CrowdLayer: DASC", "product"): {"test": [50.0 + i for i in range(15)]}}
    found = list(pages.tables(heavy, saved(heavy, figures)["lines"]))
    assert "| iteration | 0 | 2 | 4 | 5 | 7 | 9 | 10 | 12 | 14 |" in found
    assert "| CrowdLayer: DASC | 50.0 | 52.0 | 54.0 | 55.0 | 57.0 | 59.0 | 60.0 | 62.0 | 64.0 |" in found
    assert "**heavy-1**: not computed" in found


def test_page_of_an_unfinished_experiment_has_what_is_computed(saved: Make) -> None:
    tables = EXPERIMENTS["difficulty-tables"]
    figures = {("Fixed", "gaussian-paper"): {"last": 93.0, "labels": 80.0}}
    made = pages.make_pages({"difficulty-tables": saved(tables, figures)})
    text = made["results/difficulty.md"]
    assert "| Fixed | 93.0 ± 2.3 | 94.4 ± 0.1 | -1.4 | 80.0 |" in text
    assert f"## {tables.title}" in text
    assert EXPERIMENTS["difficulty-figures"].title not in text
    assert "\n\n\n" not in text
    assert f"| difficulty-tables | {tables.title} | 1 min 30 s |" in made["results/reading.md"]
    assert made["results/reading.md"].count("not computed") == len(EXPERIMENTS) - 1


def test_numbers_in_a_text_are_means_of_stored_results(saved: Make) -> None:
    tables = EXPERIMENTS["difficulty-tables"]
    results = {"difficulty-tables": saved(tables, {("Fixed", "gaussian-paper"): {"last": 93.0, "labels": 80.5}})}
    assert pages.filled_in(results, "difficulty-tables | Fixed | gaussian-paper") == "93.0"
    assert pages.filled_in(results, "difficulty-tables | Fixed | gaussian-paper | labels") == "80.5"
    assert pages.filled_in(results, "difficulty-tables | Adaptive | gaussian-paper") == "not computed"
