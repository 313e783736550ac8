"""Simulated ratings with known truth: workers with a bias, a spread, a way to use the scale, and careless ones."""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Ratings


def rating_crowd(
    n_tasks: int = 500,
    n_workers: int = 30,
    n_levels: int | None = 5,
    answers_per_task: int = 5,
    *,
    bias: float = 0.5,
    spread: float = 0.7,
    scale: float = 0.15,
    careless: float = 0.0,
    difficulty: float = 0.0,
    skew: float = 0.0,
    seed: int = 0,
) -> Ratings:
    """Return ratings of workers who differ, with the true value of each task.

    A worker's rating is `centre + stretch * (truth - centre) + bias + spread * noise`. On a scale it is rounded to a
    level and clipped to the scale. Careless workers answer at random.

    Parameters
    ----------
    n_tasks, n_workers : int
        Size of the crowd.
    n_levels : int or None
        Levels of the scale, 1 to `n_levels`; None for numbers, with a truth from 0 to 100, 25 per level.
    answers_per_task : int
        Number of workers per task.
    bias : float
        Standard deviation of the workers' biases, in levels.
    spread : float
        Median of the workers' spreads, in levels; they vary by a factor of about two.
    scale : float
        Standard deviation of the log of the workers' stretch.
    careless : float
        Share of workers who answer at random.
    difficulty : float
        Standard deviation of the log of the tasks' difficulty, which multiplies the spread.
    skew : float
        How much more frequent low levels are: 0 for equal shares, 1 for shares that halve from level to level.
    seed : int
        The same seed gives the same crowd.

    Examples
    --------
    >>> rating_crowd(n_tasks=100, seed=1)
    Ratings(100 tasks, 30 workers, 500 answers, 5 levels from 1 to 5)
    """
    sizes = (n_tasks, n_workers, answers_per_task)
    require(all(is_integer(size, 1) for size in sizes), "sizes", sizes, "integers, 1 or more")
    require(n_levels is None or is_integer(n_levels, 2), "n_levels", n_levels, "None, or an integer, 2 or more")
    require(answers_per_task <= n_workers, "answers_per_task", answers_per_task, "at most n_workers")
    for name, value in (("bias", bias), ("spread", spread), ("scale", scale), ("difficulty", difficulty)):
        require(is_number(value) and value >= 0, name, value, "a number, 0 or more")
    require(is_number(careless) and 0 <= careless <= 1, "careless", careless, "a share from 0 to 1")
    rng = np.random.default_rng(seed)
    levels = 5 if n_levels is None else n_levels
    share = 2.0 ** (-skew * np.arange(levels))
    truth = 1.0 + rng.choice(levels, n_tasks, p=share / share.sum())
    if n_levels is None:
        truth = np.clip(truth + rng.uniform(-0.5, 0.5, n_tasks), 1, levels)
    own_bias = rng.normal(0, bias, n_workers)
    own_spread = spread * np.exp(rng.normal(0, 0.4, n_workers))
    stretch = np.exp(rng.normal(0, scale, n_workers))
    hard = np.exp(rng.normal(0, difficulty, n_tasks))
    task = np.repeat(np.arange(n_tasks), answers_per_task)
    worker = np.argsort(rng.random((n_tasks, n_workers)), axis=1)[:, :answers_per_task].ravel()
    centre = (levels + 1) / 2
    value = centre + stretch[worker] * (truth[task] - centre) + own_bias[worker]
    value += own_spread[worker] * hard[task] * rng.normal(size=len(task))
    at_random = (rng.random(n_workers) < careless)[worker]
    value[at_random] = rng.uniform(0.5, levels + 0.5, at_random.sum())
    if n_levels is None:
        numbers = np.round(25 * (value - 1), 2)
        table = Ratings.from_arrays(task, worker, numbers, numeric=True, tasks=np.arange(n_tasks))
        return table.with_truth(25 * (truth - 1))
    rated = np.clip(np.round(value), 1, levels)
    table = Ratings.from_arrays(task, worker, rated, levels=list(range(1, levels + 1)), tasks=np.arange(n_tasks))
    return table.with_truth(truth)
