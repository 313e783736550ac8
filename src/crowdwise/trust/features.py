"""The calibrator's inputs: what the answers show about each label, and about the crowd as a whole.

For each task t with label y, the pool's or that of another method:

    method_log_odds   mean over the pooled methods of the logit of their probability of y; if workers form families, the
                      lower of this and the same by a pool to which each family's answers count as its effective votes

For the crowd, with K classes:

    dependence        how far workers agree beyond what independent workers of their accuracies would (below)
    agreement         share of agreeing pairs of answers over all tasks; 1/K without a pair
    classes           log K
    answers           log of answers per answered task
    methods_agree     share of (method, task) pairs in which the method gives the pool's label

The calibrator scores labels by `method_log_odds` and `dependence`. All crowd inputs together say how far this crowd is
from others.

Dependence is a correlation of residuals within tasks, given labels z (of `wawa`, which takes one pass). With r[a] =
1[label[a] = z] - accuracy[w, z], the accuracy of worker w on the tasks labelled z, shrunk to that of all workers on z,
and s[a]^2 its variance:

    residual_correlation = sum_t ((sum_a r[a])^2 - sum_a r[a]^2)  /  sum_t ((sum_a s[a])^2 - sum_a s[a]^2)

Labels come from the same answers, which makes it too low where answers are few. So the same statistic is computed on
`DRAWS` crowds drawn with the same tasks, workers and accuracies but independent errors, and `dependence` is the
difference: 0 in the mean if workers err independently. Tasks that differ in difficulty raise it as shared mistakes do.
Mistakes that all workers share are not in it: the label is wrong with them.

Time and memory grow with answers and tasks. Renaming tasks, workers or classes changes no input except through the
order of random draws. Logits are clipped to +-7 (probabilities to .0009 to .9991).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.evaluate.agreement import pairwise_agreement
from crowdwise.truth.base import Array
from crowdwise.truth.methods.pool import Pool
from crowdwise.truth.methods.wawa import Wawa

CROWD_INPUTS = ("dependence", "agreement", "classes", "answers", "methods_agree")
DRAWS = 3  # independent crowds drawn for `dependence`
SHRINK = 5.0  # answers' worth of the crowd's accuracy in each worker's


class Inputs(NamedTuple):
    """The inputs of one crowd."""

    log_odds: Array  # (tasks, classes)
    method_log_odds: Array  # (tasks,), those of the labels
    crowd: Array  # (crowd inputs,)
    answered: Array  # (tasks,) bool: the inputs of other tasks mean nothing

    def for_labels(self, codes: Array) -> Inputs:
        """Return the inputs for other labels (tasks,) of the same tasks, those of another method."""
        return self._replace(method_log_odds=self.log_odds[np.arange(len(codes)), codes])

    @property
    def dependence(self) -> float:
        """The crowd's dependence."""
        return float(self.crowd[CROWD_INPUTS.index("dependence")])


def inputs(pool: Pool, cautious: Pool | None = None) -> Inputs:
    """Compute the inputs for the labels of a fitted pool.

    Parameters
    ----------
    pool : fitted Pool
    cautious : fitted Pool, optional
        A pool of the same tasks, in which families count as their effective votes.

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(50, n_workers=8, n_classes=2, answers_per_task=4, seed=1)
    >>> inputs(Pool().fit(answers)).method_log_odds.shape
    (50,)
    """
    answers = pool._fitted
    count = np.diff(answers.task_starts)  # (tasks,)
    answered = count > 0
    if pool.left_out_.any():  # their agreement with each other says nothing about the others' mistakes
        answers = answers.take(np.flatnonzero(~pool.left_out_[answers.worker]))
        count = np.diff(answers.task_starts)
    agreement = pairwise_agreement(answers)
    crowd = np.array(
        [
            dependence(answers, pool.codes_),
            1 / answers.n_classes if agreement is None else agreement,
            np.log(answers.n_classes),
            np.log(count[count > 0].mean()),
            pool.method_agrees_[:, answered].mean(),
        ]
    )
    log_odds = pool.log_odds_ if cautious is None else np.minimum(pool.log_odds_, cautious.log_odds_)
    return Inputs(log_odds, log_odds[np.arange(len(log_odds)), pool.codes_], crowd, answered)


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
    >>> dependence(alone, alone.truth) < 0.02 < 0.04 < dependence(together, together.truth)
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
