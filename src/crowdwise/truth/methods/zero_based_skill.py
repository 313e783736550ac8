"""Zero-based skill (Toloka): skills that start at chance and follow each worker's agreement with the weighted vote.

    skill[w] = 1 / classes + eps                                   w = worker, t = task
    repeat  winner[t]  = class with the largest sum of skill over the workers who chose it
            skill[w]  += rate * (share of w's answers that equal winner[task] - skill[w])

`rate` starts at `lr_init` and is multiplied by `lr_reduce_factor` every `lr_steps_to_reduce` iterations; with a
constant rate the vote can alternate between two results. crowd-kit's documentation is the reference. The iteration
stops once every skill equals its target, as nothing would change after that.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold
from crowdwise.truth.methods.naive_soft import to_shares, vote_sums
from crowdwise.truth.methods.wawa import Ties, agreement_rates, winner_shares

_CONVERGED = 1e-12  # largest distance of a skill from its target at convergence


class ZeroBasedSkill(TruthModel):
    """Votes weighted by skills that are learned step by step from agreement with the weighted vote.

    Parameters
    ----------
    max_iter : int
        Largest number of iterations.
    lr_init, lr_steps_to_reduce, lr_reduce_factor : float, int, float
        First learning rate, number of iterations between reductions, and factor of each reduction.
    eps : float
        How far above chance the skills start.
    ties : {"share", "first"}
        Which class wins if several tie: all in equal parts, or the first in order (as in crowd-kit).
    random_state : int
        Seed for breaking ties in `labels_`.

    Attributes
    ----------
    skill_ : (workers,) array
    history_ : list of float
        Largest distance of a skill from its target in each iteration. It may rise; this method maximises no bound.

    Examples
    --------
    >>> from crowdwise import Answers, ZeroBasedSkill
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> ZeroBasedSkill().fit(answers).skill_.tolist()
    [1.0, 1.0, 0.5]
    """

    converged_: bool
    n_iter_: int
    proba_: Array

    def __init__(
        self,
        max_iter: int = 100,
        lr_init: float = 1.0,
        lr_steps_to_reduce: int = 20,
        lr_reduce_factor: float = 0.5,
        eps: float = 1e-5,
        ties: Ties = "share",
        random_state: int = 0,
    ) -> None:
        self.max_iter = max_iter
        self.lr_init = lr_init
        self.lr_steps_to_reduce = lr_steps_to_reduce
        self.lr_reduce_factor = lr_reduce_factor
        self.eps = eps
        self.ties = ties
        self.random_state = random_state

    skill_: Array

    def _check_parameters(self) -> None:
        require(self.max_iter >= 1, "max_iter", self.max_iter, "1 or more")
        require(0 < self.lr_init <= 1, "lr_init", self.lr_init, "a rate above 0, at most 1")
        require(self.lr_steps_to_reduce >= 1, "lr_steps_to_reduce", self.lr_steps_to_reduce, "1 or more")
        require(0 < self.lr_reduce_factor <= 1, "lr_reduce_factor", self.lr_reduce_factor, "above 0, at most 1")
        require(self.eps >= 0, "eps", self.eps, "0 or more")
        require(self.ties in ("share", "first"), "ties", self.ties, "'share' or 'first'")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        rate = self.lr_init
        skill = np.full(answers.n_workers, 1 / answers.n_classes + self.eps)
        self.converged_ = False
        for iteration in range(self.max_iter):
            if (iteration + 1) % self.lr_steps_to_reduce == 0:
                rate *= self.lr_reduce_factor
            shares = self._vote(answers, skill)
            target = agreement_rates(answers, fix_gold(winner_shares(shares, self.ties), gold))  # (workers,)
            distance = target - skill
            skill += rate * distance
            self.history_.append(float(np.abs(distance).max()))
            if callback is not None:
                callback(iteration, self.history_[-1])
            if self.history_[-1] < _CONVERGED:
                self.converged_ = True
                break
        self.skill_, self.n_iter_ = skill, len(self.history_)
        self.proba_ = fix_gold(self._vote(answers, skill), gold)

    def _vote(self, answers: Answers, skill: Array) -> Array:
        return to_shares(answers, vote_sums(answers, skill[answers.worker]))
