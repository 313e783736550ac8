"""crowd-kit's KOS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pandas as pd

from crowdwise import errors
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import Aggregator, is_empty, no_labels, read
from crowdwise.truth.methods import kos


@dataclass(eq=False)
class KOS(Aggregator):
    """`crowdwise.KOS` with crowd-kit's interface. As there, the answers must have two classes.

    The first messages are drawn with another random generator than crowd-kit's, so labels may differ on the few tasks
    whose messages nearly cancel. Ours cannot overflow.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyx")})
    >>> KOS().fit_predict(data).tolist()
    ['x', 'y']
    """

    n_iter: int = 100
    random_state: int = 0

    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the truth."""
        if is_empty(data):
            self.labels_ = no_labels()
            return self
        table = read(data)
        if len(table.classes) != 2:
            message = (
                f"the answers have {len(table.classes)} classes ({preview(table.classes.tolist())}), but crowd-kit's "
                f"KOS takes two. crowdwise.KOS takes any number."
            )
            raise errors.ParameterError(message)
        model = kos.KOS(average=False, max_iter=self.n_iter, tol=0, random_state=self.random_state).fit(table.answers)
        self.labels_ = table.labels(model.proba_)
        return self
