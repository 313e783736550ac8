"""The two-thirds rule of iNaturalist: a label counts only if enough workers answered and two thirds of them agree.

    decided[t] = answers to t >= min_answers  and  largest vote share of t >= threshold            t = task

The labels are those of majority vote; the rule adds which of them to keep. With two answers it requires that they
agree, and on hard tasks half of all pairs agree by chance. The rule does not replace a model of the workers.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares


class TwoThird(TruthModel):
    """Majority vote that also marks the tasks whose majority is large enough.

    `proba_` holds the vote shares and `labels_` the majority for every task. `decided_` marks the tasks that have a
    label under the rule; select them with ``answers[model.decided_]``.

    Parameters
    ----------
    threshold : float
        Smallest vote share that decides a task.
    min_answers : int
        Smallest number of answers (with a weight above zero) that decides a task.
    random_state : int
        Seed for breaking ties.

    Attributes
    ----------
    decided_ : (tasks,) bool array
        Whether the rule decides the task. Tasks of known truth are always decided.

    Examples
    --------
    >>> from crowdwise import Answers, TwoThird
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2], ["a", "b", "c", "a", "b"], ["x", "x", "y", "x", "y"])
    >>> TwoThird().fit(answers).decided_.tolist()
    [True, False]
    """

    proba_: Array

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
