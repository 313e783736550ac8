"""CrowdInG's experiments: settings of the rows, their common start, and the published numbers."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from crowdwise.augment.completed import Completed
from reproduction.cells import Cell, Setting
from reproduction.papers import crowding
from reproduction.problems import PROBLEMS

LABELME = Setting("labelme", seed=3)
PLAIN = ("DL-MV", "DL-CL", "Anno-Reg", "Max-MIG", "AggNet", "Doctor Net")


def params(method: str, setting: Setting = LABELME) -> dict[str, Any]:
    """Return the options of a row as text, so that networks with equal settings are equal."""
    return {name: str(value) for name, value in crowding.METHODS[method].make(setting).get_params(deep=False).items()}


def changed(method: str, setting: Setting = LABELME) -> set[str]:
    """Return the names of options in which a row differs from CrowdInG."""
    usual = params("CrowdInG", setting)
    return {name for name, value in params(method, setting).items() if usual[name] != value}


def test_experiments_name_known_methods_and_problems() -> None:
    for experiment in crowding.EXPERIMENTS:
        assert {*experiment.methods, *([experiment.ceiling] if experiment.ceiling else [])} <= set(crowding.METHODS)
        assert {problem.partition("@")[0] for problem in experiment.problems} <= set(PROBLEMS)
        assert set(experiment.axis) <= {*experiment.methods, *experiment.problems}
        assert len(set(experiment.axis.values()) & {0, 0.5}) == bool(
            experiment.axis
        )  # the default value is on the axis


def test_all_rows_of_the_paper_have_published_numbers() -> None:
    first, second = crowding.EXPERIMENTS[:2]
    rows = {*first.methods, *second.methods} - {*PLAIN[:5], "one step"}
    assert set(crowding.PUBLISHED) == set(product(rows, crowding.SETS))
    assert all(0 < spread < 1 < mean for mean, spread in crowding.PUBLISHED.values() if spread is not None)
    best = [max(rows, key=lambda row, data=data: crowding.PUBLISHED[row, data][0]) for data in crowding.SETS]
    assert best == ["CrowdInG"] * 3


def test_no_two_rows_are_the_same() -> None:
    settings = {
        name: str(sorted(params(name).items())) for name in crowding.METHODS if name not in ("ceiling", "DL-MV")
    }
    assert len(set(settings.values())) == len(settings)


@pytest.mark.parametrize(
    ("method", "differs"),
    [("CrowdG", {"information"}), ("CrowdInG-U", {"use_task", "generator_epochs"}), ("CrowdInG-I", {"use_worker"}),
     ("CrowdInG-R", {"select_pairs"}), ("one step", {"two_step"}), ("lambda 0.25", {"information"}),
     ("t 0.2", {"threshold"}), ("start from 2 I", {"scale"}), ("start of 5 epochs", {"epochs"}),
     ("start of the code", {"scale", "epochs", "lr", "batch_size", "generator_lr", "generator_epochs"}),
     ("-U, generator 50 epochs", {"use_task"}), ("game of 5 epochs", {"adversarial_epochs"})],
)  # fmt: skip
def test_row_differs_only_in_the_named_setting(method: str, differs: set[str]) -> None:
    assert changed(method) == differs


@pytest.mark.parametrize("data", crowding.SETS)
def test_crowding_starts_from_dl_cl(data: str) -> None:
    start, game = params("DL-CL", Setting(data, seed=3)), params("CrowdInG", Setting(data, seed=3))
    assert {name: game[name] for name in start if name != "kind"} == {k: v for k, v in start.items() if k != "kind"}
    assert game["graph"] == str(data != "music")


@pytest.mark.parametrize("method", [name for name in crowding.METHODS if name.startswith("DL-CL+")])
def test_answers_are_filled_in_for_dl_cl(method: str) -> None:
    model = crowding.METHODS[method].make(LABELME)
    assert isinstance(model, Completed)
    base = {name: str(value) for name, value in model.base.get_params(deep=False).items()}  # type: ignore[union-attr]
    own = {"scale"} if method == "DL-CL+GCN from 2 I" else set()
    assert {name for name, value in params("DL-CL").items() if base[name] != value} == own
    if method == "DL-CL+InG":
        assert {name: str(value) for name, value in model.fill.get_params(deep=False).items()} == params("CrowdInG")


@pytest.mark.parametrize(
    ("method", "name"), [("CrowdInG", "adversarial_epochs"), ("start of the code", "epochs"), ("Max-MIG", "epochs")]
)
def test_quick_run_has_a_fifth_of_the_epochs(method: str, name: str) -> None:
    quick = params(method, Setting("labelme", quick=True))
    assert 5 * int(quick[name]) == int(params(method)[name])


@pytest.mark.parametrize("method", ["CrowdInG", "DL-CL+GAN", "DL-CL+InG", "DL-CL+GCN", "Doctor Net", "Max-MIG"])
def test_cell_has_figures_for_each_seed(method: str) -> None:
    seeds = (0, 1) if crowding.METHODS[method].together else (0,)
    found = crowding.FAMILY.run(Cell("crowding", method, "digits", seeds, quick=True))
    assert len(found) == len(seeds)
    assert all(0 <= each["last"] <= 100 for each in found)
