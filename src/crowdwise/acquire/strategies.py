"""The strategies: how each scores tasks and workers.

    information      gain of the pair (`information.gain`), in bits               chooses task and worker
    uncertainty      entropy of the belief, in bits                               choose tasks; the worker is
    margin           1 - (most probable class - runner-up)                        drawn at random from those
    least-confident  1 - probability of the most probable class                   available
    activelab        1 - ActiveLab's score of the task
    random           a task at random
    interval         least-confident; the worker with the highest upper bound of accuracy

ActiveLab (Goh and Mueller, "ActiveLab: Active learning with re-labeling by multiple annotators", 2023): CROWDLAB's
quality of the consensus, shrunk towards a uniform guess by the weight of one more answer. In the notation of
`learn.methods.crowdlab`

    score[t] = (W[t] quality[t] + v / classes) / (W[t] + v)
    W[t]     = weight_f + sum over the answers a to t of weight[worker[a]]        v = mean over workers of weight[w]

If no task has two answers, all weights are 1 and quality is the classifier's probability of the answer. The classifier
is the learner on X; for a truth model the class shares replace it; a fitted CrowdLab has its own values. cleanlab first
rescales probabilities by a temperature; that is omitted here.

Interval (Donmez, Carbonell and Schneider, "Efficiently learning the accuracy of labeling sources for selective
sampling", KDD 2009; IntervalEstimationThreshold in scikit-activeml): an answer counts as right if it is the
majority's; one right and one wrong answer are added; the bound is mean + t * deviation / sqrt(n), with Student's t at
95 %. In the paper all workers near the best bound answer the task; here, the best `per_task` of them.

All strategies but `information` score the k-th answer to a task in a batch by score / k.

Rare classes (`balance=True`): the score of a task is multiplied by

    weight[t] = sum over c of belief[t, c] / (classes * share[c])                 share[c] = mean over tasks of belief

which is 1 on average, and 1 for all tasks if classes are balanced.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import entr
from scipy.stats import t as student

from crowdwise._core.validation import is_number, require
from crowdwise.acquire.beliefs import Beliefs
from crowdwise.acquire.information import BITS, TINY, capacity, entropy, extend_outcomes, gain
from crowdwise.ambiguity.ranking import most_ambiguous
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array
from crowdwise.truth.base import vote_shares

STRATEGIES = ("information", "uncertainty", "margin", "least-confident", "activelab", "interval", "random")


class InformationRule:
    """Ranks pairs by the expected information of their answer, in bits times the weight of the task."""

    chooses_workers = True

    weight: Any

    def __init__(self, beliefs: Beliefs, weight: Array) -> None:
        self.beliefs, self.weight = beliefs, BITS * weight
        self.bound: Any = self.weight * entropy(beliefs.belief)  # (tasks,): upper bound of the scores of a task's pairs
        self.priority: Array = capacity(beliefs.channels)  # (workers,): in which order to try
        self.worker_bound = (
            np.full(len(self.priority), np.inf) if beliefs.task_specific else self.weight.max() * self.priority
        )  # at most
        self.noise: Array = entropy(beliefs.channels)  # (workers, classes)
        self.outcomes: dict[int, Array] = {}

    def preference(self, task: Array, worker: Array) -> Array:
        """Return the preference for a worker per pair: here the score of the pair."""
        out = np.empty(len(task))
        for part in self.beliefs.parts(len(task)):
            channel = self.beliefs.channel(task[part], worker[part])
            out[part] = gain(self.beliefs.belief[task[part]][:, None], channel)
        return self.weight[task] * out

    def grid(self, tasks: Array, workers: Array) -> Array:
        """Return the preference for all pairs of these tasks and workers, (tasks, workers)."""
        if self.beliefs.task_specific:
            pairs = np.repeat(tasks, len(workers)), np.tile(workers, len(tasks))
            return self.preference(*pairs).reshape(len(tasks), len(workers))
        p, channels = self.beliefs.belief[tasks], self.beliefs.channels[workers]
        gains = -p @ self.noise[workers].T  # (tasks, workers)
        for label in range(channels.shape[2]):
            gains += entr(p @ channels[:, :, label].T)
        return self.weight[tasks, None] * np.maximum(gains, 0.0)

    def score(self, task: Array, preference: Array) -> Array:
        """Return the scores of the pairs of these tasks with their best workers."""
        return preference

    def after(self, task: int, workers: Array) -> tuple[int, float]:
        """Return the position of the best worker for one more answer to a task, and the score of the pair."""
        if task not in self.outcomes:
            scores = self.preference(np.full(len(workers), task), workers)
        else:
            q = self.outcomes[task]  # (1, outcomes, classes)
            scores = self.weight[task] * gain(q, self.beliefs.channel(np.full(len(workers), task), workers))
        return int(scores.argmax()), float(scores.max())

    def take(self, task: int, worker: int) -> None:
        """Record that this answer is bought."""
        q = self.outcomes.get(task, self.beliefs.belief[[task]][:, None])
        self.outcomes[task] = extend_outcomes(q, self.beliefs.channel(np.array([task]), np.array([worker])))


class TaskRule:
    """Ranks tasks by need, the k-th answer to a task by need / k; workers by a preference, or at random."""

    chooses_workers = False

    bound: Array
    priority: Array | Array
    worker_bound: Array
    worker_preference: Array | None

    def __init__(self, need: Array, rng: np.random.Generator, preference: Array | None, n_workers: int) -> None:
        self.bound, self.rng, self.worker_preference = need, rng, preference
        self.priority = rng.random(n_workers) if preference is None else preference
        self.worker_bound = np.full(n_workers, np.inf)
        self.taken: dict[int, int] = {}

    def preference(self, task: Array, worker: Array) -> Array:
        """Return the preference for a worker per pair."""
        return self.rng.random(len(task)) if self.worker_preference is None else self.worker_preference[worker]

    def grid(self, tasks: Array, workers: Array) -> Array:
        """Return the preference for all pairs of these tasks and workers, (tasks, workers)."""
        shape = (len(tasks), len(workers))
        return (
            self.rng.random(shape)
            if self.worker_preference is None
            else np.tile(self.worker_preference[workers], (len(tasks), 1))
        )

    def score(self, task: Array, preference: Array) -> Array:
        """Return the needs of these tasks."""
        return self.bound[task]

    def after(self, task: int, workers: Array) -> tuple[int, float]:
        """Return the position of a worker for one more answer to a task, and the remaining need."""
        best = int(self.preference(np.full(len(workers), task), workers).argmax())
        return best, float(self.bound[task] / (1 + self.taken.get(task, 0)))

    def take(self, task: int, worker: int) -> None:
        """Record that an answer to this task is bought."""
        self.taken[task] = 1 + self.taken.get(task, 0)


Rule = InformationRule | TaskRule


def make_rule(strategy: str, beliefs: Beliefs, answers: Answers, weight: Array, rng: np.random.Generator) -> Rule:
    """Return the rule of a strategy."""
    if strategy == "information":
        return InformationRule(beliefs, weight)
    p, n_workers = beliefs.belief, len(beliefs.channels)
    preference = None
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
            preference = np.concatenate([upper, np.full(n_workers - len(upper), _upper(np.array(1.0), np.array(2)))])
    return TaskRule(weight * need, rng, preference, n_workers)


def rare_weight(belief: Array) -> Array:
    """Return task weights that are higher for probably rare classes, (tasks,).

    >>> rare_weight(np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).round(2).tolist()
    [0.67, 0.67, 0.67, 2.0]
    """
    share = np.maximum(belief.mean(axis=0), TINY)
    return (belief / (belief.shape[1] * share)).sum(axis=1)


def hopeless_tasks(hopeless: Any, alpha: float | None, tasks: Array) -> Array:
    """Return which tasks to exclude, (tasks,): those flagged, or with scores at or below the `alpha` quantile.

    `alpha` is 0.01 if None. A task with a score that is not finite is not hopeless; if all score the same, none is.

    >>> hopeless_tasks([0.1, 0.9, np.nan, 0.8], 0.2, np.arange(4)).tolist()
    [True, False, False, False]
    """
    ids = getattr(hopeless, "tasks_", None)
    if ids is not None and not np.array_equal(ids, tasks):
        message = "hopeless= was fitted on other tasks than the model. Fit both on the same answers."
        raise ParameterError(message)
    values = np.asarray(getattr(hopeless, "scores_", hopeless))
    if values.shape != (len(tasks),) or values.dtype.kind not in "biuf":
        message = f"hopeless= of shape {values.shape}: give one score or flag per task, for {len(tasks):,} tasks."
        raise ParameterError(message)
    if values.dtype.kind == "b":
        require(alpha is None, "alpha", alpha, "None: hopeless= has flags, and alpha is for scores")
        return values
    alpha = 0.01 if alpha is None else alpha
    require(is_number(alpha) and 0 <= alpha < 1, "alpha", alpha, "a share of the tasks, at least 0 and below 1")
    return most_ambiguous(values.astype(float), alpha)[0]


def activelab(answers: Answers, beliefs: Beliefs) -> Array:
    """Return ActiveLab's score per task, (tasks,): low if another answer is worth most."""
    from crowdwise.learn.methods.crowdlab import crowdlab

    model = beliefs.model
    n_answers = np.diff(answers.task_starts)
    if hasattr(model, "worker_weight_") and hasattr(model, "model_weight_"):
        quality, worker_weight, model_weight = model.quality_, model.worker_weight_, model.model_weight_
    else:
        p = beliefs.f if beliefs.task_specific else np.broadcast_to(beliefs.belief.mean(axis=0), beliefs.belief.shape)
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
    """Return the upper bound of each worker's agreement with the majority, (workers,)."""
    shares = vote_shares(answers)
    right = shares.argmax(axis=1)[answers.task] == answers.label
    n = np.diff(answers.worker_starts) + 2
    return _upper(np.bincount(answers.worker, right, answers.n_workers) + 1, n)


def _upper(right: Array, n: Array) -> Array:
    mean = right / n
    return mean + student.isf(0.025, n - 1) * np.sqrt(mean * (1 - mean) / n)
