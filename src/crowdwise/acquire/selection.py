"""Choose the pairs: the best ones first, under caps, without looking at more pairs than can matter.

All tasks x workers are never scored. The gain of a pair is at most the entropy of the belief, and at most the capacity
of the worker's channel. The tasks of highest entropy are scored with a few of the best workers; the `budget`-th best
gain found is then a floor, and only tasks and workers whose bounds reach it are scored, in blocks. Up to `max_pairs`
this is exact: the pairs are those that greedy choice among all pairs would take. Beyond, the workers of lowest capacity
are left out, and `Proposal.whole` says so.

    cost     answers x classes + workers x classes^2 + pairs scored x classes^2
    memory   tasks x classes + workers x classes^2 + a block

Greedy, because the information of a batch is submodular: with one answer a task and no cap per worker the batch is the
best one; with more answers a task it tells at least half of what the best would, in practice nearly all of it.
"""

from __future__ import annotations

import heapq

import numpy as np

from crowdwise.acquire.market import Market
from crowdwise.acquire.strategies import Rule
from crowdwise.learn.base import Array

POOL = 4  # times as many workers as must be asked, where there are caps
FEW = 16  # workers who are tried first
MAX_CELLS = 20_000_000  # tasks x workers held for capped choice
SLACK = 1e-9  # of a bound, for rounding


def choose(
    rule: Rule, market: Market, budget: int, per_task: int, per_worker: int | None, max_pairs: int
) -> tuple[Array, Array, Array, bool]:
    """Task, worker and score of the pairs chosen greedily, and whether that is greedy choice among all pairs."""
    tasks, workers, missed = shortlist(rule, market, budget, per_worker, max_pairs)
    if len(workers) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), True
    if rule.chooses_workers:
        tasks = np.sort(tasks)  # of equals the first
    if per_task == 1 and per_worker is None:
        task, worker, score = (column[:budget] for column in ranked(rule, market, tasks, workers))
    else:
        task, worker, score, left = capped(rule, market, tasks, workers, budget, per_task, per_worker or budget)
        missed = max(missed, left)
    least = score[-1] + SLACK if len(score) == budget else -np.inf  # what others would have to exceed
    return task, worker, score, bool(missed <= least)


def ranked(rule: Rule, market: Market, tasks: Array, workers: Array) -> tuple[Array, Array, Array]:
    """The best pair of each task, best first: task, worker and score."""
    task, worker, score = market.best(rule, tasks, workers)
    order = np.argsort(-score, kind="stable")
    return task[order], worker[order], score[order]


def capped(
    rule: Rule, market: Market, tasks: Array, workers: Array, budget: int, per_task: int, per_worker: int
) -> tuple[Array, Array, Array, float]:
    """Task, worker and score of pairs within the caps; and the most that a pair outside the first slice scores.

    Tasks are taken slice by slice, the most promising first, where they are too many for one (they seldom are).
    """
    size, left = max(MAX_CELLS // len(workers), 1), -np.inf
    if len(tasks) > size:
        tasks, _, score = ranked(rule, market, tasks, workers)
        left = float(score[size:].max(initial=-np.inf))
    load = np.zeros(len(workers), np.int64)
    pairs: list[tuple[int, int, float]] = []
    for first in range(0, len(tasks), size):
        if len(pairs) == budget:
            break
        part = tasks[first : first + size]
        pairs += greedy(rule, market, part, workers, budget - len(pairs), per_task, per_worker, load)
    task, worker, score = np.array(sorted(pairs, key=lambda pair: -pair[2])).reshape(-1, 3).T
    return task.astype(np.int64), worker.astype(np.int64), score, left


def greedy(
    rule: Rule, market: Market, tasks: Array, workers: Array, budget: int, per_task: int, per_worker: int, load: Array
) -> list[tuple[int, int, float]]:
    """Choose one pair after the other, each the best that the caps leave; `load` (workers,) counts what each got."""
    liking = market.grid(rule, tasks, workers)  # (tasks, workers); -inf: cannot be bought, or not any more
    liking[:, load >= per_worker] = -np.inf
    best, score = np.zeros(len(tasks), np.int64), np.full(len(tasks), -np.inf)  # of each task's best pair
    count = np.zeros(len(tasks), np.int64)
    queue: list[tuple[float, int]] = []  # minus the score, and the task; entries whose score has changed are void
    chosen: list[tuple[int, int, float]] = []

    def look(rows: Array) -> None:
        """Find the best pair of tasks for which nothing was bought."""
        best[rows] = liking[rows].argmax(axis=1)
        most = liking[rows, best[rows]]
        score[rows] = np.where(most > -np.inf, rule.score(tasks[rows], most), -np.inf)
        for i in rows[most > -np.inf]:
            heapq.heappush(queue, (-score[i], int(i)))

    def look_again(i: int) -> None:
        """Find the best pair of a task for which something was bought."""
        left = np.flatnonzero(liking[i] > -np.inf)
        if count[i] == per_task or len(left) == 0:
            score[i] = -np.inf
            return
        place, value = rule.after(int(tasks[i]), workers[left])
        best[i], score[i] = left[place], min(score[i], value)
        heapq.heappush(queue, (-score[i], i))

    look(np.arange(len(tasks)))
    while queue and len(chosen) < budget:
        cost, i = heapq.heappop(queue)
        if cost != -score[i]:
            continue
        j = best[i]
        chosen.append((int(tasks[i]), int(workers[j]), float(score[i])))
        rule.take(int(tasks[i]), int(workers[j]))
        liking[i, j] = -np.inf
        count[i] += 1
        load[j] += 1
        if load[j] < per_worker:
            look_again(i)
            continue
        liking[:, j] = -np.inf  # full: tasks that would have asked this worker look for another
        stale = np.flatnonzero(best == j)
        look(stale[count[stale] == 0])
        for k in stale[count[stale] > 0]:
            look_again(int(k))
    return chosen


def shortlist(
    rule: Rule, market: Market, budget: int, per_worker: int | None, max_pairs: int
) -> tuple[Array, Array, float]:
    """Tasks and workers to look at, and the most that a pair of others could score."""
    tasks, workers = np.flatnonzero(market.count), market.asked
    if not rule.chooses_workers:
        tasks = rule.rng.permutation(tasks)  # type: ignore[union-attr]  # of equal tasks one at random
    tasks = tasks[np.argsort(-rule.bound[tasks], kind="stable")]
    if market.pairs is not None or len(tasks) == 0:  # what can be bought is a list already
        return tasks, workers, -np.inf
    workers = workers[np.argsort(-rule.promise[workers], kind="stable")]
    n_tasks, n_workers = len(tasks), len(workers)
    if per_worker is not None:  # the best workers are soon full: as many others as may be needed
        if n_tasks * n_workers > MAX_CELLS:
            n_workers = min(FEW + POOL * -(-budget // per_worker), n_workers)
            n_tasks = max(MAX_CELLS // n_workers, budget)
    elif rule.chooses_workers:
        _, _, found = market.best(rule, tasks[: 2 * budget], np.sort(workers[:FEW]))
        if len(found) >= budget:
            floor = np.partition(found, -budget)[-budget] - SLACK
            n_tasks = int((rule.bound[tasks] >= floor).sum())
            n_workers = int((rule.reach[workers] >= floor).sum())
    else:
        n_tasks = budget
    n_tasks = min(n_tasks, len(tasks), max_pairs)
    n_workers = min(n_workers, len(workers), max(max_pairs // n_tasks, 1))
    missed = max(rule.bound[tasks[n_tasks:]].max(initial=-np.inf), rule.reach[workers[n_workers:]].max(initial=-np.inf))
    return tasks[:n_tasks], np.sort(workers[:n_workers]), float(missed)
