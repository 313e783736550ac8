"""The two-thirds rule of iNaturalist: a label counts only where enough workers answered and two thirds of them agree.

    decided[t] = answers to t >= min_answers  and  largest vote share of t >= threshold            t = task

It finds the same labels as majority vote; what it adds is which of them to keep. With two answers it asks that they
be equal, which half of all hard tasks pass by chance: no substitute for a model of the workers.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares


class TwoThird(TruthModel):
    """Majority vote that also says where the majority is large enough to count.

    `proba_` holds the vote shares and `labels_` the majority for every task, so that no consumer meets a gap;
    `decided_` marks the tasks that have a label under the rule. Keep those with ``answers[model.decided_]``.

    Parameters
    ----------
    threshold : float
        Share of the votes that decides; a share equal to it does.
    min_answers : int
        Answers (of a weight above zero) a task must have.
    random_state : int
        Seed of the ties.

    Attributes
    ----------
    decided_ : (tasks,) bool array
        Where the rule gives a label. Tasks of known truth are always decided.

    Examples
    --------
    >>> from crowdwise import Answers, TwoThird
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2], ["a", "b", "c", "a", "b"], ["x", "x", "y", "x", "y"])
    >>> TwoThird().fit(answers).decided_.tolist()
    [True, False]
    """

    def __init__(self, threshold: float = 2 / 3, min_answers: int = 2, random_state: int = 0) -> None:
        self.threshold = threshold
        self.min_answers = min_answers
        self.random_state = random_state

    decided_: Array

    def _check_parameters(self) -> None:
        require(0 < self.threshold <= 1, "threshold", self.threshold, "a share above 0, at most 1")
        require(self.min_answers >= 1, "min_answers", self.min_answers, "1 or more")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        self.proba_ = vote_shares(answers)
        counted = answers.task if answers.weight is None else answers.task[answers.weight > 0]
        enough = np.bincount(counted, minlength=answers.n_tasks) >= self.min_answers  # (tasks,)
        self.decided_ = enough & (self.proba_.max(axis=1) >= self.threshold - 1e-12)
        fix_gold(self.proba_, gold)
        if gold is not None:
            self.decided_ |= gold >= 0
