"""crowd-kit's NoisyBradleyTerry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd
from scipy import special

from crowdwise.compat.crowdkit.aggregation.pairwise.bradley_terry import read_comparisons
from crowdwise.kinds.comparisons.methods.crowd_bradley_terry import CrowdBradleyTerry


@dataclass(eq=False)
class NoisyBradleyTerry:
    """`crowdwise.CrowdBradleyTerry(reversal=False)` with crowd-kit's interface.

    The model is the same: a worker follows the scores with probability `skill`, and else chooses the left item with
    probability `bias`. crowd-kit maximises its likelihood with a gradient that is wrong for workers with more than one
    comparison; ours maximises it by EM, with priors that keep all parameters finite. So results differ.

    Parameters
    ----------
    n_iter, tol
        Maximum number of iterations of EM, and the increase of the bound per comparison below which they stop.
    regularization_ratio, random_state
        Accepted for compatibility; priors regularise, and the start is not random.

    Examples
    --------
    >>> data = pd.DataFrame({"worker": list("uvuvuv"), "left": list("aabbaa"), "right": list("bbcccc")})
    >>> NoisyBradleyTerry().fit_predict(data.assign(label=list("aabbaa"))).rank(ascending=False).to_dict()
    {'a': 1.0, 'b': 2.0, 'c': 3.0}
    """

    n_iter: int = 100
    tol: float = 1e-5
    regularization_ratio: float = 1e-5
    random_state: int = 0

    scores_: pd.Series = field(init=False, repr=False)
    skills_: pd.Series = field(init=False, repr=False)
    biases_: pd.Series = field(init=False, repr=False)

    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the scores, skills and biases from the columns worker, left, right and label, the winner."""
        model = CrowdBradleyTerry(reversal=False, max_iter=max(self.n_iter, 1), tol=self.tol)
        model.fit(read_comparisons(data))
        items = pd.Index(model.items_, name="label")
        scores = special.expit(model.scores_) if self.n_iter else np.full(len(items), 0.5)
        self.scores_ = pd.Series(scores, index=items, name="agg_score")
        self.skills_ = pd.Series(model.role_share_[:, 0], index=model.workers_, name="skill")
        self.biases_ = pd.Series(model.habit_[:, 0], index=model.workers_, name="bias")
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit and return `scores_`."""
        return self.fit(data).scores_
