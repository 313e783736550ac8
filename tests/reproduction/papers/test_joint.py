"""The comparison of JointEM: settings of the rows, scoring, and the order of computation."""

from __future__ import annotations

from typing import Any

import pytest

from reproduction.cells import Cell, Setting
from reproduction.papers import joint
from reproduction.settings import TRAINING

TABLE, SPARSITY, FRESH, VALID = joint.EXPERIMENTS


def options(row: str, problem: str = "digits-tail") -> dict[str, Any]:
    return {name: str(value) for name, value in joint.METHODS[row].make(Setting(problem, 3)).get_params().items()}


@pytest.mark.parametrize(
    ("row", "to", "changed"),
    [
        ("JointEM, balanced", "JointEM", {"class_prior": "balanced"}),
        ("JointEM, even new tasks", "JointEM", {"new_class_prior": "balanced"}),
        ("without: Gaussians, mlp", "JointEM", {"classifier": "mlp"}),
        ("without: Gaussians, logistic", "JointEM", {"classifier": "logistic"}),
        ("without: the crowd's prior", "JointEM", {"prior": "diagonal"}),
        ("without: waves", "JointEM", {"features": "('plain', 'root', 'standard', 'rank')"}),
        ("without: leaving out", "JointEM", {"leave_one_out": "False"}),
        ("without: doubt of answers", "JointEM", {"answer_weight": "1.0"}),
        ("one expert", "JointEM", {"classifier": "lda", "features": "standard"}),
        ("one expert, without: calibration", "one expert", {"calibrate": "False"}),
        ("one expert, without: calibration, cross-fitting", "one expert, without: calibration", {"cross_fit": "None"}),
        ("ceiling, JointEM", "JointEM", {}),
    ],
)
def test_rows_differ_only_in_the_named_setting(row: str, to: str, changed: dict[str, str]) -> None:
    ours, theirs = options(row), options(to)
    assert {name: value for name, value in ours.items() if value != theirs[name]} == changed
    assert ours["random_state"] == "3"


def test_every_row_can_be_built_for_every_data_set() -> None:
    for experiment in joint.EXPERIMENTS:
        assert set(experiment.methods) <= set(joint.METHODS)
        for cell in experiment.cells(10):
            experiment.family.stamp(cell)
    assert set(joint.ROWS) == set(joint.METHODS)
    assert {"leaves", "usps-tail"} <= set(TRAINING)


def test_dasc_has_the_settings_of_its_paper() -> None:
    made = {problem: joint.self_training(Setting(problem)) for problem in ("music", "product-folds", "leaves-folds")}
    assert [model.iterations for model in made.values()] == [10, 14, 5]
    assert [model.per_iteration for model in made.values()] == [1000, 500, None]


def test_declared_class_prior_is_used_only_where_it_is_true() -> None:
    declared = {cell.problem for cell in TABLE.cells(10) if cell.method == "JointEM, balanced"}
    assert declared == {"labelme", "music", "cifar10n"}


def test_jointem_and_the_vote_are_computed_first_and_the_large_set_late() -> None:
    cells = TABLE.cells(10)
    stages = [joint.stage(cell.method, cell.problem) for cell in cells]
    assert stages == sorted(stages)
    assert {cell.method for cell in cells if joint.stage(cell.method, cell.problem) == 0} == {
        "JointEM", "JointEM, balanced", "JointEM, even new tasks", "MV-DL", "ceiling, network",
    }  # fmt: skip
    first = [cell.problem for cell in cells].index("cifar10n")
    assert all(joint.stage(method, problem) >= 3 for method, problem, *_ in (cell[1:] for cell in cells[first:]))


def test_number_of_seeds_per_method_and_problem() -> None:
    number: dict[tuple[str, str], int] = {}
    for cell in (*TABLE.cells(10), *SPARSITY.cells(10)):
        if cell.problem != "labelme" or cell in TABLE.cells(10):
            number[cell.method, cell.problem] = number.get((cell.method, cell.problem), 0) + len(cell.seeds)
    assert {number["JointEM", problem] for problem in (*joint.SMALL, "labelme@60")} >= {10}
    assert (number["raykar", "music"], number["raykar", "leaves-folds"], number["raykar", "labelme@20"]) == (1, 10, 10)
    assert (number["crowdlayer", "cifar10n"], number["JointEM", "cifar10n"], number["iced", "cifar10n"]) == (5, 10, 1)


def test_seeds_of_drawn_data_use_their_own_draw_and_balanced_accuracy() -> None:
    both = joint.run(Cell("joint", "MV-DL", "digits-tail", (0, 1), quick=True))
    alone = [joint.run(Cell("joint", "MV-DL", "digits-tail", (seed,), quick=True))[0] for seed in (0, 1)]
    assert both == alone
    assert both[0] != both[1]
    assert [each["score"] for each in both] == [each["balanced"] for each in both]


def test_targets_name_rows_of_experiments() -> None:
    for target in joint.TARGETS:
        assert target.measure in TABLE.measures
        assert (target.method, target.data) not in TABLE.except_for
        assert target.data in TABLE.problems
