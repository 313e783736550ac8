"""Shares of classes among tasks, or of workers among answers."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from crowdwise.errors import ParameterError

Array = np.ndarray[Any, np.dtype[Any]]
Seed = int | np.random.Generator
Balance = Literal["even", "long-tail"] | float | Array

LONG_TAIL = 10.0  # ratio of the largest share to the smallest for "long-tail"


def shares(balance: Balance, n: int) -> Array:
    """Return shares of n classes (or workers) that sum to one.

    "even" means 1/n each. A number is the ratio of the largest share to the smallest, with a geometric decrease between
    them; "long-tail" is a ratio of 10. An array is only divided by its sum.

    >>> shares(4.0, 3).round(3).tolist()
    [0.571, 0.286, 0.143]
    """
    if isinstance(balance, str):
        if balance not in ("even", "long-tail"):
            message = f"balance {balance!r}: use 'even', 'long-tail', the ratio of largest to smallest, or shares."
            raise ParameterError(message)
        balance = 1.0 if balance == "even" else LONG_TAIL
    value = np.asarray(balance, dtype=float)
    if value.ndim == 0:
        if not (np.isfinite(value) and value >= 1):
            message = f"balance {balance}: the ratio of the largest share to the smallest must be 1 or more."
            raise ParameterError(message)
        value = value ** -np.linspace(0, 1, n)
    if value.shape != (n,) or not np.isfinite(value).all() or (value < 0).any() or value.sum() <= 0:
        message = f"balance of shape {value.shape}: pass {n} shares, finite, not negative, not all zero."
        raise ParameterError(message)
    return value / value.sum()


def split(n: int, share: Array) -> Array:
    """Return integer counts that sum to n, as close to the shares as possible (largest remainder method).

    >>> split(10, np.array([0.55, 0.25, 0.2])).tolist()
    [6, 2, 2]
    """
    exact = n * share
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: n - counts.sum()]] += 1
    return counts


def draw_truth(n_tasks: int, n_classes: int, class_balance: Balance = "even", *, seed: Seed = 0) -> Array:
    """Return true classes in random order; their counts match the shares exactly, not only on average."""
    truth = np.repeat(np.arange(n_classes, dtype=np.int32), split(n_tasks, shares(class_balance, n_classes)))
    np.random.default_rng(seed).shuffle(truth)
    return truth
