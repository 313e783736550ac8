"""Workers who copy one another: groups of three or more who give the same answer to every task they share.

    same[v, w]     = share of the tasks that v and w both answered to which they gave the same answer
    a group        workers linked by pairs with same >= `IDENTICAL` on `MIN_COMMON` tasks or more, without those who
                   agree least with the rest, until the members agree on that share of all tasks that any two of
                   them answered (two good workers may happen to agree on a dozen tasks)
    outside        = share of agreeing pairs of one member and one other worker

A group is reported if its members agree with others on at most `MAX_OUTSIDE` of the tasks: where everybody agrees, the
tasks are easy and nobody needs to copy. Three workers who are always right would look the same; real workers are not.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from crowdwise.answers import Answers
from crowdwise.truth.base import Array

IDENTICAL = 0.99
MIN_COMMON = 12
MIN_SIZE = 3
MAX_OUTSIDE = 0.85
MAX_PAIRS = 20_000_000  # of answers to the same task
MAX_DROPPED = 50  # members who leave a group before it is given up


def identical_workers(answers: Answers) -> list[Array]:
    """Return groups of workers, as codes, who give identical answers.

    Examples
    --------
    >>> from crowdwise import Answers, simulate
    >>> answers = simulate.simulate(200, n_workers=8, n_classes=3, answers_per_task=4, seed=1)
    >>> original = answers.take(np.flatnonzero(answers.worker == 0))
    >>> for copy in (8, 9):
    ...     answers = answers.merge(Answers.from_arrays(original.task, original.worker + copy, original.label))
    >>> [group.tolist() for group in identical_workers(answers)]
    [[0, 8, 9]]
    """
    per_task = np.diff(answers.task_starts).astype(np.int64)
    if (per_task**2).sum() > MAX_PAIRS:
        return []
    n, k, ones = answers.n_workers, answers.n_classes, np.ones(answers.n_answers)
    cell = answers.task.astype(np.int64) * k + answers.label
    by_task = sparse.csr_array((ones, (answers.worker, answers.task)), shape=(n, answers.n_tasks))
    by_answer = sparse.csr_array((ones, (answers.worker, cell)), shape=(n, answers.n_tasks * k))
    common = sparse.coo_array(by_task @ by_task.T)  # (workers, workers)
    agreed = (by_answer @ by_answer.T).tocsr()
    v, w, shared = common.row, common.col, common.data
    same = np.asarray(agreed[v, w]).ravel()
    linked = (v != w) & (shared >= MIN_COMMON) & (same >= IDENTICAL * shared)
    _, group = connected_components(sparse.coo_array((linked[linked], (v[linked], w[linked])), shape=(n, n)))
    found = []
    for number in np.flatnonzero(np.bincount(group) >= MIN_SIZE):
        member = _without_outsiders(group == number, v, w, shared, same)
        inside, out = member[v] & member[w] & (v != w), member[v] & ~member[w]
        unanimous = same[inside].sum() >= IDENTICAL * shared[inside].sum()
        if member.sum() >= MIN_SIZE and unanimous and 0 < same[out].sum() <= MAX_OUTSIDE * shared[out].sum():
            found.append(np.flatnonzero(member))
    return found


def _without_outsiders(member: Array, v: Array, w: Array, shared: Array, same: Array) -> Array:
    """Return the members (workers,) of a group without those who agree least with the rest."""
    member = member.copy()
    for _ in range(MAX_DROPPED):
        inside = member[v] & member[w] & (v != w)
        common, agreed = (np.bincount(v[inside], each[inside], len(member)) for each in (shared, same))
        if agreed.sum() >= IDENTICAL * common.sum() or member.sum() < MIN_SIZE:
            break
        member[np.where(member & (common > 0), agreed / np.maximum(common, 1), np.inf).argmin()] = False
    return member
