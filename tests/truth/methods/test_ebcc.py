"""EBCC: the ELBO against the exact evidence, IBCC as its special case, subtypes, and starts independent of names."""

from itertools import islice, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.simulate import simulate
from crowdwise.truth.methods.ebcc import fingerprints, random_splits

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


def subtyped_crowd(seed, n_tasks=800, n_workers=15, n_classes=3, n_groups=3):
    """Answers drawn from the model itself: each worker has a confusion row for each subtype of each class."""
    rng = np.random.default_rng(seed)
    truth, group = rng.integers(n_classes, size=n_tasks), rng.integers(n_groups, size=n_tasks)
    prior = 0.5 + 0.5 * np.eye(n_classes)  # (classes, labels)
    gamma = rng.standard_gamma(prior[:, None], size=(n_workers, n_classes, n_groups, n_classes))
    task, worker = np.divmod(np.arange(n_tasks * n_workers), n_workers)
    row = gamma[worker, truth[task], group[task]]  # (answers, labels)
    label = (rng.random((len(task), 1)) * row.sum(axis=1, keepdims=True) < row.cumsum(axis=1)).argmax(axis=1)
    return cw.Answers.from_codes(
        task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes, truth=truth.astype(np.int32)
    )


def log_marginal(counts, prior):
    """Log probability of draws with these counts, their distribution integrated out; over the last axis."""
    total = gammaln(prior.sum(axis=-1)) - gammaln((prior + counts).sum(axis=-1))
    return (total + (gammaln(prior + counts) - gammaln(prior)).sum(axis=-1)).sum()


def log_evidence(answers, model, gold):
    """Log P(answers), summed over every assignment of truths and subtypes."""
    k, m = answers.n_classes, model.num_groups
    prior = np.where(np.eye(k, dtype=bool), model.a_v, model.b_v)[:, None, :]  # (classes, 1, labels)
    terms = []
    for columns in product(range(k * m), repeat=answers.n_tasks):
        truth, group = np.divmod(columns, m)
        if any(g >= 0 and g != z for g, z in zip(gold, truth, strict=True)):
            continue
        counts = np.zeros((answers.n_workers, k, m, k))
        np.add.at(counts, (answers.worker, truth[answers.task], group[answers.task], answers.label), 1.0)
        sizes = np.zeros((k, m))
        np.add.at(sizes, (truth, group), 1.0)
        terms.append(
            log_marginal(sizes.sum(axis=1), np.full(k, model.alpha))
            + log_marginal(sizes, np.full((k, m), model.a_pi / m))
            + log_marginal(counts, np.broadcast_to(prior, counts.shape))
        )
    return np.logaddexp.reduce(terms)


@given(SEEDS, st.booleans())
@settings(max_examples=10, deadline=None)
def test_elbo_stays_below_the_evidence(seed, with_gold):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_tasks=4, n_classes=2)
    gold = np.where(rng.random(4) < 0.4, rng.integers(2, size=4), -1) if with_gold else np.full(4, -1)
    model = cw.EBCC(num_groups=2, a_pi=0.5, max_iter=40, tol=0).fit(answers, gold)
    exact = log_evidence(answers, model, gold)
    assert exact - 5 < max(model.history_) <= exact + 1e-9


@given(SEEDS, st.booleans(), st.booleans())
@settings(max_examples=15, deadline=None)
def test_one_subtype_is_ibcc(seed, weighted, with_gold):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_tasks=10, weighted=weighted)
    gold = np.where(rng.random(10) < 0.3, rng.integers(3, size=10), -1) if with_gold else None
    one = cw.EBCC(num_groups=1, a_v=3.0, b_v=0.5, n_init=1, max_iter=20, tol=0).fit(answers, gold)
    ibcc = cw.IBCC(a_v=3.0, b_v=0.5, max_iter=20, tol=0).fit(answers, gold)
    np.testing.assert_allclose(one.history_, ibcc.history_)
    np.testing.assert_allclose(one.proba_, ibcc.proba_, atol=1e-9)
    np.testing.assert_allclose(one.confusion_, ibcc.confusion_)


@given(SEEDS, st.booleans(), st.booleans())
@settings(max_examples=20, deadline=None)
def test_bound_never_falls(seed, weighted, with_gold):
    rng = np.random.default_rng(seed)
    answers = crowd(rng, n_tasks=12, n_workers=5, weighted=weighted)
    gold = np.where(rng.random(12) < 0.3, rng.integers(3, size=12), -1) if with_gold else None
    history = cw.EBCC(num_groups=3, n_init=1, max_iter=40, tol=0).fit(answers, gold).history_
    assert (np.diff(history) >= -1e-9).all()


@pytest.mark.parametrize("seed", range(3))
def test_beats_the_vote_and_ibcc_on_its_own_model(seed):
    answers = subtyped_crowd(seed)
    accuracy = [
        (model.fit(answers).codes_ == answers.truth).mean() for model in (cw.EBCC(), cw.IBCC(), cw.MajorityVote())
    ]
    assert accuracy[0] > max(accuracy[1:]) + 0.05


def test_superfluous_subtypes_stay_empty():
    """On a crowd without subtypes most shares are near zero."""
    model = cw.EBCC().fit(simulate(400, n_workers=15, n_classes=2, answers_per_task=8, workers="one-coin", seed=0))
    np.testing.assert_allclose(model.subtype_share_.sum(axis=1), 1)
    assert (model.subtype_share_ > 0.01).sum() <= 6  # of 20


def test_more_starts_never_end_lower():
    answers = subtyped_crowd(0, n_tasks=100)
    bounds = [cw.EBCC(n_init=n).fit(answers).history_[-1] for n in (1, 2, 4)]
    assert bounds == sorted(bounds)


def test_confusion_is_the_mean_over_subtypes():
    answers = subtyped_crowd(1, n_tasks=60)
    model = cw.EBCC(num_groups=3).fit(answers)
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1)
    few = cw.Answers.from_codes(np.array([0, 1]), np.array([0, 0]), np.array([0, 1]), tasks=2, workers=2, classes=3)
    unseen = cw.EBCC(a_v=3, b_v=0.5).fit(few).confusion_[1]  # a worker without answers has the prior
    np.testing.assert_allclose(unseen, 0.125 + 0.625 * np.eye(3))


def shuffled(answers, seed):
    """The same answers with tasks, workers and classes in another order; and the orders."""
    rng = np.random.default_rng(seed)
    tasks, workers, classes = (rng.permutation(n) for n in (answers.n_tasks, answers.n_workers, answers.n_classes))
    again = cw.Answers.from_codes(
        tasks[answers.task], workers[answers.worker], classes[answers.label],
        tasks=answers.n_tasks, workers=answers.n_workers, classes=answers.n_classes,
    )  # fmt: skip
    return again, tasks, classes


def test_the_order_of_tasks_workers_and_classes_does_not_matter():
    answers = simulate(120, n_workers=10, n_classes=3, seed=1)
    again, tasks, classes = shuffled(answers, 0)
    np.testing.assert_array_equal(fingerprints(again)[tasks], fingerprints(answers))
    plain, moved = cw.EBCC().fit(answers), cw.EBCC().fit(again)
    np.testing.assert_allclose(moved.proba_[tasks][:, classes], plain.proba_, atol=1e-6)


def test_fingerprints_differ_except_for_equivalent_tasks():
    answers = simulate(300, n_workers=20, n_classes=4, answers_per_task=5, seed=0)
    assert len(np.unique(fingerprints(answers))) == 300
    twins = cw.Answers.from_arrays([0, 0, 1, 1], list("abab"), ["x", "y", "x", "y"])
    assert len(np.unique(fingerprints(twins))) == 1


def test_splits_are_dirichlet():
    answers = simulate(4000, n_workers=20, n_classes=4, seed=0)
    first, second = islice(random_splits(answers, 3, seed=0), 2)
    np.testing.assert_allclose(first.sum(axis=1), 1)
    np.testing.assert_allclose(first.mean(axis=0), 1 / 3, atol=0.02)
    np.testing.assert_allclose(first.var(axis=0), 1 / 18, atol=0.01)  # of a flat Dirichlet over three
    assert np.abs(np.corrcoef(first[:, 0], second[:, 0])[0, 1]) < 0.1
    np.testing.assert_array_equal(first, next(random_splits(answers, 3, seed=0)))
    assert (first != next(random_splits(answers, 3, seed=1))).any()


@pytest.mark.parametrize("parameters", [{"num_groups": 0}, {"a_pi": 0}, {"alpha": -1}, {"a_v": 0}, {"b_v": np.inf}])
def test_invalid_parameters_raise(parameters):
    with pytest.raises(ParameterError, match=next(iter(parameters))):
        cw.EBCC(**parameters).fit(cw.Answers.from_arrays([0], [0], [0]))
