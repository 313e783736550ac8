"""crowd-kit's BradleyTerry."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from crowdwise.answers import Comparisons
from crowdwise.kinds.comparisons.methods.bradley_terry import hunter_step, item_counts


@dataclass(eq=False)
class BradleyTerry:
    """`crowdwise.BradleyTerry(spread=None, solver="mm")` with crowd-kit's interface: equal scores after equal steps.

    Scores are strengths that sum to one; an item without a win has 0. crowd-kit compares a step with itself, so that it
    stops after two steps unless `tol` is 0; ours stops when a step changes the scores by less than `tol`.

    Parameters
    ----------
    n_iter, tol
        Maximum number of steps, and the change of the scores, summed, below which they stop.

    Examples
    --------
    >>> data = pd.DataFrame({"worker": list("uuv"), "left": list("abc"), "right": list("bca"), "label": list("abc")})
    >>> BradleyTerry(n_iter=100).fit_predict(data).round(2).to_dict()
    {'a': 0.33, 'b': 0.33, 'c': 0.33}
    """

    n_iter: int
    tol: float = 1e-5

    scores_: pd.Series = field(init=False, repr=False)

    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the scores from the columns left, right and label, the winner; workers count the same."""
        if data.empty:
            self.scores_ = pd.Series([], dtype=np.float64, name="agg_score")
            return self
        comparisons = read_comparisons(data)
        pairs = item_counts(comparisons)
        strength = np.full(comparisons.n_items, 1 / comparisons.n_items)
        for _ in range(self.n_iter):
            before, strength = strength, hunter_step(pairs, strength)
            if np.abs(strength - before).sum() < self.tol:
                break
        self.scores_ = pd.Series(strength, index=list(comparisons.items), name="agg_score")
        return self

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit and return `scores_`."""
        return self.fit(data).scores_


def read_comparisons(data: pd.DataFrame) -> Comparisons:
    """Return comparisons from crowd-kit's columns."""
    worker = "worker" if "worker" in data.columns else None
    columns = ["left", "right", "label", *([worker] if worker else [])]
    return Comparisons.from_frame(data[columns], left="left", right="right", winner="label", worker=worker)
