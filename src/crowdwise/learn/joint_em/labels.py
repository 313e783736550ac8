"""The labels of `JointEM`: after the rounds, features and answers are weighted anew.

    T[t, c]    proportional to  share[c] * ((f(x_t)[c] / share[c])^v * A[t, c]^w)^scale
    A[t, c]    = prod over answers a to t of confusion[worker[a], c, label[a]]

    v, w       maximise the sum over tasks and halves of  log sum_c T(one half)[t, c] * A(other half)[t, c]
    scale      maximises the sum over answers a of        log sum_c T(all but a)[t, c] * P(label[a] | worker[a], c)

    feature_weight = scale * v         answer_weight = scale * w

In the rounds an answer gets the weight that predicts one more answer best, and features the weight that predicts all
answers to a task together. If errors depend on the task, ten answers then weigh little beside features that err on the
same tasks, and are overruled by them. So both weights come from one objective, and from halves: many answers say more
clearly than one what the label is. Answers are divided at random, `SPLITS` times.

The labels depend on v / w, confidence on the scale. Halves share the errors of their task, which makes them too sure;
single answers show by how much. The scale is at most one.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.pooling import pool_weights, weighted_log_sum

SPLITS = 3
SCALE_TOL = 0.01
SAMPLE = 8192  # with more tasks, a sample of this size is used


def is_higher(evidence: Array, other: Array, weight: Array | None, errors: float) -> bool:
    """Whether the mean of log-likelihoods (tasks,) exceeds that of others by so many standard errors.

    Tasks of weight 0 are left out.

    >>> is_higher(np.array([-1.0, -1.1, -0.9]), np.array([-2.0, -2.0, -2.0]), None, errors=4)
    True
    """
    gain = evidence - other
    gain = gain if weight is None else gain[weight > 0]
    return bool(gain.mean() > errors * gain.std() / np.sqrt(len(gain)))


def weigh_labels(
    log_f: Array,
    answer_log_proba: Array,
    answers: Answers,
    *,
    share: Array,
    start: tuple[float, float],
    weight: Array | None = None,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the weights of the features and of each answer, (feature_weight, answer_weight).

    Parameters
    ----------
    log_f : (tasks, classes) array
        Log of f(x_t) / share, the classifier without class shares.
    answer_log_proba : (answers, classes) array
        Log P(label[a] | worker[a], truth c), from the worker's other answers.
    answers : Answers
    share : (classes,) array
        Class shares; 0 excludes a class.
    start : (float, float)
        Weights to start from. They stay if no task has two answers.
    weight : (tasks,) array, optional
        Weight of each task in the objective.
    seed : int
        Seed of the halves, and of the sample.
    """
    rng = np.random.default_rng(seed)
    count = np.diff(answers.task_starts)
    tasks = np.flatnonzero(count > 1 if weight is None else (count > 1) & (weight > 0))
    if not len(tasks):
        return start
    if len(tasks) > SAMPLE:
        tasks = np.sort(rng.choice(tasks, SAMPLE, replace=False))
    first, second = [], []
    for _ in range(SPLITS):
        half = draw_half(answers, rng)
        sums = [sum_by_task(answer_log_proba * rows[:, None], answers)[tasks] for rows in (half, ~half)]
        first += sums
        second += sums[::-1]
    features = np.tile(log_f[tasks], (len(first), 1))
    repeated = None if weight is None else np.tile(weight[tasks], len(first))
    with np.errstate(divide="ignore"):
        log_share = np.log(share)
    v, w = pool_weights(
        np.stack([features, np.concatenate(first)]), np.concatenate(second), repeated, np.array(start), log_share
    )
    w = min(w, 1.0)
    rows = np.flatnonzero(np.isin(answers.task, tasks))
    task, log_proba = answers.task[rows], answer_log_proba[rows]
    evidence = v * log_f[task] + w * (sum_by_task(answer_log_proba, answers)[task] - log_proba)  # (answers, classes)
    by_answer = None if weight is None else weight[task]

    def cost(scale: float) -> float:
        belief = log_share + scale * evidence
        return -float(np.average(logsumexp(belief + log_proba, axis=1) - logsumexp(belief, axis=1), weights=by_answer))

    scale = float(minimize_scalar(cost, bounds=(0, 1), method="bounded", options={"xatol": SCALE_TOL}).x)
    scale = 1.0 if cost(1.0) <= cost(scale) else scale
    return scale * float(v), scale * float(w)


def label_posterior(log_f: Array, log_answers: Array, weights: tuple[float, float], share: Array) -> Array:
    """Return the class probabilities (tasks, classes) under these weights of features and answers.

    >>> label_posterior(np.log([[0.8, 0.2]]), np.log([[0.2, 0.8]]), (0.0, 1.0), np.array([0.5, 0.5])).round(2).tolist()
    [[0.2, 0.8]]
    """
    with np.errstate(divide="ignore"):
        log_share = np.log(share)
    return np.asarray(softmax(weighted_log_sum(np.stack([log_f, log_answers]), np.array(weights)) + log_share, axis=1))


def sum_by_task(rows: Array, answers: Answers) -> Array:
    """Return the sums over the answers to each task, (tasks, classes), of rows (answers, classes)."""
    return np.stack([np.bincount(answers.task, column, minlength=answers.n_tasks) for column in rows.T], axis=1)


def draw_half(answers: Answers, rng: np.random.Generator) -> Array:
    """Return half of the answers to each task, (answers,) bool; of an odd number, one more or one less.

    >>> answers = Answers.from_codes([0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 1], [0] * 6, tasks=2, workers=4, classes=1)
    >>> half = draw_half(answers, np.random.default_rng(0))
    >>> np.bincount(answers.task[half]).tolist()
    [2, 1]
    """
    order = np.lexsort((rng.random(answers.n_answers), answers.task))  # at random within each task
    place = np.empty(answers.n_answers, np.int64)
    place[order] = np.arange(answers.n_answers)
    extra = rng.integers(0, 2, answers.n_tasks)  # which half has one more
    return np.asarray((place - answers.task_starts[answers.task] + extra[answers.task]) % 2 == 0)
