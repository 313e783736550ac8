"""Class shares estimated from the votes, corrected for errors that are spread over all classes.

    vote[c]  =  right * share[c] + wrong * (1 - share[c])          wrong = (1 - right) / (classes - 1)
    agree    =  right^2 + (classes - 1) * wrong^2                  share of pairs of answers to one task that agree

Errors make the classes look more alike than they are: a share of a tenth looks like a sixth. The rate of right answers
follows from how often two answers agree, if all workers are equally good and err evenly (one coin for the crowd).
"""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Answers
from crowdwise.evaluate.agreement import pairwise_agreement
from crowdwise.learn.base import Array
from crowdwise.truth.base import vote_shares

MIN_EQUAL_SHARE = 0.4  # classes count as balanced if each has at least this part of an equal share


def has_balanced_classes(answers: Answers, weight: Array | None, possible: Array) -> bool:
    """Whether each of the `possible` classes, (classes,) bool, has at least `MIN_EQUAL_SHARE` of an equal share.

    Return False if agreement does not tell how many answers are right, for example with one answer per task or
    agreement at chance level: errors make any shares look even.

    >>> answers = Answers.from_arrays(list("aabbccdd"), list("uv" * 4), list("xxxxxxyy"))
    >>> has_balanced_classes(answers, None, np.array([True, True]))
    True
    """
    vote = np.average(vote_shares(answers)[:, possible], axis=0, weights=weight)
    agree = pairwise_agreement(answers if weight is None else answers[np.flatnonzero(weight)])
    if agree is None or agree * len(vote) <= 1:
        return False
    return bool(denoise_shares(vote / vote.sum(), agree).min() >= MIN_EQUAL_SHARE / len(vote))


def denoise_shares(vote: Array, agree: float) -> Array:
    """Return class shares (classes,) from those of the votes; negative where errors explain more than all votes.

    `agree` is the share of pairs of answers that agree; it must be above chance.

    >>> denoise_shares(np.array([0.8 * 0.9 + 0.2 * 0.1, 0.8 * 0.1 + 0.2 * 0.9]), 0.8**2 + 0.2**2).round(3).tolist()
    [0.9, 0.1]
    """
    n = len(vote)
    right = (1 + np.sqrt((n - 1) * (n * agree - 1))) / n
    wrong = (1 - right) / (n - 1)
    return np.asarray((vote - wrong) / (right - wrong))
