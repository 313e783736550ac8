"""Losses on answers for imbalanced classes: the class of an answer is its label, N_c is the number of answers c.

    reweight    weight max N / N_c
    focal       (1 - p)^2 times the cross-entropy                                        Lin et al. 2017
    cb_focal    focal, weight (1 - b) / (1 - b^N_c), b = 0.9999, scaled to mean one      Cui et al. 2019
    resample    answers sampled so that each label is equally frequent (see `Batches`)

They apply to the predicted answers of workers, not to the classifier. They are baselines of the DASC paper.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array

Loss = Literal["ce", "focal", "cb_focal", "reweight"]
BETA = 0.9999


def label_weights(loss: Loss, counts: Array) -> Array | None:
    """Return the weight of each label, or None if all are equal.

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
    """Return the weight of each answer from its label."""
    weight = label_weights(loss, np.bincount(answers.label, minlength=answers.n_classes))
    return None if weight is None else weight[answers.label]


def focal_gamma(loss: Loss) -> float:
    """Return gamma of the focal loss; 0 for other losses."""
    return 2.0 if loss in ("focal", "cb_focal") else 0.0
