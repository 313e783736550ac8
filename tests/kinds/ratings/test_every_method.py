"""What holds for every method for ratings."""

from dataclasses import replace

import numpy as np
import pytest

import crowdwise as cw
from crowdwise import Ratings
from crowdwise.simulate import rating_crowd

NAMES = [method.name for method in cw.methods("ratings") if not method.needs_features]
NUMBERS = [name for name in NAMES if not cw.make(name).levels_only]
ITERATIVE = [name for name in NAMES if hasattr(cw.make(name), "monotone")]
SCALE, MEASURED = rating_crowd(80, 12, seed=3), rating_crowd(80, 12, None, seed=3)


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


def test_results_are_complete_and_follow_the_ids(name):
    model = cw.make(name).fit(SCALE.with_truth(None))
    assert model.labels_.shape == model.value_.shape == model.confidence_.shape == (80,)
    assert set(model.labels_) <= set(SCALE.levels)
    np.testing.assert_allclose(model.proba_.sum(axis=1), 1)
    assert np.isfinite(model.value_).all()
    assert (model.standard_error_ >= 0).all()
    low, high = model.interval(0.8).T
    assert ((low <= model.labels_) & (model.labels_ <= high)).mean() > 0.95
    assert abs(model.value_ - SCALE.truth).mean() < 0.6


def test_the_order_of_rows_and_the_ids_do_not_matter(name):
    rows = np.random.default_rng(0).permutation(SCALE.n_answers)
    other = Ratings.from_arrays(
        SCALE.task[rows] + 100, SCALE.worker[rows] + 7, SCALE.value[rows], levels=SCALE.levels.tolist(),
        tasks=np.arange(80) + 100,
    )  # fmt: skip
    first, second = (cw.make(name).fit(ratings) for ratings in (SCALE, other))
    np.testing.assert_allclose(first.value_, second.value_)
    assert (first.labels_ == second.labels_).all()


def test_a_shifted_scale_shifts_the_result(name):
    ratings = SCALE if name not in NUMBERS else MEASURED
    moved = replace(ratings, class_ids=type(ratings.class_ids).from_pandas(ratings.values + 100, type="double"))
    np.testing.assert_allclose(cw.make(name).fit(moved).value_, cw.make(name).fit(ratings).value_ + 100, atol=1e-6)


def test_names_of_levels_give_the_same_codes(name):
    words = np.array(["very poor", "poor", "fair", "good", "excellent"])
    named = Ratings.from_arrays(
        SCALE.task, SCALE.worker, words[SCALE.label], levels=words.tolist(), tasks=np.arange(80)
    )
    first, second = (cw.make(name).fit(ratings) for ratings in (SCALE, named))
    assert (first.codes_ == second.codes_).all()
    assert set(second.labels_) <= set(words)


def test_gold_decides_its_task(name):
    gold = {0: 1, 1: 5, 2: 3}
    model = cw.make(name).fit(SCALE, gold)
    assert model.labels_[:3].tolist() == [1, 5, 3]
    assert (model.confidence_[:3] > 0.99).all()


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_tiny_and_uneven_data_are_fitted(name, kept):
    ratings = SCALE.take(np.arange(kept))
    model = cw.make(name).fit(ratings)
    assert np.isfinite(model.value_).all()
    assert np.isfinite(model.proba_).all()


def test_equal_ratings_are_fitted(name):
    ratings = Ratings.from_arrays([1, 1, 2, 2], list("abab"), [3, 3, 3, 3], levels=[1, 2, 3, 4, 5])
    assert cw.make(name).fit(ratings).labels_.tolist() == [3, 3]


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_fitted_in_any_unit(name):
    model = cw.make(name).fit(MEASURED)
    small = Ratings.from_arrays(
        MEASURED.task, MEASURED.worker, MEASURED.value / 1000, numeric=True, tasks=np.arange(80)
    )
    np.testing.assert_allclose(cw.make(name).fit(small).value_ * 1000, model.value_, rtol=1e-5)
    assert (model.labels_ == model.value_).all()
    with pytest.raises(cw.CrowdwiseError, match="numbers have no confidence"):
        model.confidence_  # noqa: B018


@pytest.mark.parametrize("name", ITERATIVE)
@pytest.mark.parametrize("gold", [False, True])
def test_the_bound_never_falls(name, gold):
    for seed in range(3):
        crowd = rating_crowd(60, 10, careless=0.3, skew=0.5, seed=seed)
        model = cw.make(name, tol=0, max_iter=40).fit(crowd, {0: 1.0, 1: 4.0} if gold else None)
        assert np.diff(model.history_).min() > -1e-6 * abs(model.history_[-1])


@pytest.mark.parametrize("name", ITERATIVE)
def test_a_weight_of_two_is_the_answer_twice_over_the_same_bound(name):
    crowd = rating_crowd(40, 10, seed=1)
    plain = cw.make(name).fit(crowd)
    weighted = cw.make(name).fit(replace(crowd, weight=np.ones(crowd.n_answers)))
    np.testing.assert_allclose(plain.value_, weighted.value_, atol=1e-4)
