import krippendorff
import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from crowdwise import Ratings
from crowdwise.evaluate import (
    intraclass_correlation,
    mean_absolute_error,
    quadratic_weighted_kappa,
    rating_alpha,
    within_one,
)
from crowdwise.simulate import rating_crowd

# Shrout and Fleiss (1979), table 2: six tasks, four judges.
SHROUT = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]


def test_errors_and_kappa_equal_their_definitions():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(1, 6, 200), rng.integers(1, 6, 200)
    known = np.where(rng.random(200) < 0.2, np.nan, truth)
    rows = np.isfinite(known)
    expected = cohen_kappa_score(truth[rows], predicted[rows], weights="quadratic")
    assert quadratic_weighted_kappa(known, predicted) == pytest.approx(expected)
    assert mean_absolute_error(known, predicted) == pytest.approx(abs(truth - predicted)[rows].mean())
    assert within_one(known, predicted) == pytest.approx((abs(truth - predicted)[rows] <= 1).mean())
    assert quadratic_weighted_kappa([np.nan], [1.0]) is None


@pytest.mark.parametrize("distance", ["ordinal", "interval", "ratio"])
def test_alpha_equals_that_of_the_package_krippendorff_with_missing_ratings(distance):
    ratings = rating_crowd(25, 8, skew=1, seed=2)
    kept = ratings.take(np.flatnonzero(np.random.default_rng(0).random(ratings.n_answers) < 0.6))
    table = np.full((kept.n_workers, kept.n_tasks), np.nan)
    table[kept.worker, kept.task] = kept.value
    expected = krippendorff.alpha(reliability_data=table, level_of_measurement=distance)
    assert rating_alpha(kept, distance) == pytest.approx(expected)


@pytest.mark.parametrize("distance", ["ordinal", "interval", "ratio"])
def test_alpha_of_perfect_agreement_and_of_no_pair(distance):
    assert rating_alpha(Ratings.from_arrays([1, 1, 2, 2], list("abab"), [1, 1, 4, 4]), distance) == pytest.approx(1)
    assert rating_alpha(Ratings.from_arrays([1, 2], list("ab"), [1, 4]), distance) is None


def test_icc_of_the_table_of_shrout_and_fleiss():
    cells = [(task, worker, value) for task, row in enumerate(SHROUT) for worker, value in enumerate(row)]
    icc = intraclass_correlation(Ratings.from_arrays(*zip(*cells, strict=True)))
    assert {name: round(value, 2) for name, value in icc.items()} == {"icc1": 0.17, "icc2": 0.29, "icc3": 0.71}


def test_icc_with_missing_ratings_is_close_to_that_of_all():
    ratings = rating_crowd(600, 12, None, answers_per_task=12, bias=0.6, seed=1)
    kept = ratings.take(np.flatnonzero(np.random.default_rng(0).random(ratings.n_answers) < 0.5))
    every, some = intraclass_correlation(ratings), intraclass_correlation(kept)
    assert every["icc1"] <= every["icc2"] + 0.02 < every["icc3"]
    for name, value in every.items():
        assert some[name] == pytest.approx(value, abs=0.04)
