"""How ICED makes tasks of rare classes: certainty of the votes, points between neighbours, simulated answers.

    p[t, c]    share of the votes of task t for class c
    Var[t]     1 - sum over c of p[t, c]^2; half of that, p (1 - p), where there are two classes, as in the paper
    S[t]       1 / (Var[t] + eps): the certainty, highest where all agree                                       (2.4)
    z'         z_i + delta (z_r - z_i), r one of the k nearest neighbours of i in its class                     (2.3)
    delta      by the certainty of both, see `steps`                                                            (2.5)

Functions on arrays; nothing here grows faster than the tasks made, their neighbours, and those neighbours' answers.
Neighbours are those among a limited number of tasks, drawn where there are more: otherwise a search would take tasks
times tasks.
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
MOST = 10_000  # tasks that neighbours are looked for among


class Between(NamedTuple):
    """Points between tasks of the same class."""

    first: Array  # (made,) the task each starts from
    second: Array  # (made,) the neighbour it goes towards
    delta: Array  # (made,) how far, 0 to 1

    def of(self, values: Array) -> Array:
        """The values (tasks, ...) interpolated, (made, ...)."""
        start = values[self.first]
        delta = self.delta.astype(start.dtype).reshape(-1, *[1] * (start.ndim - 1))
        return start + delta * (values[self.second] - start)


def variance(shares: Array) -> Array:
    """Var of the votes of each task, (tasks,), from their shares (tasks, classes).

    >>> variance(np.array([[6 / 7, 1 / 7], [1, 0]])).round(4).tolist()
    [0.1224, 0.0]
    >>> variance(np.array([[2 / 3, 1 / 3, 0]])).round(4).tolist()
    [0.4444]
    """
    spread = np.maximum(1 - np.square(shares).sum(axis=1), 0.0)
    return spread / 2 if shares.shape[1] == 2 else spread


def certainty(shares: Array, eps: float) -> Array:
    """S of each task, (tasks,).

    >>> certainty(np.array([[1, 0], [0.5, 0.5]]), 0.05).round(4).tolist()
    [20.0, 3.3333]
    """
    return 1 / (variance(shares) + eps)


def certainty_groups(shares: Array, n_votes: float) -> Array:
    """Group of each task, (tasks,): 1 the highest certainty, 2 and 3 the next, 0 low.

    The groups end where none, one and two of `n_votes` votes dissent: with seven votes a task they are 7-0, 6-1 and
    5-2, and 4-3 is low. Where tasks differ in their number of votes, or votes in weight, `n_votes` is what is usual and
    a task belongs where its certainty puts it. No majority is always low. Of two or three votes a task, all that have
    a majority are in the first two groups and the third is empty.

    >>> certainty_groups(np.array([[7, 0], [6, 1], [5, 2], [4, 3]]) / 7, 7).tolist()
    [1, 2, 3, 0]
    >>> certainty_groups(np.array([[1, 0], [2 / 3, 1 / 3], [0.5, 0.5]]), 2.5).tolist()
    [1, 2, 0]
    """
    dissent = np.minimum([0, 1, 2], n_votes / 2)
    limit = dissent * (n_votes - dissent) / n_votes**2  # Var of the votes where so many of them dissent
    if shares.shape[1] > 2:
        limit = 2 * limit
    group = 1 + np.searchsorted(limit + 1e-9, variance(shares))  # 4: beyond the last limit
    top = np.sort(shares, axis=1)[:, -2:]
    return np.where((group == 4) | (top[:, 1] - top[:, 0] < 1e-9), 0, group)


def warm_up_plan(kind: WarmUp, epochs: int, shares: Array, n_votes: Array) -> list[tuple[Array, int]]:
    """Which tasks, (tasks,) bool, to train on in turn, and for how many epochs; `n_votes` are those of each task.

    iced     the third group by certainty, the second, the highest, for some epochs each; a group without tasks is
             passed over
    trad1    all tasks, for three times as many
    trad2    the three groups at once, for three times as many
    """
    if kind is None:
        return []
    if kind == "trad1":
        return [(np.ones(len(shares), bool), 3 * epochs)]
    group = certainty_groups(shares, float(np.median(n_votes[n_votes > 0])))
    plan = [(group > 0, 3 * epochs)] if kind == "trad2" else [(group == g, epochs) for g in (3, 2, 1)]
    return [(tasks, length) for tasks, length in plan if tasks.any()]


def quotas(labels: Array, n_classes: int) -> Array:
    """How many tasks of each class to make, (classes,): as many as it takes to be as common as the commonest.

    None of a class that no task has: there is nothing to make them from.

    >>> quotas(np.array([0, 0, 0, 1, 2, 2]), 4).tolist()
    [0, 2, 1, 0]
    """
    count = np.bincount(labels, minlength=n_classes)
    return np.where(count > 0, count.max() - count, 0)


def nearest(points: Array, queries: Array | None, k: int, most: int, rng: np.random.Generator) -> Array:
    """The k nearest points of each query, (queries, k), fewer if there are fewer; of the others when None is given.

    Of more than `most` points (and `k` + 1), so many are drawn, and the nearest among them are found.
    """
    if len(points) <= max(most, k + 1):
        index = NearestNeighbors(n_neighbors=min(k, len(points) - (queries is None))).fit(points)
        return np.asarray(index.kneighbors(queries, return_distance=False))
    drawn = rng.choice(len(points), max(most, k + 1), replace=False)
    index = NearestNeighbors(n_neighbors=k + (queries is None)).fit(points[drawn])
    found = drawn[index.kneighbors(points if queries is None else queries, return_distance=False)]
    if queries is not None:
        return np.asarray(found)
    himself = found == np.arange(len(points))[:, None]  # goes last, where he was drawn
    return np.take_along_axis(found, np.argsort(himself, axis=1, kind="stable")[:, :k], axis=1)


def steps(kind: Delta, first: Array, second: Array, noise: float, rng: np.random.Generator) -> Array:
    """delta, (made,), from the certainty of the task started from and of the neighbour.

    intended   S_second / (S_first + S_second) + eta: towards the more certain of the two, as the text says
    printed    S_first / (S_first + S_second) + eta: what (2.5) says, which is towards the less certain
    uniform    from 0 to 1, whatever the certainty: SMOTE

    eta is uniform within `noise` of zero; delta is kept within 0 and 1.

    >>> rng = np.random.default_rng(0)
    >>> [steps(kind, np.array([20.0]), np.array([5.0]), 0.0, rng).item() for kind in ("intended", "printed")]
    [0.2, 0.8]
    """
    if kind == "uniform":
        return rng.random(len(first))
    towards = second if kind == "intended" else first
    return np.clip(towards / (first + second) + rng.uniform(-noise, noise, len(first)), 0, 1)


def between(
    z: Array,
    labels: Array,
    sure: Array,
    quota: Array,
    *,
    k: int,
    delta: Delta,
    noise: float,
    rng: np.random.Generator,
    most: int = MOST,
) -> Between:
    """Choose points between tasks of the same class.

    Parameters
    ----------
    z, labels, sure : arrays (tasks, width), (tasks,), (tasks,)
        Where tasks lie, their classes and their certainty.
    quota : (classes,) array
        How many points of each class. Its tasks are started from equally often, up to one.
    k, delta, noise
        Neighbours to choose among; see `steps`. A class of one task has no neighbours: its points lie on it.
    most : int
        Tasks of a class that neighbours are looked for among.
    """
    first, second = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for c in np.flatnonzero(quota):
        tasks = np.flatnonzero(labels == c)
        turns, rest = divmod(int(quota[c]), len(tasks))
        start = np.append(np.tile(np.arange(len(tasks)), turns), rng.permutation(len(tasks))[:rest])
        alone = len(tasks) == 1
        near = np.zeros((1, 1), np.int64) if alone else nearest(z[tasks], None, k, most, rng)  # (tasks of c, k)
        first.append(tasks[start])
        second.append(tasks[near[start, rng.integers(near.shape[1], size=len(start))]])
    i, r = np.concatenate(first), np.concatenate(second)
    return Between(i, r, steps(delta, sure[i], sure[r], noise, rng))


def simulate_answers(answers: Answers, near: Array, kind: Simulate, rng: np.random.Generator) -> Answers:
    """Answers to made tasks: each worker says what he said of the real tasks nearest to them.

    Whoever answered one of those tasks answers the made one, once: a label drawn from those he gave there
    ("frequency"), or the one he gave most often ("majority", ties at random). The others say nothing. Its weight is the
    mean of those he gave there.

    Parameters
    ----------
    answers : Answers
        The real ones.
    near : (made, k) array
        Tasks nearest to each made one, each with one answer at least.

    Returns
    -------
    Answers
        Tasks 0, 1, ... are the made ones; workers and classes are those of the real answers.

    Examples
    --------
    >>> real = Answers.from_codes([0, 0, 1, 2], [0, 1, 0, 0], [1, 0, 1, 0], tasks=3, workers=2, classes=2)
    >>> made = simulate_answers(real, np.array([[0, 1, 2], [1, 2, 1]]), "majority", np.random.default_rng(0))
    >>> made.task.tolist(), made.worker.tolist(), made.label.tolist()
    ([0, 0, 1], [0, 1, 0], [1, 0, 1])
    """
    n_made, k = near.shape
    at, neighbour = runs(answers.task_starts, near.ravel())  # answers of all neighbours; whose of made * k each is
    task = neighbour // k
    weight = np.ones(len(at)) if answers.weight is None else answers.weight[at]
    pair = task * answers.n_workers + answers.worker[at]  # who answers what
    said, place = np.unique(pair * answers.n_classes + answers.label[at], return_inverse=True)  # (said,)
    votes = np.maximum(np.bincount(place, weight, minlength=len(said)), 1e-200)  # above 0: it is divided by
    # The smallest of exponential draws divided by the votes is each label's in proportion to its votes.
    rank = -votes if kind == "majority" else rng.exponential(size=len(said)) / votes
    who = said // answers.n_classes
    order = np.lexsort((rng.random(len(said)), rank, who))
    chosen = order[np.diff(who[order], prepend=-1) > 0]
    mean = None
    if answers.weight is not None:
        _, group = np.unique(pair, return_inverse=True)
        mean = np.bincount(group, weight) / np.bincount(group)
    return Answers.from_codes(
        who[chosen] // answers.n_workers, who[chosen] % answers.n_workers, said[chosen] % answers.n_classes,
        tasks=n_made, workers=answers.worker_ids, classes=answers.class_ids, weight=mean,
    )  # fmt: skip
