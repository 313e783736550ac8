import numpy as np
from scipy.special import log_softmax, logsumexp, softmax

from crowdwise.learn.joint_em.pooling import SHARPEST, answer_count, pool, pool_weights, pooled
from crowdwise.truth.kernels.shared import FLOOR
from tests.helpers.crowds import answers_of, uneven


def likelihood_of(log_f, log_likelihood, weights):
    s = pooled(log_f, weights)
    return (logsumexp(s + log_likelihood, axis=1) - logsumexp(s, axis=1)).sum()


def drawn(n_tasks=400, n_classes=3, seed=0):
    """Honest beliefs, truths drawn from them, and the likelihood of three noisy answers to each."""
    rng = np.random.default_rng(seed)
    log_f = log_softmax(rng.normal(0, 1.5, (n_tasks, n_classes)), axis=1)
    truth = (np.exp(log_f).cumsum(axis=1) < rng.random((n_tasks, 1))).sum(axis=1)
    said = np.where(rng.random((n_tasks, 3)) < 0.7, truth[:, None], rng.integers(n_classes, size=(n_tasks, 3)))
    right = np.eye(n_classes)[said].sum(axis=1)
    return log_f, right * np.log(0.8) + (3 - right) * np.log(0.1)


def test_one_classifier_gets_its_temperature():
    honest, likely = drawn(n_tasks=6000)
    for sure in (0.5, 1.0, 2.0):
        weight = pool_weights(log_softmax(sure * honest, axis=1)[None], likely)
        np.testing.assert_allclose(weight, 1 / sure, rtol=0.12)


def test_no_other_weights_make_the_answers_likelier():
    honest, likely = drawn()
    rng = np.random.default_rng(1)
    log_f = log_softmax(
        np.stack([honest * 2, rng.normal(size=honest.shape), honest + rng.normal(size=honest.shape)]), axis=2
    )
    found = pool_weights(log_f, likely)
    best = likelihood_of(log_f, likely, found)
    for other in rng.uniform(0, 1, (50, 3)):
        assert likelihood_of(log_f, likely, other) <= best + 1e-6
    for i in range(3):  # no slope at the top, or one that leads below zero
        step = np.eye(3)[i] * 1e-4
        assert likelihood_of(log_f, likely, found + step) <= best + 1e-6


def test_those_who_know_nothing_are_not_heard():
    honest, likely = drawn(n_tasks=4000)
    noise = log_softmax(np.random.default_rng(2).normal(size=(2, *honest.shape)), axis=2)
    weights = pool_weights(np.concatenate([noise, honest[None]]), likely)
    assert weights[:2].max() < 0.1
    assert 0.8 < weights[2] < 1.2


def test_weights_of_tasks_are_tasks_several_times_and_sums_have_a_limit():
    honest, likely = drawn()
    weight = np.where(np.arange(400) < 100, 3.0, 1.0)
    rows = np.repeat(np.arange(400), weight.astype(int))
    by_weight, by_rows = pool_weights(honest[None], likely, weight), pool_weights(honest[None][:, rows], likely[rows])
    np.testing.assert_allclose(by_weight, by_rows, rtol=1e-4)
    vague = log_softmax(honest * 1e-3, axis=1)
    assert pool_weights(np.stack([vague, vague]), likely).sum() <= SHARPEST + 1e-9


def test_beliefs_of_zero_leave_a_belief():
    f = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    both = pool(f, np.array([1.0, 1.0]))
    assert np.isfinite(both).all()
    np.testing.assert_allclose(both, 0.5)


def test_shares_that_stand_apart_are_not_tempered():
    honest, likely = drawn(n_tasks=6000)
    share = np.array([0.7, 0.2, 0.1])
    sure = log_softmax(2 * honest, axis=1)
    apart = pool(np.exp(sure)[None], np.array([0.5]), share)
    np.testing.assert_allclose(apart, softmax(honest + np.log(share), axis=1), atol=1e-12)
    none = pool(np.exp(sure)[None], np.array([0.5]), np.array([0.5, 0.5, 0.0]))
    assert none[:, 2].max() <= FLOOR
    with np.errstate(divide="ignore"):
        weights = pool_weights(sure[None], likely, log_share=np.log([0.5, 0.5, 0.0]))
    assert np.isfinite(weights).all()


def foretold(count, log_f, each, answers):
    """By its definition: each answer from the belief without it."""
    total = 0.0
    for a in range(len(each)):
        others = [b for b in np.flatnonzero(answers.task == answers.task[a]) if b != a]
        belief = softmax(log_f[answers.task[a]] + count * each[others].sum(axis=0))
        total += np.log(belief @ np.exp(each[a]))
    return total


def test_the_count_of_an_answer_foretells_answers_best():
    truth = np.random.default_rng(0).integers(3, size=40)
    confusion = uneven(n_classes=3)
    answers = answers_of(truth, confusion, per_task=4)
    log_f = np.full((40, 3), -np.log(3))
    each = 2.5 * np.log(confusion[answers.worker, :, answers.label])  # workers taken for far surer than they are
    found = answer_count(log_f, each, answers)
    best = foretold(found, log_f, each, answers)
    assert 0 < found < 1
    for other in np.linspace(0, 1, 21):
        assert foretold(other, log_f, each, answers) <= best + 1e-3


def test_independent_workers_count_whole():
    truth = np.random.default_rng(0).integers(3, size=3000)
    confusion = uneven(n_classes=3)
    answers = answers_of(truth, confusion, per_task=4)
    each = np.log(confusion[answers.worker, :, answers.label])
    assert answer_count(np.full((3000, 3), -np.log(3)), each, answers) > 0.9
