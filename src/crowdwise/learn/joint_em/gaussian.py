"""Gaussian classes as a piece of joint EM: linear or quadratic discriminants, in closed form, all folds at once.

    x | c  ~  normal(mean[c], cov[c])
    cov    =  (1 - shrinkage) * within + shrinkage * variance * I      within: scatter about the means of the classes
    cov[c] =  (1 - own) * cov + own * (that of class c alone, shrunk in the same way)

    f(x)[c]  proportional to  normal(x; mean[c], cov[c])       the shares of the classes stand apart: `pooling`

`own` 0 is a linear discriminant (LDA), above it a regularised quadratic one (QDA; Friedman 1989). So rigid a classifier
cannot learn the errors of single answers by heart, which is what makes it strong inside EM.

Folds are summed, not fitted: sums of x and of x x' over the tasks of each fold, times the soft labels, are all that is
needed, and those of the tasks outside a fold are the total less its own. A round costs tasks x features x classes for
LDA (the scatter about zero does not depend on the labels), times features for QDA.

For LDA the bound of joint EM is exact: with log P(x) of the tasks and the prior of `cov` (inverse Wishart around
`variance` * I, worth shrinkage / (1 - shrinkage) times as many tasks as there are) as its penalty, EM climbs the
likelihood of features and answers together. QDA's matrices do not maximise that, nor do those of folds.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, softmax

from crowdwise.learn.base import Array
from crowdwise.truth.kernels.shared import FLOOR

SMALL = 1e-3  # tasks: a class nobody is in keeps the mean of all, instead of none


class GaussianClassifier:
    """LDA or QDA for each fold, fitted without it, and for all tasks.

    Parameters
    ----------
    x : (tasks, features) array
        Centred, or nearly so: `shrinkage` draws towards the variance about zero.
    weight : (tasks,) array or None
    folds : (tasks,) int array or None
        The fold of each task; without folds, each task is judged by a classifier fitted to all.
    shrinkage : float
        Share of the covariance that is the same in all directions, from 0 to 1.
    own : float
        Share of its own in the covariance of a class, from 0 to 1.
    even : bool
        Whether classes are held for equally likely, and not for as frequent as they are, where log P(x) is asked for.
    """

    def __init__(
        self,
        x: Array,
        weight: Array | None,
        folds: Array | None,
        *,
        shrinkage: float = 0.1,
        own: float = 0.0,
        even: bool = False,
    ) -> None:
        self.shrinkage, self.own, self.even = shrinkage, own, even
        self.weight = np.ones(len(x)) if weight is None else weight
        self.x = x
        self.variance = max(float(np.average(np.square(self.x), axis=0, weights=self.weight).mean()), FLOOR)
        folds = np.zeros(len(x), np.int64) if folds is None else folds
        self.held = [np.flatnonzero(folds == k) for k in range(folds.max() + 1)]
        self.crossed = len(self.held) > 1
        self.scatter = self._by_part([self._scatter(rows, self.weight[rows]) for rows in self.held])

    def fit(self, target: Array) -> None:
        """Learn from soft labels (1, tasks, classes)."""
        mass = target[0] * self.weight[:, None]  # (tasks, classes)
        n = self._by_part([mass[rows].sum(axis=0) for rows in self.held])  # (parts, classes)
        sums = self._by_part([mass[rows].T @ self.x[rows] for rows in self.held])  # (parts, classes, features)
        self.mean = sums / (n + SMALL)[:, :, None]
        total = np.maximum(n.sum(axis=1), SMALL)  # of tasks in a part: none, where one fold has all the weight
        share = np.full(n.shape[1], 1 / n.shape[1]) if self.even else n[-1] / total[-1]
        self.log_share = np.log(np.maximum(share, FLOOR))
        about = np.einsum("pc,pcf,pcg->pfg", n + SMALL, self.mean, self.mean)  # what the means explain
        within = (self.scatter - about) / total[:, None, None]
        cov = self._shrunk(within)[:, None]  # (parts, 1, features, features)
        if self.own:
            cov = (1 - self.own) * cov + self.own * self._of_classes(mass, n)
        self.root = np.linalg.cholesky(cov)  # (parts, 1 or classes, features, features)
        self.half_log_det = np.log(np.diagonal(self.root, axis1=2, axis2=3)).sum(axis=2)

    def proba(self) -> Array:
        """Class probabilities of the training tasks, (1, tasks, classes)."""
        return softmax(self._densities(), axis=1)[None]

    def penalty(self) -> float:
        """Minus log P(x) of the tasks and the log prior of the covariance, up to a constant."""
        if self.own or self.crossed or self.shrinkage == 1:
            return 0.0
        says = self.weight @ logsumexp(self._densities() + self.log_share, axis=1)
        strength = self.shrinkage / (1 - self.shrinkage) * self.weight.sum()
        inverse = np.linalg.inv(self.root[0, 0])
        return float(
            strength * (self.half_log_det[0, 0] + 0.5 * self.variance * np.square(inverse).sum())
            + 0.5 * SMALL * np.square(self.mean[0] @ inverse.T).sum()
            - says
        )

    def predict(self, x: Array) -> Array:
        """Class probabilities (rows, classes) of other tasks."""
        return predict_gaussian(x, self.numbers())

    def numbers(self) -> dict[str, Array]:
        """What it has learned from all tasks: all that predicting needs."""
        return {
            "mean": self.mean[-1],
            "root": self.root[-1],
            "offset": -self.half_log_det[-1],
        }

    def _densities(self) -> Array:
        """Log normal(x; mean[c], cov[c]) of the training tasks, (tasks, classes), by the folds' own parts."""
        out = np.empty((len(self.x), self.mean.shape[1]))
        for part, rows in enumerate(self.held):
            out[rows] = log_densities(self.x[rows], self.mean[part], self.root[part], -self.half_log_det[part])
        return out

    def _of_classes(self, mass: Array, n: Array) -> Array:
        """Covariance of each class alone, shrunk, (parts, classes, features, features)."""
        scatter = [np.stack([self._scatter(rows, share) for share in mass[rows].T]) for rows in self.held]
        about = np.einsum("pc,pcf,pcg->pcfg", n + SMALL, self.mean, self.mean)
        return self._shrunk((self._by_part(scatter) - about) / (n + SMALL)[:, :, None, None])

    def _shrunk(self, within: Array) -> Array:
        return (1 - self.shrinkage) * within + self.shrinkage * self.variance * np.eye(within.shape[-1])

    def _scatter(self, rows: Array, weight: Array) -> Array:
        x = self.x[rows]
        return (x * weight[:, None]).T @ x

    def _by_part(self, sums: list[Array]) -> Array:
        """Sums over the tasks outside each fold, and over all of them (the last), from those of the folds."""
        total = np.sum(sums, axis=0)
        return np.stack([*(total - own for own in sums), total]) if self.crossed else total[None]


def log_densities(x: Array, mean: Array, root: Array, offset: Array) -> Array:
    """Log of normal(x; mean[c], cov[c]), (rows, classes), up to a constant.

    Parameters
    ----------
    x, mean : (rows, features) and (classes, features) arrays
    root : (1 or classes, features, features) array
        Cholesky factors of the covariance, or covariances.
    offset : (1 or classes,) array
        Minus half the log determinant.
    """
    out = np.empty((len(x), len(mean)))
    if len(root) == 1:  # turned to where the covariance is one, once for all classes
        x, mean = _turned(root[0], x.T).T, _turned(root[0], mean.T).T
    for c in range(len(mean)):
        apart = (x - mean[c]).T  # (features, rows)
        if len(root) > 1:
            apart = _turned(root[c], apart)
        out[:, c] = offset[c if len(root) > 1 else 0] - 0.5 * np.einsum("fr,fr->r", apart, apart)
    return out


def _turned(root: Array, columns: Array) -> Array:
    return np.asarray(solve_triangular(root, columns, lower=True, check_finite=False))


def predict_gaussian(x: Array, numbers: dict[str, Array]) -> Array:
    """Class probabilities (rows, classes), from what a `GaussianClassifier` had learned."""
    return np.asarray(softmax(log_densities(x, **numbers), axis=1))
