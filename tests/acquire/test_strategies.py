import numpy as np
import pytest
from scipy.stats import t as student

import crowdwise as cw
from crowdwise.acquire.beliefs import Beliefs
from crowdwise.acquire.information import gain
from crowdwise.acquire.strategies import (
    InformationRule,
    TaskRule,
    activelab,
    hopeless_tasks,
    make_rule,
    rare_weight,
    upper_accuracy,
)
from crowdwise.errors import ParameterError
from crowdwise.learn.methods.crowdlab import crowdlab


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(60, n_workers=7, n_classes=3, answers_per_task=2.5, class_balance=4, seed=2)


@pytest.fixture(scope="module")
def beliefs(crowd):
    return Beliefs(cw.DawidSkene().fit(crowd), crowd)


def need(strategy, beliefs, crowd, weight=1.0):
    weights = np.full(crowd.n_tasks, weight)
    return make_rule(strategy, beliefs, crowd, weights, np.random.default_rng(0)).bound


def test_needs_by_hand(crowd, beliefs, monkeypatch):
    monkeypatch.setattr(beliefs, "belief", np.array([[0.5, 0.5, 0.0], [0.7, 0.2, 0.1], [1.0, 0.0, 0.0]]))
    rest = {"crowd": crowd[[0, 1, 2]], "beliefs": beliefs}
    np.testing.assert_allclose(need("least-confident", **rest), [0.5, 0.3, 0.0])
    np.testing.assert_allclose(need("margin", **rest), [1.0, 0.5, 0.0])
    np.testing.assert_allclose(need("uncertainty", **rest)[[0, 2]], [1, 0])  # bits
    np.testing.assert_allclose(need("uncertainty", **rest, weight=3.0)[0], 3)


def test_grid_equals_scores_of_pairs(beliefs):
    rule = InformationRule(beliefs, np.linspace(1, 2, 60))
    tasks, workers = np.array([5, 2, 40]), np.array([0, 3, 6])
    task, worker = np.repeat(tasks, 3), np.tile(workers, 3)
    plain = gain(beliefs.belief[task][:, None], beliefs.channels[worker]) * np.linspace(1, 2, 60)[task] / np.log(2)
    np.testing.assert_allclose(rule.grid(tasks, workers).ravel(), plain, atol=1e-12)
    np.testing.assert_allclose(rule.preference(task, worker), plain)
    assert (plain <= rule.bound[task] + 1e-12).all()
    assert (plain <= rule.worker_bound[worker] + 1e-12).all()


def test_the_kth_answer_to_a_task_scores_a_kth():
    rule = TaskRule(np.array([0.6, 0.9]), np.random.default_rng(0), np.array([0.1, 0.8, 0.5]), 3)
    for k, left in ((1, [0, 1, 2]), (2, [0, 2]), (3, [0])):
        best, score = rule.after(1, np.array(left))
        assert left[best] == max(left, key=[0.1, 0.8, 0.5].__getitem__)
        assert score == pytest.approx(0.9 / k)
        rule.take(1, left[best])
    assert rule.after(0, np.array([0]))[1] == 0.6


def test_rare_classes_have_more_weight():
    belief = np.array([[1.0, 0.0]] * 9 + [[0.0, 1.0]])
    weight = rare_weight(belief)
    np.testing.assert_allclose(weight, [1 / 1.8] * 9 + [5.0])  # inverse share over the number of classes
    assert weight.mean() == pytest.approx(1)
    np.testing.assert_allclose(rare_weight(np.array([[0.9, 0.1], [0.1, 0.9]])), 1)


def test_hopeless_tasks_are_those_of_low_score():
    scores = np.array([0.5, 0.1, 0.9, np.nan, 0.2, 0.3, 0.8, 0.7, 0.6, 0.4, 0.95])
    assert np.flatnonzero(hopeless_tasks(scores, 0.2, np.arange(11))).tolist() == [1, 4]
    assert not hopeless_tasks(scores, 0.0, np.arange(11)).any()
    flags = scores > 0.8
    np.testing.assert_array_equal(hopeless_tasks(flags, None, np.arange(11)), flags)
    with pytest.raises(ParameterError, match=r"alpha=0\.1: use None"):
        hopeless_tasks(flags, 0.1, np.arange(11))
    for alpha in (-0.1, 1.0, "few"):
        with pytest.raises(ParameterError, match="a share of the tasks"):
            hopeless_tasks(scores, alpha, np.arange(11))
    assert not hopeless_tasks(np.full(3, np.nan), 0.5, np.arange(3)).any()
    assert not hopeless_tasks(np.array([1.0, np.nan, 1.0]), 0.5, np.arange(3)).any()  # all scores are equal
    assert hopeless_tasks(np.array([-np.inf, 1.0, 2.0]), 0.5, np.arange(3)).tolist() == [False, True, False]
    assert np.flatnonzero(hopeless_tasks(np.arange(200), None, np.arange(200))).tolist() == [0, 1]  # one in a hundred

    class Fitted:
        scores_, tasks_ = scores, np.arange(11)

    np.testing.assert_array_equal(
        hopeless_tasks(Fitted(), 0.2, np.arange(11)), hopeless_tasks(scores, 0.2, np.arange(11))
    )
    with pytest.raises(ParameterError, match="other tasks"):
        hopeless_tasks(Fitted(), 0.2, np.arange(1, 12))
    with pytest.raises(ParameterError, match="per task, for 5 tasks"):
        hopeless_tasks(scores, 0.2, np.arange(5))


def test_activelab_shrinks_quality_to_a_uniform_guess():
    """The formula, task by task, on features, including a task without answers."""
    X, answers = cw.simulate.digits_crowd()
    X, answers = X[:80], answers[np.arange(80)]
    answers = answers.take(np.flatnonzero(answers.task != 7))
    model = cw.Raykar(max_iter=3, tol=0.0).fit(X, answers)
    found = crowdlab(answers, model.predict_proba(X))
    more = found.worker_weight.mean()
    for t, score in enumerate(activelab(answers, Beliefs(model, answers, X=X))):
        trust = found.model_weight + found.worker_weight[answers.worker[answers.task == t]].sum()
        assert score == pytest.approx((trust * found.quality[t] + more / answers.n_classes) / (trust + more))
    fitted = cw.CrowdLab().fit(X, answers)
    low = activelab(answers, Beliefs(fitted, answers))
    assert low[7] < np.median(low)  # without answers: worth more than most
    assert ((low >= 1 / answers.n_classes - 1e-9) & (low <= 1)).all()


def test_activelab_where_tasks_have_one_answer():
    answers = cw.Answers.from_codes([0, 1], [0, 1], [0, 1], tasks=3, workers=2, classes=2)
    model = cw.DawidSkene().fit(answers)
    share = model.proba_.mean(axis=0)
    expected = [(2 * share[0] + 0.5) / 3, (2 * share[1] + 0.5) / 3, (share.max() + 0.5) / 2]
    np.testing.assert_allclose(activelab(answers, Beliefs(model, answers)), expected)


def test_upper_accuracy_is_the_interval_of_right_answers():
    """Worker 0 agrees with the majority three times of four; one right and one wrong answer are added."""
    task, worker = np.repeat(np.arange(4), 3), np.tile(np.arange(3), 4)
    answers = cw.Answers.from_codes(task, worker, np.array([0, 0, 0] * 3 + [1, 0, 0]), tasks=4, workers=4, classes=2)
    right = np.array([1, 1, 1, 0, 0, 1])
    upper = right.mean() + student.ppf(0.975, 5) * right.std() / np.sqrt(6)
    nobody = 0.5 + student.ppf(0.975, 1) * 0.5 / np.sqrt(2)
    np.testing.assert_allclose(upper_accuracy(answers)[[0, 3]], [upper, nobody])
