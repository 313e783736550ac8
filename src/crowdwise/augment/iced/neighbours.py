"""Synthetic tasks of rare classes: certainty of the votes, interpolation between neighbours, simulated answers.

    p[t, c]    share of the votes of task t for class c
    Var[t]     1 - sum over c of p[t, c]^2; half of that, p (1 - p), for two classes, as in the paper
    S[t]       1 / (Var[t] + eps): the certainty, highest where all agree                                       (2.4)
    z'         z_i + delta (z_r - z_i), r one of the k nearest neighbours of i in its class                     (2.3)
    delta      by the certainty of both, see `interpolation_weights`                                            (2.5)

Cost grows with the synthetic tasks, their neighbours, and the answers to these. Neighbours are searched in a limited
sample of tasks, since a full search would take tasks x tasks.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from sklearn.neighbors import NearestNeighbors

from crowdwise.answers import Answers
from crowdwise.answers.encoding import runs
from crowdwise.learn.base import Array

WarmUp = Literal["iced", "trad1", "trad2"] | None
Delta = Literal["intended", "printed", "uniform"]
Simulate = Literal["frequency", "majority"]
MOST = 10_000  # tasks in which neighbours are searched


class Interpolation(NamedTuple):
    """Interpolation between tasks of the same class."""

    first: Array  # (made,) the start task of each point
    second: Array  # (made,) its neighbour
    delta: Array  # (made,) fraction of the way, 0 to 1

    def apply(self, values: Array) -> Array:
        """Return the values (tasks, ...) interpolated, (made, ...)."""
        start = values[self.first]
        delta = self.delta.astype(start.dtype).reshape(-1, *[1] * (start.ndim - 1))
        return start + delta * (values[self.second] - start)


def variance(shares: Array) -> Array:
    """Return Var of the votes per task, (tasks,), from their shares (tasks, classes).

    >>> variance(np.array([[6 / 7, 1 / 7], [1, 0]])).round(4).tolist()
    [0.1224, 0.0]
    >>> variance(np.array([[2 / 3, 1 / 3, 0]])).round(4).tolist()
    [0.4444]
    """
    spread = np.maximum(1 - np.square(shares).sum(axis=1), 0.0)
    return spread / 2 if shares.shape[1] == 2 else spread


def certainty(shares: Array, eps: float) -> Array:
    """Return S per task, (tasks,).

    >>> certainty(np.array([[1, 0], [0.5, 0.5]]), 0.05).round(4).tolist()
    [20.0, 3.3333]
    """
    return 1 / (variance(shares) + eps)


def certainty_groups(shares: Array, n_votes: float) -> Array:
    """Return the certainty group per task, (tasks,): 1 is the highest, 2 and 3 the next, 0 low.

    Groups 1, 2 and 3 have up to none, one and two dissenting votes of `n_votes`: with seven votes per task they are
    7-0, 6-1 and 5-2, and 4-3 is low. If tasks differ in their number of votes, or votes in weight, `n_votes` is the
    typical number, and the certainty decides the group. A task without a majority is always low. With two or three
    votes per task, all tasks with a majority are in groups 1 and 2.

    >>> certainty_groups(np.array([[7, 0], [6, 1], [5, 2], [4, 3]]) / 7, 7).tolist()
    [1, 2, 3, 0]
    >>> certainty_groups(np.array([[1, 0], [2 / 3, 1 / 3], [0.5, 0.5]]), 2.5).tolist()
    [1, 2, 0]
    """
    dissent = np.minimum([0, 1, 2], n_votes / 2)
    limit = dissent * (n_votes - dissent) / n_votes**2  # Var with that many dissenting votes
    if shares.shape[1] > 2:
        limit = 2 * limit
    group = 1 + np.searchsorted(limit + 1e-9, variance(shares))  # 4: above the last limit
    top = np.sort(shares, axis=1)[:, -2:]
    return np.where((group == 4) | (top[:, 1] - top[:, 0] < 1e-9), 0, group)


def warm_up_plan(kind: WarmUp, epochs: int, group: Array) -> list[tuple[Array, int]]:
    """Return the stages of the warm-up: tasks, (tasks,) bool, and epochs, from the certainty groups (tasks,).

    iced     certainty groups 3, 2 and 1 in turn, `epochs` each; empty groups are skipped
    trad1    all tasks, for three times `epochs`
    trad2    the three groups together, for three times `epochs`
    """
    if kind is None:
        return []
    if kind == "trad1":
        return [(np.ones(len(group), bool), 3 * epochs)]
    plan = [(group > 0, 3 * epochs)] if kind == "trad2" else [(group == g, epochs) for g in (3, 2, 1)]
    return [(tasks, length) for tasks, length in plan if tasks.any()]


def balancing_counts(labels: Array, n_classes: int) -> Array:
    """Return how many synthetic tasks make each class as frequent as the most frequent one, (classes,).

    0 for a class without tasks: there is nothing to interpolate.

    >>> balancing_counts(np.array([0, 0, 0, 1, 2, 2]), 4).tolist()
    [0, 2, 1, 0]
    """
    count = np.bincount(labels, minlength=n_classes)
    return np.where(count > 0, count.max() - count, 0)


def nearest(points: Array, queries: Array | None, k: int, most: int, rng: np.random.Generator) -> Array:
    """Return the k nearest points of each query, (queries, k), or all if fewer; None queries each point for the others.

    If there are more than `most` points (and `k` + 1), the search is in a random sample of that size.
    """
    if len(points) <= max(most, k + 1):
        index = NearestNeighbors(n_neighbors=min(k, len(points) - (queries is None))).fit(points)
        return np.asarray(index.kneighbors(queries, return_distance=False))
    drawn = rng.choice(len(points), max(most, k + 1), replace=False)
    index = NearestNeighbors(n_neighbors=k + (queries is None)).fit(points[drawn])
    found = drawn[index.kneighbors(points if queries is None else queries, return_distance=False)]
    if queries is not None:
        return np.asarray(found)
    same = found == np.arange(len(points))[:, None]  # the point itself, if sampled, is sorted last
    return np.take_along_axis(found, np.argsort(same, axis=1, kind="stable")[:, :k], axis=1)


def interpolation_weights(kind: Delta, first: Array, second: Array, noise: float, rng: np.random.Generator) -> Array:
    """Return delta, (made,), from the certainty of the start task and of its neighbour.

    intended   S_second / (S_first + S_second) + eta: towards the more certain of the two, as the text says
    printed    S_first / (S_first + S_second) + eta: as (2.5) is printed: towards the less certain
    uniform    from 0 to 1, regardless of certainty (SMOTE)

    eta is uniform within `noise` of zero; delta is clipped to 0 and 1.

    >>> rng = np.random.default_rng(0)
    >>> interpolation_weights("intended", np.array([20.0]), np.array([5.0]), 0.0, rng).item()
    0.2
    >>> interpolation_weights("printed", np.array([20.0]), np.array([5.0]), 0.0, rng).item()
    0.8
    """
    if kind == "uniform":
        return rng.random(len(first))
    towards = second if kind == "intended" else first
    return np.clip(towards / (first + second) + rng.uniform(-noise, noise, len(first)), 0, 1)


def interpolate_tasks(
    z: Array,
    labels: Array,
    sure: Array,
    quota: Array,
    *,
    k: int,
    delta: Delta,
    noise: float,
    rng: np.random.Generator,
    candidate: Array | None = None,
    most: int = MOST,
) -> Interpolation:
    """Return random points between neighbouring tasks of the same class.

    Parameters
    ----------
    z, labels, sure : arrays (tasks, width), (tasks,), (tasks,)
        Positions of the tasks, their classes and their certainty.
    quota : (classes,) array
        Number of points per class. All its candidates are start tasks equally often, up to one.
    k, delta, noise
        Number of neighbours; see `interpolation_weights`. All points of a class with one task equal that task.
    candidate : (tasks,) bool array, optional
        Tasks to interpolate between; all tasks of a class if none of them is a candidate.
    most : int
        Tasks of a class in which neighbours are searched.
    """
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for c in np.flatnonzero(quota):
        tasks = np.flatnonzero(labels == c)
        if candidate is not None and candidate[tasks].any():
            tasks = tasks[candidate[tasks]]
        turns, rest = divmod(int(quota[c]), len(tasks))
        start = np.append(np.tile(np.arange(len(tasks)), turns), rng.permutation(len(tasks))[:rest])
        single = len(tasks) == 1
        near = np.zeros((1, 1), np.int64) if single else nearest(z[tasks], None, k, most, rng)  # (tasks of c, k)
        first.append(tasks[start])
        second.append(tasks[near[start, rng.integers(near.shape[1], size=len(start))]])
    i, r = np.concatenate(first), np.concatenate(second)
    return Interpolation(i, r, interpolation_weights(delta, sure[i], sure[r], noise, rng))


def simulate_answers(answers: Answers, near: Array, kind: Simulate, rng: np.random.Generator) -> Answers:
    """Return answers to synthetic tasks, from the workers' answers to the nearest real tasks.

    Each worker who answered one of the nearest tasks answers the synthetic one, once: with a label drawn from those
    they gave there ("frequency"), or their most frequent one ("majority", ties at random). Its weight is the mean
    weight of their answers there. Other workers do not answer.

    Parameters
    ----------
    answers : Answers
        The real answers.
    near : (made, k) array
        Tasks nearest to each synthetic one, each with at least one answer.

    Returns
    -------
    Answers
        Tasks are numbered 0, 1, ...; workers and classes are those of the real answers.

    Examples
    --------
    >>> real = Answers.from_codes([0, 0, 1, 2], [0, 1, 0, 0], [1, 0, 1, 0], tasks=3, workers=2, classes=2)
    >>> made = simulate_answers(real, np.array([[0, 1, 2], [1, 2, 1]]), "majority", np.random.default_rng(0))
    >>> made.task.tolist(), made.worker.tolist(), made.label.tolist()
    ([0, 0, 1], [0, 1, 0], [1, 0, 1])
    """
    n_made, k = near.shape
    at, neighbour = runs(answers.task_starts, near.ravel())  # answers to all neighbours; index in made * k
    task = neighbour // k
    weight = np.ones(len(at)) if answers.weight is None else answers.weight[at]
    pair = task * answers.n_workers + answers.worker[at]  # task and worker
    triple, place = np.unique(pair * answers.n_classes + answers.label[at], return_inverse=True)  # task, worker, label
    votes = np.maximum(np.bincount(place, weight, minlength=len(triple)), 1e-200)  # above 0: a divisor
    # The minimum of exponential draws divided by the votes selects a label in proportion to its votes.
    rank = -votes if kind == "majority" else rng.exponential(size=len(triple)) / votes
    who = triple // answers.n_classes
    order = np.lexsort((rng.random(len(triple)), rank, who))
    chosen = order[np.diff(who[order], prepend=-1) > 0]
    mean = None
    if answers.weight is not None:
        _, group = np.unique(pair, return_inverse=True)
        mean = np.bincount(group, weight) / np.bincount(group)
    return Answers.from_codes(
        who[chosen] // answers.n_workers, who[chosen] % answers.n_workers, triple[chosen] % answers.n_classes,
        tasks=n_made, workers=answers.worker_ids, classes=answers.class_ids, weight=mean,
    )  # fmt: skip
