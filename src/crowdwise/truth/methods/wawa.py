"""Wawa, "worker agreement with aggregate" (Appen): votes weighted by how often a worker sides with the majority.

    winner[t]    = class with the most votes                     t = task, w = worker
    skill[w]     = share of w's answers that equal winner[task]
    proba[t, c]  = sum of skill[w] over the workers w who say c about t, as shares

Appen, "Calculating worker agreement with aggregate (Wawa)", 2021. One step of what IWMV repeats. Where classes tie for
the majority, each of the m tied answers is right to 1/m: no result hangs on chance or on the order of classes.
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
        Who is right where classes tie for the majority: all of them in part, or the first in order (as in crowd-kit).
    random_state : int
        Seed of the ties in `labels_`.

    Attributes
    ----------
    skill_ : (workers,) array
        Agreement of each worker with the majority (with `gold` where it is known); the crowd's mean for a worker
        without answers.

    Examples
    --------
    >>> from crowdwise import Answers, Wawa
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> Wawa().fit(answers).skill_.tolist()
    [1.0, 1.0, 0.5]
    """

    def __init__(self, ties: Ties = "share", random_state: int = 0) -> None:
        self.ties = ties
        self.random_state = random_state

    skill_: Array

    def _check_parameters(self) -> None:
        require(self.ties in ("share", "first"), "ties", self.ties, "'share' or 'first'")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        self.skill_ = agreement(answers, fix_gold(winners(vote_shares(answers), self.ties), gold))
        self.proba_ = fix_gold(to_shares(answers, vote_sums(answers, self.skill_[answers.worker])), gold)


def winners(scores: Array, ties: Ties = "share") -> Array:
    """One for the highest score of each row, shared evenly between those that tie (to 1e-12).

    >>> winners(np.array([[0.2, 0.8], [0.5, 0.5]])).tolist()
    [[0.0, 1.0], [0.5, 0.5]]
    """
    if ties == "first":
        best = np.zeros_like(scores)
        best[np.arange(len(scores)), scores.argmax(axis=1)] = 1.0
        return best
    top = scores.max(axis=1, keepdims=True)
    best = (scores >= top - 1e-12 * np.maximum(1.0, np.abs(top))).astype(float)  # (tasks, classes)
    return best / best.sum(axis=1, keepdims=True)


def agreement(answers: Answers, proba: Array) -> Array:
    """Mean probability of what each worker said, (workers,); the crowd's mean for a worker without answers."""
    return rate(agreements(answers, proba), totals(answers))


def agreements(answers: Answers, proba: Array) -> Array:
    """Sum of `proba[task, label]` over the answers of each worker, times their weight: (workers,)."""
    bounds = chunk_bounds(answers.task_starts)
    sums = np.zeros((len(bounds) - 1, answers.n_workers))
    columns = answers.task_starts, answers.worker, answers.label
    run(_agreements, len(sums), *columns, weights_of(answers), proba, bounds, sums, parts=len(sums))
    return sums.sum(axis=0)


def totals(answers: Answers) -> Array:
    """Weight of the answers of each worker: (workers,)."""
    return np.bincount(answers.worker, answers.weight, answers.n_workers).astype(float)


def rate(right: Array, total: Array) -> Array:
    """Share right / total of each worker; that of the whole crowd where the total is zero."""
    mean = right.sum() / total.sum() if total.sum() > 0 else 1.0
    return np.divide(right, total, out=np.full(len(right), mean), where=total > 0)


@compiled
def _agreements(
    first_chunk: int, end_chunk: int, starts: Array, worker: Array, label: Array, weight: Array, proba: Array,
    bounds: Array, sums: Array,
) -> None:  # fmt: skip
    """Partial sums of each chunk of tasks, so that the result does not depend on the number of threads."""
    weighted = weight.shape[0] > 0
    for chunk in range(first_chunk, end_chunk):
        row = sums[chunk]
        for t in range(bounds[chunk], bounds[chunk + 1]):
            for a in range(starts[t], starts[t + 1]):
                row[worker[a]] += proba[t, label[a]] * (weight[a] if weighted else 1.0)
