"""Classifiers of joint EM: fitted to soft labels, asked for the class probabilities of the training tasks.

    LogisticClassifier    multinomial logistic regression, warm-started from the last round
    EstimatorClassifier   any scikit-learn classifier that takes `sample_weight`
    NoFeatures            equal probabilities, for EM with the answers alone
    CrossFitted           one of these per fold: a task is judged by a classifier that never saw its answers
    ClassifierGroup       several classifiers at once

`GaussianClassifier` is in `gaussian`, `NetworkClassifier` in `network_classifier`.
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
    """The interface of a classifier in joint EM. The leading axis counts models; most classifiers have one."""

    def fit(self, target: Array) -> None:
        """Fit to soft labels (models, tasks, classes)."""

    def proba(self) -> Array:
        """Return the class probabilities of the training tasks, (models, tasks, classes)."""

    def penalty(self) -> float:
        """Return minus the log prior of the parameters, up to a constant: a part of EM's bound."""


class LogisticClassifier:
    """Logistic regression with a ridge penalty, on standardised features; fitted to some `rows` of x, or to all."""

    max_iter: int
    ridge: float
    rows: Array | None
    weight: Array | Array | None
    x: Array

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
        self.cost: float = 0.0

    def fit(self, target: Array) -> None:  # noqa: D102
        x = (
            self.x if self.rows is None else self.x[self.rows]
        )  # copied only here: otherwise every fold would keep a copy of x
        self.coef, self.cost = fit_logistic(
            x, target[0], weight=self.weight, ridge=self.ridge, coef=self.coef, solver=self.solver,
            max_iter=self.max_iter,
        )  # fmt: skip

    def proba(self) -> Array:  # noqa: D102
        return self.predict(self.x)[None]

    def penalty(self) -> float:  # noqa: D102
        return self.cost

    def predict(self, x: Array) -> Array:
        """Return class probabilities (rows, classes) of new tasks."""
        return predict_logistic(x, self.parameters()["coef"])

    def parameters(self) -> dict[str, Array]:
        """Return the fitted parameters that prediction needs."""
        assert self.coef is not None
        return {"coef": self.coef}


class NoFeatures:
    """Equal probabilities of all classes: joint EM with the answers alone."""

    def __init__(self, n_tasks: int, n_classes: int) -> None:
        self._proba = np.full((1, n_tasks, n_classes), 1 / n_classes)

    def fit(self, target: Array) -> None:  # noqa: D102
        pass

    def proba(self) -> Array:  # noqa: D102
        return self._proba

    def penalty(self) -> float:  # noqa: D102
        return 0.0


class EstimatorClassifier:
    """A scikit-learn classifier, fitted with one copy of each task per class, weighted by the class probability."""

    estimator: Any
    weight: Array | Array
    x: Array

    def __init__(self, estimator: Any, x: Array, weight: Array | None, rows: Array | None = None) -> None:
        self.estimator, self.x, self.rows = estimator, x, slice(None) if rows is None else rows
        self.weight = (np.ones(len(x)) if weight is None else weight)[self.rows]

    def fit(self, target: Array) -> None:  # noqa: D102
        self.fitted: Any = fit_soft(self.estimator, self.x[self.rows], target[0] * self.weight[:, None])
        self.n_classes: Any = target.shape[2]

    def proba(self) -> Array:  # noqa: D102
        return self.predict(self.x)[None]

    def penalty(self) -> float:  # noqa: D102
        return 0.0

    def predict(self, x: Array) -> Array:
        """Return class probabilities (rows, classes) of new tasks."""
        return predict_soft(self.fitted, x, self.n_classes)


def fit_soft(estimator: Any, x: Array, target: Array) -> Any:
    """Return a copy of a scikit-learn classifier fitted to soft labels (rows, classes) that sum to the row weights."""
    row, label = np.nonzero(target > 1e-6 * max(float(target.max()), 1e-300))
    weight = target[row, label]
    hard = len(np.unique(row)) == len(row) and np.ptp(weight) <= 1e-6 * weight.max()
    last = (
        f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    )  # the last step of a pipeline takes the weights
    try:
        return clone(estimator).fit(x[row], label, **({} if hard else {f"{last}sample_weight": weight}))
    except TypeError as error:
        message = (
            f"{estimator} cannot be fitted with sample_weight ({error}). Use a classifier that takes sample_weight, or "
            "train on hard labels: Aggregated(soft=False)."
        )
        raise ParameterError(message) from None


def predict_soft(estimator: Any, x: Array, n_classes: int) -> Array:
    """Return class probabilities (rows, classes); absent classes keep 1e-6, so that EM can revive them."""
    out = np.full((len(x), n_classes), 1e-6)
    out[:, estimator.classes_] = np.maximum(estimator.predict_proba(x), 1e-6)
    return out / out.sum(axis=1, keepdims=True)


class CrossFitted:
    """One classifier per fold, fitted without that fold, and one fitted to all tasks, for new ones.

    Parameters
    ----------
    make : callable
        Returns a classifier to be fitted to the given rows; None stands for all.
    folds : (tasks,) int array
        The fold of each task.
    x : (tasks, features) array
    """

    held_out: list[Array]
    parts: list[Any]
    rows: list[Array]

    def __init__(self, make: Callable[[Array | None], Any], folds: Array, x: Array) -> None:
        self.x = x
        self.held_out = [np.flatnonzero(folds == k) for k in range(folds.max() + 1)]
        self.rows = [np.flatnonzero(folds != k) for k in range(folds.max() + 1)]
        self.parts = [make(rows) for rows in self.rows]
        self.full: Any = make(None)

    def fit(self, target: Array) -> None:  # noqa: D102
        for part, rows in zip(self.parts, self.rows, strict=True):
            part.fit(target[:, rows])
        self.full.fit(target)

    def proba(self) -> Array:  # noqa: D102
        out = [part.predict(self.x[rows]) for part, rows in zip(self.parts, self.held_out, strict=True)]
        proba = np.empty((1, len(self.x), out[0].shape[1]))
        for rows, fold_proba in zip(self.held_out, out, strict=True):
            proba[0, rows] = fold_proba
        return proba

    def penalty(self) -> float:  # noqa: D102
        return float(sum(part.penalty() for part in self.parts))

    def predict(self, x: Array) -> Array:
        """Return class probabilities (rows, classes) of new tasks."""
        return self.full.predict(x)


class ClassifierGroup:
    """Several classifiers, which joint EM pools.

    Parameters
    ----------
    classifiers : list of Classifier
        Of one model each.
    """

    def __init__(self, classifiers: list[Any]) -> None:
        self.classifiers = classifiers

    def fit(self, target: Array) -> None:  # noqa: D102
        for classifier in self.classifiers:
            classifier.fit(target)

    def proba(self) -> Array:  # noqa: D102
        return np.concatenate([classifier.proba() for classifier in self.classifiers])

    def penalty(self) -> float:  # noqa: D102
        return float(sum(classifier.penalty() for classifier in self.classifiers))


def draw_folds(n_tasks: int, n_folds: int, seed: int) -> Array:
    """Return the fold of each task (tasks,); the sizes of the folds differ by at most one.

    >>> np.bincount(draw_folds(10, 3, seed=0)).tolist()
    [4, 3, 3]
    """
    return np.random.default_rng(seed).permutation(np.arange(n_tasks) % n_folds)
