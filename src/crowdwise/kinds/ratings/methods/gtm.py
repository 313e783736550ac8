"""Gaussian Truth Model, Zhao and Han (2012): one variance per worker, estimated together with the values by EM.

    truth[t]    ~ N(0, 1)                                        t = task; ratings are standardised over all of them
    rating[a]   ~ N(truth[t], variance[w])                       a = answer by worker w
    variance[w] ~ InverseGamma(alpha, beta)

    E   precision[t] = 1 + sum over a to t of 1 / variance[w];   x[t] = sum of rating / variance[w], over precision[t]
    M   variance[w] = (2 beta + sum over w's answers of (rating - x[t])^2 + 1 / precision[t]) / (2 alpha + 2 + n[w])

    bound = log-likelihood of the ratings + log prior of the variances (up to a constant)

Zhao and Han, "A probabilistic model for estimating real-valued truth from conflicting sources", QDB 2012. Workers
have no bias: one who is always 10 too high is taken to be noisy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.validation import is_number, require
from crowdwise.answers import Ratings
from crowdwise.kinds.ratings.base import RatingModel, task_weights
from crowdwise.truth.base import Array, Callback
from crowdwise.truth.em import run_em


class Work(NamedTuple):
    """Arrays of one fit."""

    task: Array  # (answers,)
    worker: Array  # (answers,)
    y: Array  # (answers,): standardised ratings
    weight: Array  # (answers,)
    n_tasks: int
    n_workers: int
    known: Array  # (tasks,): NaN where unknown


class GTM(RatingModel):
    """One variance per worker, estimated together with the values by EM.

    Parameters
    ----------
    alpha, beta : float
        Shape and scale of the inverse gamma prior of the workers' variances, in units of the variance of all ratings.
    max_iter : int
        Largest number of iterations.
    tol : float
        Rise of the bound per answer at which the iteration stops; 0 runs all `max_iter` iterations.
    random_state : int
        Seed for breaking ties between two levels of a scale.

    Attributes
    ----------
    spread_ : (workers,) array
        Standard deviation of each worker's ratings from the truth.

    Examples
    --------
    >>> from crowdwise import GTM, Ratings
    >>> rows = [(t, w, 10.0 * t + (w == "c") * (-1) ** t * 5 + 0.1) for t in range(8) for w in "abc"]
    >>> GTM().fit(Ratings.from_arrays(*zip(*rows))).spread_.argmax().item()
    2
    """

    monotone = True
    spread_: Array

    converged_: bool
    history_: list[float]
    n_iter_: int
    standard_error_: Array
    value_: Array

    def __init__(
        self, alpha: float = 2.0, beta: float = 1.0, *, max_iter: int = 300, tol: float = 1e-6, random_state: int = 0
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def _check_parameters(self) -> None:
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            require(is_number(value) and value > 0, name, value, "a number above 0")

    def _fit(self, answers: Ratings, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:  # type: ignore[override]
        weight = task_weights(answers)
        centre = float(np.average(answers.value, weights=weight))
        unit = float(np.sqrt(np.average((answers.value - centre) ** 2, weights=weight))) or 1.0
        known = np.full(answers.n_tasks, np.nan) if gold is None else (gold - centre) / unit
        y = (answers.value - centre) / unit
        work = Work(answers.task, answers.worker, y, weight, answers.n_tasks, answers.n_workers, known)
        variance, self.history_, self.converged_ = run_em(
            self, work, np.full(answers.n_workers, 0.5), answers.n_answers, callback
        )
        self.n_iter_ = len(self.history_)
        x, precision = self._tasks(work, variance)
        self.value_, self.standard_error_ = centre + unit * x, unit / np.sqrt(precision)
        self._fix_gold(gold)
        self.spread_ = unit * np.sqrt(variance)

    def _tasks(self, work: Work, variance: Array) -> tuple[Array, Array]:
        """Return the posterior mean and precision of each task."""
        r = work.weight / variance[work.worker]
        precision = 1 + np.bincount(work.task, r, work.n_tasks)
        return np.bincount(work.task, r * work.y, work.n_tasks) / precision, precision

    def _e_step(self, work: Work, variance: Array) -> tuple[Any, float]:
        x, precision = self._tasks(work, variance)
        known = np.isfinite(work.known)
        r = work.weight / variance[work.worker]
        bound = (
            0.5 * (work.weight * np.log(1 / (2 * np.pi * variance[work.worker]))).sum() - 0.5 * (r * work.y**2).sum()
        )
        bound += 0.5 * (precision * x**2 - np.log(precision))[~known].sum()
        fixed = work.known[known]  # for a known truth, log N(ratings | truth) N(truth | 0, 1)
        bound += (precision[known] * x[known] * fixed - 0.5 * precision[known] * fixed**2).sum()
        bound -= ((self.alpha + 1) * np.log(variance) + self.beta / variance).sum()
        return (np.where(known, work.known, x), np.where(known, 0, 1 / precision)), float(bound)

    def _m_step(self, work: Work, statistics: Any, variance: Array) -> Array:
        x, spread = statistics
        squares = work.weight * ((work.y - x[work.task]) ** 2 + spread[work.task])
        total = 2 * self.beta + np.bincount(work.worker, squares, work.n_workers)
        return np.asarray(total / (2 * self.alpha + 2 + np.bincount(work.worker, work.weight, work.n_workers)))
