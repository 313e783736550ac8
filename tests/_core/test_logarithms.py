import numpy as np
from scipy.special import xlogy

from crowdwise._core.logarithms import x_log_y


def test_equals_scipy():
    x = np.array([[0.0], [0.5], [2.0], [1e-300]])
    y = np.array([1e-12, 0.5, 1.0, 7.0])
    np.testing.assert_allclose(x_log_y(x, y), xlogy(x, y), rtol=1e-14)
    assert x_log_y([0.0], [0.0]).tolist() == [0.0]
