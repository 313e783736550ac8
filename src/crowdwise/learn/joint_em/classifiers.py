"""The classifier as a piece of joint EM: fitted to soft labels, asked for the probabilities of the training tasks.

    LogisticClassifier    multinomial logistic regression, warm from the last round
    EstimatorClassifier   any scikit-learn classifier that takes `sample_weight`
    CrossFitted           one of these for each fold: a task is judged by a classifier that never saw its answers

`NetworkClassifier`, for networks in the training loop, is in `network_classifier`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.logistic import Solver, fit_logistic, predict_logistic


class Classifier(Protocol):
    """What joint EM asks of a classifier. The leading axis is that of models; most have one."""

    def fit(self, target: Array) -> None:
        """Learn from soft labels (models, tasks, classes)."""

    def proba(self) -> Array:
        """Class probabilities of the training tasks, (models, tasks, classes)."""

    def penalty(self) -> float:
        """Minus the log prior of the parameters, up to a constant: a part of EM's bound."""


class LogisticClassifier:
    """Logistic regression with a ridge, on standardised features; of some rows of x, where they are given."""

    def __init__(
        self,
        x: Array,
        weight: Array | None,
        rows: Array | None = None,
        *,
        ridge: float,
        solver: Solver,
        max_iter: int,
    ) -> None:
        self.x, self.rows = x, rows
        self.weight = weight if weight is None or rows is None else weight[rows]
        self.ridge, self.solver, self.max_iter = ridge, solver, max_iter
        self.coef: Array | None = None
        self.cost = 0.0

    def fit(self, target: Array) -> None:  # noqa: D102
        x = self.x if self.rows is None else self.x[self.rows]  # taken when needed: folds would keep x many times
        self.coef, self.cost = fit_logistic(
            x, target[0], weight=self.weight, ridge=self.ridge, coef=self.coef, solver=self.solver,
            max_iter=self.max_iter,
        )  # fmt: skip

    def proba(self) -> Array:  # noqa: D102
        return self.predict(self.x)[None]

    def penalty(self) -> float:  # noqa: D102
        return self.cost

    def predict(self, x: Array) -> Array:
        """Class probabilities (rows, classes) of other tasks."""
        return predict_logistic(x, self.numbers()["coef"])

    def numbers(self) -> dict[str, Array]:
        """What it has learned: all that predicting needs."""
        assert self.coef is not None
        return {"coef": self.coef}


class EstimatorClassifier:
    """A scikit-learn classifier: each task stands once for each class, weighted by the class's probability."""

    def __init__(self, estimator: Any, x: Array, weight: Array | None, rows: Array | None = None) -> None:
        self.estimator, self.x, self.rows = estimator, x, slice(None) if rows is None else rows
        self.weight = (np.ones(len(x)) if weight is None else weight)[self.rows]

    def fit(self, target: Array) -> None:  # noqa: D102
        self.fitted = fit_soft(self.estimator, self.x[self.rows], target[0] * self.weight[:, None])
        self.n_classes = target.shape[2]

    def proba(self) -> Array:  # noqa: D102
        return self.predict(self.x)[None]

    def penalty(self) -> float:  # noqa: D102
        return 0.0

    def predict(self, x: Array) -> Array:
        """Class probabilities (rows, classes) of other tasks."""
        return predict_soft(self.fitted, x, self.n_classes)


def fit_soft(estimator: Any, x: Array, target: Array) -> Any:
    """A copy of a scikit-learn classifier fitted to soft labels (rows, classes), whose sums are the rows' weights."""
    row, label = np.nonzero(target > 1e-6 * max(float(target.max()), 1e-300))
    weight = target[row, label]
    hard = len(np.unique(row)) == len(row) and np.ptp(weight) <= 1e-6 * weight.max()
    last = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""  # of a pipeline: its last step
    try:
        return clone(estimator).fit(x[row], label, **({} if hard else {f"{last}sample_weight": weight}))
    except TypeError as error:
        message = (
            f"{estimator} cannot be fitted with sample_weight ({error}): use a classifier that can, or one on hard "
            "labels (Aggregated)."
        )
        raise ParameterError(message) from None


def predict_soft(estimator: Any, x: Array, n_classes: int) -> Array:
    """Class probabilities (rows, classes): a class it never saw keeps a trace, so that EM can bring it back."""
    out = np.full((len(x), n_classes), 1e-6)
    out[:, estimator.classes_] = np.maximum(estimator.predict_proba(x), 1e-6)
    return out / out.sum(axis=1, keepdims=True)


class CrossFitted:
    """A classifier for each fold, fitted without it, and one fitted to all for tasks to come.

    Parameters
    ----------
    make : callable
        Makes a classifier of tasks, given their rows; None is all of them.
    folds : (tasks,) int array
        The fold of each task.
    x : (tasks, features) array
    """

    def __init__(self, make: Callable[[Array | None], Any], folds: Array, x: Array) -> None:
        self.x = x
        self.held = [np.flatnonzero(folds == k) for k in range(folds.max() + 1)]
        self.rows = [np.flatnonzero(folds != k) for k in range(folds.max() + 1)]
        self.parts = [make(rows) for rows in self.rows]
        self.whole = make(None)

    def fit(self, target: Array) -> None:  # noqa: D102
        for part, rows in zip(self.parts, self.rows, strict=True):
            part.fit(target[:, rows])
        self.whole.fit(target)

    def proba(self) -> Array:  # noqa: D102
        out = [part.predict(self.x[held]) for part, held in zip(self.parts, self.held, strict=True)]
        proba = np.empty((1, len(self.x), out[0].shape[1]))
        for held, rows in zip(self.held, out, strict=True):
            proba[0, held] = rows
        return proba

    def penalty(self) -> float:  # noqa: D102
        return float(sum(part.penalty() for part in self.parts))

    def predict(self, x: Array) -> Array:
        """Class probabilities (rows, classes) of other tasks."""
        return self.whole.predict(x)


class Several:
    """Classifiers side by side, for joint EM to hear all of them.

    Parameters
    ----------
    pieces : list of Classifier
        Of one model each.
    """

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces

    def fit(self, target: Array) -> None:  # noqa: D102
        for piece in self.pieces:
            piece.fit(target)

    def proba(self) -> Array:  # noqa: D102
        return np.concatenate([piece.proba() for piece in self.pieces])

    def penalty(self) -> float:  # noqa: D102
        return float(sum(piece.penalty() for piece in self.pieces))


def draw_folds(n_tasks: int, n_folds: int, seed: int) -> Array:
    """A fold for each task, sizes as even as can be.

    >>> np.bincount(draw_folds(10, 3, seed=0)).tolist()
    [4, 3, 3]
    """
    return np.random.default_rng(seed).permutation(np.arange(n_tasks) % n_folds)
