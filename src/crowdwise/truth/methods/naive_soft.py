"""Naive soft labels: the vote shares as probabilities.

    proba[t, c] = (smoothing + votes for c) / (classes * smoothing + votes)        t = task, c = class

Without smoothing, a task on which two workers agree gets the same probabilities as one on which twenty agree.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares
from crowdwise.truth.kernels import shared


class NaiveSoft(TruthModel):
    """The vote shares of each task as probabilities.

    Parameters
    ----------
    smoothing : float
        Pseudo-votes added to every class of every task; 1 is Laplace smoothing.
    random_state : int
        Seed for breaking ties.

    Examples
    --------
    >>> from crowdwise import Answers, NaiveSoft
    >>> answers = Answers.from_arrays([1, 1, 1], ["a", "b", "c"], ["x", "x", "y"])
    >>> NaiveSoft(smoothing=1).fit(answers).proba_.tolist()
    [[0.6, 0.4]]
    """

    proba_: Array

    def __init__(self, smoothing: float = 0.0, random_state: int = 0) -> None:
        self.smoothing = smoothing
        self.random_state = random_state

    def _check_parameters(self) -> None:
        require(0 <= self.smoothing < np.inf, "smoothing", self.smoothing, "0 or more pseudo-votes")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        votes = vote_sums(answers, np.broadcast_to(1.0, answers.n_answers))  # (tasks, classes)
        votes += self.smoothing
        self.proba_ = fix_gold(to_shares(answers, votes), gold)


def vote_sums(answers: Answers, score: Array) -> Array:
    """Return the votes for each class, (tasks, classes), where answer a counts `score[a]` times its weight."""
    sums = np.empty((answers.n_tasks, answers.n_classes))
    weighted = score if answers.weight is None else score * answers.weight  # (answers,)
    shared.weighted_scores(answers.task_starts, answers.label, weighted, sums)
    return sums


def to_shares(answers: Answers, sums: Array) -> Array:
    """Normalise rows to sum to one, in place; rows that sum to zero become plain vote shares."""
    total = sums.sum(axis=1)  # (tasks,)
    empty = total <= 0
    sums /= np.where(empty, 1.0, total)[:, None]
    if empty.any():
        sums[empty] = vote_shares(answers)[empty]
    return sums
