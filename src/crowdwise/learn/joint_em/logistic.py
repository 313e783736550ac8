"""Multinomial logistic regression on soft labels, by Newton's method or L-BFGS: functions on arrays.

    f(x)[c]    = softmax(x W)[c]                            x has a last entry 1
    objective  = sum over t of weight[t] * sum over c of target[t, c] * log f(x_t)[c]  -  ridge / 2 * |W without bias|^2

scikit-learn's own takes only hard labels. Newton's method needs the (features x classes)^2 Hessian, so it suits few
features. Both solvers take initial coefficients, so that a round of EM continues from the last one, and neither ends
with a lower objective than it started from.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy.linalg import solve
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from crowdwise.learn.base import Array

Solver = Literal["auto", "newton", "lbfgs"]
NEWTON_SIZE = 300  # coefficients up to which "auto" uses Newton's method
BIAS_RIDGE = 1e-8  # the biases can shift together: a small penalty keeps the Hessian invertible


def fit_logistic(
    x: Array,
    target: Array,
    *,
    weight: Array | None = None,
    ridge: float = 1.0,
    coef: Array | None = None,
    solver: Solver = "auto",
    max_iter: int = 100,
    tol: float = 1e-8,
) -> tuple[Array, float]:
    """Return coefficients (features + 1, classes), bias last, and their penalty.

    >>> x = np.array([[-1.0], [1.0]])
    >>> coef, _ = fit_logistic(x, np.eye(2), ridge=0.1)
    >>> predict_logistic(x, coef).argmax(axis=1).tolist()
    [0, 1]
    """
    n_classes = target.shape[1]
    if weight is not None:
        target = target * weight[:, None]
    if coef is None:
        coef = np.zeros((x.shape[1] + 1, n_classes))
    if solver == "auto":
        solver = "newton" if coef.size <= NEWTON_SIZE else "lbfgs"
    if solver == "newton":
        coef = _newton(x, target, ridge, coef, max_iter, tol)
    else:
        result = minimize(
            lambda flat: _value_and_slope(x, target, ridge, flat.reshape(coef.shape)),
            coef.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": max_iter, "gtol": tol * len(x), "ftol": 0.0},
        )  # fmt: skip
        coef = result.x.reshape(coef.shape)
    return coef, penalty(coef, ridge)


def predict_logistic(x: Array, coef: Array) -> Array:
    """Return class probabilities (rows, classes)."""
    return softmax(x @ coef[:-1] + coef[-1], axis=1)


def penalty(coef: Array, ridge: float) -> float:
    """Return minus the log prior of the coefficients, up to a constant."""
    return 0.5 * (ridge * float(np.square(coef[:-1]).sum()) + BIAS_RIDGE * float(np.square(coef[-1]).sum()))


def _value_and_slope(x: Array, target: Array, ridge: float, coef: Array) -> tuple[float, Array]:
    """Return minus the objective, and its gradient."""
    log_f = log_softmax(x @ coef[:-1] + coef[-1], axis=1)
    value = -float((target * log_f).sum()) + penalty(coef, ridge)
    error = np.exp(log_f) * target.sum(axis=1, keepdims=True) - target  # (rows, classes)
    slope = np.vstack([x.T @ error + ridge * coef[:-1], error.sum(axis=0) + BIAS_RIDGE * coef[-1]])
    return value, slope.ravel()


def _newton(x: Array, target: Array, ridge: float, coef: Array, max_iter: int, tol: float) -> Array:
    ones = np.column_stack([x, np.ones(len(x))])  # (rows, features + 1)
    size, n_classes = coef.shape
    total = target.sum(axis=1)
    value, slope = _value_and_slope(x, target, ridge, coef)
    for _ in range(max_iter):
        if np.abs(slope).max() <= tol * max(len(x), 1):
            break
        f = predict_logistic(x, coef)
        hessian = np.empty((size, n_classes, size, n_classes))
        for c in range(n_classes):
            for k in range(c, n_classes):
                curve = total * f[:, c] * ((c == k) - f[:, k])
                hessian[:, c, :, k] = hessian[:, k, :, c] = (ones * curve[:, None]).T @ ones
        flat = hessian.reshape(coef.size, coef.size)
        ridges = np.repeat(np.append(np.full(size - 1, max(ridge, BIAS_RIDGE)), BIAS_RIDGE), n_classes)
        flat[np.diag_indices(coef.size)] += ridges
        step = solve(flat, slope, assume_a="sym").reshape(coef.shape)
        length = 1.0
        while length > 1e-10:  # halve until it improves: far from the optimum a full step may overshoot
            trial = coef - length * step
            new_value, new_slope = _value_and_slope(x, target, ridge, trial)
            if new_value <= value:
                break
            length /= 2
        else:
            break
        coef, value, slope = trial, new_value, new_slope
    return coef
