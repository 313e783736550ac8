"""Gaussian classes as the classifier of joint EM: linear or quadratic discriminants in closed form, all folds at once.

    x | c  ~  normal(mean[c], cov[c])
    cov    =  (1 - shrinkage) * within + shrinkage * variance * I      within: scatter about the means of the classes
    cov[c] =  (1 - own) * cov + own * (that of class c alone, shrunk in the same way)

    f(x)[c]  proportional to  normal(x; mean[c], cov[c])       class shares are separate: see `pooling`

`own` 0 is a linear discriminant (LDA); above 0 it is a regularised quadratic one (QDA; Friedman 1989). Such a rigid
classifier cannot memorise the errors of single answers, which makes it strong inside EM.

Folds need no separate fits. The sums of x and of x x' over the tasks of each fold, weighted by the soft labels, are
enough, and the sums outside a fold are the total minus its own. A round costs tasks x features x classes for LDA (the
scatter about zero does not depend on the labels), times features for QDA.

For LDA the bound of joint EM is exact. With log P(x) of the tasks and the prior of `cov` (inverse Wishart around
`variance` * I, worth shrinkage / (1 - shrinkage) times the number of tasks) as its penalty, EM maximises the likelihood
of features and answers together. The covariances of QDA, and those of folds, do not maximise it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp, softmax

from crowdwise.learn.base import Array
from crowdwise.truth.kernels.shared import FLOOR

SMALL = 1e-3  # pseudo-tasks at the origin per class, so that an empty class has a mean


class GaussianClassifier:
    """LDA or QDA: one per fold, fitted without that fold, and one fitted to all tasks.

    Parameters
    ----------
    x : (tasks, features) array
        Centred, or nearly so: `shrinkage` pulls towards the variance about zero.
    weight : (tasks,) array or None
    folds : (tasks,) int array or None
        The fold of each task; None fits one classifier to all tasks.
    shrinkage : float
        Share of the isotropic part of the covariance, from 0 to 1.
    own : float
        Share of the class's own covariance, from 0 to 1.
    equal_shares : bool
        Whether log P(x) in the penalty uses equal class shares, instead of those of the soft labels.
    """

    equal_shares: bool
    held_out: list[Array]
    log_share: Array
    mean: Array
    own: float
    root: Array
    shrinkage: float
    weight: Array | Array

    def __init__(
        self,
        x: Array,
        weight: Array | None,
        folds: Array | None,
        *,
        shrinkage: float = 0.1,
        own: float = 0.0,
        equal_shares: bool = False,
    ) -> None:
        self.shrinkage, self.own, self.equal_shares = shrinkage, own, equal_shares
        self.weight = np.ones(len(x)) if weight is None else weight
        self.x = x
        self.variance: float = max(float(np.average(np.square(self.x), axis=0, weights=self.weight).mean()), FLOOR)
        folds = np.zeros(len(x), np.int64) if folds is None else folds
        self.held_out = [np.flatnonzero(folds == k) for k in range(folds.max() + 1)]
        self.cross_fitted: bool = len(self.held_out) > 1
        self.scatter: Array = self._by_part([self._scatter(rows, self.weight[rows]) for rows in self.held_out])

    def fit(self, target: Array) -> None:
        """Fit to soft labels (1, tasks, classes)."""
        mass = target[0] * self.weight[:, None]  # (tasks, classes)
        n = self._by_part([mass[rows].sum(axis=0) for rows in self.held_out])  # (parts, classes)
        sums = self._by_part([mass[rows].T @ self.x[rows] for rows in self.held_out])  # (parts, classes, features)
        self.mean = sums / (n + SMALL)[:, :, None]
        total = np.maximum(n.sum(axis=1), SMALL)  # tasks per part; 0 if one fold has all the weight
        share = np.full(n.shape[1], 1 / n.shape[1]) if self.equal_shares else n[-1] / total[-1]
        self.log_share = np.log(np.maximum(share, FLOOR))
        about = np.einsum("pc,pcf,pcg->pfg", n + SMALL, self.mean, self.mean)  # scatter of the means
        within = (self.scatter - about) / total[:, None, None]
        cov = self._shrunk(within)[:, None]  # (parts, 1, features, features)
        if self.own:
            cov = (1 - self.own) * cov + self.own * self._class_covariances(mass, n)
        self.root = np.linalg.cholesky(cov)  # (parts, 1 or classes, features, features)
        self.half_log_det = np.log(np.diagonal(self.root, axis1=2, axis2=3)).sum(axis=2)

    def proba(self) -> Array:
        """Return the class probabilities of the training tasks, (1, tasks, classes)."""
        return softmax(self._densities(), axis=1)[None]

    def penalty(self) -> float:
        """Return minus log P(x) of the tasks and minus the log prior of the covariance, up to a constant."""
        if self.own or self.cross_fitted or self.shrinkage == 1:
            return 0.0
        log_density = self.weight @ logsumexp(self._densities() + self.log_share, axis=1)
        strength = self.shrinkage / (1 - self.shrinkage) * self.weight.sum()
        inverse = np.linalg.inv(self.root[0, 0])
        return float(
            strength * (self.half_log_det[0, 0] + 0.5 * self.variance * np.square(inverse).sum())
            + 0.5 * SMALL * np.square(self.mean[0] @ inverse.T).sum()
            - log_density
        )

    def predict(self, x: Array) -> Array:
        """Return class probabilities (rows, classes) of new tasks."""
        return predict_gaussian(x, self.parameters())

    def parameters(self) -> dict[str, Array]:
        """Return the parameters fitted to all tasks, which prediction needs."""
        return {
            "mean": self.mean[-1],
            "root": self.root[-1],
            "offset": -self.half_log_det[-1],
        }

    def _densities(self) -> Array:
        """Return log normal(x; mean[c], cov[c]) of the training tasks, (tasks, classes), each by its fold's part."""
        out = np.empty((len(self.x), self.mean.shape[1]))
        for part, rows in enumerate(self.held_out):
            out[rows] = log_densities(self.x[rows], self.mean[part], self.root[part], -self.half_log_det[part])
        return out

    def _class_covariances(self, mass: Array, n: Array) -> Array:
        """Return the shrunk covariance of each class alone, (parts, classes, features, features)."""
        scatter = [np.stack([self._scatter(rows, share) for share in mass[rows].T]) for rows in self.held_out]
        about = np.einsum("pc,pcf,pcg->pcfg", n + SMALL, self.mean, self.mean)
        return self._shrunk((self._by_part(scatter) - about) / (n + SMALL)[:, :, None, None])

    def _shrunk(self, within: Array) -> Array:
        return (1 - self.shrinkage) * within + self.shrinkage * self.variance * np.eye(within.shape[-1])

    def _scatter(self, rows: Array, weight: Array) -> Array:
        x = self.x[rows]
        return (x * weight[:, None]).T @ x

    def _by_part(self, sums: list[Array]) -> Array:
        """Return sums over the tasks outside each fold, and over all tasks (last), from the sums per fold."""
        total = np.sum(sums, axis=0)
        return np.stack([*(total - own for own in sums), total]) if self.cross_fitted else total[None]


def log_densities(x: Array, mean: Array, root: Array, offset: Array) -> Array:
    """Return log normal(x; mean[c], cov[c]), (rows, classes), up to a constant.

    Parameters
    ----------
    x, mean : (rows, features) and (classes, features) arrays
    root : (1 or classes, features, features) array
        Cholesky factor of the common covariance, or one per class.
    offset : (1 or classes,) array
        Minus half the log determinant.
    """
    out = np.empty((len(x), len(mean)))
    if len(root) == 1:  # a common covariance: whiten once for all classes
        x, mean = _whiten(root[0], x.T).T, _whiten(root[0], mean.T).T
    for c in range(len(mean)):
        difference = (x - mean[c]).T  # (features, rows)
        if len(root) > 1:
            difference = _whiten(root[c], difference)
        out[:, c] = offset[c if len(root) > 1 else 0] - 0.5 * np.einsum("fr,fr->r", difference, difference)
    return out


def _whiten(root: Array, columns: Array) -> Array:
    return np.asarray(solve_triangular(root, columns, lower=True, check_finite=False))


def predict_gaussian(x: Array, parameters: dict[str, Array]) -> Array:
    """Return class probabilities (rows, classes), from `GaussianClassifier.parameters`."""
    return np.asarray(softmax(log_densities(x, **parameters), axis=1))
