"""Wawa, "worker agreement with aggregate" (Appen): votes weighted by how often a worker agrees with the majority.

    winner[t]    = class with the most votes                     t = task, w = worker
    skill[w]     = share of w's answers that equal winner[task]
    proba[t, c]  = sum of skill[w] over the workers w who chose c for t, as shares

Appen, "Calculating worker agreement with aggregate (Wawa)", 2021. It is one step of what IWMV repeats. If m classes tie
for the majority, each counts as the winner with weight 1/m: no result depends on chance or on the order of classes.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares, weights_of
from crowdwise.truth.kernels.shared import chunk_bounds
from crowdwise.truth.kernels.threads import compiled, run
from crowdwise.truth.methods.naive_soft import to_shares, vote_sums

Ties = Literal["share", "first"]


class Wawa(TruthModel):
    """Votes weighted by each worker's agreement with the majority.

    Parameters
    ----------
    ties : {"share", "first"}
        Which class wins if several tie for the majority: all in equal parts, or the first in order (as in crowd-kit).
    random_state : int
        Seed for breaking ties in `labels_`.

    Attributes
    ----------
    skill_ : (workers,) array
        Agreement of each worker with the majority (with `gold` for gold tasks); the mean of all answers for a worker
        without any.

    Examples
    --------
    >>> from crowdwise import Answers, Wawa
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> Wawa().fit(answers).skill_.tolist()
    [1.0, 1.0, 0.5]
    """

    proba_: Array

    def __init__(self, ties: Ties = "share", random_state: int = 0) -> None:
        self.ties = ties
        self.random_state = random_state

    skill_: Array

    def _check_parameters(self) -> None:
        require(self.ties in ("share", "first"), "ties", self.ties, "'share' or 'first'")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        self.skill_ = agreement_rates(answers, fix_gold(winner_shares(vote_shares(answers), self.ties), gold))
        self.proba_ = fix_gold(to_shares(answers, vote_sums(answers, self.skill_[answers.worker])), gold)


def winner_shares(scores: Array, ties: Ties = "share") -> Array:
    """Return 1 for the highest score of each row and 0 elsewhere; scores that tie (within 1e-12) share the 1 equally.

    >>> winner_shares(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """
    if ties == "first":
        best = np.zeros_like(scores)
        best[np.arange(len(scores)), scores.argmax(axis=1)] = 1.0
        return best
    top = scores.max(axis=1, keepdims=True)
    best = (scores >= top - 1e-12 * np.maximum(1.0, np.abs(top))).astype(float)  # (tasks, classes)
    return best / best.sum(axis=1, keepdims=True)


def agreement_rates(answers: Answers, proba: Array) -> Array:
    """Return the mean probability of each worker's answers, (workers,); the overall mean for a worker without any."""
    return worker_rates(agreement_sums(answers, proba), answer_weights(answers))


def agreement_sums(answers: Answers, proba: Array) -> Array:
    """Return the weighted sum of `proba[task, label]` over the answers of each worker, (workers,)."""
    bounds = chunk_bounds(answers.task_starts)
    sums = np.zeros((len(bounds) - 1, answers.n_workers))
    columns = answers.task_starts, answers.worker, answers.label
    run(_agreement_sums, len(sums), *columns, weights_of(answers), proba, bounds, sums, parts=len(sums))
    return sums.sum(axis=0)


def answer_weights(answers: Answers) -> Array:
    """Return the total weight of each worker's answers, (workers,)."""
    return np.bincount(answers.worker, answers.weight, answers.n_workers).astype(float)


def worker_rates(right: Array, total: Array) -> Array:
    """Return right / total of each worker, (workers,); the overall rate where the total is zero."""
    mean = right.sum() / total.sum() if total.sum() > 0 else 1.0
    return np.divide(right, total, out=np.full(len(right), mean), where=total > 0)


@compiled
def _agreement_sums(
    first_chunk: int, end_chunk: int, starts: Array, worker: Array, label: Array, weight: Array, proba: Array,
    bounds: Array, sums: Array,
) -> None:  # fmt: skip
    """Add up each chunk of tasks separately, so that the result does not depend on the number of threads."""
    weighted = weight.shape[0] > 0
    for chunk in range(first_chunk, end_chunk):
        row = sums[chunk]
        for t in range(bounds[chunk], bounds[chunk + 1]):
            for a in range(starts[t], starts[t + 1]):
                row[worker[a]] += proba[t, label[a]] * (weight[a] if weighted else 1.0)
