"""KOS, Karger, Oh and Shah (2011): tasks and workers tell each other, answer by answer, what to believe.

    y[a]  what worker w believes in itself, told to task t             a = answer, by worker w to task t
    x[a]  what task t says for the label of a, told to worker w

    x[a] = sum over t's other answers a' of (1[label[a'] = label[a]] - 1 / classes) * y[a']
    y[a] = mean over w's other answers a' of x[a']

    score[t, c] = sum over t's answers a that say c of y[a];  the class with the highest score wins

For two classes this is the paper's x_{i->j} = sum_{j' not j} A_ij' y_{j'->i}, y_{j->i} = sum_{i' not i} A_i'j x_{i'->j}
with A = +1 or -1 (x is half of A_ij x_{i->j}). More than two classes are our extension: an answer weighs against the
other classes so that a worker who guesses evenly adds nothing on average. The mean is ours too: where all workers give
as many answers, as in the paper, it is the sum (`average=False`); where they do not, the sum believes the busiest
workers for being busy, whatever they say. Messages start at N(1, 1) and are divided by their size each round, which
changes no label; without it they overflow.

    proba[t, c] = (score[t, c] + against[t]) / (sum over classes of the same),  against[t] = sum of the negative -y[a]

is the share of belief behind a class, where an answer that is believed to be wrong counts for all the other classes.
It orders classes and tasks; it is no calibrated probability.

Karger, Oh and Shah, "Iterative learning for reliable crowdsourcing systems", NIPS 2011 (Operations Research 62, 2014).
Made for tasks dealt out at random, several answers from every worker, and no class much rarer than the others: with
one common class, agreeing on it passes for skill.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares
from crowdwise.truth.kernels import shared


class KOS(TruthModel):
    """Message passing between tasks and workers.

    Where messages say nothing (no worker of the task answered anything that others did), the votes decide.

    Parameters
    ----------
    average : bool
        Whether a worker's messages are means over its other answers, or sums as in the paper.
    max_iter : int
        Rounds at most.
    tol : float
        Relative change of the messages that ends them; 0 runs all rounds.
    random_state : int
        Seed of the first messages and of ties.

    Attributes
    ----------
    skill_ : (workers,) array
        Mean belief in the worker's answers, of no fixed scale: below 0 for workers taken to be adversarial.
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
        belief = normalised(rng.normal(1, 1, answers.n_answers))  # (answers,): y
        self.converged_ = self.tol == 0
        for iteration in range(self.max_iter):
            told = normalised(round_of_messages(answers, belief, average=self.average))
            change = float(np.sqrt(np.mean((told - belief) ** 2)))
            belief = told
            self.history_.append(change)
            if callback is not None:
                callback(iteration, change)
            if change < self.tol:
                self.converged_ = True
                break
        self.n_iter_ = len(self.history_)
        answered = np.bincount(answers.worker, minlength=answers.n_workers)
        self.skill_ = np.bincount(answers.worker, belief, minlength=answers.n_workers) / np.maximum(answered, 1)
        self.proba_ = fix_gold(shares_of_belief(answers, belief), gold)


def normalised(messages: Array) -> Array:
    """Messages divided by their root mean square; left as they are where all are zero."""
    size = np.abs(messages).max()
    if size == 0:
        return messages
    messages = messages / size  # so that no square under- or overflows
    return messages / np.sqrt(np.mean(messages**2))


def round_of_messages(answers: Answers, belief: Array, *, average: bool) -> Array:
    """From the workers to the tasks and back: the next belief in each answer, (answers,)."""
    votes = np.empty((answers.n_tasks, answers.n_classes))
    shared.weighted_scores(answers.task_starts, answers.label, belief, votes)
    total = votes.sum(axis=1)[answers.task] - belief  # (answers,): all of the task's but one's own
    support = votes[answers.task, answers.label] - belief - total / answers.n_classes  # x
    belief = np.bincount(answers.worker, support, minlength=answers.n_workers)[answers.worker] - support
    others = np.diff(answers.worker_starts)[answers.worker] - 1  # (answers,)
    return belief / np.maximum(others, 1) if average else belief


def shares_of_belief(answers: Answers, belief: Array) -> Array:
    """Share of the belief that stands behind each class, (tasks, classes); of the votes where there is no belief."""
    score = np.empty((answers.n_tasks, answers.n_classes))
    shared.weighted_scores(answers.task_starts, answers.label, belief, score)
    score += np.bincount(answers.task, np.maximum(-belief, 0), minlength=answers.n_tasks)[:, None]
    score = np.maximum(score, 0)  # rounding
    total = score.sum(axis=1)
    silent = np.flatnonzero(total == 0)
    total[silent] = 1.0
    score /= total[:, None]
    if len(silent):
        score[silent] = vote_shares(answers)[silent]
    return score
