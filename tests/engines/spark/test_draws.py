"""Ties on Spark draw the numbers that ties on one machine draw, wherever their batch lies in the cluster."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from crowdwise.engines.spark.results import FixedDraws, _draw
from crowdwise.truth.base import pick


def batch(first, size):
    """Some tied tasks, with_ranks from `first` on; part and position are where each goes back to."""
    code = np.arange(first, first + size)
    return pa.record_batch({"part": pa.array(code % 3, pa.int32()), "position": code * 7, "code": code})


@pytest.mark.parametrize("seed", [0, 5])
def test_each_rank_draws_its_own_number(seed):
    whole = np.random.default_rng(seed).random(1000)
    for cuts in ([0, 1000], [0, 1, 2, 999, 1000], [600, 800]):
        batches = [batch(a, b - a) for a, b in pairwise(cuts)]
        drawn = pa.Table.from_batches(_draw(iter([batch(0, 0), *batches]), seed))
        np.testing.assert_array_equal(drawn["number"], whole[cuts[0] : cuts[-1]])
        np.testing.assert_array_equal(drawn["position"], np.arange(cuts[0], cuts[-1]) * 7)
        np.testing.assert_array_equal(drawn["part"], np.arange(cuts[0], cuts[-1]) % 3)


def test_ties_in_parts_end_as_on_one_machine():
    proba = np.repeat(np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.4, 0.2, 0.4]]), 40, axis=0)
    whole = pick(proba, np.random.default_rng(7))
    assert set(whole[:40]) == {0, 1}
    first, second = proba[:20], proba[20:]  # 20 and 60 of them tied
    drawn = pa.Table.from_batches(_draw(iter([batch(20, 60)]), 7))["number"].to_numpy()
    np.testing.assert_array_equal(pick(first, np.random.default_rng(7)), whole[:20])
    np.testing.assert_array_equal(pick(second, FixedDraws(drawn)), whole[20:])
