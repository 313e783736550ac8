"""Which workers a panel can lose: how many labels change without them, and how much accuracy.

    label of a task       the class with the largest sum of weights; a tie is shared equally between its classes
    changed(D)            share of the labels that change without the workers D: exact, no gold needed
    gain(D)               accuracy without D minus accuracy with them, estimated from gold, with an interval. It cannot
                          exceed changed(D) in either direction, with gold or without

Families that the user names, and near copies, count as their effective votes (`independent_votes`), also after some of
their workers are gone. The gain is estimated from gold alone: predictions say little about tasks on which two panels
differ.

`find_droppable` removes workers one at a time, each time the one without whom the fewest labels change. This order does
not look at gold. The longest beginning of it that costs at most `tolerance`, by the low end of the interval of the
gain, can be dropped. Because the order is fixed before gold is used and the search stops at the first failure, the
chance that dropping these workers costs more is at most alpha / 2 (testing in a fixed sequence). Without gold the bound
is changed(D), on these tasks.

Cost: one pass over the answers per worker and step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.trust.estimates import TrustEstimates
from crowdwise.trust.independent_votes import repeated_excess
from crowdwise.trust.ppi import IntervalEstimate
from crowdwise.trust.shared_errors import Dependence, effective_votes
from crowdwise.truth.base import Array

MAX_VISITS = 500_000_000  # answers visited in the search; larger crowds are not panels
TIE = 1e-9  # sums of weights that differ by less are equal


@dataclass(frozen=True)
class Removal:
    """What happens to the labels of the panel if workers are dropped.

    Attributes
    ----------
    workers : tuple of ids
        In the order in which they were removed.
    changed : float
        Share of the labels that change.
    effective_votes : float
        Mean number of independent votes per task without them.
    gain : IntervalEstimate or None
        Change of the accuracy, estimated from gold; None without gold.
    low, high : float
        Bounds of the change of the accuracy: the interval of `gain`, cut at `changed`.
    """

    workers: tuple[Any, ...]
    changed: float
    effective_votes: float
    gain: IntervalEstimate | None
    low: float
    high: float


class PanelVote:
    """The votes of a panel, with and without some of its workers.

    Parameters
    ----------
    answers : Answers
    dependence : Dependence
        Of these answers.
    estimates : TrustEstimates, optional
        From gold.
    named : bool
        Whether the user named the families.
    """

    answers: Answers

    def __init__(
        self, answers: Answers, dependence: Dependence, estimates: TrustEstimates | None = None, *, named: bool = False
    ) -> None:
        self.answers, self.dependence, self.estimates = answers, dependence, estimates
        excess = np.append(repeated_excess(dependence, named=named), 0.0)  # (families + 1,), the last for no family
        of_answer = dependence.worker_family[answers.worker]  # (answers,), -1: no family
        self._excess = excess[of_answer]
        key = answers.task.astype(np.int64) * len(excess) + of_answer % len(excess)
        self._group = np.unique(key, return_inverse=True)[1]  # (answers,) number of the task and family
        self._cell = answers.task.astype(np.int64) * answers.n_classes + answers.label
        self._inside = np.array([family.rho for family in dependence.families])
        self.label: Array = self.labels([])  # (tasks, classes), of the whole panel

    @property
    def is_small(self) -> bool:
        """Whether there are few enough workers and answers for `find_droppable`."""
        return self.answers.n_workers**2 / 2 * self.answers.n_answers <= MAX_VISITS

    def weights(self, dropped: list[int]) -> Array:
        """Return the weight of each answer without these workers, (answers,); theirs is 0."""
        keep = ~np.isin(np.arange(self.answers.n_workers), dropped)[self.answers.worker]
        size = np.bincount(self._group, keep)[self._group]  # (answers,) answers of the family to the task
        weight = keep / (1 + np.maximum(size - 1, 0) * self._excess)
        return weight if self.answers.weight is None else weight * self.answers.weight

    def labels(self, dropped: list[int]) -> Array:
        """Return the labels without these workers, (tasks, classes); rows sum to 1."""
        votes = np.bincount(self._cell, self.weights(dropped), minlength=self.answers.n_tasks * self.answers.n_classes)
        votes = votes.reshape(self.answers.n_tasks, -1)
        top = votes >= votes.max(axis=1, keepdims=True) - TIE
        return top / top.sum(axis=1, keepdims=True)

    def changed(self, label: Array) -> float:
        """Return the share of labels that differ from those of the whole panel."""
        return float(1 - np.minimum(label, self.label).sum(axis=1).mean())

    def removal(self, dropped: list[int]) -> Removal:
        """Return what happens without these workers, by code."""
        answers, found, label = self.answers, self.dependence, self.labels(dropped)
        part = answers.take(np.flatnonzero(~np.isin(answers.worker, dropped)))
        _, votes = effective_votes(part, found.worker_family, self._inside, found.background_rho)  # (tasks,)
        changed = self.changed(label)
        gain, low, high = None, -changed, changed
        if self.estimates is not None:
            gain = self.estimates.gain(label, self.label)
            low, high = max(low, gain.low), min(high, gain.high)
        workers = tuple(answers.worker_ids[code].as_py() for code in dropped)
        answered = np.diff(answers.task_starts) > 0
        return Removal(workers, changed, float(votes[answered].mean()), gain, low, high)


def find_droppable(vote: PanelVote, tolerance: float) -> Removal | None:
    """Return the most workers that can be dropped together, or None if nobody can.

    Parameters
    ----------
    vote : PanelVote
    tolerance : float
        Accuracy that may be lost.

    Examples
    --------
    >>> from crowdwise import Answers, simulate
    >>> from crowdwise.trust import dependence
    >>> answers = simulate.simulate(300, n_workers=7, n_classes=2, answers_per_task=7, accuracy=(0.8, 0.9), seed=2)
    >>> rows = answers.worker == 0
    >>> copy = Answers.from_arrays(answers.task[rows], answers.worker[rows] + 7, answers.label[rows])
    >>> panel = answers.merge(copy)
    >>> found = find_droppable(PanelVote(panel, dependence(panel)), tolerance=0.01)
    >>> found.workers, found.changed
    ((0,), 0.0)
    """
    n = vote.answers.n_workers
    best: Removal | None = None
    gone: list[int] = []
    while len(gone) < n - 1:
        left = [worker for worker in range(n) if worker not in gone]
        changed = [vote.changed(vote.labels([*gone, worker])) for worker in left]
        gone.append(left[int(np.argmin(changed))])
        found = vote.removal(gone)
        if found.low < -tolerance:
            break
        best = found
    return best
