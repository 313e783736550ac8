"""Compare methods over several data sets, from the lines of an experiment's headline.

mean rank    over the data sets on which a method was run, among the methods run there; 1 is best
noise gap    share of the way from the network on the vote to the better ceiling, averaged over data sets
difference   of two methods on a data set with its standard error, over pairs of runs with the same seed
target       what a method was to reach
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from reproduction.experiments import Line, deviation

Scores = Mapping[str, Mapping[str, float]]  # by data set, then by method


def scores_of(lines: Iterable[Line], methods: Collection[str]) -> dict[str, dict[str, float]]:
    """Return the means of these methods by data set and method."""
    out: dict[str, dict[str, float]] = {}
    for line in lines:
        if line["method"] in methods:
            out.setdefault(line["data"], {})[line["method"]] = line["mean"]
    return out


def mean_ranks(scores: Scores) -> dict[str, tuple[float, int]]:
    """Return the mean rank of each method and its number of data sets. Higher scores are better, ties share ranks.

    >>> mean_ranks({"a": {"x": 90.0, "y": 80.0, "z": 80.0}, "b": {"x": 70.0, "y": 75.0}})
    {'x': (1.5, 2), 'y': (1.75, 2), 'z': (2.5, 1)}
    """
    ranks: dict[str, list[float]] = {}
    for of in scores.values():
        for method, rank in zip(of, rankdata([-score for score in of.values()]), strict=True):
            ranks.setdefault(method, []).append(float(rank))
    return {method: (float(np.mean(found)), len(found)) for method, found in ranks.items()}


def noise_gaps(scores: Scores, floor: str, ceilings: Collection[str]) -> dict[str, float]:
    """Return the percentage of the way from the floor to the best ceiling, averaged over the data sets of a method.

    >>> noise_gaps({"a": {"vote": 80.0, "x": 88.0, "truth": 90.0}}, "vote", ["truth"])
    {'x': 80.0}
    """
    gaps: dict[str, list[float]] = {}
    for of in scores.values():
        tops = [of[name] for name in ceilings if name in of]
        if floor not in of or not tops or max(tops) <= of[floor]:
            continue  # nothing is lost to noise, or the loss is unknown
        for method in of:
            if method != floor and method not in ceilings:
                gaps.setdefault(method, []).append(100 * (of[method] - of[floor]) / (max(tops) - of[floor]))
    return {method: float(np.mean(found)) for method, found in gaps.items()}


def difference(ours: Line, theirs: Line) -> tuple[float, float]:
    """Return the mean difference over the seeds that both have, and its standard error.

    A method with one run beside several of the other has no randomness: its value is compared with each of them.

    >>> ours, theirs = ({"mean": m, "by_seed": each} for m, each in ((81.0, [80.0, 82.0]), (79.0, [78.0, 80.0])))
    >>> difference(ours, theirs), difference(ours, {"mean": 79.0, "by_seed": [79.0]})
    ((2.0, 0.0), (2.0, 1.0))
    """
    one, other = ours["by_seed"], theirs["by_seed"]
    n = max(len(one), len(other)) if 1 in (len(one), len(other)) else min(len(one), len(other))
    each = np.subtract(one[:n], other[:n])  # a single value is repeated
    return float(each.mean()), (deviation(each) or 0.0) / math.sqrt(n)


class Target(NamedTuple):
    """What a method was to reach on a data set: a score of at least `value`, or a calibration error below it."""

    method: str
    data: str
    measure: str
    value: float
    stretch: float | None = None

    def verdict(self, value: float) -> str:
        """Say what a value reaches.

        >>> target = Target("x", "music", "score", 73.0, 79.0)
        >>> target.verdict(72.9), target.verdict(73.0), target.verdict(80.0)
        ('missed', 'met', 'met, and the stretch target')
        >>> Target("x", "music", "ece", 0.08).verdict(0.07)
        'met'
        """
        if value >= self.value if self.measure == "ece" else value < self.value:
            return "missed"
        return "met, and the stretch target" if self.stretch is not None and value >= self.stretch else "met"
