"""The estimate of the time that a run still takes is within a factor of two from its first fit on."""

from __future__ import annotations

import pytest

from crowdwise.run.time_left import CURVE, REST, TimeLeft

FOLDS = 5
# Processor seconds measured with 1,200 answers to 300 tasks, and with 12,000 to 3,000.
SMALL = {
    "majority-vote": 0.009, "wawa": 0.007, "one-coin": 0.007, "mace": 0.008, "glad": 0.012, "dawid-skene": 0.007,
    "ibcc": 0.008, "ebcc": 0.023, "pool": 0.082,
}  # fmt: skip
LARGE = {
    "majority-vote": 0.024, "wawa": 0.018, "one-coin": 0.022, "mace": 0.025, "glad": 0.054, "dawid-skene": 0.02,
    "ibcc": 0.032, "ebcc": 0.079, "pool": 0.139,
}  # fmt: skip


@pytest.mark.parametrize("measured", [SMALL, LARGE])
@pytest.mark.parametrize("slower", [1.0, 100.0])  # a larger crowd, or a busy machine
@pytest.mark.parametrize("compiling", [0.0, 1.0])  # what the first fit of each method takes longer
def test_the_estimate_is_within_a_factor_of_two(measured, slower, compiling):
    seconds = {name: slower * each for name, each in measured.items()}
    compiling *= seconds["wawa"]
    left, total = TimeLeft(seconds, FOLDS, n_jobs=1), FOLDS * len(seconds)
    after = (
        sum(seconds.values()) + CURVE * seconds["pool"] + REST * (sum(seconds.values()) / sum(SMALL.values())) ** 0.75
    )
    fits = [(name, each + compiling * (fold == 0)) for fold in range(FOLDS) for name, each in seconds.items()]
    for done, (name, each) in enumerate(fits, 1):
        left.fitted(name, each)
        true = sum(duration for _, duration in fits[done:]) + after
        assert true / 2 < left.seconds(done, total) < 2 * true


def test_candidates_that_are_left_out_take_no_time():
    left = TimeLeft(["majority-vote", "pool"], FOLDS, n_jobs=2)
    left.fitted("majority-vote", 1.0)
    left.fitted("pool", 100.0)
    per_fold = 101 / 2
    assert left.seconds(2, 10) - left.seconds(2, 6) == pytest.approx(2 * per_fold)  # two of four folds less
