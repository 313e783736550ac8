"""How far to trust each of several classifiers, and each answer, judged by the answers alone.

    f(x_t)[c]  proportional to  share[c] * prod over classifiers e of  f_e(x_t)[c]^weight[e]           weight[e] >= 0
    weight     maximises the sum over tasks of  log sum_c f(x_t)[c] * P(answers to t | c)

One classifier gets one over its temperature; of several, those that say what answers will be are heard, and the rest
gets weight 0: a choice of features and classifiers without ground truth. Honest only where f_e(x_t) comes from folds
that never saw the answers to t. The shares of the classes stand apart: a classifier that is to be doubted says nothing
of them, and tempered with it they would let classes grow that hardly occur.

    belief of t without a   proportional to  f(x_t)[c] * prod over answers b to t but a of P(label[b] | c)^count
    count                   maximises the sum over answers a of  log sum_c belief[c] * P(label[a] | c)

Given the truth, workers are taken to err independently and to be known; where they err together (a task is hard, or
looks like another class), or are taken for better than they are, ten answers are not worth ten. Then beliefs that take
them for less foretell the next answer better. Where workers do err independently and features say little, the count is
near 1; where features say nearly all, it matters little and may be anything.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp, softmax

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.truth.kernels.shared import FLOOR

SHARPEST = 3.0  # the most that all weights together may be: nobody is taken for three times surer than he says
EXACT = 0.01  # of an answer's count
LEAST = 1e-9  # gain in log-likelihood an answer for which answers are doubted


def pool_weights(
    log_f: Array,
    log_likelihood: Array,
    weight: Array | None = None,
    start: Array | None = None,
    log_share: Array | float = 0.0,
) -> Array:
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
    log_share : (classes,) array, optional
        Logarithms of the shares of the classes, where classifiers do not know them; -inf cannot be.

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
        s = pooled(log_f, b) + log_share  # (tasks, classes)
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


def pool(f: Array, weights: Array, share: Array | None = None) -> Array:
    """What the classifiers believe together, (tasks, classes), from f (classifiers, tasks, classes).

    With the `share` of each class, (classes,), where classifiers do not know it; of a class that has none, nothing is
    believed.

    >>> pool(np.array([[[0.8, 0.2]], [[0.2, 0.8]]]), np.array([1.0, 0.0])).round(2).tolist()
    [[0.8, 0.2]]
    >>> pool(np.array([[[0.8, 0.2]]]), np.array([1.0]), np.array([0.2, 0.8])).round(2).tolist()
    [[0.5, 0.5]]
    """
    if share is None and len(f) == 1 and weights[0] == 1:
        return np.maximum(f[0], FLOOR)
    with np.errstate(divide="ignore"):
        log_share = 0.0 if share is None else np.log(share)
    return np.maximum(softmax(pooled(np.log(np.maximum(f, FLOOR)), weights) + log_share, axis=1), FLOOR)


def answer_count(log_f: Array, each: Array, answers: Answers, weight: Array | None = None) -> float:
    """For how much of an answer each one is to be taken, from 0 to 1; 1 where nothing speaks for less.

    Parameters
    ----------
    log_f : (tasks, classes) array
        What is believed without answers, as logarithms.
    each : (answers, classes) array
        Log P(label[a] | worker[a], truth c), better from the worker's other answers.
    answers : Answers
    weight : (answers,) array, optional
        How much each answer counts in the sum.
    """
    total = np.stack([np.bincount(answers.task, said, minlength=len(log_f)) for said in each.T], axis=1)
    others = total[answers.task] - each  # (answers, classes)
    f = log_f[answers.task]
    weight = np.ones(len(each)) if weight is None else weight

    def cost(count: float) -> float:
        belief = f + count * others
        return -float(weight @ (logsumexp(belief + each, axis=1) - logsumexp(belief, axis=1)))

    found = minimize_scalar(cost, bounds=(0, 1), method="bounded", options={"xatol": EXACT})
    return float(found.x) if cost(1.0) - found.fun > LEAST * weight.sum() else 1.0
