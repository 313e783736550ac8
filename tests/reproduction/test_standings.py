"""Ranks, gaps and differences from the lines of a table."""

from __future__ import annotations

import numpy as np
import pytest

from reproduction.standings import difference, mean_ranks, noise_gaps, scores_of


def test_scores_are_limited_to_the_requested_methods() -> None:
    lines = [{"method": m, "data": d, "mean": float(len(m + d))} for m in ("x", "yy") for d in ("a", "b")]
    assert scores_of(lines, {"x"}) == {"a": {"x": 2.0}, "b": {"x": 2.0}}


def test_mean_ranks_sum_to_the_sum_of_all_ranks() -> None:
    rng = np.random.default_rng(0)
    scores = {str(d): dict(zip("abcd", rng.integers(0, 5, 4).astype(float), strict=True)) for d in range(7)}
    found = mean_ranks(scores)
    assert sum(rank for rank, _ in found.values()) == pytest.approx(1 + 2 + 3 + 4)
    assert {n for _, n in found.values()} == {7}


def test_unmeasurable_gap_is_left_out() -> None:
    scores = {
        "known": {"vote": 50.0, "x": 75.0, "low": 60.0, "high": 100.0},
        "no ceiling": {"vote": 50.0, "x": 99.0},
        "no noise": {"vote": 80.0, "x": 99.0, "low": 80.0},
        "no vote": {"x": 99.0, "high": 100.0},
    }
    assert noise_gaps(scores, "vote", ("low", "high")) == {"x": 50.0}


def test_difference_is_over_the_seeds_that_both_have() -> None:
    ours = {"mean": 83.0, "by_seed": [80.0, 85.0, 84.0]}
    theirs = {"mean": 80.5, "by_seed": [79.0, 82.0]}
    assert difference(ours, theirs) == (2.0, pytest.approx(1.0))
    assert difference(theirs, ours) == (-2.0, pytest.approx(1.0))


def test_method_without_randomness_is_compared_with_each_run() -> None:
    one = {"mean": 80.0, "by_seed": [80.0]}
    assert difference(one, {"mean": 81.0, "by_seed": [80.0, 82.0]}) == (-1.0, pytest.approx(1.0))
    assert difference(one, one) == (0.0, 0.0)
