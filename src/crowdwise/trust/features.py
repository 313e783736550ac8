"""The calibrator's inputs: what the answers show about each label, and about the crowd as a whole.

For each task t with label y (the pool's), n answers, of which n[c] name class c, and K classes:

    confidence        logit of the pool's probability of y
    vote_share        logit of (n[y] + 1/K) / (n + 1)
    answers           log n
    methods_agree     share of the pooled methods that give y
    lowest_method     logit of the lowest probability that a pooled method gives to y
    entropy           entropy of the pool's probabilities / log K
    task_agreement    sum_c n[c] (n[c] - 1) / (n (n - 1)): agreeing pairs of answers; if n = 1, crowd_agreement

For the crowd:

    crowd_agreement   share of agreeing pairs over all tasks; 1/K without a pair
    alpha             Krippendorff's alpha: the same, corrected for agreement by chance; 0 without a pair
    classes           log K
    mean_confidence   mean of the pool's probability of y
    mean_agree        mean of methods_agree
    mean_answers      log of answers per task
    dependence        how far workers agree beyond what their accuracies explain (below)
    drift             mean distance of the methods' class shares from the votes' (`Pool.drift_`)
    overruled         share of tasks whose label is not among those with most votes

Dependence is a correlation of residuals within tasks, given labels z (of `wawa`, which takes one pass). With r[a] =
1[label[a] = z] - accuracy[w, z], the accuracy of worker w on the tasks labelled z, shrunk to that of all workers on z,
and s[a]^2 its variance:

    residual_correlation = sum_t ((sum_a r[a])^2 - sum_a r[a]^2)  /  sum_t ((sum_a s[a])^2 - sum_a s[a]^2)

Labels come from the same answers, which makes it too low where answers are few. So the same statistic is computed on
`DRAWS` crowds drawn with the same tasks, workers and accuracies but independent errors, and `dependence` is the
difference: 0 in the mean if workers err independently. Tasks that differ in difficulty raise it as shared mistakes do.
Mistakes that all workers share are not in it: the label is wrong with them.

All inputs are computed from counts per task and per (worker, class): time and memory grow with answers and tasks.
Renaming tasks, workers or classes changes none. Logits are clipped to +-7 (probabilities to .0009 to .9991).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.special import entr

from crowdwise.answers import Answers
from crowdwise.evaluate.agreement import alpha_from_counts, count_pairs
from crowdwise.trust.pool import Pool
from crowdwise.truth.base import Array
from crowdwise.truth.methods.wawa import Wawa

TASK_INPUTS = (
    "confidence", "vote_share", "answers", "methods_agree", "lowest_method", "entropy", "task_agreement",
)  # fmt: skip
CROWD_INPUTS = (
    "crowd_agreement", "alpha", "classes", "mean_confidence", "mean_agree", "mean_answers", "dependence", "drift",
    "overruled",
)  # fmt: skip
MAX_LOGIT = 7.0
DRAWS = 3  # independent crowds drawn for `dependence`
SHRINK = 5.0  # answers' worth of the crowd's accuracy in each worker's


class Inputs(NamedTuple):
    """The inputs of one crowd."""

    task: Array  # (tasks, task inputs)
    crowd: Array  # (crowd inputs,)
    answered: Array  # (tasks,) bool: the inputs of other tasks mean nothing

    def table(self) -> Array:
        """Return one row per task, (tasks, task inputs + crowd inputs)."""
        return np.hstack([self.task, np.broadcast_to(self.crowd, (len(self.task), len(self.crowd)))])


def logit(probability: Array) -> Array:
    """Return log odds, clipped to +-`MAX_LOGIT`.

    >>> logit(np.array([0.0, 0.5, 1.0])).tolist()
    [-7.0, 0.0, 7.0]
    """
    with np.errstate(divide="ignore"):
        return np.clip(np.log(probability) - np.log1p(-np.asarray(probability)), -MAX_LOGIT, MAX_LOGIT)


def inputs(pool: Pool) -> Inputs:
    """Compute the inputs of a fitted pool.

    Parameters
    ----------
    pool : fitted Pool

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(50, n_workers=8, n_classes=2, answers_per_task=4, seed=1)
    >>> inputs(Pool().fit(answers)).table().shape
    (50, 16)
    """
    answers, label = pool._fitted, pool.codes_
    n_tasks, n_classes = answers.n_tasks, answers.n_classes
    count = np.diff(answers.task_starts)  # (tasks,)
    answered = count > 0
    n = np.maximum(count, 1)
    votes = np.bincount(answers.task * np.int64(n_classes) + answers.label, minlength=n_tasks * n_classes)
    votes = votes.reshape(n_tasks, n_classes)
    named = votes[np.arange(n_tasks), label]  # (tasks,) answers that name the label
    pairs = n * (n - 1)
    agreeing = (votes * (votes - 1)).sum(axis=1)
    crowd_agreement = agreeing.sum() / pairs.sum() if pairs.any() else 1 / n_classes  # no pair: no evidence
    alpha = alpha_from_counts(count_pairs(answers))
    confidence = pool.proba_[np.arange(n_tasks), label]
    agree = pool.method_agrees_.mean(axis=0)
    entropy = entr(pool.proba_).sum(axis=1) / np.log(max(n_classes, 2))
    task = np.column_stack(
        [
            logit(confidence),
            logit((named + 1 / n_classes) / (count + 1)),
            np.log(n),
            agree,
            logit(pool.method_proba_.min(axis=0)),
            entropy,
            np.where(pairs > 0, agreeing / np.maximum(pairs, 1), crowd_agreement),
        ]
    )
    crowd = np.array(
        [
            crowd_agreement,
            0.0 if alpha is None else alpha,
            np.log(n_classes),
            confidence[answered].mean(),
            agree[answered].mean(),
            np.log(count[answered].mean()),
            dependence(answers, label),
            pool.drift_.mean(),
            (named < votes.max(axis=1))[answered].mean(),
        ]
    )
    return Inputs(task, crowd, answered)


def dependence(answers: Answers, label: Array, seed: int = 0) -> float:
    """Return how much more workers agree than independent ones with the same accuracies on tasks of these labels.

    Parameters
    ----------
    answers : Answers
    label : (tasks,) int array
        The labels as codes, from which the accuracies and the errors are estimated.
    seed : int
        Seed of the independent crowds.

    Examples
    --------
    >>> import crowdwise as cw
    >>> alone = cw.simulate.simulate(2000, n_workers=20, n_classes=2, answers_per_task=5, seed=1)
    >>> together = cw.simulate.simulate(2000, n_workers=20, n_classes=2, answers_per_task=5, together=0.6, seed=1)
    >>> dependence(alone, alone.truth) < 0.03 < 0.06 < dependence(together, together.truth)
    True
    """
    if not (np.diff(answers.task_starts) > 1).any():
        return 0.0
    rng = np.random.default_rng(seed)
    k = answers.n_classes
    truth = label[answers.task]  # (answers,)
    accuracy = _accuracies(answers, truth)
    errors = np.bincount(truth * np.int64(k) + answers.label, minlength=k * k).reshape(k, k) + 1 / k
    np.fill_diagonal(errors, 0.0)
    cumulative = errors.cumsum(axis=1)
    cumulative /= np.maximum(cumulative[:, -1:], 1e-300)  # (classes, classes): which wrong class
    expected = 0.0
    for _ in range(DRAWS):
        wrong = (rng.random(answers.n_answers)[:, None] > cumulative[truth]).sum(axis=1)
        drawn = np.where(rng.random(answers.n_answers) < accuracy, truth, np.minimum(wrong, k - 1))
        independent = replace(answers, label=drawn.astype(np.int32), truth=None)
        expected += residual_correlation(independent, Wawa().fit(independent).codes_) / DRAWS
    return residual_correlation(answers, Wawa().fit(answers).codes_) - expected


def residual_correlation(answers: Answers, label: Array) -> float:
    """Return the correlation of residuals within tasks, given labels as codes (tasks,); 0 without pairs."""
    truth = label[answers.task]  # (answers,)
    accuracy = _accuracies(answers, truth)
    residual, variance = (answers.label == truth) - accuracy, accuracy * (1 - accuracy)
    excess = np.bincount(answers.task, residual) ** 2 - np.bincount(answers.task, residual**2)  # (tasks,)
    scale = np.bincount(answers.task, np.sqrt(variance)) ** 2 - np.bincount(answers.task, variance)
    return float(excess.sum() / scale.sum()) if scale.sum() > 0 else 0.0


def _accuracies(answers: Answers, truth: Array) -> Array:
    """Return, for each answer, its worker's accuracy on tasks of its `truth` (answers,), shrunk to the crowd's."""
    k = answers.n_classes
    right = (answers.label == truth).astype(float)
    crowd = (np.bincount(truth, right, minlength=k) + 1) / (np.bincount(truth, minlength=k) + 2)  # (classes,)
    cell, where = np.unique(answers.worker * np.int64(k) + truth, return_inverse=True)  # (worker, class) pairs
    size = np.bincount(where, minlength=len(cell))
    accuracy = (np.bincount(where, right, minlength=len(cell)) + SHRINK * crowd[cell % k]) / (size + SHRINK)
    return accuracy[where]
