import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from crowdwise.learn.joint_em.pooling import (
    MAX_TOTAL_WEIGHT,
    estimate_answer_weight,
    pool,
    pool_weights,
    weighted_log_sum,
)
from crowdwise.truth.kernels.shared import FLOOR
from tests.helpers.crowds import answers_of, uneven


def likelihood_of(log_f, log_likelihood, weights):
    s = weighted_log_sum(log_f, weights)
    return (logsumexp(s + log_likelihood, axis=1) - logsumexp(s, axis=1)).sum()


def calibrated(n_tasks=400, n_classes=3, seed=0):
    """Return calibrated log probabilities, and the log-likelihood of three noisy answers to truths drawn from them."""
    rng = np.random.default_rng(seed)
    log_f = log_softmax(rng.normal(0, 1.5, (n_tasks, n_classes)), axis=1)
    truth = (np.exp(log_f).cumsum(axis=1) < rng.random((n_tasks, 1))).sum(axis=1)
    label = np.where(rng.random((n_tasks, 3)) < 0.7, truth[:, None], rng.integers(n_classes, size=(n_tasks, 3)))
    right = np.eye(n_classes)[label].sum(axis=1)
    return log_f, right * np.log(0.8) + (3 - right) * np.log(0.1)


def test_a_single_classifier_gets_its_inverse_temperature():
    log_f, log_likelihood = calibrated(n_tasks=6000)
    for scale in (0.5, 1.0, 2.0):
        weight = pool_weights(log_softmax(scale * log_f, axis=1)[None], log_likelihood)
        np.testing.assert_allclose(weight, 1 / scale, rtol=0.12)


def test_the_weights_maximise_the_likelihood_of_the_answers():
    log_f, log_likelihood = calibrated()
    rng = np.random.default_rng(1)
    log_f = log_softmax(
        np.stack([log_f * 2, rng.normal(size=log_f.shape), log_f + rng.normal(size=log_f.shape)]), axis=2
    )
    weights = pool_weights(log_f, log_likelihood)
    best = likelihood_of(log_f, log_likelihood, weights)
    for other in rng.uniform(0, 1, (50, 3)):
        assert likelihood_of(log_f, log_likelihood, other) <= best + 1e-6
    for i in range(3):
        step = np.eye(3)[i] * 1e-4
        assert likelihood_of(log_f, log_likelihood, weights + step) <= best + 1e-6


def test_uninformative_classifiers_get_no_weight():
    log_f, log_likelihood = calibrated(n_tasks=4000)
    noise = log_softmax(np.random.default_rng(2).normal(size=(2, *log_f.shape)), axis=2)
    weights = pool_weights(np.concatenate([noise, log_f[None]]), log_likelihood)
    assert weights[:2].max() < 0.1
    assert 0.8 < weights[2] < 1.2


def test_task_weights_equal_repeated_tasks_and_the_total_weight_is_limited():
    log_f, log_likelihood = calibrated()
    weight = np.where(np.arange(400) < 100, 3.0, 1.0)
    rows = np.repeat(np.arange(400), weight.astype(int))
    by_weight = pool_weights(log_f[None], log_likelihood, weight)
    by_rows = pool_weights(log_f[None][:, rows], log_likelihood[rows])
    np.testing.assert_allclose(by_weight, by_rows, rtol=1e-4)
    vague = log_softmax(log_f * 1e-3, axis=1)
    assert pool_weights(np.stack([vague, vague]), log_likelihood).sum() <= MAX_TOTAL_WEIGHT + 1e-9


def test_contradicting_certain_classifiers_pool_to_finite_probabilities():
    f = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    both = pool(f, np.array([1.0, 1.0]))
    assert np.isfinite(both).all()
    np.testing.assert_allclose(both, 0.5)


def test_separate_class_shares_are_not_tempered():
    log_f, log_likelihood = calibrated(n_tasks=6000)
    share = np.array([0.7, 0.2, 0.1])
    overconfident = log_softmax(2 * log_f, axis=1)
    pooled = pool(np.exp(overconfident)[None], np.array([0.5]), share)
    np.testing.assert_allclose(pooled, softmax(log_f + np.log(share), axis=1), atol=1e-12)
    none = pool(np.exp(overconfident)[None], np.array([0.5]), np.array([0.5, 0.5, 0.0]))
    assert none[:, 2].max() <= FLOOR
    with np.errstate(divide="ignore"):
        weights = pool_weights(overconfident[None], log_likelihood, log_share=np.log([0.5, 0.5, 0.0]))
    assert np.isfinite(weights).all()


def held_out_log_likelihood(answer_weight, log_f, log_proba, answers):
    """Return the objective by its definition: each answer predicted from the belief without it."""
    total = 0.0
    for a in range(len(log_proba)):
        others = [b for b in np.flatnonzero(answers.task == answers.task[a]) if b != a]
        belief = softmax(log_f[answers.task[a]] + answer_weight * log_proba[others].sum(axis=0))
        total += np.log(belief @ np.exp(log_proba[a]))
    return total


def test_the_answer_weight_predicts_held_out_answers_best():
    truth = np.random.default_rng(0).integers(3, size=40)
    confusion = uneven(n_classes=3)
    answers = answers_of(truth, confusion, per_task=4)
    log_f = np.full((40, 3), -np.log(3))
    log_proba = 2.5 * np.log(confusion[answers.worker, :, answers.label])  # far too confident
    weight = estimate_answer_weight(log_f, log_proba, answers)
    best = held_out_log_likelihood(weight, log_f, log_proba, answers)
    assert 0 < weight < 1
    for other in np.linspace(0, 1, 21):
        assert held_out_log_likelihood(other, log_f, log_proba, answers) <= best + 1e-3


def test_independent_workers_have_full_answer_weight():
    truth = np.random.default_rng(0).integers(3, size=3000)
    confusion = uneven(n_classes=3)
    answers = answers_of(truth, confusion, per_task=4)
    log_proba = np.log(confusion[answers.worker, :, answers.label])
    assert estimate_answer_weight(np.full((3000, 3), -np.log(3)), log_proba, answers) > 0.9
