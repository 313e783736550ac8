"""ROC curves compared with scikit-learn and by hand; workers' rates by counting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.metrics import roc_curve as sklearn_curve

import crowdwise as cw
from crowdwise.errors import ParameterError
from crowdwise.evaluate import auc, roc_curve, sensitivity, specificity


@given(st.integers(2, 60), st.integers(1, 8), st.booleans(), st.integers(0, 2**32 - 1))
@settings(max_examples=200, deadline=None)
def test_curve_matches_scikit_learn(n, levels, weighted, seed):
    """Few levels make many ties; weights may be zero."""
    rng = np.random.default_rng(seed)
    truth, score = rng.integers(0, 2, n), rng.integers(0, levels, n) / levels
    weight = rng.choice([0.0, 0.5, 1.0, 3.0], n) if weighted else None
    kept = truth if weight is None else truth[weight > 0]
    curve = roc_curve(truth, score, weight=weight)
    if len(set(kept)) < 2:
        assert curve is None
        return
    assert curve.area == pytest.approx(roc_auc_score(truth, score, sample_weight=weight))
    rows = slice(None) if weight is None else weight > 0
    false, true, threshold = sklearn_curve(
        truth[rows], score[rows], sample_weight=None if weight is None else weight[rows], drop_intermediate=False
    )
    np.testing.assert_allclose(curve.false_positive, false)
    np.testing.assert_allclose(curve.true_positive, true)
    np.testing.assert_allclose(curve.threshold, threshold)


def test_area_is_the_share_of_correctly_ordered_pairs():
    rng = np.random.default_rng(0)
    truth, score, weight = rng.integers(0, 2, 40), rng.integers(0, 6, 40), rng.uniform(0.1, 2, 40)
    pairs = [(i, j) for i in np.flatnonzero(truth == 1) for j in np.flatnonzero(truth == 0)]
    order = [(score[i] > score[j]) + (score[i] == score[j]) / 2 for i, j in pairs]
    curve = roc_curve(truth, score, weight=weight)
    assert curve.area == pytest.approx(np.average(order, weights=[weight[i] * weight[j] for i, j in pairs]))
    assert roc_curve(truth, -score, weight=weight).area == pytest.approx(1 - curve.area)
    assert roc_curve(1 - truth, score, positive=0, weight=weight).area == pytest.approx(curve.area)
    p = score / 6
    assert roc_curve(truth, p).area == pytest.approx(auc(truth, np.column_stack([1 - p, p])))


def test_unknown_truth_is_ignored_and_other_classes_are_negative():
    truth, score = np.array([2, 0, -1, 1, 2]), np.array([0.9, 0.2, 0.95, 0.5, 0.5])
    curve = roc_curve(truth, score, positive=2)
    assert curve.area == 0.875  # of four pairs, three are in order and one is tied
    assert roc_curve([-1, 1], [0.1, 0.2]) is None
    assert roc_curve([], []) is None


def test_sensitivity_and_specificity_by_counting():
    #              worker 0: 1 -> 1, 1 -> 0, 0 -> 0; worker 1: 0 -> 1, 2 -> 0, 2 unknown; worker 2 never sees a 1
    task, worker, label = [0, 1, 2, 2, 3, 4, 2], [0, 0, 0, 1, 1, 1, 2], [1, 0, 0, 1, 0, 1, 0]
    truth = np.array([1, 1, 0, 2, -1])
    answers = cw.Answers.from_codes(task, worker, label, tasks=5, workers=3, classes=3, truth=truth)
    np.testing.assert_array_equal(sensitivity(answers), [0.5, np.nan, np.nan])
    np.testing.assert_array_equal(specificity(answers), [1.0, 0.5, 1.0])
    np.testing.assert_array_equal(sensitivity(answers, positive=2), [np.nan, 0.0, np.nan])
    np.testing.assert_array_equal(sensitivity(answers, np.array([0, 1, 1, 1, 1])), [0.0, 2 / 3, 0.0])
    heavy = cw.Answers.from_codes(
        task, worker, label, tasks=5, workers=3, classes=3, truth=truth, weight=np.array([3.0, 1, 1, 1, 1, 1, 1])
    )
    assert sensitivity(heavy)[0] == 0.75


def test_invalid_input_is_rejected():
    bare = cw.Answers.from_codes([0], [0], [0], tasks=1, workers=1, classes=2)
    for call, error in (
        (lambda: roc_curve([0, 1], [0.5]), "one of each"),
        (lambda: roc_curve([0, 1], [0.5, np.nan]), "finite"),
        (lambda: roc_curve([0, 1], [0.5, 0.1], weight=[1, -1]), "0 or more"),
        (lambda: sensitivity(bare), "truth"),
        (lambda: specificity(bare, [0, 1]), "1 integer class codes"),
        (lambda: specificity(bare, ["a"]), "codes"),
    ):
        with pytest.raises(ParameterError, match=error):
            call()
