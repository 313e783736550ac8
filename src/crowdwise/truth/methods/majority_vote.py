"""Majority vote: the class that most workers chose. The baseline that every other method has to beat."""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares


class MajorityVote(TruthModel):
    """The class with the most votes; ties are broken at random with `random_state`.

    `proba_` holds the vote shares: they measure agreement and are not calibrated probabilities.

    Parameters
    ----------
    random_state : int
        Seed for breaking ties.

    Examples
    --------
    >>> from crowdwise import Answers, MajorityVote
    >>> answers = Answers.from_arrays([1, 1, 1], ["a", "b", "c"], ["x", "x", "y"])
    >>> MajorityVote().fit(answers).labels_.tolist()
    ['x']
    """

    proba_: Array

    def __init__(self, random_state: int = 0) -> None:
        self.random_state = random_state

    def _fit(
        self,
        answers: Answers,
        gold: Array | None,
        rng: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        self.proba_ = fix_gold(vote_shares(answers), gold)
