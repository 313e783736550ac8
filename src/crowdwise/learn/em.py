"""Joint EM: one engine for Raykar, AggNet, the difficulty models, and what comes after them.

Three pieces, each exchangeable:

    posterior    T[t, c]  proportional to  f(x_t)[c]^(1 / temperature) * prod over its answers of P(label | worker, c)
    workers      how workers answer given the truth: `ConfusionWorkers`, or `DifficultyWorkers`
    classifier   f, fitted to the soft labels T: logistic, any estimator, or a network (`classifiers`)

    E   T from the classifier and the workers
    M   workers and classifier from T

    bound = log-likelihood of the answers + log prior of the workers' and the classifier's parameters

The bound never falls when the classifier's fit never does (logistic). It may with networks, which take a few steps by
random batches; with `cross_fit`, where the classifier that judges a task is not the one its likelihood rewards; and
with `calibrate`. The tests hold the first kind to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.special import log_softmax

from crowdwise.answers import Answers
from crowdwise.learn.base import Array, Callback
from crowdwise.learn.classifiers import Classifier
from crowdwise.truth.base import fix_gold
from crowdwise.truth.confusion import ConfusionWork, confusion_rows
from crowdwise.truth.dawid_skene import Prior, dense_confusion, prior_counts
from crowdwise.truth.em import climb
from crowdwise.truth.kernels import FLOOR

TEMPERATURES = np.geomspace(0.3, 3.0, 13)  # tried by `calibrate`; above 1 softens the classifier


class Workers(Protocol):
    """What joint EM asks of a model of the workers."""

    def fit(self, proba: Array, f: Array) -> None:
        """Learn from posteriors and the classifier's probabilities, (tasks, classes) each."""

    def posterior(self, f: Array, gold: Array | None) -> tuple[Array, float]:
        """Posteriors (tasks, classes), with the classifier's probabilities as the prior; and the log-likelihood."""

    def log_prior(self) -> float:
        """Log prior of the parameters, up to a constant."""


class ConfusionWorkers:
    """A confusion matrix for each worker, with a Dirichlet prior: Dawid and Skene's."""

    def __init__(self, answers: Answers, prior: Prior, weight: Array | None) -> None:
        self.answers, self.setting, self.weight = answers, prior, weight
        self.work = ConfusionWork(answers.task_starts, answers.pairs, answers.weight, answers.n_classes)
        self.counter = self.work
        if weight is not None:  # counts weigh tasks; posteriors do not: a task that counts little is no less clear
            by_answer = weight[answers.task] * (1.0 if answers.weight is None else answers.weight)
            self.counter = ConfusionWork(answers.task_starts, answers.pairs, by_answer, answers.n_classes)
        self.table = np.empty(0)
        self.totals = np.empty((answers.n_workers, answers.n_classes))
        self.prior: Array | None = None
        self.log_priors = np.empty(answers.n_workers)

    def fit(self, proba: Array, f: Array) -> None:  # noqa: D102
        pairs = self.answers.pairs
        counts = self.counter.count(proba)
        if self.prior is None:  # fixed once, or the bound would be that of another prior each time
            self.prior = prior_counts(self.setting, counts, pairs)
        self.table = np.empty_like(counts)
        by_worker = self.prior.reshape(-1, *self.prior.shape[-2:])
        confusion_rows(counts, pairs.label, pairs.worker_starts, by_worker, self.table, self.totals, self.log_priors)
        self.work.set_table(self.table)

    def posterior(self, f: Array, gold: Array | None) -> tuple[Array, float]:  # noqa: D102
        proba = np.empty_like(f)
        _, _, log_likelihood = self.work.e_step(f, gold, counts=False, proba=proba)
        if self.weight is not None:  # each task's own likelihood, from the class it is surest of
            best = proba.argmax(axis=1)
            said = np.log(self.table[self.answers.pairs.of_answer, best[self.answers.task]])
            if self.answers.weight is not None:
                said = said * self.answers.weight
            each = np.bincount(self.answers.task, said, minlength=len(f)) + np.log(f[np.arange(len(f)), best])
            log_likelihood = float((self.weight * (each - np.log(proba[np.arange(len(f)), best]))).sum())
        return proba, log_likelihood

    def log_prior(self) -> float:  # noqa: D102
        return float(self.log_priors.sum())

    def confusion(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l]."""
        assert self.prior is not None
        return dense_confusion(self.answers, self.table, self.prior, self.totals)


class Joint:
    """Joint EM over some models (networks trained side by side; one for the rest), by the EM driver.

    Parameters
    ----------
    answers, gold
        What the workers said, and codes of known labels (-1 unknown), held fixed.
    workers : list of Workers
        One for each model.
    classifier : Classifier
    calibrate : bool
        Choose in each round the temperature under which the answers are most likely.
    max_iter, tol
        As for every EM model.
    monotone : bool
        Whether the pieces are such that the bound never falls.
    """

    def __init__(
        self,
        answers: Answers,
        gold: Array | None,
        workers: list[Any],
        classifier: Classifier,
        *,
        max_iter: int,
        tol: float,
        calibrate: bool = False,
        monotone: bool = True,
    ) -> None:
        self.answers, self.gold, self.workers, self.classifier = answers, gold, workers, classifier
        self.calibrate, self.max_iter, self.tol, self.monotone = calibrate, max_iter, tol, monotone
        self.temperature = np.ones(len(workers))
        self.proba = np.empty(0)  # posteriors (models, tasks, classes)

    def start(self, proba: Array) -> None:
        """The first M-step, from first posteriors (tasks, classes)."""
        self._m_step(None, np.repeat(fix_gold(proba, self.gold)[None], len(self.workers), axis=0), None)

    def run(self, callback: Callback | None) -> tuple[list[float], bool]:
        """EM from where the pieces stand: the bounds, and whether they settled. `proba` holds the posteriors."""
        told: Callable[[int, float], None] | None = None
        if callback is not None:
            told = lambda i, bound: callback({"iteration": i + 1, "iterations": self.max_iter, "bound": bound})  # noqa: E731
        _, history, converged = climb(self, None, None, self.answers.n_answers, told)
        return history, converged

    def _e_step(self, work: None, parameters: None) -> tuple[Array, float]:
        f = np.maximum(self.classifier.proba(), FLOOR)  # (models, tasks, classes)
        bound = -self.classifier.penalty()
        self.proba = np.empty_like(f)
        for m, workers in enumerate(self.workers):
            if self.calibrate:
                self.temperature[m] = max(TEMPERATURES, key=lambda t: workers.posterior(soften(f[m], t), self.gold)[1])
            prior = soften(f[m], self.temperature[m])
            self.proba[m], log_likelihood = workers.posterior(prior, self.gold)
            bound += log_likelihood + workers.log_prior()
        return self.proba, bound

    def _m_step(self, work: None, statistics: Array, parameters: None) -> None:
        self.classifier.fit(statistics)
        self.fit_workers(statistics)

    def fit_workers(self, proba: Array) -> None:
        """The workers' part of the M-step, from posteriors (models, tasks, classes)."""
        f = self.classifier.proba()
        for m, workers in enumerate(self.workers):
            workers.fit(proba[m], f[m])


def soften(f: Array, temperature: float) -> Array:
    """Probabilities with their logarithms divided by the temperature.

    >>> soften(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
    [[0.667, 0.333]]
    """
    if temperature == 1:
        return f
    return np.maximum(np.exp(log_softmax(np.log(np.maximum(f, FLOOR)) / temperature, axis=1)), FLOOR)


def answers_given_truth(f: Array, confusion: Array, row: Array, worker: Array) -> Array:
    """P(label) of some answers, (answers, labels): the classifier's belief seen through the worker's confusion."""
    return np.einsum("ac,acl->al", f[row], confusion[worker])
