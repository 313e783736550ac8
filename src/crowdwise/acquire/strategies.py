"""What each strategy looks at.

    information      gain of the pair (`information.gain`), in bits               chooses task and worker
    uncertainty      entropy of the belief, in bits                               these choose tasks; the worker
    margin           1 - (most probable class - runner-up)                        is drawn at random among those
    least-confident  1 - probability of the most probable class                   who can be asked
    activelab        1 - ActiveLab's score of the task
    random           a task at random
    interval         least-confident; the worker with the highest upper bound of accuracy

ActiveLab (Goh and Mueller, "ActiveLab: Active learning with re-labeling by multiple annotators", 2023): CROWDLAB's
quality of the consensus, pulled towards ignorance by the weight of one more answer. With the names of
`learn.methods.crowdlab`

    score[t] = (W[t] quality[t] + v / classes) / (W[t] + v)
    W[t]     = weight_f + sum over the answers a to t of weight[worker[a]]        v = mean over workers of weight[w]

Where no task has two answers all weights are 1 and quality is the classifier's probability of the answer. The
classifier's probabilities are the learner's on X; a truth model has no classifier, and the shares of the classes stand
in; a fitted CrowdLab has all of it. cleanlab rescales them by a temperature first; that is left out.

Interval (Donmez, Carbonell and Schneider, "Efficiently learning the accuracy of labeling sources for selective
sampling", KDD 2009; IntervalEstimationThreshold in scikit-activeml): a worker's answers are right where they are the
majority's; one right and one wrong answer are added; the bound is mean + t * deviation / sqrt(n), with Student's t at
95 %. There, all workers near the best bound answer the task; here, the best `per_task` of them.

Of several answers to a task, all but `information` count the k-th for score / k.

Rare classes (`balance=True`): the score of a task is multiplied by

    weight[t] = sum over c of belief[t, c] / (classes * share[c])                 share[c] = mean over tasks of belief

which is 1 on average, and 1 everywhere when classes are even.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr
from scipy.stats import t as student

from crowdwise._core.validation import is_number, require
from crowdwise.acquire.beliefs import Beliefs
from crowdwise.acquire.information import BITS, TINY, capacity, entropy, gain, heard
from crowdwise.ambiguity.ranking import most_ambiguous
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array
from crowdwise.truth.base import vote_shares

STRATEGIES = ("information", "uncertainty", "margin", "least-confident", "activelab", "interval", "random")


class InformationRule:
    """Pairs by what their answer is expected to tell, in bits times the weight of the task."""

    chooses_workers = True

    def __init__(self, beliefs: Beliefs, weight: Array) -> None:
        self.beliefs, self.weight = beliefs, BITS * weight
        self.bound = self.weight * entropy(beliefs.belief)  # (tasks,): no pair of a task has a higher score
        self.promise = capacity(beliefs.channels)  # (workers,): who is tried first
        self.reach = (
            np.full(len(self.promise), np.inf) if beliefs.bends else self.weight.max() * self.promise
        )  # at most
        self.noise = entropy(beliefs.channels)  # (workers, classes)
        self.heard: dict[int, Array] = {}

    def liking(self, task: Array, worker: Array) -> Array:
        """What decides which worker of a task: here the scores of the pairs."""
        out = np.empty(len(task))
        for part in self.beliefs.parts(len(task)):
            channel = self.beliefs.channel(task[part], worker[part])
            out[part] = gain(self.beliefs.belief[task[part]][:, None], channel)
        return self.weight[task] * out

    def grid(self, tasks: Array, workers: Array) -> Array:
        """The same for all pairs of some tasks and workers, (tasks, workers)."""
        if self.beliefs.bends:
            pairs = np.repeat(tasks, len(workers)), np.tile(workers, len(tasks))
            return self.liking(*pairs).reshape(len(tasks), len(workers))
        p, channels = self.beliefs.belief[tasks], self.beliefs.channels[workers]
        told = -p @ self.noise[workers].T  # (tasks, workers)
        for label in range(channels.shape[2]):
            told += entr(p @ channels[:, :, label].T)
        return self.weight[tasks, None] * np.maximum(told, 0.0)

    def score(self, task: Array, liking: Array) -> Array:
        """Scores of the pairs of these tasks with their best workers."""
        return liking

    def after(self, task: int, workers: Array) -> tuple[int, float]:
        """The best worker, by position, for one more answer to a task, after those taken; and the pair's score."""
        if task not in self.heard:
            told = self.liking(np.full(len(workers), task), workers)
        else:
            q = self.heard[task]  # (1, outcomes, classes)
            told = self.weight[task] * gain(q, self.beliefs.channel(np.full(len(workers), task), workers))
        return int(told.argmax()), float(told.max())

    def take(self, task: int, worker: int) -> None:
        """Remember that this answer is bought."""
        q = self.heard.get(task, self.beliefs.belief[[task]][:, None])
        self.heard[task] = heard(q, self.beliefs.channel(np.array([task]), np.array([worker])))


class TaskRule:
    """Tasks by their need, the k-th answer bought for one by need / k; workers by a liking, or at random."""

    chooses_workers = False

    def __init__(self, need: Array, rng: np.random.Generator, liking: Array | None, n_workers: int) -> None:
        self.bound, self.rng, self.liked = need, rng, liking
        self.promise = rng.random(n_workers) if liking is None else liking
        self.reach = np.full(n_workers, np.inf)
        self.taken: dict[int, int] = {}

    def liking(self, task: Array, worker: Array) -> Array:
        """What decides which worker of a task."""
        return self.rng.random(len(task)) if self.liked is None else self.liked[worker]

    def grid(self, tasks: Array, workers: Array) -> Array:
        """The same for all pairs of some tasks and workers, (tasks, workers)."""
        shape = (len(tasks), len(workers))
        return self.rng.random(shape) if self.liked is None else np.tile(self.liked[workers], (len(tasks), 1))

    def score(self, task: Array, liking: Array) -> Array:
        """Needs of these tasks."""
        return self.bound[task]

    def after(self, task: int, workers: Array) -> tuple[int, float]:
        """A worker, by position, for one more answer to a task; and the need that is left."""
        best = int(self.liking(np.full(len(workers), task), workers).argmax())
        return best, float(self.bound[task] / (1 + self.taken.get(task, 0)))

    def take(self, task: int, worker: int) -> None:
        """Remember that an answer to this task is bought."""
        self.taken[task] = 1 + self.taken.get(task, 0)


Rule = InformationRule | TaskRule


def rule_of(strategy: str, beliefs: Beliefs, answers: Answers, weight: Array, rng: np.random.Generator) -> Rule:
    """The rule of a strategy."""
    if strategy == "information":
        return InformationRule(beliefs, weight)
    p, n_workers = beliefs.belief, len(beliefs.channels)
    liking = None
    if strategy == "random":
        need = rng.random(len(p))
    elif strategy == "uncertainty":
        need = BITS * entropy(p)
    elif strategy == "margin":
        need = 1 - np.diff(np.sort(p, axis=1)[:, -2:], axis=1).sum(axis=1)
    elif strategy == "activelab":
        need = 1 - activelab(answers, beliefs)
    else:
        need = 1 - p.max(axis=1)
        if strategy == "interval":
            upper = upper_accuracy(answers)
            liking = np.concatenate([upper, np.full(n_workers - len(upper), _upper(np.array(1.0), np.array(2)))])
    return TaskRule(weight * need, rng, liking, n_workers)


def rare_weight(belief: Array) -> Array:
    """How much more tasks count that are believed to be of rare classes, (tasks,).

    >>> rare_weight(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).round(2).tolist()
    [0.67, 0.67, 0.67, 2.0]
    """
    share = np.maximum(belief.mean(axis=0), TINY)
    return (belief / (belief.shape[1] * share)).sum(axis=1)


def hopeless_tasks(hopeless: Any, alpha: float | None, tasks: Array) -> Array:
    """Which tasks are not paid for, (tasks,): a mask as it is; scores at or below their `alpha` quantile, as `prune`.

    `alpha` is .01 when it is None. A score that is not finite, of a task that nothing is known of, is not hopeless;
    where all tasks score the same, none is.

    >>> hopeless_tasks([0.1, 0.9, np.nan, 0.8], 0.2, np.arange(4)).tolist()
    [True, False, False, False]
    """
    ids = getattr(hopeless, "tasks_", None)
    if ids is not None and not np.array_equal(ids, tasks):
        message = "hopeless= was fitted on other tasks than the model: fit both on the same answers."
        raise ParameterError(message)
    values = np.asarray(getattr(hopeless, "scores_", hopeless))
    if values.shape != (len(tasks),) or values.dtype.kind not in "biuf":
        message = f"hopeless= of shape {values.shape}: give a score or a flag for each of the {len(tasks):,} tasks."
        raise ParameterError(message)
    if values.dtype.kind == "b":
        require(alpha is None, "alpha", alpha, "it with scores alone: hopeless= holds flags")
        return values
    alpha = 0.01 if alpha is None else alpha
    require(is_number(alpha) and 0 <= alpha < 1, "alpha", alpha, "a share of the tasks, from 0 to below 1")
    return most_ambiguous(values.astype(float), alpha)[0]


def activelab(answers: Answers, beliefs: Beliefs) -> Array:
    """ActiveLab's score of each task, (tasks,): low where another answer is worth most."""
    from crowdwise.learn.methods.crowdlab import crowdlab

    model = beliefs.model
    n_answers = np.diff(answers.task_starts)
    if hasattr(model, "worker_weight_") and hasattr(model, "model_weight_"):
        quality, worker_weight, model_weight = model.quality_, model.worker_weight_, model.model_weight_
    else:
        p = beliefs.f if beliefs.bends else np.broadcast_to(beliefs.belief.mean(axis=0), beliefs.belief.shape)
        if (n_answers > 1).any():
            _, quality, _, worker_weight, model_weight = crowdlab(answers, p)
        else:
            quality = p.max(axis=1)
            quality[answers.task] = p[answers.task, answers.label]
            worker_weight, model_weight = np.ones(answers.n_workers), 1.0
    trust = model_weight + np.bincount(answers.task, worker_weight[answers.worker], answers.n_tasks)
    more = worker_weight.mean()
    return (trust * quality + more / answers.n_classes) / (trust + more)


def upper_accuracy(answers: Answers) -> Array:
    """Upper bound of the share of each worker's answers that are the majority's, (workers,)."""
    shares = vote_shares(answers)
    right = shares.argmax(axis=1)[answers.task] == answers.label
    n = np.diff(answers.worker_starts) + 2
    return _upper(np.bincount(answers.worker, right, answers.n_workers) + 1, n)


def _upper(right: Array, n: Array) -> Array:
    mean = right / n
    return mean + student.isf(0.025, n - 1) * np.sqrt(mean * (1 - mean) / n)
