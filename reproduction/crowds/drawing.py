"""Common parts of the papers' data sets: training and test rows, and skills with the published mean and deviation."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.simulate.balance import Array, Seed


class Subset(NamedTuple):
    """Training rows, their answers (with `truth`), and test rows, which have no answers."""

    train: Array  # (tasks,) rows, sorted; tasks of the answers are in this order
    answers: Answers
    test: Array  # rows, sorted


class TrainTest(NamedTuple):
    """Features and answers (with `truth`) to train on, features and truth to test on."""

    X: Array  # (tasks, features)
    answers: Answers
    X_test: Array
    y_test: Array  # codes


def streams(seed: Seed, n: int) -> list[np.random.Generator]:
    """Return independent generators, one per part that is drawn."""
    fits = isinstance(seed, np.random.Generator) or is_integer(seed, 0)
    require(fits, "seed", seed, "an integer, 0 or more, or a numpy Generator")
    return np.random.default_rng(seed).spawn(n)


def class_codes(y: Any, name: str = "y") -> Array:
    """Return class codes as int64; reject codes that are not integers. -1 is a task without a class."""
    codes = np.asarray(y)
    if codes.ndim != 1 or codes.dtype.kind not in "iub" or (codes.size and codes.min() < -1):
        message = f"{name}: pass one class code per task, integers 0, 1, 2, ..."
        raise ParameterError(message)
    return codes.astype(np.int64)


def draw_rows(y: Array, sizes: Any, rng: np.random.Generator) -> list[Array]:
    """Return disjoint parts of the tasks, each with these numbers of each class; rows are sorted.

    `sizes` is (parts, classes). A part does not depend on those after it. Tasks of code -1 are left out.

    >>> [part.tolist() for part in draw_rows(np.array([0, 1, 0, 1]), [[1, 1], [1, 0]], np.random.default_rng(0))]
    [[1, 2], [0]]
    """
    edges = np.cumsum(sizes, axis=0)  # (parts, classes)
    n_classes = edges.shape[1]
    available = np.bincount(y[y >= 0], minlength=n_classes)[:n_classes]
    short = np.flatnonzero(edges[-1] > available)
    if len(short):
        c = short[0]
        message = f"class {c} has {available[c]} tasks, fewer than the requested {edges[-1, c]}."
        raise ParameterError(message)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    rank = np.empty(len(y), np.int64)  # place of a task within its class
    rank[order] = np.arange(len(y)) - np.searchsorted(y[order], y[order])
    known = (y >= 0) & (y < n_classes)
    code = np.where(known, y, 0)
    part = np.where(known, (rank >= edges[:, code]).sum(axis=0), len(edges))  # edges passed
    return [np.flatnonzero(part == p) for p in range(len(edges))]


def balanced(n: int, n_classes: int, name: str = "n_test") -> Array:
    """Return the number of tasks of each class, for this many tasks in total."""
    fits = is_integer(n, n_classes) and n % n_classes == 0
    require(fits, name, n, f"a positive multiple of {n_classes}, the number of classes")
    return np.full(n_classes, n // n_classes)


def balanced_holdout(answers: Answers, truth: Any, n_test: int, *, seed: Seed = 0) -> Subset:
    """Hold out a class-balanced test set from answered tasks; its answers are removed.

    Parameters
    ----------
    answers : Answers
        All answers.
    truth : mapping, pair or codes
        Known classes, as in `Answers.with_truth`. Tasks of unknown truth stay in training.
    n_test : int
        Tasks to test on, a multiple of the number of classes.
    seed : int or Generator
        The same seed holds out the same tasks.

    Returns
    -------
    Subset
        Rows to train on, their answers, rows to test on.

    Examples
    --------
    >>> answers = Answers.from_arrays([1, 2, 3, 4, 4], list("abcab"), [0, 0, 1, 1, 0])
    >>> train, kept, test = balanced_holdout(answers, {1: 0, 2: 0, 3: 1, 4: 1}, 2)
    >>> kept, kept.truth.tolist()
    (Answers(2 tasks, 3 workers, 2 answers, 2 classes), [0, 1])
    """
    require_answers(answers)
    answers = answers.with_truth(truth)
    code = class_codes(answers.truth, "truth")
    (test,) = draw_rows(code, balanced(n_test, answers.n_classes)[None], streams(seed, 1)[0])
    train = np.setdiff1d(np.arange(answers.n_tasks), test)
    return Subset(train, answers[train], test)


def binary_imbalanced(
    y: Any, pair: tuple[Any, Any], n_major: int, n_minor: int, n_test: int, *, seed: Seed = 0
) -> tuple[Array, Array]:
    """Draw the rows of an imbalanced two-class training set and of a balanced test set.

    Parameters
    ----------
    y : int codes
        Class of each task.
    pair : (class or classes, class or classes)
        The classes that make up the majority, and those of the minority.
    n_major, n_minor, n_test : int
        Training tasks of each side; test tasks, half of each.
    seed : int or Generator
        The same seed gives the same rows; the test rows do not depend on the sizes of training.

    Returns
    -------
    train, test : arrays
        Rows, sorted, disjoint.

    Examples
    --------
    >>> y = np.array([0, 0, 0, 0, 1, 1, 2, 2])
    >>> train, test = binary_imbalanced(y, (0, (1, 2)), 3, 1, 2)
    >>> np.bincount(y[train] > 0).tolist(), np.bincount(y[test] > 0).tolist()
    ([3, 1], [1, 1])
    """
    for name, value in (("n_major", n_major), ("n_minor", n_minor)):
        require(is_integer(value, 0), name, value, "an integer number of tasks, 0 or more")
    test, train = draw_rows(two_classes(y, pair), [balanced(n_test, 2), [n_major, n_minor]], streams(seed, 1)[0])
    return train, test


def two_classes(y: Any, pair: tuple[Any, Any]) -> Array:
    """Return 0 for tasks of the first side of the pair, 1 for the second, -1 for the rest."""
    y = class_codes(y)
    major, minor = (np.isin(y, group) for group in pair)
    if (major & minor).any():
        message = f"pair={pair!r}: a class cannot be on both sides."
        raise ParameterError(message)
    return np.where(major, 0, np.where(minor, 1, -1))


def require_answers(answers: Any) -> None:
    """Reject anything but Answers."""
    if not isinstance(answers, Answers):
        message = (
            f"answers has type {type(answers).__name__}. Pass Answers, for example from crowdwise.Answers.from_frame."
        )
        raise ParameterError(message)


def check_moments(accuracy: Any) -> tuple[float, float | None]:
    """Return mean and deviation of accuracies; reject values that no accuracies can have."""
    pair = isinstance(accuracy, (tuple, list)) and len(accuracy) == 2
    mean: Any
    sd: Any
    mean, sd = accuracy if pair else (None, None)
    fits = is_number(mean) and 0 < mean < 1
    fits = fits and (sd is None or (is_number(sd) and 0 <= sd <= np.sqrt(mean * (1 - mean))))
    allowed = "(mean, deviation): a mean between 0 and 1; a deviation from 0 to sqrt(mean (1 - mean)), or None"
    require(bool(fits), "accuracy", accuracy, allowed)
    return mean, sd


def match_moments(shape: Array, mean: float, sd: float | None, n_answers: float) -> Array:
    """Scale skills so that accuracies, measured over n answers each, have the published mean and deviation.

    Measured accuracies vary more than the skills do, by about m(1 - m)/n, which is subtracted. Without `sd` the
    deviation of the shape is kept.
    """
    if sd is None:
        return np.clip(shape - shape.mean() + mean, 0, 1)
    variance = max(n_answers * sd**2 - mean * (1 - mean), 0) / max(n_answers - 1, 1)
    spread = shape.std()
    return np.clip(mean + (shape - shape.mean()) * np.sqrt(variance) / (spread if spread > 0 else 1), 0, 1)


def uniform_confusion(skill: Array) -> Array:
    """Return confusion matrices for accuracies (workers, classes); errors are uniform over the other classes."""
    n_classes = skill.shape[1]
    return np.where(np.eye(n_classes), skill[:, :, None], (1 - skill[:, :, None]) / (n_classes - 1))


def with_task_ids(answers: Answers, tasks: Array) -> Answers:
    """Return the same answers with these task ids."""
    return Answers.from_codes(
        answers.task, answers.worker, answers.label, tasks=tasks, workers=answers.n_workers, classes=answers.n_classes,
        truth=answers.truth,
    )  # fmt: skip
