"""Reliability and ECE by hand, by a loop, and on exact posteriors; temperatures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise import simulate
from crowdwise.errors import ParameterError
from crowdwise.evaluate import ece, reliability
from crowdwise.evaluate.calibration import tempered, vote_belief


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=80), st.integers(1, 20))
@settings(deadline=None)
def test_bins_match_the_definition(pairs, n_bins):
    confidence, correct = np.array([p for p, _ in pairs]), np.array([c for _, c in pairs])
    table = reliability(confidence, correct, n_bins)
    assert table.count.sum() == len(pairs)
    assert (table.count > 0).all()
    error = 0.0
    for low, high, mean, accuracy, count in zip(
        table.low, table.high, table.confidence, table.accuracy, table.count, strict=True
    ):
        inside = (confidence > low + 1e-12) & (confidence <= high + 1e-12) | ((low == 0) & (confidence <= 1e-12))
        if abs(inside.sum() - count) > 0:  # a confidence within rounding of an edge may fall on either side
            assert (np.abs(confidence * n_bins - np.round(confidence * n_bins)) < 1e-9).any()
            return
        assert mean == pytest.approx(confidence[inside].mean())
        assert accuracy == pytest.approx(correct[inside].mean())
        error += count / len(pairs) * abs(mean - accuracy)
    assert table.ece == pytest.approx(error)


def test_bin_contains_its_upper_edge():
    table = reliability(np.array([0.0, 0.5, 0.50001, 1.0]), np.ones(4, bool), n_bins=2)
    assert table.low.tolist() == [0.0, 0.5]
    assert table.count.tolist() == [2, 2]


def test_exact_posteriors_are_calibrated():
    # With the posterior under the true confusion matrices, the remaining ECE is sampling error.
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


@given(st.integers(0, 1000), st.floats(0.1, 20).filter(lambda temperature: temperature != 1))  # 1 returns the input
@settings(deadline=None)
def test_tempering_raises_probabilities_to_a_power(seed, temperature):
    proba = np.random.default_rng(seed).dirichlet([0.3, 1, 1], 20)
    power = np.maximum(proba, 1e-10) ** (1 / temperature)
    softened = tempered(proba, temperature)
    np.testing.assert_allclose(softened, power / power.sum(axis=1, keepdims=True), rtol=1e-6)
    assert (softened.argmax(axis=1) == proba.argmax(axis=1)).all()
    less_confident = tempered(proba, 1 + temperature)  # the reverse order would clip some probabilities
    np.testing.assert_allclose(tempered(less_confident, 1 / (1 + temperature)), proba, atol=1e-6)


def test_tempering_certain_probabilities_stays_finite():
    proba = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    before = proba.copy()
    assert tempered(proba, 1.0) is proba
    for temperature in (1e-3, 0.5, 4.0, 1e6):
        softened = tempered(proba, temperature)
        np.testing.assert_allclose(softened.sum(axis=1), 1)
        assert softened[1, 0] == softened[1, 1]
    assert np.array_equal(proba, before)


def test_each_vote_adds_sharpness_to_the_log_odds():
    answers = simulate.simulate(50, n_workers=9, n_classes=3, answers_per_task=4, seed=0).take(np.arange(150))
    belief = vote_belief(answers, 0.7)
    votes = answers.counts(dense=True)
    odds = np.log(belief[:, 1:] / belief[:, :1])
    np.testing.assert_allclose(odds, 0.7 * (votes[:, 1:] - votes[:, :1]), atol=1e-12)
    assert (belief[votes.sum(axis=1) == 0] == 1 / 3).all()  # the last tasks have no answers
    certain = vote_belief(answers, 1e6)
    assert np.isfinite(certain).all()


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), "2", None, True])
def test_invalid_temperatures_are_rejected(value):
    answers = simulate.simulate(10, seed=0)
    with pytest.raises(ParameterError, match=r"temperature=.*above 0"):
        tempered(np.full((2, 2), 0.5), value)
    with pytest.raises(ParameterError, match=r"sharpness=.*above 0"):
        vote_belief(answers, value)
