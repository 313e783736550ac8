"""Which items to compare next: the pairs whose outcome says most about the scores.

    worth(i, j) = log(1 + p (1 - p) v) / 2        p = P(i beats j), v = variance of score[i] - score[j]

is the expected gain of information about all scores (D-optimal design). After each proposal the covariance becomes what
it would be after that comparison, by the formula of Sherman and Morrison.
"""

from __future__ import annotations

import numpy as np
from scipy import special

from crowdwise.truth.base import Array

NEIGHBOURS = 50  # in the ranking: pairs further apart say little


def choose_pairs(scores: Array, covariance: Array, n: int) -> tuple[Array, Array, Array]:
    """Return the left and right items of n pairs, and what each comparison is worth, the most useful first."""
    order = np.argsort(-scores, kind="stable")
    near = min(NEIGHBOURS, len(scores) - 1)
    pairs = [(order[:-k], order[k:]) for k in range(1, near + 1)]
    left, right = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
    slope = special.expit(scores[left] - scores[right])
    curve = slope * (1 - slope)  # (pairs,)
    covariance, chosen, worth = covariance.copy(), [], []
    for k in range(n):
        diagonal = np.diag(covariance)
        variance = diagonal[left] + diagonal[right] - 2 * covariance[left, right]
        gain = 0.5 * np.log1p(curve * np.maximum(variance, 0.0))
        best = int(gain.argmax())
        i, j = left[best], right[best]
        chosen.append((i, j) if k % 2 == 0 else (j, i))  # neither position is favoured
        worth.append(gain[best])
        direction = covariance[:, i] - covariance[:, j]
        covariance -= np.outer(direction, direction) * (curve[best] / (1 + curve[best] * variance[best]))
    places = np.array(chosen, dtype=int).reshape(-1, 2)
    return places[:, 0], places[:, 1], np.array(worth)
