"""Example data: real images of digits with imbalanced classes, labelled by a simulated crowd."""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Answers
from crowdwise.simulate.answers import answer
from crowdwise.simulate.balance import LONG_TAIL, Array, Seed, shares
from crowdwise.simulate.workers import crowd


def digits_crowd(seed: Seed = 0) -> tuple[Array, Answers]:
    """Return scikit-learn's 8 x 8 images of digits with answers of 40 simulated workers.

    The share of images kept decreases geometrically from 1 (zeros) to 1/10 (nines). Workers differ in skill and
    activity, give about 2.5 answers per task, and confuse digits that look alike.

    Returns
    -------
    X : (tasks, 64) array
        Pixels from 0 to 16; rows in the order of `answers.tasks`.
    answers : Answers
        With `truth` set.

    Examples
    --------
    >>> X, answers = digits_crowd()
    >>> X.shape, answers
    ((738, 64), Answers(738 tasks, 40 workers, 1845 answers, 10 classes))
    """
    from sklearn.datasets import load_digits

    image_rng, crowd_rng, answer_rng = np.random.default_rng(seed).spawn(3)
    X, y = load_digits(return_X_y=True)
    rank = np.empty(len(y))  # random rank of each image within its class, 0 to 1
    for c in range(10):
        of_class = np.flatnonzero(y == c)
        rank[of_class] = image_rng.permutation(len(of_class)) / len(of_class)
    selected = np.flatnonzero(rank < (LONG_TAIL ** -np.linspace(0, 1, 10))[y])
    X, y = X[selected], y[selected]
    confusion = crowd(40, 10, accuracy=(0.5, 1.0), similar=look_alike(X, y), seed=crowd_rng)
    return X, answer(y, confusion, 2.5, activity=shares("long-tail", 40), seed=answer_rng)


def look_alike(X: Array, y: Array, sharpness: float = 4.0) -> Array:
    """Return how similar classes look, (classes, classes), from the distances between their mean features."""
    means = np.stack([X[y == c].mean(axis=0) for c in range(int(y.max()) + 1)])  # (classes, features)
    distance = np.linalg.norm(means[:, None] - means, axis=2)
    return np.exp(-sharpness * distance / distance[distance > 0].mean())
