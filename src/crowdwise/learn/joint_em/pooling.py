"""Weights of several classifiers, and of each answer, estimated from the answers alone.

    f(x_t)[c]  proportional to  share[c] * prod over classifiers e of  f_e(x_t)[c]^weight[e]           weight[e] >= 0
    weight     maximises the sum over tasks of  log sum_c f(x_t)[c] * P(answers to t | c)

A single classifier gets the inverse of its temperature. Of several, those that predict the answers get weight and the
others get 0: a choice of features and classifiers without ground truth. This is honest only if f_e(x_t) comes from
folds that did not see the answers to t. The class shares are not raised to a power: tempered together with a poor
classifier, they would let classes grow that hardly occur.

    belief of t without a   proportional to  f(x_t)[c] * prod over answers b to t but a of P(label[b] | c)^answer_weight
    answer_weight           maximises the sum over answers a of  log sum_c belief[c] * P(label[a] | c)

The model takes workers to err independently given the truth, with known confusion matrices. If they err together (a
task is hard, or looks like another class), or their matrices are too confident, ten answers are worth less than ten.
Beliefs that give each answer a lower weight then predict the next answer better. The weight is near 1 if workers err
independently and features tell little; if features tell nearly everything, it matters little and is poorly determined.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import logsumexp, softmax

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.truth.kernels.shared import FLOOR

MAX_TOTAL_WEIGHT = 3.0  # upper limit of the sum of all classifier weights
WEIGHT_TOL = 0.01  # accuracy of the answer weight
MIN_GAIN = 1e-9  # gain in log-likelihood per answer below which the answer weight stays 1


def pool_weights(
    log_f: Array,
    log_likelihood: Array,
    weight: Array | None = None,
    start: Array | None = None,
    log_share: Array | float = 0.0,
) -> Array:
    """Return the weights (classifiers,) under which the answers are most likely.

    Parameters
    ----------
    log_f : (classifiers, tasks, classes) array
        Log probabilities of each classifier.
    log_likelihood : (tasks, classes) array
        Log P(answers | class), up to a constant per task.
    weight : (tasks,) array, optional
    start : (classifiers,) array, optional
        Initial weights; by default equal weights that sum to one.
    log_share : (classes,) array, optional
        Log class shares, if the classifiers leave them out; -inf excludes a class.

    Examples
    --------
    >>> constant, right = np.log([[0.99, 0.01]] * 4), np.log([[0.9, 0.1]] * 2 + [[0.1, 0.9]] * 2)
    >>> log_likelihood = np.log([[0.8, 0.2]] * 2 + [[0.2, 0.8]] * 2)
    >>> pool_weights(np.stack([constant, right]), log_likelihood).round(2).tolist()
    [0.0, 3.0]
    """
    n = len(log_f)
    weight = np.ones(log_f.shape[1]) if weight is None else weight

    def cost(b: Array) -> tuple[float, Array]:
        s = weighted_log_sum(log_f, b) + log_share  # (tasks, classes)
        with_answers = s + log_likelihood
        log_prior_sum, log_joint_sum = logsumexp(s, axis=1), logsumexp(with_answers, axis=1)
        gap = np.exp(with_answers - log_joint_sum[:, None]) - np.exp(s - log_prior_sum[:, None])
        gap = gap * weight[:, None]
        return -float(weight @ (log_joint_sum - log_prior_sum)), -np.einsum("tc,etc->e", gap, log_f)

    first = np.full(n, 1 / n) if start is None else start
    result = minimize(
        cost, first, jac=True, bounds=[(0, MAX_TOTAL_WEIGHT)] * n, method="L-BFGS-B", options={"maxiter": 50}
    )
    out: Array = result.x * min(1, MAX_TOTAL_WEIGHT / max(result.x.sum(), FLOOR))
    return out


def weighted_log_sum(log_f: Array, weights: Array) -> Array:
    """Return the weighted sum of log probabilities, (tasks, classes), not normalised."""
    return np.tensordot(weights, log_f, axes=1)


def pool(f: Array, weights: Array, share: Array | None = None) -> Array:
    """Return the pooled probabilities (tasks, classes) of classifiers f (classifiers, tasks, classes).

    `share` (classes,) are the class shares, if the classifiers omit them; a class with share 0 gets no probability.

    >>> pool(np.array([[[0.8, 0.2]], [[0.2, 0.8]]]), np.array([1.0, 0.0])).round(2).tolist()
    [[0.8, 0.2]]
    >>> pool(np.array([[[0.8, 0.2]]]), np.array([1.0]), np.array([0.2, 0.8])).round(2).tolist()
    [[0.5, 0.5]]
    """
    if share is None and len(f) == 1 and weights[0] == 1:
        return np.maximum(f[0], FLOOR)
    with np.errstate(divide="ignore"):
        log_share = 0.0 if share is None else np.log(share)
    return np.maximum(softmax(weighted_log_sum(np.log(np.maximum(f, FLOOR)), weights) + log_share, axis=1), FLOOR)


def estimate_answer_weight(
    log_f: Array, answer_log_proba: Array, answers: Answers, weight: Array | None = None
) -> float:
    """Return the weight of each answer, from 0 to 1, that best predicts held-out answers; 1 if no other is better.

    Parameters
    ----------
    log_f : (tasks, classes) array
        Log probabilities without answers.
    answer_log_proba : (answers, classes) array
        Log P(label[a] | worker[a], truth c), preferably from the worker's other answers.
    answers : Answers
    weight : (answers,) array, optional
        Weight of each answer in the objective.
    """
    total = np.stack([np.bincount(answers.task, column, minlength=len(log_f)) for column in answer_log_proba.T], axis=1)
    others = total[answers.task] - answer_log_proba  # (answers, classes)
    f = log_f[answers.task]
    weight = np.ones(len(answer_log_proba)) if weight is None else weight

    def cost(answer_weight: float) -> float:
        belief = f + answer_weight * others
        return -float(weight @ (logsumexp(belief + answer_log_proba, axis=1) - logsumexp(belief, axis=1)))

    best = minimize_scalar(cost, bounds=(0, 1), method="bounded", options={"xatol": WEIGHT_TOL})
    return float(best.x) if cost(1.0) - best.fun > MIN_GAIN * weight.sum() else 1.0
