"""Reasons not to believe a method that held-out answers prefer.

Held-out answers repeat the mistakes that workers share, so a method that explains shared mistakes well predicts them
well and labels badly. Three signs, for a method without features:

    overruled   share of clear majorities (`CLEAR` or more of `MIN_ANSWERS` or more answers) with another label
    drift       total variation between its class shares and the votes'
    dependence  how far workers agree beyond their accuracies (`trust.features`)

On 15 real crowds with 7 methods each, 7 fits are beyond `MAX_OVERRULED` or `MAX_DRIFT`, and 6 of them are less accurate
than the vote. A method with features has other evidence than the answers, and is not judged by these signs.
"""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Answers
from crowdwise.truth.base import Array, vote_shares

CLEAR = 0.75
MIN_ANSWERS = 3
MAX_OVERRULED = 0.15
MAX_DRIFT = 0.15
MAX_DEPENDENCE = 0.1


def doubt(answers: Answers, codes: Array, dependence: float | None = None) -> str | None:
    """Return why these labels should not replace simpler ones, or None.

    Parameters
    ----------
    answers : Answers
    codes : (tasks,) int array
        The labels.
    dependence : float, optional
        How far workers agree beyond their accuracies.

    Examples
    --------
    >>> from crowdwise import MajorityVote, simulate
    >>> answers = simulate.simulate(200, n_workers=10, n_classes=2, answers_per_task=5, seed=1)
    >>> vote = MajorityVote().fit(answers).codes_
    >>> doubt(answers, vote) is None
    True
    >>> doubt(answers, 1 - vote)
    'it overrules 100% of the clear majorities'
    """
    shares = vote_shares(answers)  # (tasks, classes)
    count = np.diff(answers.task_starts)  # (tasks,)
    clear = (count >= MIN_ANSWERS) & (shares.max(axis=1) >= CLEAR)
    overruled = float((codes != shares.argmax(axis=1))[clear].mean()) if clear.any() else 0.0
    if overruled > MAX_OVERRULED:
        return f"it overrules {overruled:.0%} of the clear majorities"
    inferred = np.bincount(codes, minlength=answers.n_classes) / max(len(codes), 1)
    drift = 0.5 * float(np.abs(inferred - shares.mean(axis=0)).sum())
    if drift > MAX_DRIFT:
        return f"its class shares differ from the votes' by {drift:.0%}"
    if dependence is not None and dependence > MAX_DEPENDENCE:
        return "workers appear to share mistakes, which held-out answers repeat"
    return None
