"""Shares of the classes, as far as votes can tell them: freed of the errors that are spread over all classes.

    vote[c]  =  right * share[c] + wrong * (1 - share[c])          wrong = (1 - right) / (classes - 1)
    agree    =  right^2 + (classes - 1) * wrong^2                  share of pairs of answers to a task that agree

Errors make classes look more alike than they are: a tenth of the tasks looks like a sixth. How many of the answers are
right is told by how often two of them agree, as if all workers were as good and erred evenly (one coin for the crowd).
"""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Answers
from crowdwise.evaluate.agreement import pairwise_agreement
from crowdwise.learn.base import Array
from crowdwise.truth.base import vote_shares

EVEN = 0.4  # of an equal share: where every class has that much, classes are held for equally likely


def held_even(answers: Answers, weight: Array | None, named: Array) -> bool:
    """Whether each class that is `named`, (classes,) bool, has at least `EVEN` of an equal share.

    Never where agreement does not tell how many answers are right, with one answer a task, say, or by chance alone:
    errors make any shares look even.

    >>> answers = Answers.from_arrays(list("aabbccdd"), list("uv" * 4), list("xxxxxxyy"))
    >>> held_even(answers, None, np.array([True, True]))
    True
    """
    vote = np.average(vote_shares(answers)[:, named], axis=0, weights=weight)
    agree = pairwise_agreement(answers if weight is None else answers[np.flatnonzero(weight)])
    if agree is None or agree * len(vote) <= 1:
        return False
    return bool(freed_shares(vote / vote.sum(), agree).min() >= EVEN / len(vote))


def freed_shares(vote: Array, agree: float) -> Array:
    """Shares of the classes (classes,), from those of the votes; below zero where errors explain more than all votes.

    `agree` is the share of pairs of answers that do, more than by chance.

    >>> freed_shares(np.array([0.8 * 0.9 + 0.2 * 0.1, 0.8 * 0.1 + 0.2 * 0.9]), 0.8**2 + 0.2**2).round(3).tolist()
    [0.9, 0.1]
    """
    n = len(vote)
    right = (1 + np.sqrt((n - 1) * (n * agree - 1))) / n
    wrong = (1 - right) / (n - 1)
    return np.asarray((vote - wrong) / (right - wrong))
