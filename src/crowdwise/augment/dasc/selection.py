"""The pseudo-answers of lowest entropy, and how many of each class DASC adds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import entr

from crowdwise.augment.pairs import LowestScores
from crowdwise.learn.base import Array
from crowdwise.simulate.balance import split


def lowest_entropy_pairs(
    blocks: Iterable[tuple[Array, Array, Array, list[Any]]], m: list[int], n_classes: int, *, by_class: bool
) -> tuple[list[LowestScores], Array]:
    """Return the m[k] pairs of lowest entropy of member k, per class or in all, and N' of each, (members, classes).

    A block of pairs is: task, worker, P(label) by each member (members, pairs, classes), and which of the pairs each
    member chooses from. A selected pair is its task, worker, label, and the probability of the label.
    """
    best = [LowestScores(n_classes if by_class else 1, most) for most in m]
    count = np.zeros((len(m), n_classes), np.int64)
    for task, worker, q, choosable in blocks:
        for member, rows in enumerate(choosable):
            own = q[member][rows]  # (pairs, classes)
            label = own.argmax(axis=1)
            count[member] += np.bincount(label, minlength=n_classes)
            group = label if by_class else np.zeros_like(label)
            best[member].add(group, entr(own).sum(axis=1), task[rows], worker[rows], label, own.max(axis=1))
    return best, count


def quotas(available: Array, m: int, counts: Array | None = None, *, redistribute: bool = False) -> Array:
    """Return M_c, the number of pseudo-answers to add per class.

    Parameters
    ----------
    available : (classes,) array
        N'_c, the pseudo-answers to choose from per class.
    m : int
        M, the number to add in total.
    counts : (classes,) array, optional
        Counts to which tau is inversely proportional (default: `available`).
    redistribute : bool
        Whether other classes fill the quota of a class that has too few.

    Examples
    --------
    >>> quotas(np.array([60, 30, 20]), 12).tolist()
    [2, 4, 6]
    >>> quotas(np.array([600, 300, 2]), 100).tolist(), quotas(np.array([600, 300, 2]), 100, redistribute=True).tolist()
    ([0, 1, 2], [33, 65, 2])
    """
    if m >= available.sum():
        return available.copy()
    tau = np.where(available > 0, 1 / np.maximum(available if counts is None else counts, 1), 0.0)
    exact = m * tau / tau.sum()
    full = np.zeros(len(available), bool)
    while redistribute and (over := ~full & (exact > available)).any():
        full |= over
        exact = np.where(full, available, (m - available[full].sum()) * tau / tau[~full].sum())
    return np.minimum(split(m, exact / m), available)
