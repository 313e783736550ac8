"""Give each label the confidence that was found for it, without changing the order of the classes."""

from __future__ import annotations

import numpy as np

from crowdwise.truth.base import Array

MIN_PROBABILITY = 1e-10  # of a class, before tempering


def temper_to(proba: Array, codes: Array, confidence: Array) -> Array:
    """Return probabilities (tasks, classes) tempered row by row until the class `codes` has the given confidence.

    The confidence of a most probable class cannot fall below that of any other: one in the number of classes is the
    least, and one half for two classes that tie.

    >>> temper_to(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([0, 0]), np.array([0.6, 0.8])).round(3).tolist()
    [[0.6, 0.4], [0.5, 0.5]]
    """
    log = np.log(np.maximum(proba, MIN_PROBABILITY))
    log -= log[np.arange(len(proba)), codes][:, None]  # (tasks, classes); at most 0, up to rounding
    low, high = np.full(len(proba), -12.0), np.full(len(proba), 12.0)  # log of the power
    for _ in range(60):
        middle = (low + high) / 2
        top = 1 / np.exp(np.minimum(np.exp(middle)[:, None] * log, 0.0)).sum(axis=1)
        low, high = np.where(top < confidence, middle, low), np.where(top < confidence, high, middle)
    result = np.exp(np.minimum(np.exp((low + high) / 2)[:, None] * log, 0.0))
    return result / result.sum(axis=1, keepdims=True)
