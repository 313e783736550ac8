"""IBCC: the ELBO against the exact evidence and against its definition, special functions, recovery of confusion."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma, gammaln

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.simulate import crowd as matrices
from crowdwise.simulate import simulate
from crowdwise.truth.methods.ibcc import digamma_and_log_gamma, dirichlet

SEEDS = st.integers(0, 2**32 - 1)


def crowd(rng, n_tasks=6, n_workers=4, n_classes=3, share=0.7, weighted=False):
    """Random answers with all ids declared."""
    task, worker = np.nonzero(rng.random((n_tasks, n_workers)) < share)
    if len(task) == 0:
        task, worker = np.zeros(1, int), np.zeros(1, int)
    label = rng.integers(n_classes, size=len(task))
    weight = rng.uniform(0, 2, len(task)) if weighted else None
    return cw.Answers.from_codes(
        task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes, weight=weight
    )


def log_marginal(counts, prior):
    """Log probability of draws with these counts, their distribution integrated out; over the last axis."""
    total = gammaln(prior.sum(axis=-1)) - gammaln((prior + counts).sum(axis=-1))
    return (total + (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1)).sum()


def dense_counts(answers, proba):
    """Expected confusion counts [w, c, l]."""
    counts = np.zeros((answers.n_workers, answers.n_classes, answers.n_classes))
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    for t, w, label, m in zip(answers.task, answers.worker, answers.label, weight, strict=True):
        counts[w, :, label] += m * proba[t]
    return counts


def log_evidence(answers, alpha, prior, gold):
    """Log P(answers), summed over every assignment of truths."""
    k = answers.n_classes
    terms = []
    for truth in product(range(k), repeat=answers.n_tasks):
        if any(g >= 0 and g != z for g, z in zip(gold, truth, strict=True)):
            continue
        proba = np.eye(k)[list(truth)]
        terms.append(
            log_marginal(proba.sum(axis=0), np.full(k, alpha)) + log_marginal(dense_counts(answers, proba), prior)
        )
    return np.logaddexp.reduce(terms)


def weights(n_classes, a_v, b_v):
    return np.where(np.eye(n_classes, dtype=bool), a_v, b_v)


@given(SEEDS, st.booleans(), st.sampled_from([(1.0, 3.0, 0.5), (0.5, 2.0, 0.02), (0.02, 5.0, 1.0)]))
@settings(max_examples=20, deadline=None)
def test_elbo_stays_below_the_evidence(seed, with_gold, prior):
    rng = np.random.default_rng(seed)
    alpha, a_v, b_v = prior
    answers = crowd(rng, n_tasks=5, n_classes=2)
    gold = np.where(rng.random(5) < 0.3, rng.integers(2, size=5), -1) if with_gold else np.full(5, -1)
    model = cw.IBCC(alpha, a_v, b_v, max_iter=60, tol=0).fit(answers, gold)
    exact = log_evidence(answers, alpha, weights(2, a_v, b_v), gold)
    assert max(model.history_) <= exact + 1e-9


@given(SEEDS, st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_elbo_is_the_evidence_when_all_truth_is_known(seed, n_classes):
    """The factorised posterior is then exact, so every term of the bound must be right, including constants."""
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_tasks=8, n_classes=n_classes)
    gold = rng.integers(n_classes, size=8)
    model = cw.IBCC(max_iter=1, tol=0).fit(answers, gold)
    assert model.history_[0] == pytest.approx(log_evidence(answers, 1.0, weights(n_classes, 3.0, 0.5), gold))


@given(SEEDS, st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_one_iteration_matches_dense_arrays(seed, weighted, with_gold):
    """The ELBO from its definition, E log p - E log q, and the posteriors, without sparse shortcuts."""
    rng = np.random.default_rng(seed)
    answers = crowd(rng, weighted=weighted)
    gold = np.where(rng.random(6) < 0.3, rng.integers(3, size=6), -1) if with_gold else np.full(6, -1)
    alpha, prior = 1.5, weights(3, 2.0, 0.7)
    first = cw.NaiveSoft().fit(answers, gold).proba_
    model = cw.IBCC(alpha, 2.0, 0.7, max_iter=1, tol=0).fit(answers, gold)

    shares, rows = first.sum(axis=0) + alpha, dense_counts(answers, first) + prior
    log_shares = digamma(shares) - digamma(shares.sum())
    log_rows = digamma(rows) - digamma(rows.sum(axis=2, keepdims=True))  # (workers, classes, labels)
    score = np.tile(log_shares, (6, 1))
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    for t, w, label, m in zip(answers.task, answers.worker, answers.label, weight, strict=True):
        score[t] += m * log_rows[w, :, label]
    score[(gold[:, None] >= 0) & (gold[:, None] != np.arange(3))] = -np.inf
    proba = np.exp(score - np.logaddexp.reduce(score, axis=1)[:, None])
    np.testing.assert_allclose(model.proba_, proba, atol=1e-12)

    def log_dirichlet(w, logs):  # E log of a Dirichlet density of weights w
        return (gammaln(w.sum(axis=-1)) + ((w - 1) * logs - gammaln(w)).sum(axis=-1)).sum()

    seen = proba > 0
    elbo = (proba[seen] * (score[seen] - np.log(proba[seen]))).sum()
    elbo += log_dirichlet(np.full(3, alpha), log_shares) - log_dirichlet(shares, log_shares)
    elbo += log_dirichlet(np.broadcast_to(prior, rows.shape), log_rows) - log_dirichlet(rows, log_rows)
    assert model.history_[0] == pytest.approx(elbo)
    np.testing.assert_allclose(model.confusion_, rows / rows.sum(axis=2, keepdims=True))
    np.testing.assert_allclose(model.class_prior_, shares / shares.sum())


@given(SEEDS, st.booleans(), st.booleans(), st.sampled_from([(3.0, 0.5), (1.0, 0.02), (4.0, 1.0)]))
@settings(max_examples=30, deadline=None)
def test_bound_never_falls(seed, weighted, with_gold, prior):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_tasks=12, n_workers=5, weighted=weighted)
    gold = np.where(rng.random(12) < 0.3, rng.integers(3, size=12), -1) if with_gold else None
    history = cw.IBCC(a_v=prior[0], b_v=prior[1], max_iter=40, tol=0).fit(answers, gold).history_
    assert (np.diff(history) >= -1e-9).all()


def test_special_functions_match_scipy():
    for x in np.concatenate([np.geomspace(1e-8, 1e8, 400), [1.0, 2.0, 10.0, 9.999999]]):
        psi, log_gamma = digamma_and_log_gamma(x)
        assert psi == pytest.approx(digamma(x), rel=1e-12, abs=1e-13)
        assert log_gamma == pytest.approx(gammaln(x), rel=1e-12, abs=1e-13)


def test_divergence_is_zero_at_the_prior_and_positive_elsewhere():
    assert dirichlet(np.zeros((4, 3)), 0.3)[1] == pytest.approx(0)
    assert dirichlet(np.array([1.0, 0, 5]), 0.3)[1] > 1


def test_the_smallest_allowed_weights_do_not_underflow():
    """Eight workers, each with ten thousand answers of their own class, answer one common task."""
    task, worker = (
        np.repeat(np.arange(10_001), np.append(np.ones(10_000, int), 8)),
        np.append(np.arange(10_000) % 8, range(8)),
    )
    label = worker.copy()
    answers = cw.Answers.from_codes(task, worker, label, tasks=10_001, workers=8, classes=8)
    model = cw.IBCC(alpha=0.02, a_v=0.02, b_v=0.02).fit(answers)
    assert np.isfinite(model.history_).all()
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1)


@pytest.mark.parametrize("seed", range(3))
def test_recovers_confusion_and_beats_the_vote(seed):
    confusion = matrices(15, 3, "class-dependent", accuracy=(0.4, 0.9), seed=seed)
    answers = simulate(3000, workers=confusion, activity="even", answers_per_task=6, seed=seed)
    model, vote = cw.IBCC().fit(answers), cw.MajorityVote().fit(answers)
    assert (model.codes_ == answers.truth).mean() > (vote.codes_ == answers.truth).mean() + 0.02
    assert np.abs(model.confusion_ - confusion).mean() < 0.03


def test_a_worker_without_answers_has_the_prior():
    answers = cw.Answers.from_codes(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), tasks=2, workers=2, classes=3)
    np.testing.assert_allclose(cw.IBCC(a_v=3, b_v=0.5).fit(answers).confusion_[1], weights(3, 0.75, 0.125))


@pytest.mark.parametrize("parameters", [{"alpha": 0.01}, {"a_v": -1}, {"b_v": np.inf}, {"b_v": np.nan}])
def test_invalid_parameters_raise(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        cw.IBCC(**parameters).fit(cw.Answers.from_arrays([0], [0], [0]))
