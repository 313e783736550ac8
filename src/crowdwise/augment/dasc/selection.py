"""The pseudo-answers a learner is surest of, and how many of each class DASC adds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.special import entr

from crowdwise.augment.pairs import Lowest
from crowdwise.learn.base import Array
from crowdwise.simulate.balance import split


def surest(
    said: Iterable[tuple[Array, Array, Array, list[Any]]], m: list[int], n_classes: int, *, by_class: bool
) -> tuple[list[Lowest], Array]:
    """The pairs of lowest entropy, m[k] for member k and each class, or in all; and N' of each, (members, classes).

    `said` gives blocks of pairs: task, worker, P(label) by each member (members, pairs, classes), and which of the
    pairs each member chooses among. What is kept of a pair is its task, worker, label, and the label's probability.
    """
    best = [Lowest(n_classes if by_class else 1, most) for most in m]
    count = np.zeros((len(m), n_classes), np.int64)
    for task, worker, q, whose in said:
        for member, mine in enumerate(whose):
            own = q[member][mine]  # (pairs, classes)
            label = own.argmax(axis=1)
            count[member] += np.bincount(label, minlength=n_classes)
            group = label if by_class else np.zeros_like(label)
            best[member].add(group, entr(own).sum(axis=1), task[mine], worker[mine], label, own.max(axis=1))
    return best, count


def quotas(found: Array, m: int, counts: Array | None = None, *, redistribute: bool = False) -> Array:
    """M_c: how many pseudo-answers of each class to add.

    Parameters
    ----------
    found : (classes,) array
        N'_c, how many there are to choose from.
    m : int
        M, how many in all.
    counts : (classes,) array, optional
        What tau is inverse to, `found` unless given.
    redistribute : bool
        Whether what a class has not is taken from the others.

    Examples
    --------
    >>> quotas(np.array([60, 30, 20]), 12).tolist()
    [2, 4, 6]
    >>> quotas(np.array([600, 300, 2]), 100).tolist(), quotas(np.array([600, 300, 2]), 100, redistribute=True).tolist()
    ([0, 1, 2], [33, 65, 2])
    """
    if m >= found.sum():
        return found.copy()
    tau = np.where(found > 0, 1 / np.maximum(found if counts is None else counts, 1), 0.0)
    exact = m * tau / tau.sum()
    full = np.zeros(len(found), bool)
    while redistribute and (over := ~full & (exact > found)).any():
        full |= over
        exact = np.where(full, found, (m - found[full].sum()) * tau / tau[~full].sum())
    return np.minimum(split(m, exact / m), found)
