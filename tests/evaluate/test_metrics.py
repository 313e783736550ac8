"""Metrics compared with scikit-learn and by hand; undefined ones are None."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn.metrics as sk
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise.errors import ParameterError
from crowdwise.evaluate import metrics

codes = st.integers(1, 60).flatmap(
    lambda n: st.tuples(
        st.lists(st.integers(0, 3), min_size=n, max_size=n), st.lists(st.integers(0, 3), min_size=n, max_size=n)
    )
)


def random_proba(n, k, seed=0, digits=None):
    proba = np.random.default_rng(seed).dirichlet(np.ones(k), size=n)
    return proba if digits is None else np.round(proba * digits) / np.round(proba * digits).sum(axis=1, keepdims=True)


@given(codes)
@settings(max_examples=150, deadline=None)
@pytest.mark.filterwarnings("ignore:y_pred contains classes not in y_true:UserWarning")
@pytest.mark.filterwarnings("ignore:A single label was found:UserWarning")
def test_label_metrics_match_scikit_learn(pair):
    truth, predicted = map(np.array, pair)
    assert metrics.accuracy(truth, predicted) == pytest.approx(sk.accuracy_score(truth, predicted))
    assert metrics.balanced_accuracy(truth, predicted) == pytest.approx(sk.balanced_accuracy_score(truth, predicted))
    macro = sk.f1_score(truth, predicted, average="macro", zero_division=0)
    assert metrics.macro_f1(truth, predicted) == pytest.approx(macro)
    expected = sk.confusion_matrix(truth, predicted, labels=range(4))
    np.testing.assert_array_equal(metrics.confusion(truth, predicted, 4), expected)
    table = sk.precision_recall_fscore_support(truth, predicted, labels=range(4), zero_division=np.nan)
    for row, precision, recall, f1, support in zip(metrics.per_class(truth, predicted, range(4)), *table, strict=True):
        assert row.support == support
        for ours, theirs in ((row.precision, precision), (row.recall, recall), (row.f1, f1)):
            assert (ours is None) == np.isnan(theirs)
            assert ours is None or ours == pytest.approx(theirs)


@pytest.mark.parametrize("k", [2, 3, 7])
@pytest.mark.parametrize("digits", [None, 10], ids=["distinct", "tied"])
def test_probability_metrics_match_scikit_learn(k, digits):
    proba = random_proba(300, k, digits=digits)
    truth = np.random.default_rng(1).integers(0, k, size=300)
    assert metrics.log_loss(truth, proba) == pytest.approx(sk.log_loss(truth, proba, labels=range(k)))
    scores = proba[:, 1] if k == 2 else proba
    assert metrics.auc(truth, proba) == pytest.approx(sk.roc_auc_score(truth, scores, multi_class="ovr"))
    one_hot = np.eye(k)[truth]
    assert metrics.brier(truth, proba) == pytest.approx(((proba - one_hot) ** 2).sum(axis=1).mean())


def test_unknown_truth_is_ignored():
    proba = random_proba(50, 3)
    truth = np.random.default_rng(1).integers(-1, 3, size=50)
    known = truth >= 0
    predicted = proba.argmax(axis=1)
    for metric in (metrics.accuracy, metrics.balanced_accuracy, metrics.macro_f1):
        assert metric(truth, predicted) == metric(truth[known], predicted[known])
    for metric in (metrics.log_loss, metrics.brier, metrics.ece, metrics.auc):
        assert metric(truth, proba) == metric(truth[known], proba[known])


def test_class_missing_from_the_truth_is_ignored():
    truth, proba = np.array([0, 0, 1, 1]), random_proba(4, 3)
    assert metrics.auc(truth, proba) == pytest.approx(
        np.mean([sk.roc_auc_score(truth == c, proba[:, c]) for c in (0, 1)])
    )
    assert metrics.balanced_accuracy(truth, [0, 2, 1, 1]) == 0.75
    assert metrics.per_class(truth, [0, 0, 1, 1], ["a", "b", "c"])[2] == ("c", 0, None, None, None)


def test_undefined_metrics_are_none():
    nothing, proba = np.full(3, -1), random_proba(3, 2)
    for metric in (metrics.accuracy, metrics.balanced_accuracy, metrics.macro_f1):
        assert metric(nothing, np.zeros(3, int)) is None
    for metric in (metrics.log_loss, metrics.brier, metrics.ece, metrics.auc):
        assert metric(nothing, proba) is None
    assert metrics.auc(np.zeros(3, int), proba) is None
    assert metrics.imbalance_ratio(np.zeros(3, int)) is None


def test_certain_but_wrong_predictions_have_finite_loss():
    certain = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert metrics.log_loss([0, 1], certain) == pytest.approx(-np.log(np.finfo(float).eps) / 2)
    assert metrics.brier([0, 1], certain) == 1.0
    assert metrics.ece([0, 1], certain) == 0.5


def test_missing_label_counts_as_wrong():
    truth, predicted = [0, 0, 1, 1], [0, -1, 1, 1]
    assert metrics.accuracy(truth, predicted) == 0.75
    assert metrics.confusion(truth, predicted).tolist() == [[1, 0], [0, 2]]
    assert metrics.per_class(truth, predicted)[0] == (0, 2, 1.0, 0.5, pytest.approx(2 / 3))
    assert metrics.ece(truth, np.eye(2)[[0, 0, 1, 1]], predicted) == 0.0


def test_ties_are_broken_at_random():
    shares = np.bincount(metrics.decide(np.full((6000, 3), 1 / 3))) / 6000
    np.testing.assert_allclose(shares, 1 / 3, atol=0.03)
    assert set(metrics.decide(np.tile([0.4, 0.2, 0.4], (100, 1)))) == {0, 2}


def test_different_lengths_are_rejected():
    with pytest.raises(ParameterError, match="2 predictions for 3 tasks"):
        metrics.accuracy([0, 1, 1], [0, 1])


def test_label_names_are_rejected_with_the_remedy():
    with pytest.raises(ParameterError, match="codes"):
        metrics.accuracy(["a", "b"], ["a", "a"])
