"""The rule that decides which systems on top of JointEM are kept: benchmarks/joint_on_top.py."""

import numpy as np
import pytest

from benchmarks import joint_on_top as bench
from crowdwise.learn.joint_em import experts, views

ROW, CONTROL = "DASC", "pseudo-answers at random"


def results(gains, control=0.0):
    """Return three seeds per problem: the row is ahead of plain JointEM by about the gain, its control by `control`."""
    figures = dict.fromkeys(("accuracy", "balanced", "f1"), 80.0)

    def ahead(by):
        return {part: {name: value + by for name, value in figures.items()} for part in ("test", "train")}

    return {
        name: {
            str(seed): {"rows": {bench.PLAIN: ahead(0.0), ROW: ahead(gain + seed - 1), CONTROL: ahead(control)}}
            for seed in range(3)
        }
        for name, gain in gains.items()
    }  # the standard error is 0.58


def test_difference_counts_if_it_exceeds_its_standard_error():
    assert bench.verdict(np.array([0.0, 1.0, 2.0])) == 1
    assert bench.verdict(-np.array([0.0, 1.0, 2.0])) == -1
    assert bench.verdict(np.array([-1.0, 0.5, 1.0])) == 0
    assert bench.verdict(np.array([0.3, 0.0])) == 0  # the mean equals its standard error
    assert bench.verdict(np.zeros(3)) == bench.verdict(np.array([5.0])) == 0


@pytest.mark.parametrize(
    ("gains", "control", "kept"),
    [
        ({"digits": 1, "music": 1, "labelme": 1}, 0.0, True),
        ({"digits": 1, "music": 1, "labelme": 0.5}, 0.0, False),
        ({"digits": 1, "usps": 1, "usps@80": 1}, 0.0, False),  # two data sets
        ({"digits": 1, "music": 1, "usps": 1, "usps@80": 0}, 0.0, True),
        ({"digits": 1, "music": 1, "usps": 1, "usps@80": -1}, 0.0, False),
        ({"digits": 1, "music": 1, "labelme": 1, "product": -1, "usps": -1, "cifar10h": -1}, 0.0, False),
        ({"digits": 1, "music": 1, "labelme": 1}, 1.5, False),  # the control is further ahead
    ],
)
def test_rule_decides_which_rows_are_kept(gains, control, kept):
    assert bench.apply_rule(results(gains, control), ROW)[2] is kept


def test_tables_show_the_counts_of_the_rule():
    measured = results({"digits": 1, "music": -1})
    head, plain, row, _ = bench.table(measured, "test")
    assert head[1:3] == ["digits, balanced, 3 seeds", "music, accuracy, 3 seeds"]
    assert plain[:3] == [bench.PLAIN, "80.00", "80.00"]
    assert row == [ROW, "**+1.00 ± 0.58**", "-1.00 ± 0.58 †", "1", "1"]
    assert experts.fit_view is views.fit_view  # importing the benchmark patches nothing
