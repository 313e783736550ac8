"""Predictions of gold labels by fits that did not know them."""

import numpy as np
import pytest

from crowdwise.trust.gold_folds import FEW_GOLD, MIN_GOLD, best_power, compare_on_gold, out_of_fold


@pytest.mark.parametrize("n_gold", [1, 3, 40])
def test_no_fit_knows_the_label_it_predicts_and_rows_keep_their_order(n_gold):
    gold = np.full(50, -1)
    rows = np.sort(np.random.default_rng(0).permutation(50)[:n_gold])
    gold[rows] = rows % 3

    def fit(part):
        known = np.zeros(50, bool) if part is None else part >= 0
        return np.arange(50), known

    task, known = out_of_fold(fit, gold)
    assert task.tolist() == rows.tolist() and not known.any()


def test_gold_outside_the_fold_is_used_unless_it_is_rare():
    fits = []
    gold = np.full(1000, -1)
    gold[:100] = 1
    out_of_fold(lambda part: (fits.append(part), np.zeros(1000))[1:], gold)
    assert [int((part >= 0).sum()) for part in fits] == [80] * 5
    fits.clear()
    gold[int(1000 * FEW_GOLD) - 1 :] = -1
    out_of_fold(lambda part: (fits.append(part), np.zeros(1000))[1:], gold)
    assert fits == [None]


def test_confidence_does_not_decide_between_methods_with_the_same_order():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 200)
    right = rng.random(200) < 0.7
    mild = np.where((gold == right)[:, None], [0.4, 0.6], [0.6, 0.4])
    sharp = mild**8 / (mild**8).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(best_power(mild, gold).mean(), best_power(sharp, gold).mean(), atol=1e-4)


def test_a_method_replaces_the_default_only_by_two_standard_errors_and_enough_gold():
    gold = np.arange(100) % 2
    better = np.eye(2)[np.where(np.arange(100) < 95, gold, 1 - gold)] * 0.8 + 0.1
    default = np.eye(2)[np.where(np.arange(100) < 60, gold, 1 - gold)] * 0.8 + 0.1
    close = np.eye(2)[np.where(np.arange(100) < 62, gold, 1 - gold)] * 0.8 + 0.1
    assert compare_on_gold({"default": default, "better": better}, gold, "default")[0] == "better"
    assert compare_on_gold({"default": default, "close": close}, gold, "default")[0] == "default"
    few = slice(60, 60 + MIN_GOLD - 1)
    assert compare_on_gold({"default": default[few], "better": better[few]}, gold[few], "default")[0] == "default"


def test_a_method_that_names_fewer_gold_labels_does_not_replace_the_default():
    gold = np.arange(100) % 2
    sharp = np.eye(2)[gold] * 0.98 + 0.01
    sharp[50:] = np.eye(2)[1 - gold[50:]] * 0.02 + 0.49  # undecided on half of them, on the wrong side
    default = np.eye(2)[np.where(np.arange(100) < 60, gold, 1 - gold)] * 0.8 + 0.1
    best, scores = compare_on_gold({"default": default, "sharp": sharp}, gold, "default")
    assert scores["sharp"].lead > 2 * scores["sharp"].lead_error
    assert best == "default"
