"""crowd-kit's MMSR."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import pandas as pd

from crowdwise._core.validation import require
from crowdwise.compat.crowdkit._frames import Aggregator, read
from crowdwise.compat.crowdkit.aggregation.classification._rank_one import estimate_weights
from crowdwise.compat.crowdkit.aggregation.classification.majority_vote import MajorityVote
from crowdwise.truth.methods import mmsr


@dataclass(eq=False)
class MMSR(Aggregator):
    """Skills from the agreement of workers, robust to adversaries, with crowd-kit's interface.

    By default, results equal crowd-kit's; memory grows with the pairs of workers who share tasks, not with the square
    of that number. crowd-kit's estimator takes two workers who share no task to disagree. If there are many such pairs,
    its labels are worse than the vote, and a warning says so; use the estimator of `crowdwise.MMSR` then.

    Parameters
    ----------
    n_iter, tol
        Maximum number of rounds, and the change of the skills below which they stop; `loss_history_` has it.
    random_state : int, optional
        Seed of the first skills; None for another start each time. For `estimator="crowdkit"`.
    estimator : {"crowdkit", "crowdwise"}
        Estimator of the skills. crowd-kit has no such argument.

    Attributes
    ----------
    skills_ : Series by worker
        Weight of the worker's vote: the log odds of a correct answer, negative for adversaries.
    scores_ : DataFrame
        Sums of these weights, divided by the absolute total of their row as in `MajorityVote`.

    Examples
    --------
    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyx")})
    >>> MMSR().fit_predict(data).tolist()
    ['x', 'y']
    """

    n_iter: int = 10000
    tol: float = 1e-10
    random_state: int | None = 0
    estimator: Literal["crowdkit", "crowdwise"] = "crowdkit"

    scores_: pd.DataFrame = field(init=False, repr=False)

    def fit(self, data: pd.DataFrame) -> Self:
        """Estimate the skills."""
        require(self.estimator in ("crowdkit", "crowdwise"), "estimator", self.estimator, "'crowdkit' or 'crowdwise'")
        table = read(data)
        if self.estimator == "crowdkit":
            order = table.worker_ids.seen
            weight, history = estimate_weights(table.answers, order, self.n_iter, self.tol, self.random_state)
        else:
            model = mmsr.MMSR(max_iter=self.n_iter, tol=self.tol).fit(table.answers)
            odds = max(len(table.classes) - 1, 1) * model.accuracy_ / (1 - model.accuracy_)
            weight, history = np.log(odds), model.history_
        self.skills_ = table.by_worker(weight, "skill", table.worker_ids.seen)
        self.loss_history_ = history
        return self

    def predict(self, data: pd.DataFrame) -> pd.Series:
        """Vote with the estimated skills, and return `labels_`."""
        self.predict_score(data)
        return self.labels_

    def predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Vote with the estimated skills, and return `scores_`."""
        vote = MajorityVote().fit(data, self.skills_)
        self.labels_, self.scores_ = vote.labels_, vote.probas_
        return self.scores_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit, vote and return `labels_`."""
        return self.fit(data).predict(data)

    def fit_predict_score(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit, vote and return `scores_`."""
        return self.fit(data).predict_score(data)
