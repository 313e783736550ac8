"""Confusion matrices of simulated workers, from named kinds."""

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
    """Return the confusion matrices [worker, truth, label] of a crowd.

    Parameters
    ----------
    n_workers, n_classes : int
        Number of workers and of classes.
    workers : str, mapping or array
        A kind; a mapping of kinds to shares, such as ``{"hammer": 0.6, "spammer": 0.4}``; or the confusion matrices
        themselves, of any number of workers. Kinds:

        - "hammer": always correct
        - "one-coin": one accuracy, errors uniform over the other classes
        - "class-dependent": accuracy and errors that differ between classes
        - "adversary": recognises the class, but answers another one, the same for each class
        - "spammer": ignores the task and prefers some classes
        - "uniform-guess": ignores the task and chooses uniformly
        - "mixed": 80 % class-dependent, 10 % one-coin, 5 % spammer, 5 % uniform-guess
    accuracy : (low, high)
        Range of the accuracy of one-coin, class-dependent and adversary workers.
    similar : (classes, classes) array, optional
        How similar classes look (the diagonal is ignored): class-dependent workers confuse similar classes.
    seed : int or Generator
        The same seed gives the same crowd.

    Examples
    --------
    >>> crowd(2, 3, "uniform-guess").round(2)[0].tolist()
    [[0.33, 0.33, 0.33], [0.33, 0.33, 0.33], [0.33, 0.33, 0.33]]
    """
    if isinstance(workers, np.ndarray):
        return check_confusion(workers, n_classes)
    low, high = accuracy
    if not 0 <= low <= high <= 1:
        message = f"accuracy={accuracy}: pass a range (low, high) within 0 and 1."
        raise ParameterError(message)
    mixture = MIXED if workers == "mixed" else {workers: 1.0} if isinstance(workers, str) else workers
    for kind in mixture:
        if kind not in KINDS:
            message = (
                f"unknown kind of worker {kind!r}: use {', '.join(KINDS)}, mixed, or a mapping of these to shares."
            )
            raise ParameterError(message)
    if n_classes == 1:
        return np.ones((n_workers, 1, 1))
    rng = np.random.default_rng(seed)
    alike = np.ones((n_classes, n_classes)) if similar is None else np.array(similar, dtype=float)
    if alike.shape != (n_classes, n_classes) or not np.isfinite(alike).all() or (alike < 0).any():
        message = f"similar of shape {alike.shape}: pass {n_classes} x {n_classes} finite numbers, not negative."
        raise ParameterError(message)
    alike += 1e-9  # a class similar to no other is confused with all of them
    np.fill_diagonal(alike, 0)
    alike /= alike.sum(axis=1, keepdims=True)
    counts = split(n_workers, shares(np.array(list(mixture.values())), len(mixture)))
    groups = np.split(rng.permutation(n_workers), np.cumsum(counts)[:-1])  # workers of each kind
    confusion = np.empty((n_workers, n_classes, n_classes))
    for kind, members in zip(mixture, groups, strict=True):
        confusion[members] = KINDS[kind](rng.uniform(low, high, size=len(members)), alike, rng)
    return confusion


# Each kind returns matrices [n, truth, label] from n skills, the similarity of classes (rows sum to one), and an rng.


def _one_coin(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    right = np.eye(len(alike))
    return np.where(right, skill[:, None, None], (1 - skill[:, None, None]) / (len(alike) - 1))


def _hammer(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    return _one_coin(np.ones(len(skill)), alike, rng)


def _uniform_guess(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    return _one_coin(np.full(len(skill), 1 / len(alike)), alike, rng)


def _class_dependent(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    n, k = len(skill), len(alike)
    spread = 8.0  # concentration of accuracies and of rows of errors: lower is more uneven
    right = rng.beta(spread * skill[:, None] + 1e-9, spread * (1 - skill[:, None]) + 1e-9, size=(n, k))
    rows = rng.standard_gamma(spread * alike, size=(n, k, k))  # a Dirichlet draw, once divided by the sum
    rows *= ((1 - right) / rows.sum(axis=2))[:, :, None]
    rows[:, np.arange(k), np.arange(k)] = right
    return rows


def _adversary(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    rows = _one_coin(skill, alike, rng)
    shift = rng.integers(1, len(alike), size=len(skill))
    confused = (np.arange(len(alike)) + shift[:, None]) % len(alike)  # (n, truth): the class whose row is used
    return np.take_along_axis(rows, confused[:, :, None], axis=1)


def _spammer(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    preference = rng.dirichlet(np.full(len(alike), 0.3), size=len(skill))  # (n, labels)
    return np.repeat(preference[:, None, :], len(alike), axis=1)


KINDS: dict[str, Callable[[Array, Array, np.random.Generator], Array]] = {
    "hammer": _hammer,
    "one-coin": _one_coin,
    "class-dependent": _class_dependent,
    "adversary": _adversary,
    "spammer": _spammer,
    "uniform-guess": _uniform_guess,
}
MIXED = {"class-dependent": 0.8, "one-coin": 0.1, "spammer": 0.05, "uniform-guess": 0.05}


def check_confusion(confusion: Array, n_classes: int) -> Array:
    """Return confusion matrices as floats; raise an error unless their rows are probabilities."""
    confusion = np.ascontiguousarray(confusion, dtype=float)
    has_shape = confusion.ndim == 3 and confusion.shape[1:] == (n_classes, n_classes)
    if not has_shape or (confusion < 0).any() or not np.allclose(confusion.sum(axis=2), 1):
        message = (
            f"confusion of shape {confusion.shape}: pass [worker, truth, label] with {n_classes} classes, "
            f"not negative, with rows that sum to one."
        )
        raise ParameterError(message)
    return confusion
