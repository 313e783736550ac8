"""Check whether a learner's labels agree with the answers as well as the vote does.

    agreement of labels    share of answers that equal the label of their task
    agreement of others    share of answers that equal the vote of the other answers to their task

If workers err independently, true labels agree with answers at least as often as the vote of others does, since that
vote errs too. Labels that agree clearly less often are wrong in many tasks: a network was trained too briefly, or has
swapped classes. A task with one answer has no others; its answer is compared with the most frequent one, as chance.
"""

from __future__ import annotations

import warnings

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import LabelsWarning
from crowdwise.learn.base import Array
from crowdwise.truth.vote_check import mean_and_error

BLOCK = 100_000  # answers
MIN_GAP = 0.02  # smallest difference in agreement to warn of


def warn_of_poor_labels(name: str, answers: Answers, codes: Array, used: Array, stacklevel: int) -> None:
    """Warn if labels (tasks,) agree with the answers to the tasks in use, (tasks,) bool, less than others' votes do."""
    rows = np.flatnonzero(used[answers.task])
    if not len(rows):
        return
    own = (answers.label[rows] == codes[answers.task[rows]]).astype(float)
    others = agreement_with_others(answers)[rows]
    gap, error = mean_and_error(own - others, answers.task[rows])
    if gap < -max(3 * error, MIN_GAP):
        message = (
            f"The labels of {name} agree with {own.mean():.0%} of the answers, the vote of the other answers to the "
            f"same task with {others.mean():.0%}. Many labels are probably wrong. Do not use them: train longer "
            f"(epochs), check that features and tasks match, or use joint-em or dawid-skene."
        )
        warnings.warn(message, LabelsWarning, stacklevel=stacklevel)


def agreement_with_others(answers: Answers) -> Array:
    """Return whether each answer equals the vote of the others to its task, (answers,); a tie of n classes counts 1/n.

    >>> agreement_with_others(Answers.from_arrays([1, 1, 1, 2, 2], list("abcab"), list("xxyxy"))).tolist()
    [0.5, 0.5, 0.0, 0.0, 0.0]
    """
    votes = np.zeros((answers.n_tasks, answers.n_classes))
    np.add.at(votes, (answers.task, answers.label), 1.0)
    total = votes.sum(axis=0)
    out = np.empty(answers.n_answers)
    for first in range(0, answers.n_answers, BLOCK):
        part = slice(first, first + BLOCK)
        label = answers.label[part]
        counts = votes[answers.task[part]]  # (block, classes)
        at = np.arange(len(label)), label
        counts[at] -= 1
        alone = counts.sum(axis=1) == 0
        counts[alone] = total
        top = counts == counts.max(axis=1, keepdims=True)
        out[part] = top[at] / top.sum(axis=1)
    return out
