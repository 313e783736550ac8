"""GLAD: exact enumeration, the gradient by finite differences, and planted difficulty."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise import GLAD, Answers
from crowdwise.errors import ParameterError
from crowdwise.truth.methods.glad import newton

K = 3


def crowd(rng, n_tasks=6, n_workers=4, n_classes=K, share=0.7, weighted=False):
    """Random answers with all ids declared."""
    task, worker = np.nonzero(rng.random((n_tasks, n_workers)) < share)
    if len(task) == 0:
        task, worker = np.zeros(1, int), np.zeros(1, int)
    label = rng.integers(n_classes, size=len(task))
    weight = rng.uniform(0, 2, len(task)) if weighted else None
    return Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes, weight=weight)


def joint(answers, ability, log_easiness, class_prior, truth):
    """log p(answers, truth), written out answer by answer."""
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    total = np.log(class_prior[list(truth)]).sum()
    for t, w, label, m in zip(answers.task, answers.worker, answers.label, weight, strict=True):
        right = 1 / (1 + np.exp(-ability[w] * np.exp(log_easiness[t])))
        total += m * np.log(right if label == truth[t] else (1 - right) / (answers.n_classes - 1))
    return total


def log_posterior(answers, ability, log_easiness, class_prior):
    """Log-likelihood by summing over every assignment of truths, plus log priors; and the posteriors."""
    truths = list(product(range(answers.n_classes), repeat=answers.n_tasks))
    logs = np.array([joint(answers, ability, log_easiness, class_prior, truth) for truth in truths])
    p = np.exp(logs - logs.max())
    proba = np.zeros((answers.n_tasks, answers.n_classes))
    for truth, share in zip(truths, p / p.sum(), strict=True):
        proba[np.arange(answers.n_tasks), truth] += share
    priors = -0.5 * ((ability - 1) ** 2).sum() - 0.5 * ((log_easiness - 1) ** 2).sum()
    return logs.max() + np.log(p.sum()) + priors, proba


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_prior", ["uniform", "estimated"])
def test_bound_and_posteriors_by_enumeration(weighted, class_prior):
    answers = crowd(np.random.default_rng(1), n_tasks=4, weighted=weighted)
    model = GLAD(class_prior).fit(answers)
    bound, proba = log_posterior(answers, model.ability_, np.log(model.easiness_), model.class_prior_)
    np.testing.assert_allclose(model.history_[-1], bound, rtol=1e-10)
    np.testing.assert_allclose(model.proba_, proba, atol=1e-10)


def test_fit_ends_where_the_true_gradient_is_zero():
    answers = crowd(np.random.default_rng(2), n_tasks=4, share=0.9)
    model = GLAD(tol=0, max_iter=200).fit(answers)
    point, h = np.concatenate([model.ability_, np.log(model.easiness_)]), 1e-5

    def value(x):
        return log_posterior(answers, x[: answers.n_workers], x[answers.n_workers :], model.class_prior_)[0]

    slope = [(value(point + h * e) - value(point - h * e)) / (2 * h) for e in np.eye(len(point))]
    np.testing.assert_allclose(slope, 0, atol=1e-5)


@pytest.mark.parametrize("exponential", [True, False])
def test_newton_step_is_slope_over_curvature(exponential):
    rng = np.random.default_rng(3)
    factor, right, z = rng.normal(1, 0.2, 4), rng.uniform(0.6, 1, 4), 0.6
    rows, starts, mean = np.arange(4), np.array([0, 4]), np.array([0.9])

    def x(z):
        return factor * (np.exp(z) if exponential else z)

    def q(z):
        return (right * x(z) - np.log1p(np.exp(x(z)))).sum() - 0.5 * (z - mean[0]) ** 2

    h = 1e-5
    slope, dx = (q(z + h) - q(z - h)) / (2 * h), (x(z + h) - x(z - h)) / (2 * h)
    p = 1 / (1 + np.exp(-x(z)))
    value = np.array([z])
    newton(0, len(value), starts, rows, rows.astype(np.int32), factor, np.empty(0), right, mean, exponential, value)
    np.testing.assert_allclose(value[0] - z, slope / (1 + (p * (1 - p) * dx**2).sum()), rtol=1e-6)
    assert q(value[0]) > q(z)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.sampled_from(["uniform", "estimated"]))
def test_bound_never_falls(seed, n_classes, weighted, class_prior):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, 8, 5, n_classes, weighted=weighted)
    gold = np.where(rng.random(8) < 0.3, rng.integers(n_classes, size=8), -1)
    model = GLAD(class_prior, tol=0, max_iter=30).fit(answers, gold)
    assert (np.diff(model.history_) >= -1e-9).all()
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1)


def planted(rng, n_tasks=300, n_workers=20, n_classes=4):
    """Every worker answers every task; some tasks are hard."""
    ability, b = rng.normal(1.5, 0.7, n_workers), rng.normal(-0.3, 0.8, n_tasks)
    truth = rng.integers(n_classes, size=n_tasks)
    task, worker = (a.ravel() for a in np.indices((n_tasks, n_workers)))
    right = rng.random(len(task)) < 1 / (1 + np.exp(-ability[worker] * np.exp(b[task])))
    label = np.where(right, truth[task], (truth[task] + rng.integers(1, n_classes, len(task))) % n_classes)
    answers = Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return answers, truth, ability, b


def ranks(x):
    return np.argsort(np.argsort(x))


def test_planted_difficulty_and_ability_are_found():
    answers, truth, ability, b = planted(np.random.default_rng(4))
    model = GLAD().fit(answers)
    assert np.corrcoef(ranks(model.difficulty_), ranks(-b))[0, 1] > 0.75
    assert np.corrcoef(model.ability_, ability)[0, 1] > 0.95
    assert (model.codes_ == truth).mean() > 0.95


def test_permuted_classes_permute_the_result():
    answers, *_ = planted(np.random.default_rng(5), n_tasks=40, n_workers=5)
    order = np.array([2, 0, 3, 1])
    moved = Answers.from_codes(
        answers.task, answers.worker, order[answers.label].astype(np.int32), tasks=40, workers=5, classes=4
    )
    ours, theirs = GLAD().fit(answers), GLAD().fit(moved)
    np.testing.assert_allclose(theirs.proba_[:, order], ours.proba_, atol=1e-8)
    np.testing.assert_allclose(theirs.difficulty_, ours.difficulty_, rtol=1e-8)


def test_gold_is_kept_and_changes_abilities():
    answers = Answers.from_wide(np.array([[0, 0, 1]] * 10))
    assert GLAD().fit(answers).codes_.tolist() == [0] * 10
    taught = GLAD().fit(answers, gold=np.array([1] * 9 + [-1]))
    assert taught.codes_.tolist() == [1] * 10  # the last follows from the abilities learned on gold
    assert taught.ability_[2] > 1 > 0 > taught.ability_[0]


def test_without_answers_parameters_equal_the_prior_means():
    answers = Answers.from_codes(
        np.array([0]), np.array([0]), np.array([1]), tasks=2, workers=2, classes=2, weight=np.array([1.0])
    )
    model = GLAD(np.array([3.0, 1.0]), ability_mean=np.array([1.0, 2.0]), log_easiness_mean=0.5).fit(answers)
    assert model.ability_[1] == 2
    np.testing.assert_allclose(np.log(model.easiness_[1]), 0.5)
    np.testing.assert_allclose(model.proba_[1], [0.75, 0.25])


def test_many_answers_to_one_task_do_not_overflow():
    label = np.r_[np.zeros(900, int), np.ones(600, int)]
    answers = Answers.from_codes(np.zeros(1500, int), np.arange(1500), label, tasks=1, workers=1500, classes=2)
    model = GLAD().fit(answers)
    assert model.codes_.tolist() == [0] and np.isfinite(model.history_).all()


def test_one_class_is_fitted():
    assert GLAD().fit(Answers.from_arrays([1, 2], ["a", "a"], ["x", "x"])).proba_.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize(
    "wrong", [{"class_prior": "flat"}, {"class_prior": [1.0]}, {"ability_mean": [1.0]}, {"log_easiness_mean": np.nan}]
)
def test_invalid_parameters_raise(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        GLAD(**wrong).fit(crowd(np.random.default_rng(0)))
