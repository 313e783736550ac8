"""Losses for imbalanced classes, on the answers: class = the label given, N_c = answers that say c.

    reweight    weight max N / N_c
    focal       (1 - p)^2 times the cross-entropy                                        Lin et al. 2017
    cb_focal    focal, weight (1 - b) / (1 - b^N_c), b = 0.9999, summing to the classes  Cui et al. 2019
    resample    answers drawn so that each label comes equally often (see `Batches`)

They act on what the worker is predicted to say, not on the classifier: DASC's baselines.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array

Loss = Literal["ce", "focal", "cb_focal", "reweight"]
BETA = 0.9999


def label_weights(loss: Loss, counts: Array) -> Array | None:
    """Weight of each label, or None when all weigh the same.

    >>> label_weights("reweight", np.array([30, 10])).tolist()
    [1.0, 3.0]
    """
    if loss == "reweight":
        return counts.max() / np.maximum(counts, 1)
    if loss == "cb_focal":
        weight = (1 - BETA) / (1 - BETA ** np.maximum(counts, 1))
        return weight * len(counts) / weight.sum()
    return None


def answer_weights(loss: Loss, answers: Answers) -> Array | None:
    """Weight of each answer by its label."""
    weight = label_weights(loss, np.bincount(answers.label, minlength=answers.n_classes))
    return None if weight is None else weight[answers.label]


def focal_gamma(loss: Loss) -> float:
    """Gamma of the focal loss, 0 for the others."""
    return 2.0 if loss in ("focal", "cb_focal") else 0.0
