"""Pairs of a task and a worker who did not answer it: all of them block by block, or some at random.

There are tasks x workers of them, far too many to hold: nothing here is larger than a block, or than what is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array

PAIRS = 200_000  # in a block


def n_missing(answers: Answers) -> int:
    """How many pairs of a task and a worker have no answer."""
    return answers.n_tasks * answers.n_workers - answers.n_answers


def missing_blocks(answers: Answers, pairs: int = PAIRS) -> Iterator[tuple[Array, Array, Array]]:
    """All pairs without an answer, in blocks of whole tasks.

    Yields tasks (block,), and for each pair its place among them and its worker: what `_proba_of_answers` takes.

    >>> answers = Answers.from_codes([0, 1, 1], [1, 0, 1], [0, 0, 1], tasks=3, workers=2, classes=2)
    >>> [(tasks[row].tolist(), worker.tolist()) for tasks, row, worker in missing_blocks(answers)]
    [([0, 2, 2], [0, 0, 1])]
    """
    starts, n_workers = answers.task_starts, answers.n_workers
    size = max(1, pairs // max(n_workers, 1))
    for first in range(0, answers.n_tasks, size):
        tasks = np.arange(first, min(first + size, answers.n_tasks))
        part = slice(starts[first], starts[tasks[-1] + 1])
        missing = np.ones((len(tasks), n_workers), bool)
        missing[answers.task[part] - first, answers.worker[part]] = False
        row, worker = np.nonzero(missing)
        if len(row):
            yield tasks, row, worker


def draw_missing(answers: Answers, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Task and worker of `n` distinct pairs without an answer, drawn uniformly, sorted; all of them if there are fewer.

    >>> answers = Answers.from_codes([0, 1, 1], [1, 0, 1], [0, 0, 1], tasks=3, workers=2, classes=2)
    >>> task, worker = draw_missing(answers, 9, np.random.default_rng(0))
    >>> task.tolist(), worker.tolist()
    ([0, 2, 2], [0, 0, 1])
    """
    n_workers, n = answers.n_workers, min(n, n_missing(answers))
    given = answers.task.astype(np.int64) * n_workers + answers.worker  # increasing
    # The m-th missing pair lies after as many answers as come before it: its code is m plus their number.
    rank = np.sort(_distinct(n_missing(answers), n, rng))  # (n,)
    before = np.searchsorted(given - np.arange(len(given)), rank, side="right")
    code = rank + before
    return code // n_workers, code % n_workers


def _distinct(n: int, k: int, rng: np.random.Generator) -> Array:
    """`k` distinct whole numbers below `n`, without a table of `n`."""
    if n <= 4 * k or n < 1_000_000:
        return rng.permutation(n)[:k]
    found = np.empty(0, np.int64)
    while len(found) < k:
        found = np.unique(np.concatenate([found, rng.integers(0, n, k - len(found) + 16)]))
    return rng.permutation(found)[:k]
