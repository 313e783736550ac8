"""Who is best over several data sets, from the lines of an experiment's headline.

    mean rank    over the data sets where a method was run, among those that were run there; 1 is best
    noise gap    share of the way from the network on the vote to the better ceiling; its mean over data sets
    difference   of two methods on a data set with its standard error: over pairs of seeds where the seed draws the
                 data, otherwise over the seeds of each

A bar is what was to be reached.
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
    """Means by data set and method, of these methods."""
    out: dict[str, dict[str, float]] = {}
    for line in lines:
        if line["method"] in methods:
            out.setdefault(line["data"], {})[line["method"]] = line["mean"]
    return out


def mean_ranks(scores: Scores) -> dict[str, tuple[float, int]]:
    """Mean rank of each method and over how many data sets; higher scores are better, equal ones share their ranks.

    >>> mean_ranks({"a": {"x": 90.0, "y": 80.0, "z": 80.0}, "b": {"x": 70.0, "y": 75.0}})
    {'x': (1.5, 2), 'y': (1.75, 2), 'z': (2.5, 1)}
    """
    ranks: dict[str, list[float]] = {}
    for of in scores.values():
        for method, rank in zip(of, rankdata([-score for score in of.values()]), strict=True):
            ranks.setdefault(method, []).append(float(rank))
    return {method: (float(np.mean(found)), len(found)) for method, found in ranks.items()}


def noise_gaps(scores: Scores, floor: str, ceilings: Collection[str]) -> dict[str, float]:
    """Per cent of the way from the floor to the best ceiling, for each method the mean over its data sets.

    >>> noise_gaps({"a": {"vote": 80.0, "x": 88.0, "told": 90.0}}, "vote", ["told"])
    {'x': 80.0}
    """
    gaps: dict[str, list[float]] = {}
    for of in scores.values():
        tops = [of[name] for name in ceilings if name in of]
        if floor not in of or not tops or max(tops) <= of[floor]:
            continue  # nothing is lost to noise there, or it is not known how much
        for method in of:
            if method != floor and method not in ceilings:
                gaps.setdefault(method, []).append(100 * (of[method] - of[floor]) / (max(tops) - of[floor]))
    return {method: float(np.mean(found)) for method, found in gaps.items()}


def difference(ours: Line, theirs: Line, *, paired: bool) -> tuple[float, float]:
    """Mean difference and its standard error; a single value has none of its own.

    >>> ours, theirs = ({"mean": m, "by_seed": each} for m, each in ((81.0, [80.0, 82.0]), (79.0, [78.0, 80.0])))
    >>> difference(ours, theirs, paired=True), difference(ours, theirs, paired=False)
    ((2.0, 0.0), (2.0, 1.4142135623730951))
    """
    one, other = ours["by_seed"], theirs["by_seed"]
    if paired:
        n = min(len(one), len(other))
        each = np.subtract(one[:n], other[:n])
        return float(each.mean()), (deviation(each) or 0.0) / math.sqrt(n)
    errors = ((deviation(values) or 0.0) / math.sqrt(len(values)) for values in (one, other))
    return ours["mean"] - theirs["mean"], math.hypot(*errors)


class Bar(NamedTuple):
    """What a method was to reach on a data set: at least, or of calibration errors below; and what was hoped for."""

    method: str
    data: str
    measure: str
    bar: float
    moonshot: float | None = None

    def verdict(self, value: float) -> str:
        """What a value reaches.

        >>> bar = Bar("x", "music", "score", 73.0, 79.0)
        >>> bar.verdict(72.9), bar.verdict(73.0), bar.verdict(80.0), Bar("x", "music", "ece", 0.08).verdict(0.07)
        ('missed', 'met', 'met, and the moonshot', 'met')
        """
        if value >= self.bar if self.measure == "ece" else value < self.bar:
            return "missed"
        return "met, and the moonshot" if self.moonshot is not None and value >= self.moonshot else "met"
