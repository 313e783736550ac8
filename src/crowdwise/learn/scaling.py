"""Bringing features to one scale."""

from __future__ import annotations

import numpy as np

from crowdwise.learn.base import Array
from crowdwise.learn.features import Features


def moments(features: Features) -> tuple[Array, Array]:
    """Mean of each feature, and one over its deviation, in one pass over blocks; a constant is left as it is."""
    shift = features.rows(np.zeros(1, np.int64)).reshape(-1).astype(np.float64)  # near the mean: squares stay small
    total = np.zeros((2, len(shift)))
    for block in features.blocks():
        flat = block.reshape(len(block), -1) - shift
        total += flat.sum(axis=0), np.square(flat).sum(axis=0)
    mean, square = total / features.n_rows
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    mean += shift
    return mean, 1 / np.where(deviation > 1e-6 * np.maximum(np.abs(mean), 1), deviation, 1.0)
