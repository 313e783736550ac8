import numpy as np

from crowdwise.learn.features import open_features
from crowdwise.learn.scaling import moments


def test_moments_are_numpys():
    """Far from zero too, where the square of the mean would drown the deviation."""
    X = np.random.default_rng(0).normal(size=(9000, 3)) * [1, 1e-3, 50] + [1e3, 1, -7]
    mean, scale = moments(open_features(X))
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(1 / scale, X.std(axis=0), rtol=1e-3)


def test_a_constant_is_left_as_it_is():
    mean, scale = moments(open_features(np.full((10, 2), 1e5)))
    assert mean.tolist() == [1e5, 1e5]
    assert scale.tolist() == [1, 1]
