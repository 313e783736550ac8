"""How far to trust each of several classifiers, judged by the answers alone.

    f(x_t)[c]  proportional to  prod over classifiers e of  f_e(x_t)[c]^weight[e]           weight[e] >= 0
    weight     maximises the sum over tasks of  log sum_c f(x_t)[c] * P(answers to t | c)

One classifier gets one over its temperature; of several, those that say what answers will be are heard, and the rest
gets weight 0: a choice of features and classifiers without ground truth. Honest only where f_e(x_t) comes from folds
that never saw the answers to t.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax

from crowdwise.learn.base import Array
from crowdwise.truth.kernels import FLOOR

SHARPEST = 3.0  # the most that all weights together may be: nobody is taken for three times surer than he says


def pool_weights(log_f: Array, log_likelihood: Array, weight: Array | None = None, start: Array | None = None) -> Array:
    """Weights (classifiers,) under which the answers are most likely.

    Parameters
    ----------
    log_f : (classifiers, tasks, classes) array
        What each classifier believes, as logarithms.
    log_likelihood : (tasks, classes) array
        Log P(answers | class), up to a constant for each task.
    weight : (tasks,) array, optional
    start : (classifiers,) array, optional
        Where to look first; equal weights that sum to one unless given.

    Examples
    --------
    >>> sure, right = np.log([[0.99, 0.01]] * 4), np.log([[0.9, 0.1]] * 2 + [[0.1, 0.9]] * 2)
    >>> says = np.log([[0.8, 0.2]] * 2 + [[0.2, 0.8]] * 2)
    >>> pool_weights(np.stack([sure, right]), says).round(2).tolist()
    [0.0, 3.0]
    """
    n = len(log_f)
    weight = np.ones(log_f.shape[1]) if weight is None else weight

    def cost(b: Array) -> tuple[float, Array]:
        s = pooled(log_f, b)  # (tasks, classes)
        both = s + log_likelihood
        alone, joint = logsumexp(s, axis=1), logsumexp(both, axis=1)
        gap = (np.exp(both - joint[:, None]) - np.exp(s - alone[:, None])) * weight[:, None]
        return -float(weight @ (joint - alone)), -np.einsum("tc,etc->e", gap, log_f)

    first = np.full(n, 1 / n) if start is None else start
    found = minimize(cost, first, jac=True, bounds=[(0, SHARPEST)] * n, method="L-BFGS-B", options={"maxiter": 50})
    out: Array = found.x * min(1, SHARPEST / max(found.x.sum(), FLOOR))
    return out


def pooled(log_f: Array, weights: Array) -> Array:
    """Weighted sum of log beliefs, (tasks, classes), not normalised."""
    return np.tensordot(weights, log_f, axes=1)


def pool(f: Array, weights: Array, named: Array | None = None) -> Array:
    """What the classifiers believe together, (tasks, classes), from f (classifiers, tasks, classes).

    Of classes that are not among those `named`, (classes,) bool, nothing is believed.

    >>> pool(np.array([[[0.8, 0.2]], [[0.2, 0.8]]]), np.array([1.0, 0.0])).round(2).tolist()
    [[0.8, 0.2]]
    """
    as_it_is = len(f) == 1 and weights[0] == 1
    out = f[0] if as_it_is else softmax(pooled(np.log(np.maximum(f, FLOOR)), weights), axis=1)
    if named is not None and not named.all():
        out = np.where(named, out, 0.0)
        out /= out.sum(axis=1, keepdims=True)
    return np.maximum(out, FLOOR)
