"""crowd-kit's ZeroBasedSkill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pandas as pd

from crowdwise.compat.crowdkit._frames import read
from crowdwise.compat.crowdkit.aggregation.classification._skill_vote import SkillVote
from crowdwise.truth.methods import zero_based_skill


@dataclass(eq=False)
class ZeroBasedSkill(SkillVote):
    """Votes weighted by iteratively learned skills: `crowdwise.ZeroBasedSkill` with crowd-kit's interface.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> ZeroBasedSkill().fit(data).skills_.tolist()
    [1.0, 1.0, 0.5]
    """

    n_iter: int = 100
    lr_init: float = 1.0
    lr_steps_to_reduce: int = 20
    lr_reduce_factor: float = 0.5
    eps: float = 1e-5

    def fit(self, data: pd.DataFrame) -> Self:
        """Estimate the skills."""
        table = read(data)
        if not self.n_iter:  # the skills before the first step
            start = np.full(len(table.workers), 1 / len(table.classes) + self.eps)
            self.skills_ = table.by_worker(start, "skill", table.worker_ids.seen)
            return self
        model = zero_based_skill.ZeroBasedSkill(
            self.n_iter, self.lr_init, self.lr_steps_to_reduce, self.lr_reduce_factor, self.eps, ties="first"
        )
        self.skills_ = table.by_worker(model.fit(table.answers).skill_, "skill")
        return self
