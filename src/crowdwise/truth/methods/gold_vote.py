"""Gold vote: votes weighted by each worker's accuracy on the tasks whose truth is known.

    mean         = accuracy of all workers together on the gold tasks                         w = worker, t = task
    skill[w]     = (right[w] + smoothing * mean) / (asked[w] + smoothing)                     on the gold tasks
    proba[t, c]  = sum of skill[w] over the workers w who say c about t, as shares

Smoothing pulls a worker with few gold answers towards the average; a worker with none gets exactly the average.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import GoldError
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold
from crowdwise.truth.methods.naive_soft import to_shares, vote_sums


class GoldVote(TruthModel):
    """Votes weighted by accuracy on gold tasks. `fit` needs `gold`.

    Parameters
    ----------
    smoothing : float
        Pseudo-answers of average accuracy added to each worker's gold answers.
    random_state : int
        Seed for breaking ties.

    Attributes
    ----------
    skill_ : (workers,) array
        Smoothed accuracy on the gold tasks.

    Examples
    --------
    >>> from crowdwise import Answers, GoldVote
    >>> answers = Answers.from_arrays([1, 1, 2, 2], ["a", "b", "a", "b"], ["x", "y", "x", "y"])
    >>> model = GoldVote(smoothing=0).fit(answers, gold={1: "x"})
    >>> model.skill_.tolist(), model.labels_.tolist()
    ([1.0, 0.0], ['x', 'x'])
    """

    needs_gold: ClassVar[bool] = True

    proba_: Array

    def __init__(self, smoothing: float = 1.0, random_state: int = 0) -> None:
        self.smoothing = smoothing
        self.random_state = random_state

    skill_: Array

    def _check_parameters(self) -> None:
        require(0 <= self.smoothing < np.inf, "smoothing", self.smoothing, "0 or more pseudo-answers")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        if gold is None or not (gold >= 0).any():
            message = "GoldVote needs tasks of known truth to weight the workers; pass gold={task: class, ...} to fit."
            raise GoldError(message)
        self.skill_ = gold_skill(answers, gold, self.smoothing)
        self.proba_ = fix_gold(to_shares(answers, vote_sums(answers, self.skill_[answers.worker])), gold)


def gold_skill(answers: Answers, gold: Array, smoothing: float) -> Array:
    """Return the smoothed accuracy of each worker on the gold tasks, (workers,)."""
    known = gold[answers.task]  # (answers,)
    weight = (known >= 0) * (1.0 if answers.weight is None else answers.weight)
    asked = np.bincount(answers.worker, weight, answers.n_workers)
    right = np.bincount(answers.worker, weight * (known == answers.label), answers.n_workers)
    if asked.sum() == 0:
        message = f"none of the {(gold >= 0).sum()} gold tasks has answers; pass gold for tasks that were answered."
        raise GoldError(message)
    mean = right.sum() / asked.sum()
    counted = asked + smoothing > 0
    return np.divide(right + smoothing * mean, asked + smoothing, out=np.full(len(asked), mean), where=counted)
