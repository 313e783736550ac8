"""crowd-kit's metric of workers: accuracy_on_aggregates."""

from __future__ import annotations

import pandas as pd

from crowdwise.compat.crowdkit._frames import Aggregator
from crowdwise.compat.crowdkit.aggregation.classification import MajorityVote
from crowdwise.compat.crowdkit.aggregation.utils import get_accuracy

__all__ = ["accuracy_on_aggregates"]


def accuracy_on_aggregates(
    answers: pd.DataFrame,
    aggregator: Aggregator | None = None,
    aggregates: pd.Series | None = None,
    by: str | None = None,
) -> float | pd.Series:
    """Return the share of answers that equal the aggregated label of their task.

    It is higher than the workers' accuracy, as a label follows from the answers it is compared with.

    Parameters
    ----------
    answers : DataFrame
        Columns `task`, `worker`, `label`.
    aggregator : aggregator, optional
        Infers the labels; `MajorityVote()` by default.
    aggregates : Series, optional
        Labels by task, to use instead.
    by : {"task", "worker", "label", "true_label"}, optional
        Return one accuracy for each value of this column.

    Examples
    --------
    >>> frame = pd.DataFrame({"task": [1, 1, 1, 2], "worker": list("abca"), "label": list("xxyy")})
    >>> accuracy_on_aggregates(frame, by="worker").to_dict()
    {'a': 1.0, 'b': 1.0, 'c': 0.0}
    """
    if aggregates is None:
        aggregates = (MajorityVote() if aggregator is None else aggregator).fit_predict(answers)
    return get_accuracy(answers, aggregates, by=by)
