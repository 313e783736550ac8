"""Averages of the ratings of each task: mean, median, trimmed mean. The baselines, which are often hard to beat.

    value[t]    = average of the ratings of task t
    variance[t] = (d * pooled + sum of (rating - mean[t])^2) / (d + n[t] - 1)     n = number of ratings, d = DEGREES
    error[t]^2  = factor * variance[t] / n[t]

`pooled` is the variance within tasks over all of them. It counts like DEGREES ratings more, so that two equal ratings
do not give an interval of zero width. `factor` is the variance of the average relative to the mean's, for normal
ratings: about 1 + .57 (1 - 1.2 / n) for the median. Intervals are those of Student's t with d + n[t] - 1 degrees of
freedom. A task without ratings has the mean of all tasks, and the variance between them.

All workers count the same: a biased or careless one moves the average as far as a good one.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import is_number, require
from crowdwise.answers import Ratings
from crowdwise.kinds.ratings.base import RatingModel, task_weights
from crowdwise.truth.base import Array, Callback

DEGREES = 4.0


class Mean(RatingModel):
    """The mean of the ratings of each task. On a scale, its value is a number and its label the nearest level.

    Parameters
    ----------
    random_state : int
        Seed for breaking ties between two levels.

    Examples
    --------
    >>> from crowdwise import Mean, Ratings
    >>> Mean().fit(Ratings.from_arrays([1, 1, 2], ["a", "b", "a"], [0.5, 12.0, 30.0])).labels_.tolist()
    [6.25, 30.0]
    """

    degrees_: Array
    standard_error_: Array
    value_: Array

    def __init__(self, *, random_state: int = 0) -> None:
        self.random_state = random_state

    def _fit(self, answers: Ratings, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:  # type: ignore[override]
        weight = task_weights(answers)
        mean, count, squares = moments(answers, weight)
        answered = count > 0
        pooled = squares.sum() / max(count.sum() - answered.sum(), 1.0)
        pooled = max(pooled, 1e-6 * max(float(np.ptp(answers.value)), 1e-6) ** 2)
        self.degrees_ = DEGREES + np.maximum(count - 1, 0.0)
        variance = (DEGREES * pooled + squares) / self.degrees_
        grand = float(mean[answered].mean())
        self.value_ = np.where(answered, self._average(answers, weight, mean), grand)
        spread = float(mean[answered].var()) + pooled
        error = np.sqrt(self._relative_variance(count) * variance / np.maximum(count, 1e-12))
        self.standard_error_ = np.where(answered, error, np.sqrt(spread))
        self._fix_gold(gold)

    def _average(self, answers: Ratings, weight: Array, mean: Array) -> Array:
        """Return the average of each task with ratings, (tasks,)."""
        return mean

    def _relative_variance(self, count: Array) -> Array:
        """Return the variance of the average of so many normal ratings, relative to that of their mean, (tasks,)."""
        return np.ones(len(count))


class Median(Mean):
    """The median of the ratings of each task, which one extreme rating cannot move far.

    Between two middle ratings it is their mean; on a scale, a label between two levels is one of them at random.

    Parameters
    ----------
    random_state : int
        Seed for breaking ties between two levels.

    Examples
    --------
    >>> from crowdwise import Median, Ratings
    >>> Median().fit(Ratings.from_arrays([1, 1, 1], ["a", "b", "c"], [1, 2, 5])).labels_.tolist()
    [2]
    """

    def _average(self, answers: Ratings, weight: Array, mean: Array) -> Array:
        return trimmed(answers, weight, 0.5)

    def _relative_variance(self, count: Array) -> Array:
        return 1 + (np.pi / 2 - 1) * np.maximum(1 - 1.2 / np.maximum(count, 1), 0)


class TrimmedMean(Mean):
    """The mean of the ratings of each task without the lowest and the highest ones.

    Parameters
    ----------
    cut : float
        Share of a task's ratings to leave out at each end, from 0 (the mean) to 0.5 (the median).
    random_state : int
        Seed for breaking ties between two levels.

    Examples
    --------
    >>> from crowdwise import Ratings, TrimmedMean
    >>> ratings = Ratings.from_arrays([1] * 5, list("abcde"), [10.0, 11.0, 12.5, 13.0, 90.5])
    >>> TrimmedMean().fit(ratings).labels_.round(2).tolist()
    [12.17]
    """

    def __init__(self, cut: float = 0.2, *, random_state: int = 0) -> None:
        self.cut = cut
        self.random_state = random_state

    def _check_parameters(self) -> None:
        require(is_number(self.cut) and 0 <= self.cut <= 0.5, "cut", self.cut, "a share from 0 to 0.5")

    def _average(self, answers: Ratings, weight: Array, mean: Array) -> Array:
        return trimmed(answers, weight, self.cut)

    def _relative_variance(self, count: Array) -> Array:
        return 1 + 2 * self.cut * (np.pi / 2 - 1) * np.maximum(1 - 1.2 / np.maximum(count, 1), 0)


class MeanRounded(Mean):
    """The mean of the ratings of each task, rounded to the nearest level of the scale.

    It is `Mean` for a scale only, and says so for numbers.

    Parameters
    ----------
    random_state : int
        Seed for breaking ties between two levels.

    Examples
    --------
    >>> from crowdwise import MeanRounded, Ratings
    >>> MeanRounded().fit(Ratings.from_arrays([1, 1, 1], ["a", "b", "c"], [1, 2, 5])).labels_.tolist()
    [3]
    """

    levels_only = True


def moments(answers: Ratings, weight: Array) -> tuple[Array, Array, Array]:
    """Return the mean, the total weight and the sum of squared deviations of each task's ratings, (tasks,) each."""
    n = answers.n_tasks
    count = np.bincount(answers.task, weight, n)
    mean = np.bincount(answers.task, weight * answers.value, n) / np.maximum(count, 1e-300)
    return mean, count, np.bincount(answers.task, weight * (answers.value - mean[answers.task]) ** 2, n)


def trimmed(answers: Ratings, weight: Array, cut: float) -> Array:
    """Return the mean of the middle of each task's ratings, without a share `cut` of the weight at each end, (tasks,).

    At a cut of one half, what remains is the median.
    """
    order = np.lexsort((answers.label, answers.task))
    task, value, weight = answers.task[order], answers.value[order], weight[order]
    total = np.bincount(task, weight, answers.n_tasks)[task]
    end = np.cumsum(weight)
    end -= (end - weight)[answers.task_starts[task]]  # within the task
    margin = 2.0**-20 * total if cut == 0.5 else 0.0  # the median: what is left when the middle shrinks to a point
    low, high = cut * total, (1 - cut) * total
    kept = np.minimum(end, high + margin) - np.maximum(end - weight, low - margin)  # of each weight, inside the middle
    kept = np.maximum(kept, 0.0)
    sums = np.bincount(task, kept, answers.n_tasks)
    return np.bincount(task, kept * value, answers.n_tasks) / np.maximum(sums, 1e-300)
