"""Measures of a fit: last epoch, best epoch on the test set, epoch chosen on held-out answers; per network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import crowdwise as cw
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.network import prediction
from crowdwise.truth.vote_check import split_answers
from reproduction import measurement
from reproduction.cells import Cell, Method
from reproduction.measurement import HIDDEN, Watch, learners, measure, members
from reproduction.problems import PROBLEMS, Problem, load_problem


@pytest.fixture(scope="module")
def problem() -> Problem:
    return load_problem("digits")


def small(n_models: int = 2, **options: object) -> cw.CrowdLayer:
    return cw.CrowdLayer(epochs=4, n_models=n_models, **options)  # type: ignore[arg-type]


def test_last_and_oracle_are_measured_per_network(problem: Problem) -> None:
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


class Scripted:
    """A learner with five scripted epochs: the predictions of each for 40 test or validation tasks."""

    PREDICTED = np.random.default_rng(0).integers(0, 2, (5, 40))  # (epochs, tasks)
    LIKELY = (-3.0, -1.0, -2.0, -2.5, -4.0)  # of hidden answers, by epoch
    history_: tuple[Any, ...] = ()

    def fit(self, X: Any, answers: Answers, callback: Callable[[dict[str, Any]], None]) -> None:
        self.proba_ = np.ones((answers.n_tasks, 2))
        for epoch in range(5):
            callback({"module": epoch, "epoch": epoch + 1, "epochs": 5})

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.eye(2)[self.PREDICTED[-1]]

    def right(self, epoch: int, truth: np.ndarray) -> float:
        """Return the accuracy of an epoch in per cent."""
        return 100 * float((self.PREDICTED[epoch] == truth).mean())


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A scripted learner; the number of an epoch replaces its network."""
    model = Scripted()

    def answered(module: int, rows: Any, row: np.ndarray, worker: Any, device: str) -> torch.Tensor:
        return torch.full((1, len(row), 10), model.LIKELY[module])

    monkeypatch.setattr(
        prediction, "predict_members", lambda module, X, device: np.eye(2)[model.PREDICTED[module]][None]
    )
    monkeypatch.setattr(prediction, "predict_answers", answered)
    return model


def test_held_out_answers_choose_the_epoch_without_the_test_set(problem: Problem, scripted: Scripted) -> None:
    """The second epoch is most likely, whichever is the best on the test set."""
    for best in (0, 2, 3, 4):
        truth = scripted.PREDICTED[best]
        tested = problem._replace(X_test=np.zeros((40, 1), np.float32), y_test=truth)
        (found,) = measure(scripted, tested, hide=True)
        assert found == {"held_out": scripted.right(1, truth)}
        assert found["held_out"] < 100  # the accuracy of the best epoch


def test_validation_tasks_choose_the_epoch_by_their_own_labels(problem: Problem, scripted: Scripted) -> None:
    X, truth = np.zeros((40, 1), np.float32), scripted.PREDICTED[2]
    (found,) = measure(scripted, problem._replace(X_test=X, y_test=truth, valid=(X, scripted.PREDICTED[3])))
    assert found["oracle"] == 100  # the third epoch
    assert found["last"] == scripted.right(4, truth)
    assert found["validation"] == scripted.right(3, truth)
    assert len({found[name] for name in ("oracle", "last", "validation")}) == 3


def test_likelihood_of_hidden_answers_does_not_follow_the_test_labels(problem: Problem) -> None:
    kept, held = split_answers(problem.answers, HIDDEN, 0)
    shuffled = problem._replace(y_test=np.random.default_rng(0).permutation(problem.y_test))
    watches = [Watch(each, held) for each in (problem, shuffled)]
    for watch in watches:
        small().fit(problem.X, kept, callback=watch)
    likely, test = (np.array([getattr(watch, name) for watch in watches]) for name in ("likely", "test"))
    assert likely.shape == (2, 4, 2)  # (watches, epochs, networks)
    assert (likely[0] == likely[1]).all()
    assert (test[0] != test[1]).any()


@pytest.mark.parametrize(("stage", "evaluations"), [("filling", 0), ("ranking", 0), ("fitting", 1)])
def test_networks_that_only_rank_or_fill_in_are_not_evaluated(
    problem: Problem, scripted: Scripted, stage: str, evaluations: int
) -> None:
    watch = Watch(problem._replace(y_test=np.zeros(40, int)), None)
    watch({"module": 0, "epoch": 5, "epochs": 5, "stage": stage})
    assert len(watch.test) == evaluations


def test_labels_and_balanced_accuracy_are_measured_per_network(problem: Problem) -> None:
    model = small()
    rare = np.flatnonzero((problem.y_test < 3) | (np.arange(len(problem.y_test)) % 4 == 0))  # uneven classes
    uneven = problem._replace(X_test=problem.X_test[rare], y_test=problem.y_test[rare])
    found = measure(model, uneven)
    for each, own, said in zip(found, members(model, problem.X), members(model, uneven.X_test), strict=True):
        assert each["labels"] == 100 * (own.argmax(1) == problem.answers.truth).mean()
        right = said.argmax(1) == uneven.y_test
        by_class = [right[uneven.y_test == c].mean() for c in np.unique(uneven.y_test)]
        assert each["balanced"] == pytest.approx(100 * np.mean(by_class))
        assert abs(each["balanced"] - each["last"]) > 0.1
    assert found[0]["labels"] != found[1]["labels"]


def test_the_last_of_equally_likely_epochs_is_chosen(problem: Problem) -> None:
    watch = Watch(problem, None)
    watch.test = [np.array([1.0, 5.0]), np.array([2.0, 6.0]), np.array([3.0, 7.0])]
    watch.likely = [np.array([-1.0, -1.0]), np.array([-1.0, -2.0]), np.array([-3.0, -2.0])]
    watch.phase = [0, 0, 0]
    assert watch.held_out(2) == [2.0, 5.0]
    for phases in ([0, 1, 1], [0, "adversarial", "adversarial"]):  # the first epoch is of another phase
        watch.phase = phases
        assert watch.held_out(2) == [2.0, 7.0]


def test_epochs_before_the_weights_are_trained_are_not_chosen(problem: Problem) -> None:
    (found,) = measure(cw.DoctorNet(epochs=3, weight_epochs=3), problem, hide=True)
    kept, _ = split_answers(problem.answers, HIDDEN, 0)
    model = cw.DoctorNet(epochs=3, weight_epochs=3).fit(problem.X, kept)
    right = model.predict_proba(problem.X_test).argmax(1) == problem.y_test
    assert found["held_out"] == 100 * right.mean()


def test_curves_of_self_training_follow_its_iterations(problem: Problem) -> None:
    model = cw.DASC(small().set_params(epochs=20), iterations=2, hidden=0.0, apart=True)
    found = measure(model, problem)
    for each in found:
        assert len(each["imbalance"]) == len(each["test"]) == 3
        assert each["ratio"] == each["imbalance"][-1]
        assert each["test"][-1] == each["last"]
    assert found[0]["imbalance"][0] == found[1]["imbalance"][0]  # imbalance of the given answers
    assert found[0]["imbalance"][1:] != found[1]["imbalance"][1:]  # with its own pseudo-answers


def test_ceiling_is_trained_on_the_truth_only(problem: Problem) -> None:
    true = problem.with_true_answers().answers
    assert true.n_answers == true.n_tasks
    assert true.tasks.tolist() == problem.answers.tasks.tolist()
    assert (true.label == problem.answers.truth).all()


def toy(method: Method) -> Callable[[Cell], list[dict[str, Any]]]:
    """Return the function that computes a cell of a family with one method."""
    return learners("toy", {"m": method}).run


def test_cell_of_the_ceiling_is_a_fit_on_the_truth(problem: Problem) -> None:
    make = lambda setting: small(random_state=setting.seed)  # noqa: E731
    cell = Cell("toy", "m", "digits", (0, 1))
    assert toy(Method(make, truth=True))(cell) == measure(small(), problem.with_true_answers())
    assert toy(Method(make))(cell) == measure(small(), problem)
    assert toy(Method(make, truth=True))(cell) != toy(Method(make))(cell)


def test_no_epoch_is_evaluated_if_answers_are_removed() -> None:
    run = toy(Method(lambda setting: small(1)))
    assert [run(Cell("toy", "m", data, (0,)))[0]["oracle"] is None for data in ("digits", "digits@20")] == [False, True]


def test_each_seed_hides_its_own_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []

    def record_seed(answers: Answers, share: float, seed: int) -> tuple[Answers, Answers]:
        seeds.append(seed)
        return split_answers(answers, share, seed)

    monkeypatch.setattr(measurement, "split_answers", record_seed)
    for seed in (0, 3):
        toy(Method(lambda setting: small(1)))(Cell("toy", "m", "digits", (seed,), hide=True))
    assert seeds == [0, 3]


def test_stamp_follows_the_settings() -> None:
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


def test_unknown_problem_is_rejected() -> None:
    with pytest.raises(ParameterError, match="'digit'"):
        load_problem("digit")
    assert "labelme" in PROBLEMS
