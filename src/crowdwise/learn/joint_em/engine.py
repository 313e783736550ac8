"""Joint EM: one engine for JointEM, Raykar, AggNet and the difficulty models.

It has three exchangeable parts:

    posterior    T[t, c]  proportional to  f(x_t)[c] * prod over its answers of P(label | worker, c)^answer_weight
    workers      how workers answer given the truth: `ConfusionWorkers`, or `DifficultyWorkers`
    classifier   f, fitted to the soft labels T: Gaussian, logistic, any estimator, or a network (`classifiers`); or
                 several at once, which `pooling` combines; class shares are separate where the classifiers omit them

    E   T from the classifier and the workers; pulled towards declared class shares, if any
    M   workers and classifier from T

    bound = log-likelihood of the answers + log prior of the workers' and the classifier's parameters

The bound never falls if the classifier's own objective never does (logistic); the tests check this. It may fall with
networks, which take a few stochastic steps; with `cross_fit`, since the classifier that judges a task is not the one
that its likelihood rewards; with `calibrate`, `leave_one_out`, an answer weight that changes, or declared shares.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array, Callback
from crowdwise.learn.joint_em.class_prior import pull_to_shares
from crowdwise.learn.joint_em.classifiers import Classifier
from crowdwise.learn.joint_em.pooling import estimate_answer_weight, pool, pool_weights, weighted_log_sum
from crowdwise.truth.base import fix_gold
from crowdwise.truth.em import run_em
from crowdwise.truth.kernels.confusion import ConfusionWork, confusion_rows
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.dawid_skene import Prior, dense_confusion, prior_counts

MIN_SHARE = 1e-12  # least share of a possible class: it can grow again


class Workers(Protocol):
    """The interface of a worker model."""

    def fit(self, proba: Array, f: Array) -> None:
        """Fit to posteriors and the classifier's probabilities, (tasks, classes) each."""

    def posterior(self, f: Array, gold: Array | None) -> tuple[Array, float]:
        """Return posteriors (tasks, classes), with the classifier's probabilities as prior, and the log-likelihood."""

    def log_likelihood(self, f: Array, gold: Array | None) -> Array:
        """Return log P(answers to t | truth c), (tasks, classes), up to a constant per task."""

    def log_prior(self) -> float:
        """Return the log prior of the parameters, up to a constant."""


class ConfusionWorkers:
    """A confusion matrix per worker with a Dirichlet prior, as in Dawid and Skene.

    Parameters
    ----------
    answers : Answers
    prior : as `DawidSkene` takes
    weight : (tasks,) array or None
    leave_one_out : bool
        Judge an answer by its worker's answers to other tasks, so that the posterior of a task does not depend on
        counts that include it.
    refresh_prior : bool
        Re-estimate a hierarchical prior in each round, instead of once at the start from the votes. The bound then
        refers to a different prior each time.
    """

    answers: Answers
    counter: ConfusionWork
    leave_one_out: bool
    log_priors: Array
    refresh_prior: bool
    totals: Array
    weight: Array | None
    work: ConfusionWork

    def __init__(
        self,
        answers: Answers,
        prior: Prior,
        weight: Array | None,
        *,
        leave_one_out: bool = False,
        refresh_prior: bool = False,
    ) -> None:
        self.answers, self.prior_setting, self.weight = answers, prior, weight
        self.leave_one_out, self.refresh_prior = leave_one_out, refresh_prior
        self.work = ConfusionWork(answers.task_starts, answers.pairs, answers.weight, answers.n_classes)
        self.counter = self.work
        if weight is not None:  # weights apply to counts, not to posteriors: a task of low weight is not less certain
            by_answer = weight[answers.task] * (1.0 if answers.weight is None else answers.weight)
            self.counter = ConfusionWork(answers.task_starts, answers.pairs, by_answer, answers.n_classes)
        self.table: Array = np.empty(0)
        self.totals = np.empty((answers.n_workers, answers.n_classes))
        self.prior: Array | None = None
        self.log_priors = np.empty(answers.n_workers)

    def fit(self, proba: Array, f: Array) -> None:  # noqa: D102
        pairs = self.answers.pairs
        counts = self.counter.count(proba)
        if self.prior is None or self.refresh_prior:
            self.prior = prior_counts(self.prior_setting, counts, pairs)
            if isinstance(self.prior_setting, str) and self.prior_setting == "hierarchical":
                self.prior = reset_confused_classes(self.prior, prior_counts("diagonal", counts, pairs))
        self.table = np.empty_like(counts)
        by_worker = self.prior.reshape(-1, *self.prior.shape[-2:])
        confusion_rows(counts, pairs.label, pairs.worker_starts, by_worker, self.table, self.totals, self.log_priors)
        self.work.set_table(self.table)
        self.proba = proba

    def posterior(self, f: Array, gold: Array | None, answer_weight: float = 1.0) -> tuple[Array, float]:
        """Return posteriors and the log-likelihood, with each answer weighted by `answer_weight`."""
        if self.leave_one_out:
            return task_posteriors(answer_weight * self.answer_log_proba(), f, self.answers, gold, self.weight)
        if answer_weight != 1:
            log_proba = np.log(self.table[self.answers.pairs.of_answer]) * (answer_weight * self._weight_column())
            return task_posteriors(log_proba, f, self.answers, gold, self.weight)
        proba = np.empty_like(f)
        _, _, log_likelihood = self.work.e_step(f, gold, counts=False, proba=proba)
        if self.weight is not None:  # the likelihood of each task, from its most probable class
            best = proba.argmax(axis=1)
            log_proba = np.log(self.table[self.answers.pairs.of_answer, best[self.answers.task]])
            if self.answers.weight is not None:
                log_proba = log_proba * self.answers.weight
            each = np.bincount(self.answers.task, log_proba, minlength=len(f)) + np.log(f[np.arange(len(f)), best])
            log_likelihood = float((self.weight * (each - np.log(proba[np.arange(len(f)), best]))).sum())
        return proba, log_likelihood

    def log_likelihood(self, f: Array, gold: Array | None) -> Array:  # noqa: D102
        with np.errstate(divide="ignore"):  # classes excluded by gold have probability 0
            return np.log(self.posterior(np.ones_like(f), gold)[0])

    def evidence(self, f: Array) -> Array:
        """Return log P(answers to t | f), (tasks,), each answer judged by its worker's other answers."""
        return task_evidence(self.answer_log_proba(), f, self.answers)

    def log_prior(self) -> float:  # noqa: D102
        return float(self.log_priors.sum())

    def best_answer_weight(self, f: Array, gold: Array | None) -> float:
        """Return the weight of each answer: see `estimate_answer_weight`."""
        a = self.answers
        weight = np.ones(a.n_answers) if self.weight is None else self.weight[a.task]
        if gold is not None:
            weight = weight * (gold[a.task] < 0)  # answers to gold tasks need no prediction
        return estimate_answer_weight(np.log(f), self.answer_log_proba(), a, weight)

    def _weight_column(self) -> Any:
        """Return the weights of the answers as a column, or 1."""
        return 1.0 if self.answers.weight is None else self.answers.weight[:, None]

    def answer_log_proba(self) -> Array:
        """Return log P(label[a] | worker[a], truth c), (answers, classes), from the worker's other answers."""
        a = self.answers
        total = self.totals[a.worker]  # (answers, classes): counts and pseudo-counts of all labels
        own = self.proba[a.task] * (1.0 if self.counter.weight.size == 0 else self.counter.weight[:, None])
        count = self.table[a.pairs.of_answer] * total - own
        return np.asarray(np.log(np.maximum(count, FLOOR) / np.maximum(total - own, FLOOR)) * self._weight_column())

    def confusion(self) -> Array:
        """Return P(worker w says l | truth c) as [w, c, l]."""
        assert self.prior is not None
        return dense_confusion(self.answers, self.table, self.prior, self.totals)


def reset_confused_classes(crowd: Array, diagonal: Array) -> Array:
    """Return the crowd's prior (labels, classes) with the diagonal prior for classes that mostly get another label.

    A class that workers name only by mistake is estimated from tasks of another class. The crowd's prior then says that
    workers mostly give the other label when it is true. The two classes would become interchangeable.

    >>> crowd = np.array([[0.9, 0.6, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 1.0]])  # if 1 is true, most answers are 0
    >>> reset_confused_classes(crowd, np.eye(3)).tolist()
    [[0.9, 0.0, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    confused = crowd.argmax(axis=0) != np.arange(len(crowd))
    return np.where(confused, diagonal, crowd)


def task_posteriors(
    answer_log_proba: Array, f: Array, answers: Answers, gold: Array | None, weight: Array | None
) -> tuple[Array, float]:
    """Return posteriors (tasks, classes) and the log-likelihood.

    `answer_log_proba` (answers, classes) is log P(label[a] | truth c), `f` (tasks, classes) the prior of each task.
    """
    logs = _log_joint(answer_log_proba, f, answers)
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        gold_logs = logs[known, gold[known]]
        logs[known] = -np.inf
        logs[known, gold[known]] = gold_logs
    top = logs.max(axis=1)
    p = np.exp(logs - top[:, None])
    total = p.sum(axis=1)
    evidence = top + np.log(total)
    return p / total[:, None], float((evidence if weight is None else weight * evidence).sum())


def task_evidence(answer_log_proba: Array, f: Array, answers: Answers) -> Array:
    """Return the log-likelihood of the answers to each task, (tasks,); arguments as in `task_posteriors`."""
    return np.asarray(np.logaddexp.reduce(_log_joint(answer_log_proba, f, answers), axis=1))


def _log_joint(answer_log_proba: Array, f: Array, answers: Answers) -> Array:
    """Return the log of f(x_t)[c] times the likelihood of the answers to t, (tasks, classes)."""
    logs = np.log(f)
    for c in range(f.shape[1]):
        logs[:, c] += np.bincount(answers.task, answer_log_proba[:, c], minlength=len(f))
    return np.asarray(logs)


class JointEMEngine:
    """Joint EM on top of the EM driver, for one model or several (networks trained side by side).

    Parameters
    ----------
    answers, gold
        The answers, and codes of gold labels (-1 unknown), which stay fixed.
    workers : list of Workers
        One per model.
    classifier : Classifier
        A classifier of as many models, or of a multiple of that: then each model has several classifiers.
    calibrate : bool
        Estimate the weights of the classifiers in each round from the likelihood of the answers.
    declared_shares : (shares, strength) or None
        Class shares (classes,) that posteriors are pulled towards in each round.
    weight : (tasks,) array or None
        Weight of each task in `calibrate`, `declared_shares` and `shares`.
    shares : {"equal", "learned"} or None
        Class shares, if the classifiers leave them out: equal, or the mean of the posteriors.
    possible : (classes,) bool array or None
        Classes that can be true; the others get no probability.
    answer_weight : float or "auto"
        Weight of each answer; "auto" estimates it in each round (`estimate_answer_weight`).
    max_iter, tol
        As for every EM model.
    proba_tol : float
        EM stops when the mean change of the posteriors in a round is below this.
    monotone : bool
        Whether workers and classifier guarantee that the bound never falls.
    """

    answer_weights: Array | Array
    answers: Answers
    calibrate: bool
    f: Array
    gold: Array | None
    max_iter: int
    monotone: bool
    possible: Array | Array
    proba: Array
    proba_tol: float
    tol: float
    weight: Array | None
    weights: Array
    workers: list[Any]

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
        declared_shares: tuple[Array, float] | None = None,
        weight: Array | None = None,
        shares: Literal["equal", "learned"] | None = None,
        possible: Array | None = None,
        answer_weight: float | Literal["auto"] = 1.0,
        proba_tol: float = 0.0,
        monotone: bool = True,
    ) -> None:
        self.shares, self.answer_weight, self.proba_tol = shares, answer_weight, proba_tol
        self.possible = np.ones(answers.n_classes, bool) if possible is None else possible
        first_share = None if self.possible.all() else self.possible / self.possible.sum()
        self.share: list[Array | None] = [first_share] * len(workers)  # per model (classes,); None: classifiers have it
        self.answer_weights = np.ones(len(workers)) if answer_weight == "auto" else np.full(len(workers), answer_weight)
        self.change: float = np.inf  # mean change of the posteriors in the last round
        self.answers, self.gold, self.workers, self.classifier = answers, gold, workers, classifier
        self.calibrate, self.declared_shares, self.weight = calibrate, declared_shares, weight
        self.max_iter, self.tol, self.monotone = max_iter, tol, monotone
        self.weights = np.ones((len(workers), 1))  # (models, classifiers of each)
        self.classifier_proba: Array = np.empty(0)  # (models, classifiers, tasks, classes)
        self.proba = self.f = np.empty(0)  # posteriors, and pooled classifiers: (models, tasks, classes)

    def start(self, proba: Array, *, by_features: bool = False) -> None:
        """Take the first M-step, from initial posteriors (tasks, classes).

        With `by_features` the workers are then fitted again, to the predictions of the cross-fitted classifiers. The
        votes include a worker's own answers: with one answer per task they would confirm each worker by themselves.
        """
        self.proba = np.repeat(fix_gold(proba, self.gold)[None], len(self.workers), axis=0)
        self._m_step(None, self.proba, None)
        if by_features:
            self._e_step(None, None)
            self.fit_workers(np.stack([fix_gold(self.f[m], self.gold) for m in range(len(self.f))]))

    def run(self, callback: Callback | None, done: int = 0, left: int = 0) -> tuple[list[float], bool]:
        """Iterate EM from the current state; return the bounds, and whether it converged.

        `proba` then holds the posteriors. `done` and `left` are the rounds before and after this run, for the callback.
        """
        rounds = done + self.max_iter + left
        report: Callable[[int, float], None] | None = None
        if callback is not None:
            report = lambda i, bound: callback({"iteration": done + i + 1, "iterations": rounds, "bound": bound})  # noqa: E731
        _, history, converged = run_em(
            self, None, None, self.answers.n_answers, report, has_converged=lambda: self.change < self.proba_tol
        )
        return history, converged

    def adopt(self, proba: Array) -> None:
        """Take posteriors (models, tasks, classes) as they are: fit workers and classifiers, and weight these."""
        self._m_step(None, proba, None)
        self._e_step(None, None)
        self.proba = proba

    def _e_step(self, work: None, parameters: None) -> tuple[Array, float]:
        each_f = self.classifier_proba
        if self.weights.shape[1] != each_f.shape[1]:
            self.weights = np.full(each_f.shape[:2], 1 / each_f.shape[1])
        bound, before = -self.classifier.penalty(), self.proba
        self.proba, self.f = np.empty((2, len(each_f), *each_f.shape[2:]))
        for m, workers in enumerate(self.workers):
            if self.calibrate:
                self.weights[m] = self._classifier_weights(each_f[m], workers, self.weights[m], self.share[m])
            self.f[m] = pool(each_f[m], self.weights[m], self.share[m])
            if self.answer_weight == "auto":
                self.answer_weights[m] = workers.best_answer_weight(self.f[m], self.gold)
            # not every worker model takes an answer weight
            options = {} if self.answer_weights[m] == 1 else {"answer_weight": self.answer_weights[m]}
            self.proba[m], log_likelihood = workers.posterior(self.f[m], self.gold, **options)
            if self.declared_shares is not None:
                self.proba[m] = pull_to_shares(self.proba[m], *self.declared_shares, self.gold, self.weight)
            bound += log_likelihood + workers.log_prior()
        self.change = float(np.abs(self.proba - before).mean()) if before.shape == self.proba.shape else np.inf
        return self.proba, bound

    def _classifier_weights(self, each_f: Array, workers: Any, start: Array, share: Array | None) -> Array:
        """Return the weights (classifiers,) that make the answers most likely."""
        log_likelihood = workers.log_likelihood(pool(each_f, start, share), self.gold)
        with np.errstate(divide="ignore"):
            log_share = 0.0 if share is None else np.log(share)
        return pool_weights(np.log(np.maximum(each_f, FLOOR)), log_likelihood, self.weight, start, log_share)

    def _m_step(self, work: None, statistics: Array, parameters: None) -> None:
        self.classifier.fit(statistics)
        self.fit_workers(statistics)

    def fit_workers(self, proba: Array) -> None:
        """Take the workers' part of the M-step, from posteriors (models, tasks, classes)."""
        each_f = self.classifier.proba()
        self.classifier_proba = each_f.reshape(len(self.workers), -1, *each_f.shape[1:])
        for m, workers in enumerate(self.workers):
            workers.fit(proba[m], self.classifier_proba[m, 0])
            if self.shares is not None:
                share = np.average(proba[m], axis=0, weights=self.weight) if self.shares == "learned" else 1.0
                share = np.where(self.possible, np.maximum(share, MIN_SHARE), 0.0)
                self.share[m] = share / share.sum()

    def log_f(self) -> Array:
        """Return the first model's pooled classifiers without class shares, log and up to a constant per task."""
        return weighted_log_sum(np.log(np.maximum(self.classifier_proba[0], FLOOR)), self.weights[0])

    def evidence(self) -> Array:
        """Return the first model's log-likelihood of the answers to each task, (tasks,); see `ConfusionWorkers`."""
        out: Array = self.workers[0].evidence(self.f[0])
        return out


def label_proba(f: Array, confusion: Array, row: Array, worker: Array) -> Array:
    """Return P(label) of answers, (answers, labels): class probabilities f[row] times the workers' confusion."""
    return np.einsum("ac,acl->al", f[row], confusion[worker])
