"""DASC's rows: the paper's settings, independent seeds, and the published numbers."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from crowdwise.augment.dasc.dasc import DASC
from reproduction.cells import Cell, Setting
from reproduction.papers import dasc

SELF = [name for name in dasc.METHODS if any(row in name for row in ("Confidence", "Random", "DASC", "Self-C"))]
# Pseudo-answers per iteration and base learner, as in the paper; for LabelMe a tenth of 20,000, 10,000 and 10,000.
PAPER = {
    "labelme": {"AnnoReg": 2000, "CrowdLayer": 1000, "WDN": 1000},
    "music": {"AnnoReg": 700, "CrowdLayer": 1000, "WDN": 1000},
    "cifar10h": {"AnnoReg": 2000, "CrowdLayer": 2000, "WDN": 2000},
    "heavy-1": {"AnnoReg": 500, "CrowdLayer": 500, "WDN": 500},
    "product": {"AnnoReg": 500, "CrowdLayer": 500, "WDN": 500},
}


def made(method: str, problem: str = "labelme", **options: Any) -> Any:
    return dasc.METHODS[method].make(Setting(problem, **options))


@pytest.mark.parametrize("method", SELF)
def test_self_training_has_independent_runs_as_in_the_paper(method: str) -> None:
    model = made(method, seed=3, n_models=5)
    assert isinstance(model, DASC)
    assert model.apart  # otherwise the seeds would share pseudo-answers and deviations would be too small
    assert dasc.FAMILY.together(method)
    assert (model.hidden, model.base.n_models) == (0.0, 5)
    assert model.random_state == model.base.random_state == 3


@pytest.mark.parametrize(("data", "base"), [*product(PAPER, dasc.BASES)])
def test_number_of_pseudo_answers_is_that_of_the_paper(data: str, base: str) -> None:
    for row in dasc.SELECT:
        assert made(f"{base}: {row}", data).per_iteration == PAPER[data][base]


@pytest.mark.parametrize("base", dasc.BASES)
def test_rows_differ_only_in_the_named_setting(base: str) -> None:
    assert [made(f"{base}: {row}").select for row in ("Confidence", "Random", "DASC")] == [
        "confidence", "random", "distribution",
    ]  # fmt: skip
    plain = made(f"{base}: CE")
    assert type(plain).__name__.lower() == {"WDN": "doctornet"}.get(base, base.lower())
    for row, changed in (("Resampling", "sampling"), ("Reweighting", "loss"), ("Focal", "loss")):
        ours, theirs = (
            {k: str(v) for k, v in m.get_params(deep=False).items()} for m in (made(f"{base}: {row}"), plain)
        )
        assert {name for name in ours if ours[name] != theirs[name]} == {changed}
    inner = made(f"{base}: DASC").base
    assert {k: str(v) for k, v in inner.get_params(deep=False).items()} == theirs  # self-training starts from CE


def test_iterations_are_fewer_with_removed_answers_and_in_quick_runs() -> None:
    found = [made("CrowdLayer: DASC", *how).iterations for how in (("music",), ("music@40",), ("heavy-2",))]
    assert found == [10, 5, 14]
    assert made("CrowdLayer: DASC", "music", quick=True).iterations == 2


def test_trace_has_a_larger_weight_on_cifar10h() -> None:
    assert made("AnnoReg: CE", "cifar10h").lam == 0.1 != made("AnnoReg: CE", "music").lam
    assert made("AnnoReg: DASC", "cifar10h").base.lam == 0.1


def test_experiments() -> None:
    table = dasc.EXPERIMENTS[0]
    assert set(dasc.PUBLISHED) == set(product(table.methods, dasc.SETS))
    assert dasc.PUBLISHED["CrowdLayer: DASC", "labelme"] == (87.6, 0.4)
    assert dasc.PUBLISHED["WDN: DASC", "music"] == (65.7, 1.4)
    assert dasc.PUBLISHED["AnnoReg: CE", "cifar10h"] == (40.9, 1.0)
    for experiment in dasc.EXPERIMENTS:
        assert set(experiment.methods) <= set(dasc.METHODS)
        assert {place[0] for place in experiment.published} <= set(experiment.methods)
    sparse = {each.name: each for each in dasc.EXPERIMENTS}["dasc-sparsity"]
    left_out = [cell for cell in sparse.cells(2) if cell.method.startswith("WDN") and "cifar10h" in cell.problem]
    assert not left_out


def test_every_row_has_settings_of_its_own() -> None:
    stamps = {dasc.FAMILY.stamp(Cell("dasc", row, "music", (0,))): row for row in dasc.METHODS if row != "ceiling"}
    assert len(stamps) == len(dasc.METHODS) - 1
