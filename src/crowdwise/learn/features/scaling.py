"""Bringing features to one scale."""

from __future__ import annotations

import numpy as np

from crowdwise.errors import FeaturesError
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features

FLAT = 1e-6  # deviation, beside the mean, below which a feature is a constant with the rounding of float32
NOISE = 1e-12  # and beside the largest deviation, below which a small one is rounding of what the others were made from
SMALL = 1e-6
LEAST, MOST = 1e-37, 1e37  # float32 holds the inverse of the one, and differences of the other


def mean_and_scale(features: Features) -> tuple[Array, Array]:
    """Mean of each feature, and one over its deviation, in one pass over blocks; a constant is left as it is."""
    shift = features.rows(np.zeros(1, np.int64)).reshape(-1).astype(np.float64)  # near the mean: squares stay small
    total, most = np.zeros((2, len(shift))), np.abs(shift)
    for block in features.blocks():
        flat = block.reshape(len(block), -1) - shift
        total += flat.sum(axis=0), np.square(flat).sum(axis=0)
        most = np.maximum(most, np.abs(flat).max(axis=0, initial=0.0))
    if most.max(initial=0.0) > MOST:
        message = f"feature {most.argmax()} of X reaches {most.max():.1e}: divide it, networks compute in float32."
        raise FeaturesError(message)
    mean, square = total / features.n_rows
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    mean += shift
    least = np.maximum(np.maximum(FLAT * np.abs(mean), min(NOISE * deviation.max(initial=0.0), SMALL)), LEAST)
    return mean, 1 / np.where(deviation > least, deviation, 1.0)
