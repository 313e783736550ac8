"""Ties on Spark draw the same random numbers as in the local models, in whichever batch they are."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from crowdwise.engines.spark.results import FixedDraws, _draw
from crowdwise.truth.base import pick


def batch(first, size):
    """Tied tasks with ranks from `first`; part and position say which task each is."""
    code = np.arange(first, first + size)
    return pa.record_batch({"part": pa.array(code % 3, pa.int32()), "position": code * 7, "code": code})


@pytest.mark.parametrize("seed", [0, 5])
def test_each_rank_draws_the_number_of_the_local_sequence(seed):
    expected = np.random.default_rng(seed).random(1000)
    for cuts in ([0, 1000], [0, 1, 2, 999, 1000], [600, 800]):
        batches = [batch(a, b - a) for a, b in pairwise(cuts)]
        drawn = pa.Table.from_batches(_draw(iter([batch(0, 0), *batches]), seed))
        np.testing.assert_array_equal(drawn["number"], expected[cuts[0] : cuts[-1]])
        np.testing.assert_array_equal(drawn["position"], np.arange(cuts[0], cuts[-1]) * 7)
        np.testing.assert_array_equal(drawn["part"], np.arange(cuts[0], cuts[-1]) % 3)


def test_ties_are_broken_as_locally_when_split_into_parts():
    proba = np.repeat(np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.4, 0.2, 0.4]]), 40, axis=0)
    expected = pick(proba, np.random.default_rng(7))
    assert set(expected[:40]) == {0, 1}
    first, second = proba[:20], proba[20:]  # 20 and 60 of them tied
    drawn = pa.Table.from_batches(_draw(iter([batch(20, 60)]), 7))["number"].to_numpy()
    np.testing.assert_array_equal(pick(first, np.random.default_rng(7)), expected[:20])
    np.testing.assert_array_equal(pick(second, FixedDraws(drawn)), expected[20:])
