"""KOS, Karger, Oh and Shah (2011): messages between tasks and workers estimate how reliable each answer is.

    y[a]  message from worker w to task t: how reliable w is          a = answer, by worker w to task t
    x[a]  message from task t to worker w: how much t's other answers support the label of a

    x[a] = sum over t's other answers a' of (1[label[a'] = label[a]] - 1 / classes) * y[a']
    y[a] = mean over w's other answers a' of x[a']

    score[t, c] = sum over t's answers a with label c of y[a];  the class with the highest score wins

For two classes this is the paper's x_{i->j} = sum_{j' not j} A_ij' y_{j'->i}, y_{j->i} = sum_{i' not i} A_i'j x_{i'->j}
with A = +1 or -1 (x is half of A_ij x_{i->j}). More than two classes are our extension: an answer counts against the
other classes, so that a worker who guesses uniformly adds nothing on average. The mean is ours too. If all workers give
the same number of answers, as in the paper, it is equivalent to the sum (`average=False`); if not, the sum gives the
busiest workers the most weight, whatever their quality. Messages start at N(1, 1) and are divided by their root mean
square each round, which changes no label and prevents overflow.

    proba[t, c] = (score[t, c] + against[t]) / (sum over classes of the same),  against[t] = sum of the negative -y[a]

is the share of the weight behind a class; an answer of negative weight counts for all the other classes. It ranks
classes and tasks; it is not a calibrated probability.

Karger, Oh and Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011 (Operations Research 62, 2014).
It assumes randomly assigned tasks, several answers from every worker, and no class much rarer than the others: with
one dominant class, agreeing on it looks like skill.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares
from crowdwise.truth.kernels import shared


class KOS(TruthModel):
    """Message passing between tasks and workers.

    Vote shares decide a task whose messages are all zero (its workers answered no task that others answered).

    Parameters
    ----------
    average : bool
        Whether a worker's messages are means over their other answers, or sums as in the paper.
    max_iter : int
        Largest number of rounds.
    tol : float
        Relative change of the messages at which the iteration stops; 0 runs all rounds.
    random_state : int
        Seed for the first messages and for breaking ties.

    Attributes
    ----------
    skill_ : (workers,) array
        Mean message of the worker's answers, on an arbitrary scale: below 0 for workers who look adversarial.
    history_ : list of float
        Relative change of the messages in each round.

    Examples
    --------
    >>> from crowdwise import KOS, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "x"])
    >>> KOS().fit(answers).labels_.tolist()
    ['x', 'y']
    """

    uses_weights = False

    converged_: bool
    n_iter_: int
    proba_: Array

    def __init__(self, *, average: bool = True, max_iter: int = 100, tol: float = 1e-6, random_state: int = 0) -> None:
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    skill_: Array

    def _check_parameters(self) -> None:
        require(self.max_iter >= 1, "max_iter", self.max_iter, "1 or more")
        require(self.tol >= 0, "tol", self.tol, "0 or more (0 runs all max_iter rounds)")

    def _fit(
        self,
        answers: Answers,
        gold: Array | None,
        rng: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        messages = normalised(rng.normal(1, 1, answers.n_answers))  # (answers,): y
        self.converged_ = self.tol == 0
        for iteration in range(self.max_iter):
            updated = normalised(next_messages(answers, messages, average=self.average))
            change = float(np.sqrt(np.mean((updated - messages) ** 2)))
            messages = updated
            self.history_.append(change)
            if callback is not None:
                callback(iteration, change)
            if change < self.tol:
                self.converged_ = True
                break
        self.n_iter_ = len(self.history_)
        count = np.bincount(answers.worker, minlength=answers.n_workers)
        self.skill_ = np.bincount(answers.worker, messages, minlength=answers.n_workers) / np.maximum(count, 1)
        self.proba_ = fix_gold(class_shares(answers, messages), gold)


def normalised(messages: Array) -> Array:
    """Return the messages divided by their root mean square; unchanged if all are zero."""
    size = np.abs(messages).max()
    if size == 0:
        return messages
    messages = messages / size  # avoids under- and overflow of the squares
    return messages / np.sqrt(np.mean(messages**2))


def next_messages(answers: Answers, messages: Array, *, average: bool) -> Array:
    """Send messages from the workers to the tasks and back; return the next y of each answer, (answers,)."""
    votes = np.empty((answers.n_tasks, answers.n_classes))
    shared.weighted_scores(answers.task_starts, answers.label, messages, votes)
    total = votes.sum(axis=1)[answers.task] - messages  # (answers,): the task's messages without this answer's
    support = votes[answers.task, answers.label] - messages - total / answers.n_classes  # x
    messages = np.bincount(answers.worker, support, minlength=answers.n_workers)[answers.worker] - support
    others = np.diff(answers.worker_starts)[answers.worker] - 1  # (answers,)
    return messages / np.maximum(others, 1) if average else messages


def class_shares(answers: Answers, messages: Array) -> Array:
    """Return the share of the weight behind each class, (tasks, classes); vote shares where all messages are zero."""
    score = np.empty((answers.n_tasks, answers.n_classes))
    shared.weighted_scores(answers.task_starts, answers.label, messages, score)
    score += np.bincount(answers.task, np.maximum(-messages, 0), minlength=answers.n_tasks)[:, None]
    score = np.maximum(score, 0)  # rounding errors may be negative
    total = score.sum(axis=1)
    empty = np.flatnonzero(total == 0)
    total[empty] = 1.0
    score /= total[:, None]
    if len(empty):
        score[empty] = vote_shares(answers)[empty]
    return score
