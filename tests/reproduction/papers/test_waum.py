"""WAUM's rows: accuracy of labels over kept tasks, the controls, and the settings tried to explain the gap."""

from __future__ import annotations

import numpy as np
import pytest

import crowdwise as cw
from reproduction.cells import Cell, Setting, cells_of
from reproduction.papers import waum
from reproduction.problems import Problem, load_problem


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem("digits")


def cell(method: str, seeds: tuple[int, ...] = (0,), **options: bool) -> Cell:
    return Cell("waum", method, "digits", seeds, quick=True, **options)


def test_labels_of_a_two_step_row_are_the_aggregated_labels(problem: Problem) -> None:
    """Also with several networks, whose own predictions differ."""
    found = waum.run(cell("DS", (0, 1)))
    right = cw.DawidSkene().fit(problem.answers).codes_ == problem.answers.truth
    assert [each["labels"] for each in found] == [100 * right.mean()] * 2
    assert found[0]["last"] != found[1]["last"]


def test_labels_of_a_pruned_row_cover_the_tasks_kept(problem: Problem) -> None:
    (found,) = waum.run(cell("WAUM + MV"))
    model = waum.METHODS["WAUM + MV"].make(Setting("digits", quick=True)).fit(problem.X, problem.answers)
    right = model.model_.truth_.codes_ == problem.answers.truth
    assert not model.kept_.all()
    assert found["labels"] == 100 * right[model.kept_].mean()
    assert waum.labels_of(model, np.where(model.kept_, problem.answers.truth, -1)) == found["labels"]


def test_labels_of_a_pruned_learner(problem: Problem) -> None:
    (found,) = waum.run(cell("WAUM + CrowdLayer"))
    model = waum.METHODS["WAUM + CrowdLayer"].make(Setting("digits", quick=True)).fit(problem.X, problem.answers)
    assert found["labels"] == 100 * (model.codes_ == problem.answers.truth)[model.kept_].mean()


def test_learner_keeps_its_own_labels(problem: Problem) -> None:
    model = cw.CrowdLayer(epochs=1).fit(problem.X, problem.answers)
    assert waum.labels_of(model, problem.answers.truth) is None


def test_hidden_answers_give_the_held_out_choice_alone() -> None:
    (found,) = waum.run(cell("MV", hide=True))
    assert set(found) == {"held_out"}


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
def test_controls_leave_out_as_many_tasks_at_random(alpha: float) -> None:
    short = f"{alpha:g}"[1:]
    name = "WAUM + CoNAL(1e-4)" if alpha == 0.01 else f"WAUM({short}) + CoNAL(1e-4)"
    ours = waum.METHODS[name].make(Setting("labelme", 3))
    control = waum.METHODS[f"random({short}) + CoNAL(1e-4)"].make(Setting("labelme", 3))
    assert (ours.alpha, ours.random) == (control.alpha, not control.random) == (alpha, False)
    assert ours.base.get_params() == control.base.get_params() | {"network": ours.base.network}
    assert ours.random_state == ours.base.random_state == 3


def test_only_independent_networks_are_trained_together() -> None:
    """The networks of a pruned row would rank tasks by their mean; those with a final softmax would start equal."""
    alone = [name for name in waum.METHODS if not waum.FAMILY.together(name)]
    assert alone == [n for n in waum.METHODS if n.startswith(("WAUM", "random")) or n.endswith(waum.TWICE)]
    assert len(cells_of(waum.FAMILY, "WAUM + DS", "labelme", 5)) == 5
    assert len(cells_of(waum.FAMILY, "DS", "labelme", 5)) == 1


def test_square_roots_apply_to_all_features(problem: Problem) -> None:
    positive = problem._replace(X=np.abs(problem.X), X_test=np.abs(problem.X_test), valid=(problem.X[:5] ** 2, None))
    found = waum.rooted(positive)
    np.testing.assert_allclose(found.X**2, positive.X, rtol=1e-5)
    np.testing.assert_allclose(found.X_test**2, positive.X_test, rtol=1e-5)
    np.testing.assert_allclose(found.valid[0], np.abs(problem.X[:5]), rtol=1e-5)
    assert found.answers is problem.answers


def test_probabilities_before_the_second_softmax_are_recovered() -> None:
    p = np.random.default_rng(0).dirichlet(np.full(8, 0.1), size=50)
    again = np.exp(p) / np.exp(p).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(waum.before_softmax(again), p, atol=1e-12)


def test_networks_that_end_in_a_softmax_follow_the_seed() -> None:
    one, same, other = (waum.METHODS[f"DS, {waum.TWICE}"].make(Setting("labelme", s)).network for s in (1, 1, 2))
    assert (one[0].weight == same[0].weight).all()
    assert not (one[0].weight == other[0].weight).any()


def test_every_gap_row_changes_a_setting_and_has_a_quick_form() -> None:
    for name in waum.GAPS:
        whole, quick = (waum.METHODS[name].make(Setting("labelme", quick=q)) for q in (False, True))
        plain = waum.METHODS[name.partition(", ")[0]].make(Setting("labelme"))
        learner, short, given = (getattr(m, "base", m) for m in (whole, quick, plain))
        differs = str(learner.get_params()) != str(given.get_params())
        assert differs != name.endswith(waum.ROOTS)
        assert short.epochs == learner.epochs // 5


def test_experiments() -> None:
    table, gaps = waum.EXPERIMENTS
    assert set(table.methods) | set(gaps.methods) | {"ceiling"} == set(waum.METHODS)
    assert {place[:2] for place in table.published} <= {(m, "labelme") for m in table.methods}
    assert table.published["DS", "labelme", "labels"] == (79.7, None)
    assert gaps.published["WAUM + CoNAL(1e-4), softmax twice", "labelme"] == (90.0, 0.8)
    assert len(waum.GAPS) <= 12
    assert len({waum.FAMILY.stamp(Cell("waum", m, "labelme", (0,))) for m in ("DS", "GLAD", "DS, 100 epochs")}) == 3
