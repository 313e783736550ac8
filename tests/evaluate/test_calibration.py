"""Reliability and ECE: by hand, by a loop, and on posteriors that are right by construction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise import simulate
from crowdwise.evaluate import ece, reliability


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=80), st.integers(1, 20))
@settings(deadline=None)
def test_bins_are_those_of_the_definition(pairs, n_bins):
    confidence, correct = np.array([p for p, _ in pairs]), np.array([c for _, c in pairs])
    table = reliability(confidence, correct, n_bins)
    assert table.count.sum() == len(pairs)
    assert (table.count > 0).all()
    error = 0.0
    for low, high, mean, right, count in zip(
        table.low, table.high, table.confidence, table.accuracy, table.count, strict=True
    ):
        inside = (confidence > low + 1e-12) & (confidence <= high + 1e-12) | ((low == 0) & (confidence <= 1e-12))
        if abs(inside.sum() - count) > 0:  # a confidence within rounding of an edge may fall on either side
            assert (np.abs(confidence * n_bins - np.round(confidence * n_bins)) < 1e-9).any()
            return
        assert mean == pytest.approx(confidence[inside].mean())
        assert right == pytest.approx(correct[inside].mean())
        error += count / len(pairs) * abs(mean - right)
    assert table.ece == pytest.approx(error)


def test_edges_belong_to_the_bin_below():
    table = reliability(np.array([0.0, 0.5, 0.50001, 1.0]), np.ones(4, bool), n_bins=2)
    assert table.low.tolist() == [0.0, 0.5]
    assert table.count.tolist() == [2, 2]


def test_exact_posteriors_are_calibrated():
    # The posterior under the very crowd that answered: what is left of ECE is sampling error.
    confusion = simulate.crowd(20, 3, "class-dependent", seed=1)
    prior = simulate.shares(4.0, 3)
    rng = np.random.default_rng(2)
    answers = simulate.answer(rng.choice(3, size=40_000, p=prior), confusion, 2.5, seed=3)
    log_proba = np.tile(np.log(prior), (answers.n_tasks, 1))
    np.add.at(log_proba, answers.task, np.log(confusion[answers.worker, :, answers.label]))
    proba = np.exp(log_proba - log_proba.max(axis=1, keepdims=True))
    proba /= proba.sum(axis=1, keepdims=True)
    assert ece(answers.truth, proba) < 0.012
    sharpened = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    assert ece(answers.truth, sharpened) > 0.05
