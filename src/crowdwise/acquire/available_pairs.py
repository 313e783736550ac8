"""The pairs of a task and a worker that can be bought, and the best of them per task."""

from __future__ import annotations

import numpy as np

from crowdwise.acquire.strategies import Rule
from crowdwise.answers import Answers
from crowdwise.answers.encoding import runs, starts
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array

PAIRS = 200_000  # scored at a time


class AvailablePairs:
    """The pairs that can be bought, by task. Counts the pairs that were scored."""

    answers: Answers
    count: Array
    n_workers: int
    starts: Array

    def __init__(
        self, answers: Answers, wanted: Array, asked: Array, n_workers: int, among: Answers | None = None
    ) -> None:
        self.answers, self.n_workers = answers, n_workers
        self.asked = asked  # codes of the workers who can be asked, increasing
        self.n_scored: int = 0
        self.pairs: Array | None = None
        is_asked = self._is_one_of(asked)
        if among is None:
            done = np.bincount(answers.task, is_asked[answers.worker], answers.n_tasks)
            self.count = np.where(wanted, len(asked) - done, 0).astype(np.int64)  # (tasks,) pairs that can be bought
            return
        if not (among.task_ids.equals(answers.task_ids) and among.worker_ids.equals(answers.worker_ids)):
            message = "among= has other tasks or workers than the model's answers. Take both from the same table."
            raise ParameterError(message)
        here, done = (a.task.astype(np.int64) * n_workers + a.worker for a in (among, answers))
        rows = np.flatnonzero(~np.isin(here, done) & wanted[among.task] & is_asked[among.worker])
        self.pairs = among.worker[rows].astype(np.int64)
        self.starts = starts(among.task[rows], answers.n_tasks)
        self.count = np.diff(self.starts)

    def best(self, rule: Rule, tasks: Array, workers: Array) -> tuple[Array, Array, Array]:
        """Return the best pair per task with these workers (codes, increasing): tasks with a pair, worker, score."""
        find = self._best_of_all if self.pairs is None else self._best_of_pairs
        width = len(workers) if self.pairs is None else self.count.max(initial=0)  # most pairs per task
        size = max(1, PAIRS // max(width, 1))
        found = [find(rule, tasks[first : first + size], workers) for first in range(0, len(tasks), size)]
        found.append((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)))
        task, worker, preference = (np.concatenate(part) for part in zip(*found, strict=True))
        return task, worker, rule.score(task, preference)

    def grid(self, rule: Rule, tasks: Array, workers: Array) -> Array:
        """Return the preference for each worker, (tasks, workers); -inf if a pair cannot be bought."""
        out = np.full((len(tasks), len(workers)), -np.inf)
        if self.pairs is not None:
            row, worker = self._listed(tasks, workers)
            out[row, np.searchsorted(workers, worker)] = rule.preference(tasks[row], worker)
            return out
        size = max(1, PAIRS // max(len(workers), 1))
        for first in range(0, len(tasks), size):
            out[first : first + size] = rule.grid(tasks[first : first + size], workers)
        at, row = runs(self.answers.task_starts, tasks)
        by = self.answers.worker[at]
        done = self._is_one_of(workers)[by]
        out[row[done], np.searchsorted(workers, by[done])] = -np.inf
        self.n_scored += out.size
        return out

    def _best_of_all(self, rule: Rule, tasks: Array, workers: Array) -> tuple[Array, Array, Array]:
        """Return the best of all pairs without an answer."""
        preference = self.grid(rule, tasks, workers)
        best = preference.argmax(axis=1)
        most = preference[np.arange(len(best)), best]
        found = np.flatnonzero(most > -np.inf)
        return tasks[found], workers[best[found]], most[found]

    def _best_of_pairs(self, rule: Rule, tasks: Array, workers: Array) -> tuple[Array, Array, Array]:
        """Return the best of the listed pairs."""
        row, worker = self._listed(tasks, workers)
        preference = rule.preference(tasks[row], worker)
        order = np.lexsort((-preference, row))  # stable: the first of ties
        top = order[np.flatnonzero(np.diff(row[order], prepend=-1))]
        return tasks[row[top]], worker[top], preference[top]

    def _listed(self, tasks: Array, workers: Array) -> tuple[Array, Array]:
        """Return the listed pairs of these tasks and workers: position of the task, and worker."""
        at, row = runs(self.starts, tasks)
        worker = self.pairs[at]  # type: ignore[index]
        keep = self._is_one_of(workers)[worker]
        self.n_scored += int(keep.sum())
        return row[keep], worker[keep]

    def _is_one_of(self, workers: Array) -> Array:
        member = np.zeros(self.n_workers, bool)
        member[workers] = True
        return member
