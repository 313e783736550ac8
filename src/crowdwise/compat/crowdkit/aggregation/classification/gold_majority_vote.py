"""crowd-kit's GoldMajorityVote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from crowdwise.compat.crowdkit._frames import is_empty, no_skills, read
from crowdwise.compat.crowdkit.aggregation.classification._skill_vote import SkillVote
from crowdwise.truth.methods import wawa


@dataclass(eq=False)
class GoldMajorityVote(SkillVote):
    """Votes weighted by each worker's accuracy on tasks of known truth.

    As in crowd-kit, the accuracy is not smoothed, every worker must have answered a task of known truth
    (`crowdwise.GoldVote` is better in both respects), and the vote does not use the known labels.

    >>> data = pd.DataFrame({"task": [1, 1, 2, 2], "worker": list("abab"), "label": ["x", "y", "x", "y"]})
    >>> GoldMajorityVote().fit_predict(data, pd.Series({1: "y"})).tolist()
    ['y', 'y']
    """

    def fit(self, data: pd.DataFrame, true_labels: pd.Series) -> Self:  # type: ignore[override]
        """Estimate the skills on the tasks in `true_labels` (indexed by task)."""
        if is_empty(data):
            self.skills_ = no_skills()
            return self
        table = read(data, true_labels)
        answers, (task, label) = table.answers, table.known(true_labels)
        allowed = np.zeros((len(table.tasks), len(table.classes)))
        allowed[task, label] = 1.0  # a task may have several true labels
        n_known = np.bincount(answers.worker, np.isin(answers.task, task), len(table.workers))  # (workers,)
        skill = wawa.agreement_sums(answers, allowed) / np.maximum(n_known, 1)
        self.skills_ = table.by_worker(skill, "skill", n_known > 0)
        return self

    def fit_predict(self, data: pd.DataFrame, true_labels: pd.Series) -> pd.Series:  # type: ignore[override]
        """Fit, vote and return `labels_`."""
        return self.fit(data, true_labels).predict(data)

    def fit_predict_proba(  # type: ignore[override]
        self, data: pd.DataFrame, true_labels: pd.Series
    ) -> pd.DataFrame:
        """Fit, vote and return `probas_`."""
        return self.fit(data, true_labels).predict_proba(data)
