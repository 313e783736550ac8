"""MACE: exact enumeration of truth and spam, the evidence and its lower bound, and planted spammers."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betaln, gammaln

from crowdwise import MACE, Answers
from crowdwise.errors import ParameterError
from crowdwise.truth.methods.mace import divergence, totals_divergence

METHODS = ["vb", "em"]


def crowd(rng, n_tasks=6, n_workers=4, n_classes=3, share=0.7, weighted=False):
    """Random answers with all ids declared."""
    task, worker = np.nonzero(rng.random((n_tasks, n_workers)) < share)
    if len(task) == 0:
        task, worker = np.zeros(1, int), np.zeros(1, int)
    label = rng.integers(n_classes, size=len(task))
    weight = rng.uniform(0, 2, len(task)) if weighted else None
    return Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes, weight=weight)


def by_enumeration(answers, competence, strategy):
    """Log-likelihood and posteriors by enumerating every assignment of truths."""
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    k = answers.n_classes
    proba, total = np.zeros((answers.n_tasks, k)), 0.0
    for truth in product(range(k), repeat=answers.n_tasks):
        p = float(k) ** -answers.n_tasks
        for t, w, label, m in zip(answers.task, answers.worker, answers.label, weight, strict=True):
            p *= (competence[w] * (label == truth[t]) + (1 - competence[w]) * strategy[w, label]) ** m
        proba[np.arange(answers.n_tasks), truth] += p
        total += p
    return np.log(total), proba / total


@pytest.mark.parametrize("weighted", [False, True])
def test_em_bound_and_posteriors_by_enumeration(weighted):
    answers = crowd(np.random.default_rng(1), n_tasks=4, weighted=weighted)
    model = MACE("em", smoothing=0.3).fit(answers)
    competence, strategy = model.competence_, model.strategy_
    log_likelihood, proba = by_enumeration(answers, competence, strategy)
    log_prior = 0.1 * (np.log(competence) + np.log(1 - competence) + np.log(strategy).sum(axis=1)).sum()
    np.testing.assert_allclose(model.history_[-1], log_likelihood + log_prior, rtol=1e-10)
    np.testing.assert_allclose(model.proba_, proba, atol=1e-10)


def test_em_converges_to_a_stationary_point():
    answers = crowd(np.random.default_rng(2), n_tasks=4, share=0.9)
    model = MACE("em", smoothing=3.0, tol=0, max_iter=300).fit(answers)  # the optimum is not at the boundary

    def objective(logits):  # (workers, 1 + classes): of competence, and of strategy
        competence = 1 / (1 + np.exp(-logits[:, 0]))
        strategy = np.exp(logits[:, 1:]) / np.exp(logits[:, 1:]).sum(axis=1, keepdims=True)
        prior = np.log(competence) + np.log(1 - competence) + np.log(strategy).sum(axis=1)
        return by_enumeration(answers, competence, strategy)[0] + prior.sum()

    point = np.column_stack([np.log(model.competence_ / (1 - model.competence_)), np.log(model.strategy_)])
    np.testing.assert_allclose(objective(point), model.history_[-1])
    h = 1e-5
    for cell in np.ndindex(point.shape):
        step = np.zeros_like(point)
        step[cell] = h
        assert abs(objective(point + step) - objective(point - step)) / (2 * h) < 1e-5


def log_evidence(answers, alpha, beta, strategy_prior):
    """log p(answers) with competence and strategy integrated out: a sum over every truth and every set of spam."""
    logs = []
    prior = np.full(answers.n_classes, strategy_prior)
    for truth in product(range(answers.n_classes), repeat=answers.n_tasks):
        for spam in product([False, True], repeat=answers.n_answers):
            spam = np.array(spam)
            if (answers.label != np.array(truth)[answers.task])[~spam].any():
                continue
            total = -answers.n_tasks * np.log(answers.n_classes)
            for w in range(answers.n_workers):
                own = answers.worker == w
                total += betaln(alpha + (own & spam).sum(), beta + (own & ~spam).sum()) - betaln(alpha, beta)
                counts = prior + np.bincount(answers.label[own & spam], minlength=answers.n_classes)
                total += gammaln(prior.sum()) - gammaln(counts.sum()) + (gammaln(counts) - gammaln(prior)).sum()
            logs.append(total)
    return np.logaddexp.reduce(logs)


@pytest.mark.parametrize("seed", range(4))
def test_vb_bound_is_slightly_below_the_evidence(seed):
    answers = crowd(np.random.default_rng(seed), n_tasks=3, n_workers=3, n_classes=2, share=0.8)
    for sharpness, gap in ((1, 1.0), (100, 0.02)):  # with strong priors the factorisation loses little
        prior = {"alpha": 2 * sharpness, "beta": 3 * sharpness, "strategy_prior": 4 * sharpness}
        bound = MACE(tol=0, max_iter=100, **prior).fit(answers).history_[-1]
        evidence = log_evidence(answers, **prior)
        assert evidence - gap < bound < evidence


def test_divergence_matches_numerical_integration():
    a, b, prior = 3.2, 1.7, (0.5, 2.5)
    x = (np.arange(200_000) + 0.5) / 200_000
    p, q = stats.beta(a, b), stats.beta(*prior)
    expected = (p.pdf(x) * (p.logpdf(x) - q.logpdf(x))).mean()
    logs = p.pdf(x) @ np.log(x) / len(x), p.pdf(x) @ np.log1p(-x) / len(x)
    found = totals_divergence(np.array([a + b]), sum(prior))
    for count, log, own in zip((a, b), logs, prior, strict=True):
        found += divergence(np.array([count]), np.array([log]), own)
    np.testing.assert_allclose(found, expected, atol=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.booleans(), st.sampled_from(METHODS))
def test_bound_never_falls(seed, n_classes, weighted, method):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, 8, 5, n_classes, weighted=weighted)
    gold = np.where(rng.random(8) < 0.3, rng.integers(n_classes, size=8), -1)
    model = MACE(method, tol=0, max_iter=30, random_state=seed).fit(answers, gold)
    assert (np.diff(model.history_) >= -1e-9).all()
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1)
    np.testing.assert_allclose(model.strategy_.sum(axis=1), 1)


def spammed(rng, n_tasks=400, n_workers=30, n_classes=4, per_task=5):
    """A third of the workers spam, each with a favourite label."""
    truth = rng.integers(n_classes, size=n_tasks)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    spammer = np.arange(n_workers) < n_workers // 3
    competence = np.where(spammer, 0.0, 0.85)
    favourite = np.where(rng.random(len(task)) < 0.7, worker % n_classes, rng.integers(n_classes, size=len(task)))
    label = np.where(rng.random(len(task)) < competence[worker], truth[task], favourite)
    answers = Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)
    return answers, truth, spammer


@pytest.mark.parametrize("method", METHODS)
def test_planted_spammers_are_found(method):
    answers, truth, spammer = spammed(np.random.default_rng(3))
    model = MACE(method).fit(answers)
    assert model.competence_[spammer].max() < model.competence_[~spammer].min()  # AUC 1
    np.testing.assert_allclose(model.competence_[~spammer].mean(), 0.85, atol=0.06)
    assert (model.strategy_.argmax(axis=1) == np.arange(30) % 4)[spammer].all()
    assert (model.codes_ == truth).mean() > 0.95


@pytest.mark.parametrize("method", METHODS)
def test_permuted_classes_permute_the_result(method):
    answers, *_ = spammed(np.random.default_rng(4), n_tasks=50, n_workers=9)
    order = np.array([2, 0, 3, 1])
    moved = Answers.from_codes(
        answers.task, answers.worker, order[answers.label].astype(np.int32), tasks=50, workers=9, classes=4
    )
    ours, theirs = MACE(method).fit(answers), MACE(method).fit(moved)
    np.testing.assert_allclose(theirs.proba_[:, order], ours.proba_, atol=1e-8)
    np.testing.assert_allclose(theirs.competence_, ours.competence_, rtol=1e-8)


def test_more_starts_never_end_lower():
    answers, *_ = spammed(np.random.default_rng(5), n_tasks=40, n_workers=12, per_task=3)
    assert MACE(n_init=5).fit(answers).history_[-1] >= MACE().fit(answers).history_[-1]


def test_gold_is_kept_and_changes_competences():
    answers = Answers.from_wide(np.array([[0, 0, 1], [1, 1, 0]] * 5))
    truth = np.array([1, 0] * 5)
    taught = MACE().fit(answers, gold=np.where(np.arange(10) < 8, truth, -1))
    assert taught.codes_.tolist() == truth.tolist()  # the last two follow from the competences learned on gold
    assert taught.competence_[2] > 0.7 > 0.3 > taught.competence_[0]


@pytest.mark.parametrize("method", METHODS)
def test_one_class_is_fitted(method):
    answers = Answers.from_arrays([1, 2], ["a", "a"], ["x", "x"])
    assert MACE(method).fit(answers).proba_.tolist() == [[1.0], [1.0]]


@pytest.mark.parametrize("wrong", [{"method": "mcmc"}, {"alpha": 0}, {"smoothing": -1}, {"strategy_prior": np.inf}])
def test_invalid_parameters_raise(wrong):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        MACE(**wrong).fit(crowd(np.random.default_rng(0)))
