import numpy as np
import pytest

from crowdwise.errors import FeaturesError
from crowdwise.learn.features import open_features
from crowdwise.learn.features.scaling import mean_and_scale


def test_mean_and_deviation_equal_those_of_numpy():
    """Also far from zero, where the square of the mean is much larger than the variance."""
    X = np.random.default_rng(0).normal(size=(9000, 3)) * [1, 1e-3, 50] + [1e3, 1, -7]
    mean, scale = mean_and_scale(open_features(X))
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(1 / scale, X.std(axis=0), rtol=1e-3)


def test_constant_features_are_not_scaled():
    mean, scale = mean_and_scale(open_features(np.full((10, 2), 1e5)))
    assert mean.tolist() == [1e5, 1e5]
    assert scale.tolist() == [1, 1]


def test_small_features_are_scaled_unless_they_are_rounding_errors_of_the_others():
    X = np.random.default_rng(0).normal(size=(50, 2))
    for size in (1e-30, 1e-9, 1e9, 1e30):
        np.testing.assert_allclose(mean_and_scale(open_features(X * size))[1] * size, 1 / X.std(axis=0), rtol=1e-3)
    assert mean_and_scale(open_features(X * [1, 1e-17]))[1][1] == 1
    assert mean_and_scale(open_features(X * [1e30, 1e10]))[1][1] < 2e-10
    tiny = (X * 1e-44).astype(np.float32)  # 1 / deviation overflows float32
    assert mean_and_scale(open_features(tiny))[1].tolist() == [1, 1]


def test_features_whose_differences_overflow_are_rejected():
    with pytest.raises(FeaturesError, match=r"feature 1 of X reaches 6.0e\+38"):
        mean_and_scale(open_features(np.array([[1, 3e38], [2, -3e38]], np.float32)))
