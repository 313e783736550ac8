"""The warning that the labels have drifted to one class."""

from __future__ import annotations

import warnings

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseWarning, OneClassWarning
from crowdwise.learn.base import Array
from crowdwise.truth.base import vote_shares
from crowdwise.truth.methods.dawid_skene import DawidSkene

LEFT = 0.6  # the other classes keep less than this part of their tasks
ERRORS = 3.0  # and have lost more than this many standard errors


def find_swallowing_class(answers: Answers, labels: Array) -> tuple[int, float] | None:
    """Return the code of a class that took tasks of the others, and its share without features; None if there is none.

    The share without features is the larger one of the votes' and of Dawid-Skene's labels. The votes alone overrate
    rare classes, as wrong answers to tasks of a frequent class add to them.

    Examples
    --------
    >>> task = np.arange(100)
    >>> answers = Answers.from_codes(task, task % 4, task % 2, tasks=100, workers=4, classes=2)
    >>> find_swallowing_class(answers, np.arange(100) % 2), find_swallowing_class(answers, np.arange(100) % 5 // 4)
    (None, (0, 0.5))
    """
    answered = np.bincount(answers.task, minlength=answers.n_tasks) > 0
    n = answered.sum()
    share = np.bincount(labels[answered], minlength=answers.n_classes) / n  # (classes,)
    expected = vote_shares(answers)[answered].mean(axis=0)
    if not _swallows(share, expected, n).any():
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        inferred = DawidSkene().fit(answers).proba_.argmax(axis=1)
    expected = np.maximum(expected, np.bincount(inferred[answered], minlength=answers.n_classes) / n)
    found = _swallows(share, expected, n)
    code = int(found.argmax())
    return (code, float(expected[code])) if found.any() else None


def _swallows(share: Array, expected: Array, n: int) -> Array:
    """Return which classes have many more of the n tasks than expected, (classes,)."""
    error = np.sqrt(expected * (1 - expected) / n)
    return np.asarray((1 - share < LEFT * (1 - expected)) & (share - expected > ERRORS * error))


def warn_of_one_class(answers: Answers, labels: Array, name: str) -> None:
    """Warn if the labels have drifted to one class."""
    found = find_swallowing_class(answers, labels)
    if found is None:
        return
    code, expected = found
    message = (
        f"{name} labels {np.mean(labels == code):.0%} of the tasks {answers.classes[code]}; without features it is at "
        f"most {expected:.0%}. The model may have drifted to this class. Compare with Raykar, and do not use these "
        f"labels unless you expect such class shares."
    )
    warnings.warn(message, OneClassWarning, stacklevel=2)
