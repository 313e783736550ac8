"""Simulated comparisons of items with known scores, by workers of whom some are careless."""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Comparisons
from crowdwise.answers.comparison_columns import OUTCOMES
from crowdwise.simulate.balance import Seed


def comparisons(
    n_items: int = 20,
    n_workers: int = 30,
    n_comparisons: int = 1000,
    *,
    spread: float = 1.0,
    ties: float = 0.0,
    careless: float = 0.0,
    reversing: float = 0.0,
    seed: Seed = 0,
) -> Comparisons:
    """Simulate comparisons of random pairs by random workers.

    Item k is better than item k + 1; the scores are normal quantiles with standard deviation `spread`.

    Parameters
    ----------
    n_items, n_workers, n_comparisons : int
    spread : float
        Standard deviation of the scores.
    ties : float
        Davidson's nu: a tie of equal items has probability nu / (2 + nu).
    careless, reversing : float
        Shares of workers who guess (each prefers a side), and who answer the wrong way round. They come first.
    seed : int or Generator

    Returns
    -------
    Comparisons
        `truth` is the better item of each pair.

    Examples
    --------
    >>> comparisons(n_items=5, n_workers=4, n_comparisons=60, ties=0.5)
    Comparisons(5 items, 34 pairs, 4 workers, 60 comparisons, 12 ties)
    """
    rng = np.random.default_rng(seed)
    score = item_scores(n_items, spread)
    left = rng.integers(0, n_items, n_comparisons)
    right = (left + rng.integers(1, n_items, n_comparisons)) % n_items
    worker = rng.integers(0, n_workers, n_comparisons)
    n_careless, n_reversing = round(careless * n_workers), round(reversing * n_workers)
    d = score[left] - score[right]
    d = np.where((worker >= n_careless) & (worker < n_careless + n_reversing), -d, d)
    weights = np.stack([np.exp(d / 2), np.exp(-d / 2), np.full(len(d), ties)], axis=1)
    habit = rng.beta(1, 1, n_workers)[worker]  # of choosing the left item
    tie = ties / (2 + ties)
    guess = np.stack([habit * (1 - tie), (1 - habit) * (1 - tie), np.full(len(d), tie)], axis=1)
    proba = np.where((worker < n_careless)[:, None], guess, weights / weights.sum(axis=1, keepdims=True))
    outcome = (proba.cumsum(axis=1) < rng.random(len(d))[:, None]).sum(axis=1)
    columns = {"left": left, "right": right, "winner": np.array(OUTCOMES)[np.minimum(outcome, 2)], "worker": worker}
    return Comparisons.from_frame({**columns, "truth": np.where(left < right, "left", "right")})


def item_scores(n_items: int, spread: float = 1.0) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the true scores of simulated items, the best first."""
    quantiles = np.array([-1.0 + 2.0 * (k + 0.5) / n_items for k in range(n_items)])
    scores = -quantiles
    return scores * spread / max(float(scores.std()), 1e-12)
