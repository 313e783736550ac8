"""Recalibrate confidence with gold: Platt scaling with a prior, so that a few known labels help and never hurt much.

    P(label of t is right) = sigmoid(intercept + slope logit(confidence[t]))                               t = task
    slope     ~ Normal(1, 0.5^2)
    intercept ~ Normal(0, 1)

The two numbers maximise the posterior given which labels of the gold tasks were right. Without gold the confidence does
not change; with 50 gold labels its mean is about right, with 200 its slope too. The confidence of a gold task must come
from a fit that did not know its label.

Platt, "Probabilistic outputs for support vector machines", Advances in Large Margin Classifiers (1999). Fails when the
gold tasks are not a random sample of the tasks, nor weighted as they were drawn: if people labelled the hard ones,
every label looks worse than it is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

from crowdwise.errors import ParameterError
from crowdwise.truth.base import Array
from crowdwise.truth.methods.pool import logit

MEAN = np.array([0.0, 1.0])  # intercept, slope
PRECISION = np.array([1 / 1.0**2, 1 / 0.5**2])
MIN_SLOPE = 0.05  # a higher confidence never becomes a lower one
MAX_STEPS = 100


class Scaling(NamedTuple):
    """The fitted line on the log-odds scale, and the number of gold labels behind it."""

    intercept: float
    slope: float
    n_gold: int

    def __call__(self, confidence: Array) -> Array:
        """Return recalibrated confidences.

        >>> Scaling(0.0, 1.0, 0)(np.array([0.2, 0.7])).round(6).tolist()
        [0.2, 0.7]
        """
        return expit(self.intercept + self.slope * logit(confidence))


def platt_scaling(confidence: Array, correct: Array, weight: Array | None = None) -> Scaling:
    """Fit the scaling to gold tasks.

    Parameters
    ----------
    confidence : (gold tasks,) array
        Confidence in the label of each gold task, before its gold label was known.
    correct : (gold tasks,) bool array
        Whether that label equals the gold label.
    weight : (gold tasks,) array, optional
        Relative weights, if tasks were not drawn uniformly: `trust.gold_sample`. Together they count as the number of
        uniformly drawn tasks that would be worth as much.

    Returns
    -------
    Scaling

    Examples
    --------
    >>> scaling = platt_scaling(np.full(100, 0.9), np.arange(100) < 60)
    >>> scaling(np.array([0.9])).round(2).tolist()
    [0.61]
    """
    confidence, correct = np.asarray(confidence, dtype=float), np.asarray(correct, dtype=float)
    if confidence.shape != correct.shape or confidence.ndim != 1:
        message = f"confidence {confidence.shape} and correct {correct.shape} must be 1-D arrays of equal length."
        raise ParameterError(message)
    x = np.column_stack([np.ones(len(confidence)), logit(confidence)])  # (gold tasks, 2)
    count = np.ones(len(confidence)) if weight is None else np.asarray(weight) * np.sum(weight) / np.sum(weight**2)
    theta = MEAN.copy()
    for _ in range(MAX_STEPS):  # Newton; the posterior is log-concave
        p = expit(x @ theta)
        gradient = x.T @ (count * (correct - p)) - PRECISION * (theta - MEAN)
        hessian = (x.T * (count * p * (1 - p))) @ x + np.diag(PRECISION)
        step = np.linalg.solve(hessian, gradient)
        step *= min(1.0, 1.0 / max(np.abs(step).max(), 1e-300))  # at most 1: no overshoot where p is near 0 or 1
        theta = theta + step
        if np.abs(step).max() < 1e-10:
            break
    return Scaling(float(theta[0]), float(max(theta[1], MIN_SLOPE)), len(confidence))
