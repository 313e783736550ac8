"""What crowd-kit's weighted votes share: skills are estimated by `fit`, and `predict` votes with them."""

from __future__ import annotations

import pandas as pd

from crowdwise.compat.crowdkit._frames import ProbaAggregator
from crowdwise.compat.crowdkit.aggregation.classification.majority_vote import MajorityVote


class SkillVote(ProbaAggregator):
    """`fit` estimates the workers' skills; `predict` votes with them, on these or other answers of the same workers."""

    def predict(self, data: pd.DataFrame) -> pd.Series:
        """Vote with the estimated skills, and return `labels_`."""
        return self._vote(data).labels_

    def predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Vote with the estimated skills, and return `probas_`."""
        return self._vote(data).probas_

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit, vote and return `labels_`."""
        return self.fit(data).predict(data)

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit, vote and return `probas_`."""
        return self.fit(data).predict_proba(data)

    def _vote(self, data: pd.DataFrame) -> MajorityVote:
        vote = MajorityVote().fit(data, self.skills_)
        self.labels_, self.probas_ = vote.labels_, vote.probas_
        return vote
