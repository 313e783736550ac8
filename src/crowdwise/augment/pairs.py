"""Pairs of a task and a worker who did not answer it: all of them block by block, or some at random; and the best.

There are tasks x workers of them, far too many to hold: nothing here is larger than a block (of one task's pairs at
least), or than twice what is asked for. Where many are drawn, each range of tasks gives its share of them: every pair
is as likely as any other to be among them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array

PAIRS = 200_000  # in a block
DRAWN = 2_000_000  # drawn at a time


def n_missing(answers: Answers) -> int:
    """How many pairs of a task and a worker have no answer."""
    return answers.n_tasks * answers.n_workers - answers.n_answers


def missing_blocks(answers: Answers, pairs: int = PAIRS, most: int = PAIRS) -> Iterator[tuple[Array, Array, Array]]:
    """All pairs without an answer, in blocks of whole tasks, `most` tasks at most.

    Yields tasks (block,), and for each pair its place among them and its worker: what `_proba_of_answers` takes.

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
    """Task and worker of `n` distinct pairs without an answer, drawn uniformly, sorted; all of them if there are fewer.

    Of tasks from `first` to before `end`, all unless given.

    >>> answers = Answers.from_codes([0, 1, 1], [1, 0, 1], [0, 0, 1], tasks=3, workers=2, classes=2)
    >>> task, worker = draw_missing(answers, 9, np.random.default_rng(0))
    >>> task.tolist(), worker.tolist()
    ([0, 2, 2], [0, 0, 1])
    """
    n_workers, end = answers.n_workers, answers.n_tasks if end is None else end
    part = slice(*answers.task_starts[[first, end]])
    given = (answers.task[part] - np.int64(first)) * n_workers + answers.worker[part]  # increasing
    missing = (end - first) * n_workers - len(given)
    # The m-th missing pair lies after as many answers as come before it: its code is m plus their number.
    rank = np.sort(_distinct(missing, min(n, missing), rng))  # (n,)
    before = np.searchsorted(given - np.arange(len(given)), rank, side="right")
    code = rank + before
    return first + code // n_workers, code % n_workers


def keys_of(answers: Answers) -> Array:
    """The pairs that have an answer as numbers, task * workers + worker, increasing."""
    return answers.task.astype(np.int64) * answers.n_workers + answers.worker


def blocks_of(
    task: Array, worker: Array, pairs: int = PAIRS, most: int = PAIRS
) -> Iterator[tuple[Array, Array, Array]]:
    """Given pairs, sorted by task, in blocks as `missing_blocks` yields them, `most` tasks at most.

    >>> [(tasks.tolist(), row.tolist()) for tasks, row, _ in blocks_of(np.array([2, 2, 7]), np.array([0, 1, 0]))]
    [([2, 7], [0, 0, 1])]
    """
    for first in range(0, len(task), pairs):
        tasks, row = np.unique(task[first : first + pairs], return_inverse=True)
        for start in range(0, len(tasks), most):
            part = slice(*np.searchsorted(row, [start, start + most]))
            yield tasks[start : start + most], row[part] - start, worker[first : first + pairs][part]


def blocks_for_each(
    shared: Answers, pools: list[Answers], pairs: int = PAIRS, most: int = PAIRS
) -> Iterator[tuple[Array, Array, Array, list[Any]]]:
    """The pairs without an answer in `shared`, as `missing_blocks` yields them; and which of them each pool lacks.

    Pools hold the shared answers and more.

    >>> shared, more = (Answers.from_codes([0] * n, range(n), [0] * n, tasks=1, workers=3, classes=2) for n in (1, 2))
    >>> [(worker.tolist(), lacks) for _, _, worker, lacks in blocks_for_each(shared, [more])]
    [([1, 2], [array([False,  True])])]
    """
    keys = [keys_of(pool) for pool in pools]
    for tasks, row, worker in missing_blocks(shared, pairs, most):
        key = tasks[row] * shared.n_workers + worker
        yield tasks, row, worker, [slice(None) if pool is shared else ~_among(key, own)
                                   for pool, own in zip(pools, keys, strict=True)]  # fmt: skip


def drawn_blocks(
    pools: list[Answers], n: list[int], rngs: list[np.random.Generator], pairs: int = PAIRS, most: int = PAIRS
) -> Iterator[tuple[Array, Array, Array, list[Any]]]:
    """The same of n[k] pairs that pool k lacks, drawn by a generator of its own; each pair comes once."""
    n_tasks, n_workers = pools[0].n_tasks, pools[0].n_workers
    n = [min(wanted, n_missing(pool)) for pool, wanted in zip(pools, n, strict=True)]
    cuts = np.linspace(0, n_tasks, max(min(-(-max(n) // DRAWN), n_tasks), 1) + 1).astype(np.int64)
    shares = [_shares(pool, cuts, wanted, rng) for pool, wanted, rng in zip(pools, n, rngs, strict=True)]
    for (first, end), *counts in zip(pairwise(cuts), *shares, strict=True):
        drawn = [draw_missing(*each, first, end) for each in zip(pools, counts, rngs, strict=True)]
        keys = [task * n_workers + worker for task, worker in drawn]
        every = keys[0] if len(keys) == 1 else _each_once(np.concatenate(keys))
        for tasks, row, worker in blocks_of(every // n_workers, every % n_workers, pairs, most):
            key = tasks[row] * n_workers + worker
            yield tasks, row, worker, [slice(None) if own is every else _among(key, own) for own in keys]


def _shares(answers: Answers, cuts: Array, n: int, rng: np.random.Generator) -> list[int]:
    """How many of `n` pairs to draw from each range of tasks, in proportion to the pairs it lacks.

    Rounded up or down at random, in step, so that they sum to `n` and no pair is more likely than another.
    """
    if len(cuts) == 2:
        return [n]
    lacking = cuts * answers.n_workers - answers.task_starts[cuts]  # pairs before each cut
    ends = np.floor(lacking * (n / max(lacking[-1], 1)) + rng.random()).astype(np.int64)
    return np.diff(ends).tolist()


class Lowest:
    """The `k` pairs of lowest score of each group, of any number that pass by. Of equal ones those that came first.

    Parameters
    ----------
    n_groups : int
        Groups are numbered from 0.
    k : int
        Pairs kept of each. Memory is that of twice as many of all groups (or of `PAIRS` more, where that is more), and
        of the block that is added.

    Examples
    --------
    >>> best = Lowest(2, 2)
    >>> best.add(np.array([0, 0, 1, 0]), np.array([3.0, 1.0, 5.0, 2.0]), np.arange(4))
    >>> [column.tolist() for column in best.first(np.array([2, 1]))]
    [[1, 3, 2]]
    """

    def __init__(self, n_groups: int, k: int) -> None:
        self.k = k
        self.limit = np.full(n_groups, np.inf)  # the score that a pair must be below to be kept
        self._parts: list[tuple[Array, ...]] = []  # the first is sorted: by group, then score
        self._waiting = 0

    def add(self, group: Array, score: Array, *columns: Array) -> None:
        """Look at pairs of these groups and scores; `columns` are what is to be known of them."""
        near = np.flatnonzero(score < self.limit[group])
        self._parts.append(tuple(column[near] for column in (group, score, *columns)))
        self._waiting += len(near)
        if self._waiting > max(PAIRS, self.k * len(self.limit)):  # sorting each block would take long
            self._shrink()

    def first(self, n: Array) -> list[Array]:
        """The columns of the n[g] best pairs of each group g, from the best on; n[g] is at most `k`."""
        group = self._shrink()
        rows = np.flatnonzero(_place(group) < n[group])
        return [column[rows] for column in self._parts[0][2:]]

    def _shrink(self) -> Array:
        """Leave the `k` best of each group, and return the groups of what is left."""
        parts = [np.concatenate(column) for column in zip(*self._parts, strict=True)]
        order = np.lexsort((parts[1], parts[0]))  # stable: what came first stays first
        place = _place(parts[0][order])
        order = order[place < self.k]
        self._parts, self._waiting = [tuple(column[order] for column in parts)], 0
        group, score = self._parts[0][:2]
        last = np.flatnonzero(place[place < self.k] == self.k - 1)
        self.limit[group[last]] = score[last]
        return group


def _place(group: Array) -> Array:
    """Place of each entry in its run, of sorted groups."""
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    return np.arange(len(group)) - np.repeat(starts, np.diff(starts, append=len(group)))


def _distinct(n: int, k: int, rng: np.random.Generator) -> Array:
    """`k` distinct whole numbers below `n`, without a table of `n`."""
    if n <= 4 * k or n < 1_000_000:
        return rng.permutation(n)[:k]
    found = np.empty(0, np.int64)
    while len(found) < k:
        found = _each_once(np.concatenate([found, rng.integers(0, n, k - len(found) + 16)]))
    return rng.permutation(found)[:k]


def _each_once(numbers: Array) -> Array:
    """Numbers, sorted, each once: numpy's `unique` goes through a table of hashes, a hundred times as long."""
    numbers = np.sort(numbers)
    return numbers[np.diff(numbers, prepend=-1) > 0]


def _among(keys: Array, table: Array) -> Array:
    """Which keys are in a sorted table."""
    if len(table) == 0:
        return np.zeros(len(keys), bool)
    return table[np.minimum(np.searchsorted(table, keys), len(table) - 1)] == keys
