"""What a fitted model believes about tasks and workers, in one form for all models.

    belief[t, c]        P(truth of task t is c)
    channel[w, c, l]    P(worker w answers l | truth c)

Truth models, and learners without X: the belief is `proba_`; the channel is `confusion_`, or, if a model has none,
the counts of the worker's answers against `proba_`. Workers with few answers are shrunk towards the average worker:

    channel[w, c] = (n[w, c] own[w, c] + caution average[c]) / (n[w, c] + caution)    n[w, c] = w's answers to tasks
    average[c]    = mean over workers of own[w, c], weighted by n[w, c]                         of class c

Learners with X: f = `predict_proba(X)`, and the learner's own P(answer | features, worker) adapts the worker's
channel to each task (`information.match_channels`). Bayes' rule then combines classifier and answers, since the
`proba_` of many learners comes from features alone:

    belief[t, c] proportional to f[t, c] * product over the answers a to t of channel[t, worker[a], c, label[a]]

A worker's own answers influence `proba_`: if most tasks have one answer, every worker looks reliable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from crowdwise.acquire.information import TINY, match_channels
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError, TooLargeError
from crowdwise.learn.base import Array, CrowdClassifier
from crowdwise.learn.features import Features, open_features

CELLS = 4_000_000  # pairs x classes x labels at a time
MAX_CELLS = 500_000_000  # workers x classes x labels


class Beliefs:
    """Belief and channels of one model.

    Parameters
    ----------
    model : fitted truth model or learner
    answers : Answers
        The workers' answers that it was fitted on.
    X : features, optional
        Features of the tasks, for learners.
    caution : float
        Number of average answers added to each row of a worker's matrix.
    n_new : int
        Number of workers unknown to the model, added after the known ones.
    proba : (tasks, classes) array, optional
        Class probabilities to use instead of the `proba_` of the model, such as calibrated ones.
    """

    belief: Array  # (tasks, classes)

    channels: Array
    f: Array
    model: Any
    n_known: int

    def __init__(
        self,
        model: Any,
        answers: Answers,
        *,
        X: Any = None,
        caution: float = 2.0,
        n_new: int = 0,
        proba: Array | None = None,
    ) -> None:
        self.model, self.n_known = model, answers.n_workers
        self.belief = np.asarray(model.proba_ if proba is None else proba, dtype=float)
        own, seen = _worker_channels(model, answers, self.belief)
        average = mean_channel(own, seen)  # (classes, labels)
        seen = seen[:, :, None]
        mass = np.maximum(seen + caution, TINY)
        known = np.where(seen + caution > 0, (seen * own + caution * average) / mass, average)
        self.channels = np.concatenate([known, np.broadcast_to(average, (n_new, *average.shape))])
        self.features: Features | None = None
        if X is not None:
            if not isinstance(model, CrowdClassifier):
                message = f"{type(model).__name__} learns from answers alone. Do not pass X."
                raise ParameterError(message)
            self.features = open_features(X, answers)
            self.f = model.predict_proba(self.features)
            self.belief = self._posterior(answers)

    @property
    def task_specific(self) -> bool:
        """Whether a worker's channel differs from task to task."""
        return self.features is not None

    def channel(self, task: Array, worker: Array) -> Array:
        """Return the channels of these pairs, (pairs, classes, labels)."""
        out = self.channels[worker]
        if self.features is None:
            return out
        known = np.flatnonzero(worker < self.n_known)
        if len(known):
            rows, row = np.unique(task[known], return_inverse=True)
            proba = self.model._proba_of_answers(self.features, rows, row, worker[known])
            out[known] = match_channels(self.f[task[known]], out[known], proba)
        return out

    def parts(self, n_pairs: int) -> Iterator[slice]:
        """Yield slices of a list of pairs that fit in memory."""
        size = max(1, CELLS // self.channels[0].size)
        for first in range(0, n_pairs, size):
            yield slice(first, first + size)

    def _posterior(self, answers: Answers) -> Array:
        log_p = np.log(np.maximum(self.f, TINY))
        weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
        for part in self.parts(answers.n_answers):
            task, label = answers.task[part], answers.label[part]
            channel = self.channel(task, answers.worker[part].astype(np.int64))
            likely = np.log(np.maximum(channel[np.arange(len(task)), :, label], TINY))  # (answers, classes)
            np.add.at(log_p, task, weight[part, None] * likely)
        p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


def mean_channel(own: Array, seen: Array) -> Array:
    """Return the average worker's channel, (classes, labels); unweighted for a class without answers."""
    seen = np.where(seen.sum(axis=0) > TINY, seen, 1.0)  # (workers, classes)
    return (seen[:, :, None] * own).sum(axis=0) / seen.sum(axis=0)[:, None]


def _worker_channels(model: Any, answers: Answers, proba: Array) -> tuple[Array, Array]:
    """Return each worker's channel under the model, and its number of answers per class, (workers, classes)."""
    n_classes, shape = answers.n_classes, (answers.n_workers, answers.n_classes, answers.n_classes)
    if np.prod(shape, dtype=float) > MAX_CELLS:
        message = f"confusion matrices of {shape[0]:,} workers and {n_classes:,} classes do not fit in memory."
        raise TooLargeError(message)
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    cell = answers.worker.astype(np.int64) * n_classes + answers.label
    counts = np.stack(
        [np.bincount(cell, weight * proba[answers.task, c], answers.n_workers * n_classes) for c in range(n_classes)]
    )  # (classes, workers * labels)
    counts = counts.reshape(n_classes, answers.n_workers, n_classes).swapaxes(0, 1)  # (workers, classes, labels)
    seen = counts.sum(axis=2)
    confusion = getattr(model, "confusion_", None)
    if confusion is not None and np.shape(confusion) == shape:
        return np.asarray(confusion, dtype=float), seen
    even = 1 / n_classes  # one more answer, spread evenly: no worker is infallible
    return (counts + even) / (seen + 1)[:, :, None], seen
