"""Gaussian classes as a piece of joint EM: linear or quadratic discriminants, in closed form, all folds at once.

    x | c  ~  normal(mean[c], cov[c])        P(c) = share[c]
    cov    =  (1 - shrinkage) * within + shrinkage * variance * I      within: scatter about the means of the classes
    cov[c] =  (1 - own) * cov + own * (that of class c alone, shrunk in the same way)

    f(x)[c]  proportional to  share[c] * normal(x; mean[c], cov[c])

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
from scipy.special import logsumexp, softmax

from crowdwise.learn.base import Array
from crowdwise.truth.kernels import FLOOR

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
        Hold all classes for equally likely, instead of as frequent as they are.
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
        share = np.ones_like(n) / n.shape[1] if self.even else n / n.sum(axis=1, keepdims=True)
        self.log_share = np.log(np.maximum(share, FLOOR))
        about = np.einsum("pc,pcf,pcg->pfg", n + SMALL, self.mean, self.mean)  # what the means explain
        within = (self.scatter - about) / n.sum(axis=1)[:, None, None]
        cov = self._shrunk(within)[:, None]  # (parts, 1, features, features)
        if self.own:
            cov = (1 - self.own) * cov + self.own * self._of_classes(mass, n)
        self.root = np.linalg.cholesky(cov)  # (parts, 1 or classes, features, features)
        self.half_log_det = np.log(np.diagonal(self.root, axis1=2, axis2=3)).sum(axis=2)

    def proba(self) -> Array:
        """Class probabilities of the training tasks, (1, tasks, classes)."""
        return softmax(self._joint(), axis=1)[None]

    def penalty(self) -> float:
        """Minus log P(x) of the tasks and the log prior of the covariance, up to a constant."""
        if self.own or self.crossed or self.shrinkage == 1:
            return 0.0
        says = self.weight @ logsumexp(self._joint(), axis=1)
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
            "offset": self.log_share[-1] - self.half_log_det[-1],
        }

    def _joint(self) -> Array:
        """Log share[c] normal(x; mean[c], cov[c]) of the training tasks, (tasks, classes), by the folds' own parts."""
        out = np.empty((len(self.x), self.mean.shape[1]))
        for part, rows in enumerate(self.held):
            offset = self.log_share[part] - self.half_log_det[part]
            out[rows] = log_joint(self.x[rows], self.mean[part], self.root[part], offset)
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


def log_joint(x: Array, mean: Array, root: Array, offset: Array) -> Array:
    """Log of share[c] normal(x; mean[c], cov[c]), (rows, classes), up to a constant.

    Parameters
    ----------
    x, mean : (rows, features) and (classes, features) arrays
    root : (1 or classes, features, features) array
        Cholesky factors of the covariance, or covariances.
    offset : (classes,) array
        Log share less half the log determinant.
    """
    out = np.empty((len(x), len(mean)))
    inverse = np.linalg.inv(root)
    alike = len(root) == 1
    turned = x @ inverse[0].T if alike else x
    for c in range(len(mean)):
        apart = turned - inverse[0] @ mean[c] if alike else (x - mean[c]) @ inverse[c].T  # (rows, features)
        out[:, c] = offset[c] - 0.5 * np.square(apart).sum(axis=1)
    return out


def predict_gaussian(x: Array, numbers: dict[str, Array]) -> Array:
    """Class probabilities (rows, classes), from what a `GaussianClassifier` had learned."""
    return np.asarray(softmax(log_joint(x, **numbers), axis=1))
