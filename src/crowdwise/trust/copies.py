"""Workers who copy one another: groups of three or more who give the same answer to every task they share.

    same[v, w]     = share of the tasks that v and w both answered to which they gave the same answer
    a group        workers linked by pairs with same >= `IDENTICAL` on `MIN_COMMON` tasks or more, without those who
                   agree least with the rest, until the members agree on that share of all tasks that any two of
                   them answered (two good workers may happen to agree on a dozen tasks)
    outside        = share of agreeing pairs of one member and one other worker

A group is reported if its members agree with others on at most `MAX_OUTSIDE` of the tasks: where everybody agrees, the
tasks are easy and nobody needs to copy. A group whose members always give the same label needs no copying either. Good
workers agree without copying, too, but not in their mistakes. So `copy_groups` counts the wrong answers that two or
more members gave to the same task, by Dawid-Skene's labels with the group as one worker, and reports groups with
`MIN_MISTAKES` or more: independent workers with as many mistakes would have disagreed about ten times.

Ten copies are one answer. `merge_copies` makes one worker of each group, so that they cannot outvote the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from crowdwise.answers import Answers
from crowdwise.errors import ConvergenceWarning
from crowdwise.truth.base import Array
from crowdwise.truth.methods.dawid_skene import DawidSkene

IDENTICAL = 0.99
MIN_COMMON = 12
MIN_SIZE = 3
MAX_OUTSIDE = 0.85
MAX_PAIRS = 20_000_000  # of answers to the same task
MAX_DROPPED = 50  # members who leave a group before it is given up
MIN_MISTAKES = 5.0  # wrong answers that members have in common


def copy_groups(answers: Answers) -> list[Array]:
    """Return groups of workers, as codes, who give identical answers with mistakes among them.

    Examples
    --------
    >>> from crowdwise import Answers, simulate
    >>> answers = simulate.simulate(200, n_workers=8, n_classes=3, answers_per_task=4, seed=1)
    >>> original = answers.take(np.flatnonzero(answers.worker == 0))
    >>> for copy in (8, 9):
    ...     answers = answers.merge(Answers.from_arrays(original.task, original.worker + copy, original.label))
    >>> [group.tolist() for group in copy_groups(answers)]
    [[0, 8, 9]]
    >>> merge_copies(answers, copy_groups(answers)).n_answers == 200 * 4
    True
    """
    groups = identical_workers(answers)
    if not groups:
        return groups
    merged = merge_copies(answers, groups)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        proba = DawidSkene().fit(merged).proba_
    number = np.full(answers.n_workers, -1)
    for position, group in enumerate(groups):
        number[group] = position
    rows = np.flatnonzero(number[answers.worker] >= 0)  # answers by members
    key = number[answers.worker[rows]] * np.int64(answers.n_tasks) + answers.task[rows]
    key, first, size = np.unique(key, return_index=True, return_counts=True)  # (groups and tasks,)
    rows, key = rows[first[size > 1]], key[size > 1]
    wrong = 1 - proba[answers.task[rows], answers.label[rows]]
    mistakes = np.bincount(key // answers.n_tasks, wrong, len(groups))
    return [group for group, n in zip(groups, mistakes, strict=True) if n >= MIN_MISTAKES]


def merge_copies(answers: Answers, groups: Sequence[Array]) -> Answers:
    """Return the answers with each group as one worker, its first member, with one answer per task."""
    if not groups:
        return answers
    first = np.arange(answers.n_workers)  # (workers,)
    for group in groups:
        first[group] = group[0]
    worker = first[answers.worker]
    _, rows = np.unique(answers.task.astype(np.int64) * answers.n_workers + worker, return_index=True)
    part = answers.take(rows)
    return replace(part, worker=worker[rows].astype(part.worker.dtype))


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
        varied = len(np.unique(answers.label[member[answers.worker]])) > 1
        copied = unanimous and varied and 0 < same[out].sum() <= MAX_OUTSIDE * shared[out].sum()
        if member.sum() >= MIN_SIZE and copied:
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
