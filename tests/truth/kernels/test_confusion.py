import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import crowdwise as cw
from crowdwise.truth.base import pick
from crowdwise.truth.kernels import confusion, shared
from crowdwise.truth.kernels.simd import aligned, padded, vector_width


def crowd(n_tasks, n_workers, n_classes, per_task, seed):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :per_task].ravel()
    label = rng.integers(0, n_classes, len(task))
    return cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=n_workers, classes=n_classes)


def plain_e_step(answers, table, prior, weight):
    logs = np.log(np.broadcast_to(prior, (answers.n_tasks, answers.n_classes))).copy()
    np.add.at(logs, answers.task, weight[:, None] * np.log(table[answers.pairs.of_answer]))
    evidence = np.logaddexp.reduce(logs, axis=1)
    proba = np.exp(logs - evidence[:, None])
    counts = np.zeros_like(table)
    np.add.at(counts, answers.pairs.of_answer, weight[:, None] * proba[answers.task])
    return proba, counts, evidence.sum()


@given(
    st.integers(0, 1000), st.integers(1, 30), st.sampled_from([1, 2, 3, 4, 5, 8, 9, 16, 33]),
    st.sampled_from([1, 5, 8, 9, 12]), st.booleans(), st.booleans(),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_e_step_matches_plain_numpy(seed, n_tasks, n_classes, per_task, weighted, prior_by_task):
    """On the product path and the log path, with padding, weights and priors per task."""
    answers = crowd(n_tasks, 12, n_classes, per_task, seed)
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.2, 3, answers.n_answers) if weighted else None
    table = rng.uniform(1e-9, 1, (len(answers.pairs.label), n_classes))
    prior = rng.dirichlet(np.ones(n_classes), size=n_tasks if prior_by_task else None)
    work = confusion.ConfusionWork(answers.task_starts, answers.pairs, weight, n_classes)
    work.set_table(table)
    proba = np.empty((n_tasks, n_classes))
    counts, totals, bound = work.e_step(prior, None, proba=proba)
    ones = np.ones(answers.n_answers) if weight is None else weight
    expected_proba, expected_counts, expected_bound = plain_e_step(answers, table, prior, ones)
    np.testing.assert_allclose(proba, expected_proba, atol=1e-10)
    np.testing.assert_allclose(counts, expected_counts, atol=1e-9)
    np.testing.assert_allclose(totals, expected_proba.sum(axis=0), atol=1e-9)
    assert bound == pytest.approx(expected_bound, rel=1e-10, abs=1e-8)


def test_extreme_probabilities_do_not_underflow():
    """Half of 1,500 answers are nearly impossible under one class, half under the other: the posterior is equal."""
    n = 1500
    answers = cw.Answers.from_codes(np.zeros(n), np.arange(n), np.zeros(n), tasks=1, workers=n, classes=2)
    table = np.full((n, 2), 0.5)
    table[: n // 2, 0] = table[n // 2 :, 1] = 1e-10
    work = confusion.ConfusionWork(answers.task_starts, answers.pairs, None, 2)
    work.set_table(table)
    proba = np.empty((1, 2))
    _, _, bound = work.e_step(np.array([0.5, 0.5]), None, proba=proba)
    np.testing.assert_allclose(proba, 0.5)
    assert bound == pytest.approx(750 * np.log(0.5e-10), rel=1e-12)


def test_count_uses_the_posteriors_unchanged():
    answers = crowd(20, 12, 3, 10, 0)
    proba = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    proba[0] = [0, 1, 0]
    work = confusion.ConfusionWork(answers.task_starts, answers.pairs, None, 3)
    expected = np.zeros((len(answers.pairs.label), 3))
    np.add.at(expected, answers.pairs.of_answer, proba[answers.task])
    np.testing.assert_allclose(work.count(proba), expected, atol=1e-12)


def test_chunks_have_similar_numbers_of_answers():
    bounds = shared.chunk_bounds(np.arange(0, 101, 5))
    assert bounds[0] == 0
    assert bounds[-1] == 20
    assert (np.diff(bounds) >= 2).all()


@pytest.mark.parametrize("n_classes", [2, 7, 20])
@pytest.mark.parametrize("weighted", [False, True])
def test_two_passes_give_the_counts_of_one(monkeypatch, n_classes, weighted):
    answers = crowd(60, 12, n_classes, 9, 0)
    rng = np.random.default_rng(0)
    weight = rng.uniform(0, 2, answers.n_answers) if weighted else None
    table = rng.uniform(0.01, 1, (len(answers.pairs.label), n_classes))
    results = []
    for limit in (1 << 30, 0):
        monkeypatch.setattr(confusion, "_FUSED_BYTES", limit)
        work = confusion.ConfusionWork(answers.task_starts, answers.pairs, weight, n_classes)
        assert work.fused == (limit > 0)
        work.set_table(table)
        proba = np.empty((60, n_classes))
        counts, totals, bound = work.e_step(np.full(n_classes, 1 / n_classes), None, proba=proba)
        results.append((counts.copy(), totals, bound, proba))
    for one, two in zip(*results, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


def test_rows_are_padded_and_aligned():
    assert [padded(n) for n in (1, 2, 3, 4, 5, 8, 9, 17)] == [2, 2, 4, 4, 8, 8, 16, 24]
    assert [vector_width(w) for w in (2, 4, 8, 24)] == [2, 4, 8, 8]
    assert aligned(3, 8).ctypes.data % 64 == 0


def test_pick_breaks_ties_evenly():
    codes = pick(np.tile([0.4, 0.2, 0.4], (3000, 1)), np.random.default_rng(0))
    assert set(codes) == {0, 2}
    assert abs((codes == 0).mean() - 0.5) < 0.05


def test_memory_layout_of_the_prior_does_not_matter():
    """Transposed memory or single precision give the same result."""
    rng = np.random.default_rng(0)
    answers = crowd(40, 12, 8, 3, 0)
    prior = rng.dirichlet(np.ones(8), size=40)
    work = confusion.ConfusionWork(answers.task_starts, answers.pairs, None, 8)
    work.set_table(rng.random((len(answers.pairs.label), 8)) + 0.1)
    expected = np.empty((40, 8))
    work.e_step(prior, None, proba=expected)
    for layout in (np.asfortranarray(prior), np.repeat(prior, 2, axis=1)[:, ::2], prior.astype(np.float32)):
        proba = np.empty((40, 8))
        work.e_step(layout, None, proba=proba)
        np.testing.assert_allclose(proba, expected, rtol=1e-5)
