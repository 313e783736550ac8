"""What is measured of a fit: last epoch, best on test, chosen on held-out answers; each network on its own."""

from __future__ import annotations

import numpy as np
import pytest

import crowdwise as cw
from crowdwise.bench.cells import Cell, Method
from crowdwise.bench.measuring import HIDDEN, Watch, learners, measure, members
from crowdwise.bench.problems import PROBLEMS, Problem, load_problem
from crowdwise.errors import ParameterError
from crowdwise.truth.check import split_answers


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem("digits")


def small(n_models: int = 2, **options: object) -> cw.CrowdLayer:
    return cw.CrowdLayer(epochs=4, n_models=n_models, **options)  # type: ignore[arg-type]


def test_last_and_oracle_are_of_each_network(problem: Problem) -> None:
    model = small()
    found = measure(model, problem)
    proba = members(model, problem.X_test)
    assert [each["last"] for each in found] == [100 * (p.argmax(1) == problem.y_test).mean() for p in proba]
    assert all(each["oracle"] >= each["last"] for each in found)
    assert found[0]["last"] != found[1]["last"]


def test_oracle_is_the_best_epoch(problem: Problem) -> None:
    by_epoch = [measure(cw.CrowdLayer(epochs=e), problem)[0]["last"] for e in (1, 2, 3)]
    assert measure(cw.CrowdLayer(epochs=3), problem)[0]["oracle"] == max(by_epoch)


def test_held_out_choice_is_that_of_the_learner_itself(problem: Problem) -> None:
    """With one network, `select="held_out"` keeps the same epoch, of the same split."""
    (found,) = measure(cw.CrowdLayer(epochs=8, random_state=3), problem, hide=True, seed=3)
    own = cw.CrowdLayer(epochs=8, random_state=3, select="held_out").fit(problem.X, problem.answers)
    right = own.predict_proba(problem.X_test).argmax(1) == problem.y_test
    assert found["held_out"] == 100 * right.mean()
    assert "last" not in found


def test_the_last_of_equally_likely_epochs_is_chosen(problem: Problem) -> None:
    watch = Watch(problem, None)
    watch.test = [np.array([1.0, 5.0]), np.array([2.0, 6.0]), np.array([3.0, 7.0])]
    watch.likely = [np.array([-1.0, -1.0]), np.array([-1.0, -2.0]), np.array([-3.0, -2.0])]
    watch.phase = [0, 0, 0]
    assert watch.held_out(2) == [2.0, 5.0]
    watch.phase = [0, 1, 1]  # the first epoch is no model yet
    assert watch.held_out(2) == [2.0, 7.0]


def test_heads_whose_weights_are_not_learnt_yet_are_not_chosen(problem: Problem) -> None:
    (found,) = measure(cw.DoctorNet(epochs=3, weight_epochs=3), problem, hide=True)
    kept, _ = split_answers(problem.answers, HIDDEN, 0)
    model = cw.DoctorNet(epochs=3, weight_epochs=3).fit(problem.X, kept)
    right = model.predict_proba(problem.X_test).argmax(1) == problem.y_test
    assert found["held_out"] == 100 * right.mean()


def test_curves_of_self_training_follow_its_iterations(problem: Problem) -> None:
    model = cw.DASC(small(), iterations=2, hidden=0.0, apart=True)
    found = measure(model, problem)
    for each in found:
        assert len(each["imbalance"]) == len(each["test"]) == 3
        assert each["ratio"] == each["imbalance"][-1]
        assert each["test"][-1] == each["last"]
    assert found[0]["imbalance"][0] == found[1]["imbalance"][0]  # of the given answers
    assert found[0]["imbalance"][1:] != found[1]["imbalance"][1:]  # of its own


def test_the_ceiling_is_trained_on_the_truth_alone(problem: Problem) -> None:
    told = problem.with_truth_told().answers
    assert told.n_answers == told.n_tasks
    assert told.tasks.tolist() == problem.answers.tasks.tolist()
    assert (told.label == problem.answers.truth).all()


def test_a_stamp_follows_the_settings() -> None:
    def family(epochs: int) -> str:
        method = Method(lambda setting: cw.CrowdLayer(epochs=epochs, network=cw.MLP(16)), together=True)
        return learners("toy", {"m": method}).stamp(Cell("toy", "m", "digits", (0,)))

    assert family(3) == family(3)
    assert family(3) != family(4)


def test_removing_answers_keeps_the_tasks_and_removes_the_share(problem: Problem) -> None:
    thin = load_problem("digits@60")
    assert thin.answers.n_tasks == problem.answers.n_tasks
    assert thin.answers.n_answers == pytest.approx(0.4 * problem.answers.n_answers, abs=1)
    assert load_problem("digits@60", 1).answers != thin.answers
    assert (np.diff(thin.answers.task_starts) == 0).any()
    assert (np.diff(load_problem("digits@60, one left").answers.task_starts) > 0).all()


def test_an_unknown_problem_is_refused() -> None:
    with pytest.raises(ParameterError, match="'digit'"):
        load_problem("digit")
    assert "labelme" in PROBLEMS
