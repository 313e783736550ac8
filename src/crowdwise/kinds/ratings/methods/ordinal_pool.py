"""Ordinal pool: the average of `OrdinalDawidSkene` and of the pool of methods for classes, on a scale.

    proba[t] = (ordinal[t] + CLASSES * classes[t]) / (1 + CLASSES)

Where workers use the scale with a bias and a spread of their own, the ordinal model is by far the better one. Where
their answers are not of that form, such as on crowds who rarely use a level that is frequent in truth, confusion
matrices are. The ordinal model takes order into account but makes assumptions about workers; the pool makes none
about order.

CLASSES, the weight of the pool, was set to 2 with trec_dl23 and s_rel at hand (`python -m benchmarks kinds`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise._core.validation import is_number, require
from crowdwise.answers import Answers
from crowdwise.kinds.ratings.base import RatingModel
from crowdwise.kinds.ratings.methods.ordinal import OrdinalDawidSkene
from crowdwise.truth.base import Array, Callback, pick
from crowdwise.truth.methods.pool import Pool

CLASSES = 2.0
TOL = 1e-5


class OrdinalPool(RatingModel):
    """Average an ordinal model with the pool of methods for classes.

    The label is the most probable level.

    Parameters
    ----------
    classes : float
        Weight of the pool of methods for classes; that of the ordinal model is 1.
    random_state : int
        Seed of both, and for breaking ties.

    Attributes
    ----------
    ordinal_, pool_ : fitted models
        The two parts.

    Examples
    --------
    >>> from crowdwise import OrdinalPool
    >>> from crowdwise.simulate import rating_crowd
    >>> ratings = rating_crowd(n_tasks=100, seed=1)
    >>> OrdinalPool().fit(ratings).proba_.shape
    (100, 5)
    """

    levels_only = True
    ordinal_: OrdinalDawidSkene
    pool_: Pool

    codes_: Array
    converged_: bool
    history_: list[float]
    n_iter_: int
    proba_: Array
    standard_error_: Array
    value_: Array

    def __init__(self, classes: float = CLASSES, *, random_state: int = 0) -> None:
        self.classes = classes
        self.random_state = random_state

    def _check_parameters(self) -> None:
        require(is_number(self.classes) and self.classes >= 0, "classes", self.classes, "a number, 0 or more")

    def _fit(self, answers: Any, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        codes = None
        if gold is not None:
            codes = np.where(np.isfinite(gold), answers.nearest(np.nan_to_num(gold)), -1).astype(np.int32)
        ordinal = OrdinalDawidSkene(tol=TOL, random_state=self.random_state)
        self.ordinal_ = ordinal.fit(answers, gold, callback=callback)
        self.pool_ = Pool(random_state=self.random_state).fit(as_classes(answers), codes)
        self.history_, self.n_iter_ = self.ordinal_.history_, self.ordinal_.n_iter_
        self.converged_ = self.ordinal_.converged_
        self.proba_ = (self.ordinal_.proba_ + self.classes * self.pool_.proba_) / (1 + self.classes)
        self.value_ = self.proba_ @ answers.values
        self.standard_error_ = np.sqrt(np.maximum(self.proba_ @ answers.values**2 - self.value_**2, 0))

    def _choose_labels(self, rng: np.random.Generator) -> None:
        self.codes_ = pick(self.proba_, rng)

    @property
    def bias_(self) -> Array:
        """The bias of each worker, see `OrdinalDawidSkene`."""
        return self.ordinal_.bias_

    @property
    def spread_(self) -> Array:
        """The spread of each worker, see `OrdinalDawidSkene`."""
        return self.ordinal_.spread_


def as_classes(ratings: Any) -> Answers:
    """Return ratings on a scale as answers whose classes are the levels, in the same order."""
    return Answers(
        ratings.task, ratings.worker, ratings.label, task_ids=ratings.task_ids, worker_ids=ratings.worker_ids,
        class_ids=ratings.shown_ids, weight=ratings.weight, pseudo=ratings.pseudo,
    )  # fmt: skip
