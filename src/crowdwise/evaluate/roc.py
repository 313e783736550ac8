"""How well scores rank tasks, and how well workers tell one class from the rest.

    true positive rate(s)  = weight of positive tasks scored s or more / weight of positive tasks
    false positive rate(s) = the same of negative tasks
    area                   = P(a positive task scores above a negative one) + P(they tie) / 2

The curve has a point for each score that occurs, so that tasks that tie are passed at once; straight lines between
the points then have the area above. With `model.proba_[:, 1]` for scores it is the curve of inferred truth (figure 2 of
the difficulty paper); the workers' sensitivity and specificity are what its figure 3 compares the estimates to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class RocCurve:
    """Points from (0, 0) to (1, 1), by falling threshold; the first threshold is infinite."""

    false_positive: Array  # (points,) rates
    true_positive: Array
    threshold: Array

    @property
    def area(self) -> float:
        """Area under the curve: 0.5 for scores that say nothing, 1 for a perfect order."""
        return float(np.trapezoid(self.true_positive, self.false_positive))


def roc_curve(truth: Any, score: Any, *, positive: int = 1, weight: Any = None) -> RocCurve | None:
    """Rates of true and false positives as the threshold falls; None unless there are tasks of both kinds.

    Parameters
    ----------
    truth : (tasks,) int codes
        True class of each task; those of unknown truth (-1) are left out.
    score : (tasks,) array
        Higher where the positive class is likelier.
    positive : int
        Code of the positive class; all others are negative.
    weight : (tasks,) array, optional
        How much each task counts.

    Examples
    --------
    >>> curve = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    >>> curve.false_positive.tolist(), curve.true_positive.tolist(), curve.area
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0], 0.875)
    """
    truth, score = np.asarray(truth), np.asarray(score, dtype=float)
    weight = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=float)
    if truth.ndim != 1 or (truth.shape, truth.shape) != (score.shape, weight.shape):
        message = f"truth {truth.shape}, score {score.shape}, weight {weight.shape}: give one of each for every task."
        raise ParameterError(message)
    if not np.isfinite(score).all() or not np.isfinite(weight).all() or (weight < 0).any():
        message = "scores are finite numbers, and so are weights, 0 or more; these are not all."
        raise ParameterError(message)
    known = np.flatnonzero((truth >= 0) & (weight > 0))
    known = known[np.argsort(-score[known], kind="stable")]
    score, hit = score[known], truth[known] == positive
    if hit.all() or not hit.any():
        return None
    last = np.flatnonzero(np.append(np.diff(score) != 0, True))  # of each run of ties
    true, false = (np.cumsum(weight[known] * chosen)[last] for chosen in (hit, ~hit))  # (thresholds,)
    return RocCurve(np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1]), np.append(np.inf, score[last]))


def sensitivity(answers: Answers, truth: Any = None, *, positive: int = 1) -> Array:
    """How often each worker says the positive class where it is true, (workers,); NaN without such tasks.

    Parameters
    ----------
    answers : Answers
        Their weights count, if they have any.
    truth : (tasks,) int codes, optional
        `answers.truth` if not given; answers to tasks of unknown truth (-1) are left out.
    positive : int
        Code of the positive class.

    Examples
    --------
    >>> answers = Answers.from_codes([0, 1, 2], [0, 0, 0], [1, 0, 0], tasks=3, workers=1, classes=2)
    >>> sensitivity(answers, [1, 1, 0]).tolist(), specificity(answers, [1, 1, 0]).tolist()
    ([0.5], [1.0])
    """
    return _share(answers, truth, positive, among_positive=True)


def specificity(answers: Answers, truth: Any = None, *, positive: int = 1) -> Array:
    """How often each worker says another class where the positive one is not true, (workers,); see `sensitivity`."""
    return _share(answers, truth, positive, among_positive=False)


def _share(answers: Answers, truth: Any, positive: int, *, among_positive: bool) -> Array:
    truth = answers.truth if truth is None else np.asarray(truth)
    if truth is None or truth.shape != (answers.n_tasks,) or truth.dtype.kind not in "iu":
        message = f"truth: give {answers.n_tasks} codes of classes, -1 where unknown; these answers need them."
        raise ParameterError(message)
    of_task = truth[answers.task]  # (answers,)
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    asked = weight * ((of_task >= 0) & ((of_task == positive) == among_positive))
    right = asked * ((answers.label == positive) == among_positive)
    hits, total = (np.bincount(answers.worker, values, minlength=answers.n_workers) for values in (right, asked))
    return np.divide(hits, total, out=np.full(answers.n_workers, np.nan), where=total > 0)
