"""Weighted Dawid-Skene: votes weighted by how reliable the worker is on the class they vote for.

    confusion   = fit of Dawid-Skene (or of another model)
    proba[t, c] = sum of confusion[w, c, c] over the workers w who chose c for t, as shares        t = task, w = worker

Lefort, Charlier, Joly and Salmon, "Identify ambiguous tasks combining crowdsourced labels by weighting areas under the
margin", TMLR 2024 (WAUM), uses these as soft labels. They stay close to the votes, while the posteriors of Dawid-Skene
go to zero and one. A task whose weights are all zero gets its plain vote shares.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise._core.parameters import unfitted
from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.answers.encoding import take_by_code
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold
from crowdwise.truth.methods.dawid_skene import DawidSkene, dense_confusion
from crowdwise.truth.methods.naive_soft import to_shares, vote_sums


class WDS(TruthModel):
    """Votes weighted by the voter's Dawid-Skene accuracy on the class voted for.

    Parameters
    ----------
    base : truth model with confusion matrices, optional
        The model that gives the weights: DawidSkene() by default; IBCC and EBCC also work.
    random_state : int
        Seed for breaking ties.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        `confusion_[w, c, l]` = P(worker w says l | truth c), estimated by the base.
    history_, n_iter_, converged_
        Those of the base.

    Examples
    --------
    >>> from crowdwise import WDS, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> WDS().fit(answers).labels_.tolist()
    ['x', 'y']
    """

    converged_: bool
    history_: list[float]
    n_iter_: int
    proba_: Array

    def __init__(self, base: TruthModel | None = None, random_state: int = 0) -> None:
        self.base = base
        self.random_state = random_state

    table_: Array
    prior_: Array
    totals_: Array

    def _check_parameters(self) -> None:
        fits = self.base is None or hasattr(type(self.base), "confusion_")
        require(fits, "base", self.base, "a model with confusion matrices, such as DawidSkene() or IBCC()")

    def _fit(self, answers: Answers, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        base: Any = DawidSkene() if self.base is None else unfitted(self.base)
        base.fit(answers, gold, callback=callback)
        self.history_, self.n_iter_, self.converged_ = base.history_, base.n_iter_, base.converged_
        self.table_, self.prior_, self.totals_ = base.table_, base.prior_, base.totals_
        del base  # its posteriors are as large as the result
        self.proba_ = fix_gold(weighted_votes(answers, self.table_), gold)

    @property
    def confusion_(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l]; raises TooLargeError if it does not fit in memory."""
        return dense_confusion(self._fitted, self.table_, self.prior_, self.totals_)


def weighted_votes(answers: Answers, table: Array) -> Array:
    """Return vote shares (tasks, classes), each vote weighted by `table[pair, label of the pair]`."""
    pairs = answers.pairs
    reliability = table[np.arange(len(pairs.label)), pairs.label]  # (pairs,): confusion[w, c, c]
    return to_shares(answers, vote_sums(answers, take_by_code(reliability, pairs.of_answer)))
