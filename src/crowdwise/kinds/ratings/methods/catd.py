"""CATD, Li et al. (2014): weights of workers from the upper end of a confidence interval of their precision.

    weight[w] = chi2(alpha / 2, n[w]) / sum over w's answers of (rating - value[t])^2      n = number of ratings
    value[t]  = mean of the ratings of t, weighted by weight[w]

repeated until the values settle. chi2(alpha / 2, n) is the quantile at alpha / 2 of the chi-square distribution with n
degrees of freedom: it is far below n for a few ratings, so that a worker with few ratings gets little weight even if
these happen to agree with the others.

Li, Li, Gao, Su, Zhao, Demirbas, Fan and Han, "A confidence-aware approach for truth discovery on long-tail data",
VLDB 2014. It starts from the median. Distances are relative to the standard deviation of all ratings, and LEAST is
added to each sum, since a worker who agrees exactly would decide everything. Workers have no bias.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from crowdwise._core.validation import is_number, require
from crowdwise.answers import Ratings
from crowdwise.kinds.ratings.base import RatingModel, task_weights
from crowdwise.kinds.ratings.methods.averages import Mean, Median
from crowdwise.truth.base import Array, Callback

LEAST = 0.05


class CATD(RatingModel):
    """Means weighted by the workers' precision, with little weight for workers with few ratings.

    Parameters
    ----------
    alpha : float
        One minus the level of the confidence interval.
    max_iter : int
        Largest number of iterations.
    tol : float
        Change of the values, relative to the standard deviation of all ratings, at which the iteration stops.
    random_state : int
        Seed for breaking ties between two levels of a scale.

    Attributes
    ----------
    skill_ : (workers,) array
        Weight of each worker; they sum to one.

    Examples
    --------
    >>> from crowdwise import CATD, Ratings
    >>> rows = [(t, w, 10.0 * t + (w == "c") * (-1) ** t * 5 + 0.1) for t in range(8) for w in "abc"]
    >>> CATD().fit(Ratings.from_arrays(*zip(*rows))).skill_.argmin().item()
    2
    """

    skill_: Array

    converged_: bool
    n_iter_: int
    standard_error_: Array
    value_: Array

    def __init__(self, alpha: float = 0.05, *, max_iter: int = 200, tol: float = 1e-6, random_state: int = 0) -> None:
        self.alpha = alpha
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _check_parameters(self) -> None:
        require(is_number(self.alpha) and 0 < self.alpha < 1, "alpha", self.alpha, "a number between 0 and 1")

    def _fit(self, answers: Ratings, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:  # type: ignore[override]
        weight = task_weights(answers)
        start = Median().fit(answers, gold)
        unit = float(np.sqrt(np.average((answers.value - answers.value.mean()) ** 2, weights=weight))) or 1.0
        n = np.bincount(answers.worker, weight, answers.n_workers)
        quantile = 2 * special.gammaincinv(np.maximum(n, 1e-9) / 2, self.alpha / 2)  # of chi-square
        value, self.converged_ = start.value_, False
        known = None if gold is None else np.isfinite(gold)
        for iteration in range(self.max_iter):
            squares = weight * ((answers.value - value[answers.task]) / unit) ** 2
            skill = quantile / (np.bincount(answers.worker, squares, answers.n_workers) + LEAST)
            r = weight * skill[answers.worker]
            total = np.bincount(answers.task, r, answers.n_tasks)
            sums = np.bincount(answers.task, r * answers.value, answers.n_tasks)
            new = np.where(total > 0, sums / np.maximum(total, 1e-300), start.value_)
            if known is not None and gold is not None:
                new[known] = gold[known]
            change = float(np.abs(new - value).max()) / unit
            value, self.n_iter_ = new, iteration + 1
            if callback is not None:
                callback(iteration, -change)
            if change < self.tol:
                self.converged_ = True
                break
        self.value_, self.skill_ = value, skill / skill.sum()
        effective = total**2 / np.maximum(np.bincount(answers.task, r**2, answers.n_tasks), 1e-300)  # of ratings
        mean = Mean().fit(answers)
        loss = np.maximum(np.diff(answers.task_starts), 1) / np.maximum(effective, 1e-12)
        self.standard_error_, self.degrees_ = mean.standard_error_ * np.sqrt(np.maximum(loss, 1)), mean.degrees_
        self._fix_gold(gold)
