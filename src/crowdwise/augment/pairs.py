"""Pairs of a task and a worker who did not answer it: all of them in blocks, a random sample, or those of best score.

There are about tasks x workers such pairs, too many to hold in memory. No array here is larger than a block (at least
the pairs of one task) or than twice the number of pairs asked for. A large sample is drawn range by range of tasks,
each in proportion to its missing pairs, so that every pair is equally likely.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array

PAIRS = 200_000  # pairs in a block
DRAWN = 2_000_000  # pairs drawn at a time


def n_missing(answers: Answers) -> int:
    """Return the number of pairs of a task and a worker without an answer."""
    return answers.n_tasks * answers.n_workers - answers.n_answers


def missing_blocks(answers: Answers, pairs: int = PAIRS, most: int = PAIRS) -> Iterator[tuple[Array, Array, Array]]:
    """Yield all pairs without an answer, in blocks of complete tasks, at most `most` tasks each.

    A block is the tasks (block,) and, per pair, its row among these tasks and its worker, as `_proba_of_answers` takes.

    >>> answers = Answers.from_codes([0, 1, 1], [1, 0, 1], [0, 0, 1], tasks=3, workers=2, classes=2)
    >>> [(tasks[row].tolist(), worker.tolist()) for tasks, row, worker in missing_blocks(answers)]
    [([0, 2, 2], [0, 0, 1])]
    """
    starts, n_workers = answers.task_starts, answers.n_workers
    size = max(1, min(pairs // max(n_workers, 1), most))
    for first in range(0, answers.n_tasks, size):
        tasks = np.arange(first, min(first + size, answers.n_tasks))
        part = slice(starts[first], starts[tasks[-1] + 1])
        missing = np.ones((len(tasks), n_workers), bool)
        missing[answers.task[part] - first, answers.worker[part]] = False
        row, worker = np.nonzero(missing)
        if len(row):
            yield tasks, row, worker


def draw_missing(
    answers: Answers, n: int, rng: np.random.Generator, first: int = 0, end: int | None = None
) -> tuple[Array, Array]:
    """Return task and worker of `n` distinct pairs without an answer, drawn uniformly and sorted, or of all.

    Only tasks from `first` up to, but not including, `end` are considered (default: all).

    >>> answers = Answers.from_codes([0, 1, 1], [1, 0, 1], [0, 0, 1], tasks=3, workers=2, classes=2)
    >>> task, worker = draw_missing(answers, 9, np.random.default_rng(0))
    >>> task.tolist(), worker.tolist()
    ([0, 2, 2], [0, 0, 1])
    """
    n_workers, end = answers.n_workers, answers.n_tasks if end is None else end
    part = slice(*answers.task_starts[[first, end]])
    answered = (answers.task[part] - np.int64(first)) * n_workers + answers.worker[part]  # increasing
    missing = (end - first) * n_workers - len(answered)
    # The code of the m-th missing pair is m plus the number of answered pairs before it.
    rank = np.sort(_distinct(missing, min(n, missing), rng))  # (n,)
    before = np.searchsorted(answered - np.arange(len(answered)), rank, side="right")
    code = rank + before
    return first + code // n_workers, code % n_workers


def pair_keys(answers: Answers) -> Array:
    """Return the answered pairs as numbers, task * workers + worker, in increasing order."""
    return answers.task.astype(np.int64) * answers.n_workers + answers.worker


def pair_blocks(
    task: Array, worker: Array, pairs: int = PAIRS, most: int = PAIRS
) -> Iterator[tuple[Array, Array, Array]]:
    """Yield these pairs, sorted by task, in blocks like those of `missing_blocks`, at most `most` tasks each.

    >>> [(tasks.tolist(), row.tolist()) for tasks, row, _ in pair_blocks(np.array([2, 2, 7]), np.array([0, 1, 0]))]
    [([2, 7], [0, 0, 1])]
    """
    for first in range(0, len(task), pairs):
        tasks, row = np.unique(task[first : first + pairs], return_inverse=True)
        for start in range(0, len(tasks), most):
            part = slice(*np.searchsorted(row, [start, start + most]))
            yield tasks[start : start + most], row[part] - start, worker[first : first + pairs][part]


def missing_blocks_by_pool(
    shared: Answers, pools: list[Answers], pairs: int = PAIRS, most: int = PAIRS
) -> Iterator[tuple[Array, Array, Array, list[Any]]]:
    """Yield the pairs without an answer in `shared`, as `missing_blocks` does, and which of them each pool lacks.

    Every pool contains the answers of `shared`.

    >>> shared, more = (Answers.from_codes([0] * n, range(n), [0] * n, tasks=1, workers=3, classes=2) for n in (1, 2))
    >>> [(worker.tolist(), lacks) for _, _, worker, lacks in missing_blocks_by_pool(shared, [more])]
    [([1, 2], [array([False,  True])])]
    """
    keys = [pair_keys(pool) for pool in pools]
    for tasks, row, worker in missing_blocks(shared, pairs, most):
        key = tasks[row] * shared.n_workers + worker
        yield tasks, row, worker, [slice(None) if pool is shared else ~_is_in(key, own)
                                   for pool, own in zip(pools, keys, strict=True)]  # fmt: skip


def sampled_blocks(
    pools: list[Answers], n: list[int], rngs: list[np.random.Generator], pairs: int = PAIRS, most: int = PAIRS
) -> Iterator[tuple[Array, Array, Array, list[Any]]]:
    """Like `missing_blocks_by_pool`, for n[k] pairs that pool k lacks, drawn by rngs[k]. Each pair is yielded once."""
    n_tasks, n_workers = pools[0].n_tasks, pools[0].n_workers
    n = [min(wanted, n_missing(pool)) for pool, wanted in zip(pools, n, strict=True)]
    cuts = np.linspace(0, n_tasks, max(min(-(-max(n) // DRAWN), n_tasks), 1) + 1).astype(np.int64)
    shares = [_shares(pool, cuts, wanted, rng) for pool, wanted, rng in zip(pools, n, rngs, strict=True)]
    for (first, end), *counts in zip(pairwise(cuts), *shares, strict=True):
        drawn = [draw_missing(*each, first, end) for each in zip(pools, counts, rngs, strict=True)]
        keys = [task * n_workers + worker for task, worker in drawn]
        every = keys[0] if len(keys) == 1 else _sorted_unique(np.concatenate(keys))
        for tasks, row, worker in pair_blocks(every // n_workers, every % n_workers, pairs, most):
            key = tasks[row] * n_workers + worker
            yield tasks, row, worker, [slice(None) if own is every else _is_in(key, own) for own in keys]


def _shares(answers: Answers, cuts: Array, n: int, rng: np.random.Generator) -> list[int]:
    """Return how many of `n` pairs to draw from each range of tasks, in proportion to its missing pairs.

    Systematic rounding: the numbers sum to `n`, and every pair is equally likely.
    """
    if len(cuts) == 2:
        return [n]
    lacking = cuts * answers.n_workers - answers.task_starts[cuts]  # missing pairs before each cut
    ends = np.floor(lacking * (n / max(lacking[-1], 1)) + rng.random()).astype(np.int64)
    return np.diff(ends).tolist()


class LowestScores:
    """The `k` pairs of lowest score in each group, from a stream of pairs. Ties keep the pairs that came first.

    Parameters
    ----------
    n_groups : int
        Groups are numbered from 0.
    k : int
        Pairs to keep per group. Memory holds at most twice `k` pairs per group (or `PAIRS` more, if that is larger),
        and the block being added.

    Examples
    --------
    >>> best = LowestScores(2, 2)
    >>> best.add(np.array([0, 0, 1, 0]), np.array([3.0, 1.0, 5.0, 2.0]), np.arange(4))
    >>> [column.tolist() for column in best.first(np.array([2, 1]))]
    [[1, 3, 2]]
    """

    limit: Array

    def __init__(self, n_groups: int, k: int) -> None:
        self.k = k
        self.limit = np.full(n_groups, np.inf)  # the score that a pair must be below to be kept
        self._parts: list[tuple[Array, ...]] = []  # the first is sorted: by group, then score
        self._waiting = 0

    def add(self, group: Array, score: Array, *columns: Array) -> None:
        """Add pairs with these groups and scores; `columns` are further values to keep per pair."""
        below = np.flatnonzero(score < self.limit[group])
        self._parts.append(tuple(column[below] for column in (group, score, *columns)))
        self._waiting += len(below)
        if self._waiting > max(PAIRS, self.k * len(self.limit)):  # sorting after every block would be slow
            self._shrink()

    def first(self, n: Array) -> list[Array]:
        """Return the columns of the n[g] pairs of lowest score in each group g, lowest first; n[g] is at most `k`."""
        group = self._shrink()
        rows = np.flatnonzero(_rank_in_group(group) < n[group])
        return [column[rows] for column in self._parts[0][2:]]

    def _shrink(self) -> Array:
        """Keep the `k` best pairs of each group, and return the groups of those kept."""
        parts = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        order = np.lexsort((parts[1], parts[0]))  # stable: ties stay in order of arrival
        rank = _rank_in_group(parts[0][order])
        order = order[rank < self.k]
        self._parts, self._waiting = [tuple(column[order] for column in parts)], 0
        group, score = self._parts[0][:2]
        last = np.flatnonzero(rank[rank < self.k] == self.k - 1)
        self.limit[group[last]] = score[last]
        return group


def _rank_in_group(group: Array) -> Array:
    """Return the rank of each entry within its group, for sorted groups."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))


def _distinct(n: int, k: int, rng: np.random.Generator) -> Array:
    """Return `k` distinct integers below `n`, without an array of size `n` if `n` is large."""
    if n <= 4 * k or n < 1_000_000:
        return rng.permutation(n)[:k]
    found = np.empty(0, np.int64)
    while len(found) < k:
        found = _sorted_unique(np.concatenate([found, rng.integers(0, n, k - len(found) + 16)]))
    return rng.permutation(found)[:k]


def _sorted_unique(numbers: Array) -> Array:
    """Return the sorted distinct numbers. `np.unique` uses a hash table, which takes a hundred times as long here."""
    numbers = np.sort(numbers)
    return numbers[np.diff(numbers, prepend=-1) > 0]


def _is_in(keys: Array, table: Array) -> Array:
    """Return which keys are in a sorted table."""
    if len(table) == 0:
        return np.zeros(len(keys), bool)
    return table[np.minimum(np.searchsorted(table, keys), len(table) - 1)] == keys
