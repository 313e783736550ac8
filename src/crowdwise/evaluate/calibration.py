"""Calibration: is a confidence of 0.8 correct eight times in ten? Bins of confidence against accuracy.

    ECE = sum over bins of (tasks in the bin / tasks) * |accuracy of the bin - mean confidence of the bin|

Guo et al., "On calibration of modern neural networks", ICML 2017: confidence is the probability of the predicted class.
Bins have equal width and contain their upper edge but not their lower one.

`tempered` and `vote_belief` make probabilities less or more confident; `crowdwise.choose` estimates by how much, from
held-out answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise._core.validation import is_number, require

if TYPE_CHECKING:
    from crowdwise.answers import Answers

Array = np.ndarray[Any, np.dtype[Any]]

N_BINS = 15
MIN_PROBABILITY = 1e-10  # smaller ones are raised to this before taking logarithms


@dataclass(frozen=True, eq=False)
class Reliability:
    """The bins that contain tasks, in order of confidence."""

    low: Array  # (bins,) edges
    high: Array
    confidence: Array  # mean in the bin
    accuracy: Array
    count: Array

    @property
    def ece(self) -> float | None:
        """Expected calibration error; None without tasks."""
        if not len(self.count):
            return None
        return float(np.average(np.abs(self.accuracy - self.confidence), weights=self.count))


def reliability(confidence: Array, correct: Array, n_bins: int = N_BINS) -> Reliability:
    """Compare confidence with accuracy, bin by bin.

    Parameters
    ----------
    confidence : (tasks,) array
        Probability of the predicted class.
    correct : (tasks,) bool array
        Whether the predicted class is the true one.
    n_bins : int
        Bins of equal width from 0 to 1.

    Examples
    --------
    >>> table = reliability(np.array([0.55, 0.55, 0.95]), np.array([True, False, True]), n_bins=10)
    >>> table.confidence.round(2).tolist(), table.accuracy.tolist(), table.count.tolist()
    ([0.55, 0.95], [0.5, 1.0], [2, 1])
    """
    confidence = np.asarray(confidence, dtype=float)
    bin_index = np.clip(np.ceil(confidence * n_bins).astype(np.int64) - 1, 0, n_bins - 1)  # (tasks,)
    count = np.bincount(bin_index, minlength=n_bins)
    used = np.flatnonzero(count)
    sums = [np.bincount(bin_index, values, minlength=n_bins)[used] for values in (confidence, correct)]
    count = count[used]
    return Reliability(used / n_bins, (used + 1) / n_bins, sums[0] / count, sums[1] / count, count)


def tempered(proba: Array, temperature: float) -> Array:
    """Return probabilities (tasks, classes) rescaled by a temperature: above 1 less confident, below 1 more.

    Logarithms are divided by the temperature. The order of the classes, and so the labels, do not change. Probabilities
    below 1e-10 are raised to 1e-10 first, so a class of probability zero can become possible.

    >>> tempered(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    _require_positive("temperature", temperature)
    if temperature == 1:
        return proba
    log = np.log(np.maximum(proba, MIN_PROBABILITY)) / temperature  # (tasks, classes)
    return _softmax_in_place(log)


def vote_belief(answers: Answers, sharpness: float) -> Array:
    """Return probabilities (tasks, classes) from votes: each vote for a class adds `sharpness` to its log odds.

    Tasks without votes get the uniform distribution.

    >>> from crowdwise import Answers
    >>> vote_belief(Answers.from_arrays([1, 1, 1], list("abc"), ["no", "yes", "yes"]), 1.0).round(3).tolist()
    [[0.269, 0.731]]
    """
    _require_positive("sharpness", sharpness)
    votes = answers.counts(dense=True)
    assert isinstance(votes, np.ndarray)
    return _softmax_in_place(sharpness * votes)


def _softmax_in_place(log: Array) -> Array:
    """Return the softmax of each row; `log` is overwritten."""
    log -= log.max(axis=1, keepdims=True)
    proba = np.exp(log, out=log)
    proba /= proba.sum(axis=1, keepdims=True)
    return proba


def _require_positive(name: str, value: Any) -> None:
    require(is_number(value) and value > 0, name, value, "a number above 0")
