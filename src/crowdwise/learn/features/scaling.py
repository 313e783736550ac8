"""Mean and scale of features, to standardise them."""

from __future__ import annotations

import numpy as np

from crowdwise.errors import FeaturesError
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features

# A feature counts as constant, up to rounding, if its deviation is below FLAT times its mean, or below NOISE times the
# largest deviation of any feature (at most SMALL).
FLAT = 1e-6
NOISE = 1e-12
SMALL = 1e-6
LEAST, MOST = 1e-37, 1e37  # 1 / LEAST and differences of values up to MOST are within float32


def mean_and_scale(features: Features) -> tuple[Array, Array]:
    """Return the mean of each feature and one over its standard deviation (1 if constant), in one pass over blocks."""
    mean, deviation = mean_and_deviation(features)
    return mean, 1 / np.where(deviation > 0, deviation, 1.0)


def common_scale(deviation: Array) -> Array:
    """Return one over the root of the mean variance of the features, for each of them.

    >>> common_scale(np.array([0.0, 3.0, 4.0, 0.0])).tolist()
    [0.4, 0.4, 0.4, 0.4]
    """
    size = float(np.sqrt(np.mean(np.square(deviation))))
    return np.full(len(deviation), 1 / size if size > 0 else 1.0)


def mean_and_deviation(features: Features) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each feature (0 if constant), in one pass over blocks."""
    shift = features.rows(np.zeros(1, np.int64)).reshape(-1).astype(np.float64)  # near the mean, to keep squares small
    total, most = np.zeros((2, len(shift))), np.abs(shift)
    for block in features.blocks():
        flat = block.reshape(len(block), -1) - shift
        total += flat.sum(axis=0), np.square(flat).sum(axis=0)
        most = np.maximum(most, np.abs(flat).max(axis=0, initial=0.0))
    if most.max(initial=0.0) > MOST:
        message = f"feature {most.argmax()} of X reaches {most.max():.1e}, too large for float32. Rescale it."
        raise FeaturesError(message)
    mean, square = total / features.n_rows
    deviation = np.sqrt(np.maximum(square - mean**2, 0))
    mean += shift
    least = np.maximum(np.maximum(FLAT * np.abs(mean), min(NOISE * deviation.max(initial=0.0), SMALL)), LEAST)
    return mean, np.where(deviation > least, deviation, 0.0)
