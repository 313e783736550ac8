"""Iterative weighted majority vote (Li and Yu 2014): vote, score the workers, vote again.

    winner[t]   = class with the most votes                                 t = task, w = worker, K = classes
    repeat  accuracy[w] = share of w's answers that equal winner[task]
            weight[w]   = K * accuracy[w] - 1                               zero at chance, negative below
            winner[t]   = class with the largest sum of weight over the workers who chose it
    until no winner changes

    proba[t, c] proportional to exp(K / (K - 1) * sum of weight[w] over the workers w who chose c)

Li and Yu, "Error rate bounds and iterative weighted majority voting for crowdsourcing", arXiv:1411.4086. The weight is
the log odds of a worker of one accuracy, log((K - 1) accuracy / (1 - accuracy)), to first order around chance and up
to the factor K / (K - 1), which the posterior restores. Each iteration is one pass over the answers. In rare cases the
winners alternate between two votes forever; `converged_` is then False.
"""

from __future__ import annotations

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares
from crowdwise.truth.kernels import shared
from crowdwise.truth.methods.naive_soft import vote_sums
from crowdwise.truth.methods.wawa import agreement_rates, winner_shares


class IWMV(TruthModel):
    """Majority vote, repeated with workers weighted by their agreement with the previous vote.

    Parameters
    ----------
    max_iter : int
        Largest number of iterations.
    random_state : int
        Seed for breaking ties in `labels_`. During the iteration, tied classes share the win equally.

    Attributes
    ----------
    skill_ : (workers,) array
        Accuracy of each worker against the last vote but one; the weight of their votes is classes * skill - 1.
    history_ : list of float
        Share of tasks whose winner changed in each iteration. It may rise; this method maximises no bound.

    Examples
    --------
    >>> from crowdwise import IWMV, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> model = IWMV().fit(answers)
    >>> model.labels_.tolist(), model.skill_.tolist()
    (['x', 'y'], [1.0, 1.0, 0.5])
    """

    converged_: bool
    n_iter_: int
    proba_: Array

    def __init__(self, max_iter: int = 100, random_state: int = 0) -> None:
        self.max_iter = max_iter
        self.random_state = random_state

    skill_: Array

    def _check_parameters(self) -> None:
        require(self.max_iter >= 1, "max_iter", self.max_iter, "1 or more")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        n_classes = answers.n_classes
        self.converged_ = False
        winner = fix_gold(winner_shares(vote_shares(answers)), gold)  # (tasks, classes)
        for iteration in range(self.max_iter):
            self.skill_ = agreement_rates(answers, winner)
            sums = vote_sums(answers, n_classes * self.skill_[answers.worker] - 1)  # (tasks, classes)
            before, winner = winner, fix_gold(winner_shares(sums), gold)
            self.history_.append(float((winner != before).any(axis=1).mean()))
            if callback is not None:
                callback(iteration, self.history_[-1])
            if self.history_[-1] == 0:
                self.converged_ = True
                break
        self.n_iter_ = len(self.history_)
        sums *= n_classes / max(n_classes - 1, 1)
        shared.softmax_rows(sums, np.empty(len(sums)))
        self.proba_ = fix_gold(sums, gold)
