"""ROC curves of scores, and the sensitivity and specificity of workers.

    true positive rate(s)  = weight of positive tasks with score >= s / weight of positive tasks
    false positive rate(s) = the same for negative tasks
    area                   = P(a positive task scores above a negative one) + P(they tie) / 2

The curve has one point per distinct score, so that tied tasks are passed at once; straight lines between the points
then have the area above. With `model.proba_[:, 1]` as scores it is the curve of the inferred truth (figure 2 of the
difficulty paper); its figure 3 compares estimates with the workers' sensitivity and specificity.
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
    """Points from (0, 0) to (1, 1), by decreasing threshold; the first threshold is infinite."""

    false_positive: Array  # (points,) rates
    true_positive: Array
    threshold: Array

    @property
    def area(self) -> float:
        """Area under the curve: 0.5 for uninformative scores, 1 for a perfect ranking."""
        return float(np.trapezoid(self.true_positive, self.false_positive))


def roc_curve(truth: Any, score: Any, *, positive: int = 1, weight: Any = None) -> RocCurve | None:
    """Return the ROC curve; None unless there are both positive and negative tasks.

    Parameters
    ----------
    truth : (tasks,) int codes
        True class of each task; tasks of unknown truth (-1) are ignored.
    score : (tasks,) array
        Score of each task, higher where the positive class is more likely.
    positive : int
        Code of the positive class; all others are negative.
    weight : (tasks,) array, optional
        Weight of each task.

    Examples
    --------
    >>> curve = roc_curve([0, 0, 1, 1], [0.1, 0.4, 0.4, 0.8])
    >>> curve.false_positive.tolist(), curve.true_positive.tolist(), curve.area
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0], 0.875)
    """
    truth, score = np.asarray(truth), np.asarray(score, dtype=float)
    weight = np.ones(len(truth)) if weight is None else np.asarray(weight, dtype=float)
    if truth.ndim != 1 or (truth.shape, truth.shape) != (score.shape, weight.shape):
        message = f"truth {truth.shape}, score {score.shape}, weight {weight.shape}: pass one of each per task."
        raise ParameterError(message)
    if not np.isfinite(score).all() or not np.isfinite(weight).all() or (weight < 0).any():
        message = "scores must be finite, and weights finite and 0 or more."
        raise ParameterError(message)
    known = np.flatnonzero((truth >= 0) & (weight > 0))
    known = known[np.argsort(-score[known], kind="stable")]
    score, hit = score[known], truth[known] == positive
    if hit.all() or not hit.any():
        return None
    last = np.flatnonzero(np.append(np.diff(score) != 0, True))  # row of each run of ties
    true, false = (np.cumsum(weight[known] * chosen)[last] for chosen in (hit, ~hit))  # (thresholds,)
    return RocCurve(np.append(0.0, false / false[-1]), np.append(0.0, true / true[-1]), np.append(np.inf, score[last]))


def sensitivity(answers: Answers, truth: Any = None, *, positive: int = 1) -> Array:
    """Return how often each worker answers the positive class where it is true, (workers,); NaN without such tasks.

    Parameters
    ----------
    answers : Answers
        Answers; their weights are used, if set.
    truth : (tasks,) int codes, optional
        True class of each task, `answers.truth` by default. Answers to tasks of unknown truth (-1) are ignored.
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
    """Return how often each worker answers another class where the positive one is not true; see `sensitivity`."""
    return _share(answers, truth, positive, among_positive=False)


def _share(answers: Answers, truth: Any, positive: int, *, among_positive: bool) -> Array:
    truth = answers.truth if truth is None else np.asarray(truth)
    if truth is None or truth.shape != (answers.n_tasks,) or truth.dtype.kind not in "iu":
        message = f"invalid truth: pass {answers.n_tasks} integer class codes, -1 where unknown."
        raise ParameterError(message)
    task_truth = truth[answers.task]  # (answers,)
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    relevant = weight * ((task_truth >= 0) & ((task_truth == positive) == among_positive))
    correct = relevant * ((answers.label == positive) == among_positive)
    hits, total = (np.bincount(answers.worker, values, minlength=answers.n_workers) for values in (correct, relevant))
    return np.divide(hits, total, out=np.full(answers.n_workers, np.nan), where=total > 0)
