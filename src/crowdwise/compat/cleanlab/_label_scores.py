"""cleanlab's label quality scores: how well each label fits the class probabilities of its task."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy

from crowdwise import errors
from crowdwise._core.validation import require
from crowdwise.truth.base import Array

LEAST = 1e-6  # lower limit of what is divided by
LEAST_THRESHOLD = 2e-6
NO_THRESHOLD = 2.0  # threshold of a class without labels
METHODS = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")


def label_scores(
    label: Array, proba: Array, rows: Array | None = None, method: str = "self_confidence",
    adjust_pred_probs: bool = False,
) -> Array:  # fmt: skip
    """Return the quality of each label, from 0 to 1.

    Parameters
    ----------
    label : (labels,) int array
    proba : (tasks, classes) array
    rows : (labels,) int array, optional
        Row of `proba` of each label; by default label i belongs to row i.
    method : {"self_confidence", "normalized_margin", "confidence_weighted_entropy"}
    adjust_pred_probs : bool
        Subtract the average probability of each class among its labels first. Not for the entropy.

    Examples
    --------
    >>> label_scores(np.array([0, 1]), np.array([[0.75, 0.25], [0.5, 0.5]]), method="normalized_margin").tolist()
    [0.75, 0.5]
    """
    if rows is None:
        rows = np.arange(len(label))
    if adjust_pred_probs:
        proba, rows = adjusted(label, proba[rows]), np.arange(len(label))
    own = proba[rows, label]
    if method == "self_confidence":
        return own
    if method == "normalized_margin":
        others = proba[rows]  # a copy
        others[np.arange(len(label)), label] = -np.inf
        return (own - others.max(axis=1) + 1) / 2
    entropy = -xlogy(proba, proba).sum(axis=1) / np.log(proba.shape[1])
    ratio = entropy[rows] / np.maximum(own, LEAST)
    return np.log(ratio + 1) / np.maximum(ratio, LEAST)


def check_options(options: dict[str, Any]) -> None:
    """Raise an error unless the options are arguments of `label_scores`."""
    unknown = options.keys() - {"method", "adjust_pred_probs"}
    if unknown:
        message = f"label_quality_score_kwargs has {sorted(unknown)}; it takes 'method' and 'adjust_pred_probs'."
        raise errors.ParameterError(message)
    method = options.get("method", METHODS[0])
    require(method in METHODS, "method", method, "one of " + ", ".join(map(repr, METHODS)))
    if options.get("adjust_pred_probs") and method == METHODS[2]:
        message = f"adjust_pred_probs=True: use it with another method than {METHODS[2]!r}."
        raise errors.ParameterError(message)


def adjusted(label: Array, proba: Array) -> Array:
    """Return probabilities (labels, classes) less the average of each class among its labels, normalised."""
    n_classes = proba.shape[1]
    count = np.bincount(label, minlength=n_classes)
    total = np.bincount(label, proba[np.arange(len(label)), label], n_classes)
    threshold = np.where(count > 0, total / np.maximum(count, 1), NO_THRESHOLD)
    threshold = np.maximum(threshold, LEAST_THRESHOLD)  # (classes,)
    shifted = proba - threshold + threshold.max()
    return shifted / shifted.sum(axis=1, keepdims=True)
