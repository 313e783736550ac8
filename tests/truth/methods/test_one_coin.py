"""One-coin Dawid-Skene: exact enumeration, the bound, crowd-kit's results, recovery of skill."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.simulate import simulate

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


def by_enumeration(answers, class_prior, skill, gold):
    """Log-likelihood and posteriors by enumerating every assignment of truths."""
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    k = answers.n_classes
    proba, total = np.zeros((answers.n_tasks, k)), 0.0
    for truth in product(range(k), repeat=answers.n_tasks):
        if any(g >= 0 and g != z for g, z in zip(gold, truth, strict=True)):
            continue
        p = np.prod(class_prior[list(truth)])
        for t, w, label, m in zip(answers.task, answers.worker, answers.label, weight, strict=True):
            p *= (skill[w] if label == truth[t] else (1 - skill[w]) / (k - 1)) ** m
        proba[np.arange(answers.n_tasks), truth] += p
        total += p
    return np.log(total), proba / total


@given(SEEDS, st.booleans(), st.booleans(), st.sampled_from(["uniform", "estimated"]), st.integers(2, 3))
@settings(max_examples=25, deadline=None)
def test_bound_and_posteriors_are_exact(seed, weighted, with_gold, class_prior, n_classes):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_tasks=4, n_classes=n_classes, weighted=weighted)
    gold = np.where(rng.random(4) < 0.3, rng.integers(n_classes, size=4), -1) if with_gold else np.full(4, -1)
    model = cw.OneCoin(prior=(2.0, 1.5), class_prior=class_prior, max_iter=3, tol=0).fit(answers, gold)
    log_likelihood, proba = by_enumeration(answers, model.class_prior_, model.skill_, gold)
    log_prior = (2.0 * np.log(model.skill_) + 1.5 * np.log(1 - model.skill_)).sum()
    assert model.history_[-1] == pytest.approx(log_likelihood + log_prior, rel=1e-9)
    np.testing.assert_allclose(model.proba_, proba, atol=1e-9)


@given(SEEDS, st.booleans(), st.booleans(), st.sampled_from([None, (4.0, 1.0), (0.0, 0.5)]), st.booleans())
@settings(max_examples=40, deadline=None)
def test_bound_never_falls(seed, weighted, with_gold, prior, uniform):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_tasks=12, n_workers=5, weighted=weighted)
    gold = np.where(rng.random(12) < 0.3, rng.integers(3, size=12), -1) if with_gold else None
    class_prior = "uniform" if uniform else "estimated"
    history = cw.OneCoin(prior=prior, class_prior=class_prior, max_iter=40, tol=0).fit(answers, gold).history_
    assert (np.diff(history) >= -1e-8).all()


def test_m_step_matches_manual_calculation():
    answers = cw.Answers.from_arrays([0, 0, 0, 1, 1, 1], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    model = cw.OneCoin(prior=(3, 1), max_iter=1, tol=0).fit(answers)  # one M-step, from the votes
    np.testing.assert_allclose(model.skill_, [(3 + 5 / 3) / 6, (3 + 5 / 3) / 6, (3 + 4 / 3) / 6])
    estimated = cw.OneCoin(prior=None, class_prior="estimated", max_iter=1, tol=0).fit(answers)
    np.testing.assert_allclose(estimated.class_prior_, [1 / 3, 2 / 3])
    np.testing.assert_allclose(estimated.skill_, [5 / 6, 5 / 6, 2 / 3])


# 12 tasks x 5 workers with gaps (-1), and the posteriors of crowd-kit 1.4.2: OneCoinDawidSkene(n_iter=7, tol=-1).
WIDE = [
    [2, 0, 2, -1, -1], [-1, 2, 2, 2, -1], [0, -1, 1, -1, 2], [2, 2, -1, 2, 0], [1, 1, 1, 1, -1], [1, 2, -1, 1, 1],
    [1, 1, 1, 1, 1], [0, 0, 2, 2, 1], [2, 2, 2, 2, 1], [2, 0, 0, -1, -1], [0, 0, 0, -1, 0], [1, 1, -1, -1, 0],
]  # fmt: skip
CROWD_KIT = [
    [0.0003025697672, 0.0001428086623, 0.9995546216],
    [1e-10, 1e-10, 1],
    [0.001618673046, 0.997441794, 0.0009395330034],
    [2.239900547e-09, 4.528565519e-09, 0.9999999932],
    [1e-10, 1, 1e-10],
    [8.073706956e-09, 0.9999998871, 1.048662715e-07],
    [1e-10, 1, 1e-10],
    [1.035546231e-09, 1.13436726e-10, 0.9999999989],
    [1e-10, 1e-10, 1],
    [0.9977301845, 0.0003585921639, 0.001911223334],
    [0.9998853769, 5.673729799e-05, 5.788582848e-05],
    [0.01726633724, 0.9471184336, 0.03561522912],
]


def test_crowd_kit_gives_the_same_posteriors():
    answers = cw.Answers.from_wide(WIDE, missing=-1)
    model = cw.OneCoin(prior=None, class_prior="estimated", max_iter=7, tol=0).fit(answers)
    np.testing.assert_allclose(model.proba_, CROWD_KIT, atol=1e-8)


def test_products_of_odds_match_sums_of_logs():
    answers = simulate(300, n_workers=20, n_classes=5, answers_per_task=7, seed=0)
    logs = cw.Answers.from_codes(
        answers.task, answers.worker, answers.label, tasks=300, workers=20, classes=5, weight=np.ones(2100)
    )
    gold = np.where(np.arange(300) < 30, answers.truth, -1)
    short, long = cw.OneCoin().fit(answers, gold), cw.OneCoin().fit(logs, gold)
    np.testing.assert_allclose(short.proba_, long.proba_, atol=1e-12)
    np.testing.assert_allclose(short.history_, long.history_)


def test_sixteen_certain_workers_do_not_overflow():
    """Accuracy one without a prior: odds of 1e10 each, on both sides of a task."""
    task, worker = np.divmod(np.arange(16 * 20), 16)
    label = np.where((worker < 8) & (task == 0), 1, 0)
    model = cw.OneCoin(prior=None).fit(cw.Answers.from_codes(task, worker, label, tasks=20, workers=16, classes=2))
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1)
    assert (model.codes_[1:] == 0).all()


def test_a_worker_without_answers_gets_the_average_skill():
    answers = cw.Answers.from_codes(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), tasks=2, workers=2, classes=2)
    assert cw.OneCoin(prior=None).fit(answers).skill_[1] == cw.OneCoin(prior=None).fit(answers).skill_[0]
    assert cw.OneCoin(prior=(4, 1)).fit(answers).skill_[1] == pytest.approx(0.8)


@pytest.mark.parametrize("seed", range(4))
def test_recovers_skill_and_beats_the_vote(seed):
    answers = simulate(2000, n_workers=30, workers="one-coin", accuracy=(0.3, 0.95), answers_per_task=5, seed=seed)
    model, vote = cw.OneCoin().fit(answers), cw.MajorityVote().fit(answers)
    assert (model.codes_ == answers.truth).mean() > (vote.codes_ == answers.truth).mean() + 0.02
    accuracy = [(answers.label == answers.truth[answers.task])[answers.worker == w].mean() for w in range(30)]
    np.testing.assert_allclose(model.skill_, accuracy, atol=0.1)


@pytest.mark.parametrize("seed", range(3))
def test_beats_dawid_skene_when_answers_are_few(seed):
    answers = simulate(600, n_workers=150, n_classes=8, workers="one-coin", accuracy=(0.3, 0.95), answers_per_task=4,
                       seed=seed)  # fmt: skip
    one, full = cw.OneCoin().fit(answers), cw.DawidSkene().fit(answers)
    assert (one.codes_ == answers.truth).mean() > (full.codes_ == answers.truth).mean()


@pytest.mark.parametrize(
    "parameters", [{"prior": (1,)}, {"prior": (-1, 1)}, {"prior": (1, np.inf)}, {"class_prior": "flat"}]
)
def test_invalid_parameters_raise(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        cw.OneCoin(**parameters).fit(cw.Answers.from_arrays([0], [0], [0]))
