"""Evidence that a task is hopeless: trusted workers contradict each other more than their errors explain.

    low[w]      lower 95 % bound of the share of right answers of worker w
    chance[w]   share that would be right by chance: mean over w's answers of the share of the class they name
    trusted     workers with low[w] > chance[w]
    a, b        the two classes that the task's trusted answers name most often; n trusted answers name a or b
    r[w]        = low[w] / (low[w] + (1 - low[w]) / (classes - 1))     P(w names the truth | w names it or the other)

    even        = 2^-n                                                 the task is a coin toss between a and b
    ordinary    = 1/2 prod r[w or 1 - r[w]] if a + 1/2 the same if b   one of the two is the truth
    split       = sum of +v for answers a and -v for answers b          v[w] = log(r[w] / (1 - r[w]))

A task is contradicted if n >= `MIN_TRUSTED`, the split is within one standard deviation of even (split^2 < sum of v^2),
and even >= `EVIDENCE` * ordinary. Two against two is evidence among workers who are nearly always right, and none among
workers who often err: more answers would settle such a task. As `low` is a bound, the evidence is understated. It is a
function of the task's own answers: tasks with equal answers have equal evidence.

Fails if workers make the same mistakes in two camps, for example by two readings of the instructions: a question that
is clear in itself then looks like a coin toss.
"""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Answers
from crowdwise.truth.base import Array
from crowdwise.truth.tables import belief_interval, shared_sums

MIN_TRUSTED = 4  # answers of trusted workers, below which a contradiction may be an accident
EVIDENCE = 2.0  # how many times as probable the answers are as coin tosses
EDGE = 1e-3  # no worker is infallible


def quality_bounds(answers: Answers, proba: Array) -> Array:
    """Return the lower 95 % bound of each worker's share of right answers by the probabilities, (workers,)."""
    belief = proba[answers.task, answers.label]  # (answers,)
    expected = np.bincount(answers.worker, belief, minlength=answers.n_workers)
    sums = shared_sums(answers, belief, answers.worker, answers.n_workers)
    return belief_interval(expected, np.diff(answers.worker_starts), *sums)[0]


def is_trusted(answers: Answers, proba: Array, low: Array) -> Array:
    """Return which workers are better than chance, (workers,) bools; `low` are lower bounds of quality (workers,)."""
    share = proba.mean(axis=0)  # (classes,)
    named = np.bincount(answers.worker, share[answers.label], minlength=answers.n_workers)
    return low > named / np.maximum(np.diff(answers.worker_starts), 1)


def contradicted(answers: Answers, proba: Array, low: Array) -> Array:
    """Return which tasks have trusted answers that contradict each other, (tasks,) bools.

    Parameters
    ----------
    answers : Answers
    proba : (tasks, classes) array
        Class probabilities; only the class shares are used.
    low : (workers,) array
        Lower 95 % bounds of the shares of right answers.

    Examples
    --------
    >>> answers = Answers.from_arrays([1] * 4 + [2] * 4, list("abcd") * 2, list("xxyy") + list("xxxy"))
    >>> contradicted(answers, np.full((2, 2), 0.5), np.full(4, 0.9)).tolist()
    [True, False]
    """
    k = max(answers.n_classes, 2)
    rows = np.flatnonzero(is_trusted(answers, proba, low)[answers.worker])  # trusted answers
    cell = answers.task[rows].astype(np.int64) * k + answers.label[rows]
    cells, inverse, size = np.unique(cell, return_inverse=True, return_counts=True)
    rank = _rank_in_task(cells // k, size)[inverse]  # (trusted answers,): 0 is the class named most
    r = np.clip(low, EDGE, 1 - EDGE)[answers.worker[rows]]
    r = np.round(r / (r + (1 - r) / (k - 1)), 9)
    in_pair = rank < 2
    task, first, r = answers.task[rows][in_pair], rank[in_pair] == 0, r[in_pair]
    if_a = np.bincount(task, np.log(np.where(first, r, 1 - r)), minlength=answers.n_tasks)  # (tasks,)
    if_b = np.bincount(task, np.log(np.where(first, 1 - r, r)), minlength=answers.n_tasks)
    n = np.bincount(task, minlength=answers.n_tasks)
    gain = -n * np.log(2) - (np.logaddexp(if_a, if_b) - np.log(2))  # log(even / ordinary)
    spread = np.bincount(task, np.log(r / (1 - r)) ** 2, minlength=answers.n_tasks)  # (tasks,)
    near_even = np.round(spread - (if_a - if_b) ** 2, 9) > 0
    return (n >= MIN_TRUSTED) & near_even & (np.round(gain, 9) >= np.log(EVIDENCE))


def _rank_in_task(task: Array, size: Array) -> Array:
    """Return the rank of each cell (task, class) within its task by size, 0 the largest; `task` is increasing.

    >>> _rank_in_task(np.array([0, 0, 2, 2, 2]), np.array([1, 3, 2, 1, 2])).tolist()
    [1, 0, 0, 2, 1]
    """
    order = np.lexsort((-size, task))
    start = np.flatnonzero(np.diff(task, prepend=-1))  # first cell of each task
    rank = np.empty(len(task), np.int64)
    rank[order] = np.arange(len(task)) - np.repeat(start, np.diff(np.append(start, len(task))))
    return rank
