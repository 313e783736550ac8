"""Problems by name: the data sets as the papers use them.

    digits                  embedded: 8 x 8 images with a simulated crowd; 500 of the 738 tasks to train on
    labelme, music          unchanged
    cifar10h                DASC's long-tailed subset: real images and votes, simulated workers (see crowds/)
    cifar10h-103            CrowdInG's 103 workers, simulated in the same way
    gisette_like, usps, gas_drift      ICED's: two classes 10 to 1, every worker answers every task
    product                 8315 pairs, 12 % of them matches; a test set with equally many of both
    product-folds           a fifth of the pairs for testing, chosen by the seed: 0 to 4 test on every pair once
    leaves-folds            the same for 384 leaves, ten answers each
    cifar10n                its first 10,000 images, which have features: 8000 for training, real workers
    digits-tail, usps-tail, gas_drift-tail      class sizes fall to a tenth, 2.5 answers per task by an uneven
                            simulated crowd; equally many tasks of each class for testing
    labelme-valid           tested on the validation tasks
    heavy-1 to heavy-3      stand-ins for DASC's Data1 (labels 2, 4) and Data2 (label 4): CIFAR-10H's cats and the rest
    NAME@40                 any of them with 40 % of its answers removed at random
    NAME@40, one left       the same, but no task loses its last answer

The seed decides the tasks and the crowd of ICED's sets and of the long-tailed ones, the fold, and which answers are
removed. Everything else is drawn once. Seeds that are trained together share the draws of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.datasets import load
from crowdwise.errors import ParameterError
from crowdwise.learn.joint_em.classifiers import draw_folds
from crowdwise.simulate import digits_crowd, shares, simulate
from reproduction.crowds.drawing import Subset, balanced, balanced_holdout, draw_rows
from reproduction.crowds.from_votes import long_tailed_subset, low_quality_subset
from reproduction.crowds.heavy import heavy_binary
from reproduction.crowds.iced import iced_set

Array = np.ndarray[Any, np.dtype[Any]]


class Problem(NamedTuple):
    """What a method is fitted to and tested on."""

    X: Array  # rows follow answers.tasks
    answers: Answers  # with the truth, which nothing is fitted to
    X_test: Array
    y_test: Array  # codes of answers.classes
    valid: tuple[Array, Array] | None = None  # X and codes

    def with_true_answers(self) -> Problem:
        """Return the problem with answers by one worker who is always right, to train the ceiling."""
        answers, truth = self.answers, self.answers.truth
        assert truth is not None
        known = np.flatnonzero(truth >= 0)
        true = Answers.from_codes(
            known, np.zeros(len(known), int), truth[known],
            tasks=answers.tasks, workers=["truth"], classes=answers.classes, truth=truth,
        )  # fmt: skip
        return self._replace(answers=true)


def load_problem(name: str, seed: int = 0) -> Problem:
    """Return a problem by its name, drawn with this seed."""
    data, _, removed = name.partition("@")
    if data not in PROBLEMS:
        message = f"no problem named {data!r}. Choose from {', '.join(PROBLEMS)}."
        raise ParameterError(message)
    problem = _load_complete(data, seed)
    if not removed:
        return problem
    share, _, left = removed.partition(", ")
    return problem._replace(answers=problem.answers.thin(int(share) / 100, keep_one=left == "one left", seed=seed))


@lru_cache(maxsize=4)
def _load_complete(name: str, seed: int) -> Problem:
    return PROBLEMS[name](seed)


def _unchanged(name: str) -> Problem:
    data = load(name)
    assert data.X is not None
    assert data.answers is not None
    assert data.X_test is not None
    valid = None if data.X_valid is None else (data.X_valid, _codes(data.truth_valid, data.classes))
    return Problem(data.X, data.answers, data.X_test, _codes(data.truth_test, data.classes), valid)


def _codes(truth: Any, classes: Array) -> Array:
    order = np.argsort(classes)  # classes need not be sorted
    return np.asarray(order[np.searchsorted(classes, truth, sorter=order)])


def _cifar10h(draw: Callable[..., Subset]) -> Problem:
    data = load("cifar10h")
    X, y = data.extra["X_all"], _codes(data.extra["truth_all"], data.classes)
    given = data.answers
    assert given is not None
    by_code = Answers.from_codes(
        given.task, given.worker, given.label, tasks=given.tasks, workers=given.workers, classes=len(data.classes)
    )
    train, answers, test = draw(data.extra["counts"], y, by_code)
    return Problem(X[train], answers, X[test], y[test])


def _heavy(shape: str) -> Problem:
    """Cats against the rest: the class people miss most often."""
    data = load("cifar10h")
    cat = int(np.flatnonzero(data.classes == "cat")[0])
    y = _codes(data.extra["truth_all"], data.classes)
    return Problem(*heavy_binary(data.extra["X_all"], y, cat, shape))


def _product() -> Problem:
    data = load("product")
    assert data.X is not None
    assert data.answers is not None
    truth = data.answers.truth
    assert truth is not None
    train, answers, test = balanced_holdout(data.answers, truth, 600)
    return Problem(data.X[train], answers, data.X[test], truth[test])


def _iced(shape: Literal["usps", "gas_drift", "gisette_like"], seed: int) -> Problem:
    data = load("gas_drift" if shape == "gas_drift" else "usps")
    return Problem(*iced_set(data.X, _codes(data.truth, data.classes), shape, seed=seed))


def _digits() -> Problem:
    X, answers = digits_crowd()
    rows = np.random.default_rng(0).permutation(len(X))
    train, test = np.sort(rows[:500]), np.sort(rows[500:])
    assert answers.truth is not None
    return Problem(X[train], answers[train], X[test], answers.truth[test])


FOLDS = 5


def _fold(name: str, seed: int) -> Problem:
    """One draw of folds, so that five seeds test on every task once."""
    data = load(name)
    assert data.X is not None
    assert data.answers is not None
    assert data.answers.truth is not None
    held = draw_folds(len(data.X), FOLDS, 0) == seed % FOLDS
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    return Problem(data.X[train], data.answers[train], data.X[test], data.answers.truth[test])


def _cifar10n() -> Problem:
    data, n_train = load("cifar10n"), 8000
    assert data.answers is not None
    assert data.answers.truth is not None
    X = data.extra["X_first"]
    return Problem(X[:n_train], data.answers[:n_train], X[n_train:], data.answers.truth[n_train : len(X)])


def _tail(name: str, largest: int, n_test: int, seed: int) -> Problem:
    """Class sizes fall geometrically from `largest` to a tenth of it; drawn again for each seed."""
    if name == "digits":
        from sklearn.datasets import load_digits

        X, y = load_digits(return_X_y=True)
    else:
        data = load(name)
        X, y = data.X, _codes(data.truth, data.classes)
    n_classes = int(y.max()) + 1
    share = shares("long-tail", n_classes)
    draw, crowd = np.random.default_rng(seed).spawn(2)
    sizes = np.rint(largest * share / share.max()).astype(int)
    test, train = draw_rows(y, [balanced(n_test, n_classes), sizes], draw)
    return Problem(X[train], simulate(truth=y[train], seed=crowd), X[test], y[test])


def _on_valid(problem: Problem) -> Problem:
    assert problem.valid is not None
    X, y = problem.valid
    return problem._replace(X_test=X, y_test=y, valid=None)


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "digits": lambda seed: _digits(),
    "labelme": lambda seed: _unchanged("labelme"),
    "music": lambda seed: _unchanged("music"),
    "cifar10h": lambda seed: _cifar10h(long_tailed_subset),
    "cifar10h-103": lambda seed: _cifar10h(low_quality_subset),
    "product": lambda seed: _product(),
    "heavy-1": lambda seed: _heavy("data1-2"),
    "heavy-2": lambda seed: _heavy("data1-4"),
    "heavy-3": lambda seed: _heavy("data2-4"),
    "usps": lambda seed: _iced("usps", seed),
    "gas_drift": lambda seed: _iced("gas_drift", seed),
    "gisette_like": lambda seed: _iced("gisette_like", seed),
    "product-folds": lambda seed: _fold("product", seed),
    "leaves-folds": lambda seed: _fold("truth/leaves", seed),
    "cifar10n": lambda seed: _cifar10n(),
    "digits-tail": lambda seed: _tail("digits", 120, 500, seed),
    "usps-tail": lambda seed: _tail("usps", 500, 2000, seed),
    "gas_drift-tail": lambda seed: _tail("gas_drift", 400, 900, seed),
    "labelme-valid": lambda seed: _on_valid(_unchanged("labelme")),
}
