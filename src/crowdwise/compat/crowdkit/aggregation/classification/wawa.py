"""crowd-kit's Wawa."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pandas as pd

from crowdwise.compat.crowdkit._frames import is_empty, no_skills, read
from crowdwise.compat.crowdkit.aggregation.classification._skill_vote import SkillVote
from crowdwise.truth.methods import wawa


@dataclass(eq=False)
class Wawa(SkillVote):
    """Votes weighted by each worker's agreement with the majority: `crowdwise.Wawa` with crowd-kit's interface.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> Wawa().fit(data).skills_.tolist()
    [1.0, 1.0, 0.5]
    """

    def fit(self, data: pd.DataFrame) -> Self:
        """Estimate the skills."""
        if is_empty(data):
            self.skills_ = no_skills()
            return self
        table = read(data)
        self.skills_ = table.by_worker(wawa.Wawa(ties="first").fit(table.answers).skill_, "skill")
        return self
