"""Choose the best pairs within limits, without scoring more pairs than necessary.

Not all tasks x workers are scored. The gain of a pair is at most the entropy of the belief, and at most the capacity of
the worker's channel. The tasks of highest entropy are first scored with a few of the best workers. The `budget`-th best
gain is then a lower limit, and only tasks and workers whose bounds reach it are scored, in blocks. Up to `max_pairs`
this is exact: the same pairs as in a greedy choice from all pairs. Beyond that, the workers of lowest capacity are
ignored, and `Proposal.whole` is False.

    cost     answers x classes + workers x classes^2 + pairs scored x classes^2
    memory   tasks x classes + workers x classes^2 + a block

The information of a batch is submodular. With one answer per task and no limit per worker, greedy choice is optimal;
with more answers per task it has at least half of the optimal information, in practice nearly all of it.
"""

from __future__ import annotations

import heapq

import numpy as np

from crowdwise.acquire.available_pairs import AvailablePairs
from crowdwise.acquire.strategies import Rule
from crowdwise.learn.base import Array

POOL = 4  # workers considered per worker needed, with limits
FEW = 16  # workers to score first
MAX_CELLS = 20_000_000  # tasks x workers in memory, for choice within limits
SLACK = 1e-9  # tolerance of a bound for rounding


def choose_pairs(
    rule: Rule, available: AvailablePairs, budget: int, per_task: int, per_worker: int | None, max_pairs: int
) -> tuple[Array, Array, Array, bool]:
    """Return task, worker and score of the greedily chosen pairs, and whether the choice was from all pairs."""
    tasks, workers, missed = shortlist(rule, available, budget, per_worker, max_pairs)
    if len(workers) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), True
    if rule.chooses_workers:
        tasks = np.sort(tasks)  # the first of ties
    if per_task == 1 and per_worker is None:
        task, worker, score = (column[:budget] for column in rank_tasks(rule, available, tasks, workers))
    else:
        task, worker, score, left = choose_within_limits(
            rule, available, tasks, workers, budget, per_task, per_worker or budget
        )
        missed = max(missed, left)
    least = score[-1] + SLACK if len(score) == budget else -np.inf  # the score that other pairs must exceed
    return task, worker, score, bool(missed <= least)


def rank_tasks(rule: Rule, available: AvailablePairs, tasks: Array, workers: Array) -> tuple[Array, Array, Array]:
    """Return the best pair per task, best first: task, worker and score."""
    task, worker, score = available.best(rule, tasks, workers)
    order = np.argsort(-score, kind="stable")
    return task[order], worker[order], score[order]


def choose_within_limits(
    rule: Rule, available: AvailablePairs, tasks: Array, workers: Array, budget: int, per_task: int, per_worker: int
) -> tuple[Array, Array, Array, float]:
    """Return task, worker and score of pairs within limits, and the highest score of a pair outside the first slice.

    If tasks do not fit in one slice, which is rare, the slices with the best tasks come first.
    """
    size, left = max(MAX_CELLS // len(workers), 1), -np.inf
    if len(tasks) > size:
        tasks, _, score = rank_tasks(rule, available, tasks, workers)
        left = float(score[size:].max(initial=-np.inf))
    load = np.zeros(len(workers), np.int64)
    pairs: list[tuple[int, int, float]] = []
    for first in range(0, len(tasks), size):
        if len(pairs) == budget:
            break
        part = tasks[first : first + size]
        pairs += greedy(rule, available, part, workers, budget - len(pairs), per_task, per_worker, load)
    task, worker, score = np.array(sorted(pairs, key=lambda pair: -pair[2])).reshape(-1, 3).T
    return task.astype(np.int64), worker.astype(np.int64), score, left


def greedy(
    rule: Rule,
    available: AvailablePairs,
    tasks: Array,
    workers: Array,
    budget: int,
    per_task: int,
    per_worker: int,
    load: Array,
) -> list[tuple[int, int, float]]:
    """Choose pairs one by one, each the best within limits; `load` (workers,) counts the pairs of each worker."""
    preference = available.grid(rule, tasks, workers)  # (tasks, workers); -inf: cannot be bought
    preference[:, load >= per_worker] = -np.inf
    best, score = np.zeros(len(tasks), np.int64), np.full(len(tasks), -np.inf)  # of each task's best pair
    count = np.zeros(len(tasks), np.int64)
    queue: list[tuple[float, int]] = []  # minus score and task; entries with an outdated score are ignored
    chosen: list[tuple[int, int, float]] = []

    def score_first_pairs(rows: Array) -> None:
        """Find the best pair of tasks without a chosen pair."""
        best[rows] = preference[rows].argmax(axis=1)
        most = preference[rows, best[rows]]
        score[rows] = np.where(most > -np.inf, rule.score(tasks[rows], most), -np.inf)
        for i in rows[most > -np.inf]:
            heapq.heappush(queue, (-score[i], int(i)))

    def score_next_pair(i: int) -> None:
        """Find the best further pair of a task."""
        left = np.flatnonzero(preference[i] > -np.inf)
        if count[i] == per_task or len(left) == 0:
            score[i] = -np.inf
            return
        place, value = rule.after(int(tasks[i]), workers[left])
        best[i], score[i] = left[place], min(score[i], value)
        heapq.heappush(queue, (-score[i], i))

    score_first_pairs(np.arange(len(tasks)))
    while queue and len(chosen) < budget:
        cost, i = heapq.heappop(queue)
        if cost != -score[i]:
            continue
        j = best[i]
        chosen.append((int(tasks[i]), int(workers[j]), float(score[i])))
        rule.take(int(tasks[i]), int(workers[j]))
        preference[i, j] = -np.inf
        count[i] += 1
        load[j] += 1
        if load[j] < per_worker:
            score_next_pair(i)
            continue
        preference[:, j] = -np.inf  # at the limit: tasks need another worker
        stale = np.flatnonzero(best == j)
        score_first_pairs(stale[count[stale] == 0])
        for k in stale[count[stale] > 0]:
            score_next_pair(int(k))
    return chosen


def shortlist(
    rule: Rule, available: AvailablePairs, budget: int, per_worker: int | None, max_pairs: int
) -> tuple[Array, Array, float]:
    """Return the tasks and workers to score, and an upper bound on the score of all other pairs."""
    tasks, workers = np.flatnonzero(available.count), available.asked
    if not rule.chooses_workers:
        tasks = rule.rng.permutation(tasks)  # type: ignore[union-attr]  # random order of ties
    tasks = tasks[np.argsort(-rule.bound[tasks], kind="stable")]
    if available.pairs is not None or len(tasks) == 0:  # the available pairs are already listed
        return tasks, workers, -np.inf
    workers = workers[np.argsort(-rule.priority[workers], kind="stable")]
    n_tasks, n_workers = len(tasks), len(workers)
    if per_worker is not None:  # the best workers reach their limit soon: consider more
        if n_tasks * n_workers > MAX_CELLS:
            n_workers = min(FEW + POOL * -(-budget // per_worker), n_workers)
            n_tasks = max(MAX_CELLS // n_workers, budget)
    elif rule.chooses_workers:
        _, _, found = available.best(rule, tasks[: 2 * budget], np.sort(workers[:FEW]))
        if len(found) >= budget:
            floor = np.partition(found, -budget)[-budget] - SLACK
            n_tasks = int((rule.bound[tasks] >= floor).sum())
            n_workers = int((rule.worker_bound[workers] >= floor).sum())
    else:
        n_tasks = budget
    n_tasks = min(n_tasks, len(tasks), max_pairs)
    n_workers = min(n_workers, len(workers), max(max_pairs // n_tasks, 1))
    missed = max(
        rule.bound[tasks[n_tasks:]].max(initial=-np.inf), rule.worker_bound[workers[n_workers:]].max(initial=-np.inf)
    )
    return tasks[:n_tasks], np.sort(workers[:n_workers]), float(missed)
