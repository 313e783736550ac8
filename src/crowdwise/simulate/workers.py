"""A confusion matrix for each worker of a crowd, from named kinds of workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from crowdwise.errors import ParameterError
from crowdwise.simulate.balance import Array, Seed, shares, split

Workers = str | Mapping[str, float] | Array


def crowd(
    n_workers: int,
    n_classes: int,
    workers: Workers = "mixed",
    *,
    accuracy: tuple[float, float] = (0.4, 0.95),
    similar: Array | None = None,
    seed: Seed = 0,
) -> Array:
    """Confusion matrices [worker, truth, label] of a crowd.

    Parameters
    ----------
    n_workers, n_classes : int
        Size.
    workers : str, mapping or array
        A kind; kinds and their shares, e.g. ``{"hammer": 0.6, "spammer": 0.4}``; or the matrices themselves, as many as
        there are. Kinds:

        - "hammer": always right
        - "one-coin": one accuracy, errors even over the other classes
        - "class-dependent": better at some classes than at others, with errors of its own
        - "adversary": knows, and says another class, always the same one for a class
        - "spammer": does not look; has favourite classes
        - "uniform-guess": does not look; each class as often
        - "mixed": 80 % class-dependent, 10 % one-coin, 5 % spammer, 5 % uniform-guess
    accuracy : (low, high)
        Range of the skill of one-coin, class-dependent and adversary workers.
    similar : (classes, classes) array, optional
        How alike classes look (the diagonal does not matter): where class-dependent workers' errors tend to go.
    seed : int or Generator
        The same seed gives the same crowd.

    Examples
    --------
    >>> crowd(2, 3, "uniform-guess").round(2)[0].tolist()
    [[0.33, 0.33, 0.33], [0.33, 0.33, 0.33], [0.33, 0.33, 0.33]]
    """
    if isinstance(workers, np.ndarray):
        return checked_confusion(workers, n_classes)
    low, high = accuracy
    if not 0 <= low <= high <= 1:
        message = f"accuracy={accuracy}: give a range (low, high) within 0 and 1."
        raise ParameterError(message)
    mixture = MIXED if workers == "mixed" else {workers: 1.0} if isinstance(workers, str) else workers
    for kind in mixture:
        if kind not in KINDS:
            message = f"no workers {kind!r}: use {', '.join(KINDS)}, mixed, or a mapping of these to shares."
            raise ParameterError(message)
    if n_classes == 1:
        return np.ones((n_workers, 1, 1))
    rng = np.random.default_rng(seed)
    alike = np.ones((n_classes, n_classes)) if similar is None else np.array(similar, dtype=float)
    if alike.shape != (n_classes, n_classes) or not np.isfinite(alike).all() or (alike < 0).any():
        message = f"similar of shape {alike.shape}: give {n_classes} x {n_classes} finite numbers, none negative."
        raise ParameterError(message)
    alike += 1e-9  # a class that looks like no other is confused with any
    np.fill_diagonal(alike, 0)
    alike /= alike.sum(axis=1, keepdims=True)
    counts = split(n_workers, shares(np.array(list(mixture.values())), len(mixture)))
    places = np.split(rng.permutation(n_workers), np.cumsum(counts)[:-1])  # where the workers of each kind stand
    confusion = np.empty((n_workers, n_classes, n_classes))
    for kind, place in zip(mixture, places, strict=True):
        confusion[place] = KINDS[kind](rng.uniform(low, high, size=len(place)), alike, rng)
    return confusion


# A kind makes matrices [n, truth, label] from n skills, how alike classes look (rows sum to one), and a generator.


def _one_coin(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    right = np.eye(len(alike))
    return np.where(right, skill[:, None, None], (1 - skill[:, None, None]) / (len(alike) - 1))


def _hammer(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    return _one_coin(np.ones(len(skill)), alike, rng)


def _uniform_guess(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    return _one_coin(np.full(len(skill), 1 / len(alike)), alike, rng)


def _class_dependent(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    n, k = len(skill), len(alike)
    spread = 8.0  # pseudo-answers behind each class's accuracy and each row of errors: lower is more uneven
    right = rng.beta(spread * skill[:, None] + 1e-9, spread * (1 - skill[:, None]) + 1e-9, size=(n, k))
    rows = rng.standard_gamma(spread * alike, size=(n, k, k))  # Dirichlet, once divided by their sum
    rows *= ((1 - right) / rows.sum(axis=2))[:, :, None]
    rows[:, np.arange(k), np.arange(k)] = right
    return rows


def _adversary(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    rows = _one_coin(skill, alike, rng)
    shift = rng.integers(1, len(alike), size=len(skill))
    instead = (np.arange(len(alike)) + shift[:, None]) % len(alike)  # (n, truth): the row of which class it follows
    return np.take_along_axis(rows, instead[:, :, None], axis=1)


def _spammer(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    habit = rng.dirichlet(np.full(len(alike), 0.3), size=len(skill))  # (n, labels)
    return np.repeat(habit[:, None, :], len(alike), axis=1)


KINDS: dict[str, Callable[[Array, Array, np.random.Generator], Array]] = {
    "hammer": _hammer,
    "one-coin": _one_coin,
    "class-dependent": _class_dependent,
    "adversary": _adversary,
    "spammer": _spammer,
    "uniform-guess": _uniform_guess,
}
MIXED = {"class-dependent": 0.8, "one-coin": 0.1, "spammer": 0.05, "uniform-guess": 0.05}


def checked_confusion(confusion: Array, n_classes: int) -> Array:
    """Matrices given by the user, refused unless rows are probabilities."""
    confusion = np.ascontiguousarray(confusion, dtype=float)
    fits = confusion.ndim == 3 and confusion.shape[1:] == (n_classes, n_classes)
    if not fits or (confusion < 0).any() or not np.allclose(confusion.sum(axis=2), 1):
        message = (
            f"confusion of shape {confusion.shape}: give [worker, truth, label] with {n_classes} classes, "
            f"none negative, rows that sum to one."
        )
        raise ParameterError(message)
    return confusion
