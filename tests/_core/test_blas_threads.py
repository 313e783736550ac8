"""BLAS is limited to one thread, and gets its threads back."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from crowdwise._core.blas_threads import one_blas_thread


def n_threads():
    np.ones((2, 2)) @ np.ones((2, 2))
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_overlapping_limits_end_with_the_last():
    with threadpool_limits(2, user_api="blas"):
        first, second = one_blas_thread(), one_blas_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert n_threads() == {1}
        second.__exit__(None, None, None)
        assert n_threads() == {2}


def test_the_limit_ends_with_an_error():
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(KeyError), one_blas_thread():
            raise KeyError
        assert n_threads() == {2}
