"""Joint EM: one engine for Raykar, AggNet, the difficulty models, and what comes after them.

Three pieces, each exchangeable:

    posterior    T[t, c]  proportional to  f(x_t)[c] * prod over its answers of P(label | worker, c)^count
    workers      how workers answer given the truth: `ConfusionWorkers`, or `DifficultyWorkers`
    classifier   f, fitted to the soft labels T: Gaussian, logistic, any estimator, or a network (`classifiers`); or
                 several at once, of which `pooling` makes one; with the shares of the classes, where these stand apart

    E   T from the classifier and the workers; where shares of the classes are declared, pulled towards them
    M   workers and classifier from T

    bound = log-likelihood of the answers + log prior of the workers' and the classifier's parameters

The bound never falls when the classifier's fit never does (logistic). It may with networks, which take a few steps by
random batches; with `cross_fit`, where the classifier that judges a task is not the one its likelihood rewards; with
`calibrate`; with a `count` that changes; with `leave_one_out`; and with declared shares. The tests hold the first kind
to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array, Callback
from crowdwise.learn.joint_em.class_prior import pulled
from crowdwise.learn.joint_em.classifiers import Classifier
from crowdwise.learn.joint_em.pooling import answer_count, pool, pool_weights
from crowdwise.truth.base import fix_gold
from crowdwise.truth.em import run_em
from crowdwise.truth.kernels.confusion import ConfusionWork, confusion_rows
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.dawid_skene import Prior, dense_confusion, prior_counts

RAREST = 1e-12  # share of a class that was named: it can come back


class Workers(Protocol):
    """What joint EM asks of a model of the workers."""

    def fit(self, proba: Array, f: Array) -> None:
        """Learn from posteriors and the classifier's probabilities, (tasks, classes) each."""

    def posterior(self, f: Array, gold: Array | None) -> tuple[Array, float]:
        """Posteriors (tasks, classes), with the classifier's probabilities as the prior; and the log-likelihood."""

    def log_likelihood(self, f: Array, gold: Array | None) -> Array:
        """Log P(answers to t | truth c), (tasks, classes), up to a constant for each task."""

    def log_prior(self) -> float:
        """Log prior of the parameters, up to a constant."""


class ConfusionWorkers:
    """A confusion matrix for each worker, with a Dirichlet prior: Dawid and Skene's.

    With `leave_one_out` an answer is judged by what its worker said to the other tasks: the posterior of a task does
    not hang on a matrix that was counted from it. With `renew` a prior that pools the crowd does so in each round,
    and not once at the start, where all that is known are votes; the bound is then that of another prior each time.
    """

    def __init__(
        self,
        answers: Answers,
        prior: Prior,
        weight: Array | None,
        *,
        leave_one_out: bool = False,
        renew: bool = False,
    ) -> None:
        self.answers, self.setting, self.weight = answers, prior, weight
        self.leave_one_out, self.renew = leave_one_out, renew
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
        if self.prior is None or self.renew:
            self.prior = prior_counts(self.setting, counts, pairs)
            if isinstance(self.setting, str) and self.setting == "hierarchical":
                self.prior = without_doubles(self.prior, prior_counts("diagonal", counts, pairs))
        self.table = np.empty_like(counts)
        by_worker = self.prior.reshape(-1, *self.prior.shape[-2:])
        confusion_rows(counts, pairs.label, pairs.worker_starts, by_worker, self.table, self.totals, self.log_priors)
        self.work.set_table(self.table)
        self.believed = proba

    def posterior(self, f: Array, gold: Array | None, count: float = 1.0) -> tuple[Array, float]:
        """As every model of workers has; each answer taken for `count` of one."""
        if self.leave_one_out:
            return posterior_of(count * self.each(), f, self.answers, gold, self.weight)
        if count != 1:
            said = np.log(self.table[self.answers.pairs.of_answer]) * (count * self._counts())
            return posterior_of(said, f, self.answers, gold, self.weight)
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

    def log_likelihood(self, f: Array, gold: Array | None) -> Array:  # noqa: D102
        with np.errstate(divide="ignore"):  # what is known, or cannot be, has no chance at all
            return np.log(self.posterior(np.ones_like(f), gold)[0])

    def evidence(self, f: Array) -> Array:
        """Log P(answers to t), (tasks,), each answer judged by its worker's others, and the truth by f."""
        return evidence_of(self.each(), f, self.answers)

    def log_prior(self) -> float:  # noqa: D102
        return float(self.log_priors.sum())

    def count(self, f: Array, gold: Array | None) -> float:
        """For how much each answer is to be taken: see `answer_count`."""
        a = self.answers
        weight = np.ones(a.n_answers) if self.weight is None else self.weight[a.task]
        if gold is not None:
            weight = weight * (gold[a.task] < 0)  # of these tasks nothing is left to be foretold
        return answer_count(np.log(f), self.each(), a, weight)

    def _counts(self) -> Any:
        """Weights of the answers as a column, or 1."""
        return 1.0 if self.answers.weight is None else self.answers.weight[:, None]

    def each(self) -> Array:
        """Log P(label[a] | worker[a], truth c), (answers, classes), from the worker's other answers and the prior."""
        a = self.answers
        total = self.totals[a.worker]  # (answers, classes): counts and pseudo-counts of all labels
        own = self.believed[a.task] * (1.0 if self.counter.weight.size == 0 else self.counter.weight[:, None])
        count = self.table[a.pairs.of_answer] * total - own
        return np.asarray(np.log(np.maximum(count, FLOOR) / np.maximum(total - own, FLOOR)) * self._counts())

    def confusion(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l]."""
        assert self.prior is not None
        return dense_confusion(self.answers, self.table, self.prior, self.totals)


def without_doubles(crowd: Array, diagonal: Array) -> Array:
    """The crowd's prior, (labels, classes), but the diagonal one of classes that go by another's name.

    A class that is named by mistake alone lives on tasks of another one. Where the crowd, asked for it, mostly says the
    other, that is what its prior would make the rule: two classes for one, and either may have the tasks.

    >>> crowd = np.array([[0.9, 0.6, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 1.0]])  # where 1 is true, most say 0
    >>> without_doubles(crowd, np.eye(3)).tolist()
    [[0.9, 0.0, 0.0], [0.1, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    doubles = crowd.argmax(axis=0) != np.arange(len(crowd))
    return np.where(doubles, diagonal, crowd)


def posterior_of(
    each: Array, f: Array, answers: Answers, gold: Array | None, weight: Array | None
) -> tuple[Array, float]:
    """Posteriors (tasks, classes) and the log-likelihood, from that of each answer given each class, `each`."""
    logs = _joined(each, f, answers)
    if gold is not None:
        known = np.flatnonzero(gold >= 0)
        kept = logs[known, gold[known]]
        logs[known] = -np.inf
        logs[known, gold[known]] = kept
    top = logs.max(axis=1)
    p = np.exp(logs - top[:, None])
    total = p.sum(axis=1)
    evidence = top + np.log(total)
    return p / total[:, None], float((evidence if weight is None else weight * evidence).sum())


def evidence_of(each: Array, f: Array, answers: Answers) -> Array:
    """Log-likelihood of the answers to each task, (tasks,), from that of each answer given each class, `each`."""
    return np.asarray(np.logaddexp.reduce(_joined(each, f, answers), axis=1))


def _joined(each: Array, f: Array, answers: Answers) -> Array:
    """Log of f(x_t)[c] times the likelihood of the answers to t, (tasks, classes)."""
    logs = np.log(f)
    for c in range(f.shape[1]):
        logs[:, c] += np.bincount(answers.task, each[:, c], minlength=len(f))
    return np.asarray(logs)


class Joint:
    """Joint EM over some models (networks trained side by side; one for the rest), by the EM driver.

    Parameters
    ----------
    answers, gold
        What the workers said, and codes of known labels (-1 unknown), held fixed.
    workers : list of Workers
        One for each model.
    classifier : Classifier
        Of as many models, or of some multiple of that: then so many classifiers are heard for each model.
    calibrate : bool
        Choose in each round how far to trust each classifier by how likely it makes the answers.
    declared : (shares, strength) or None
        Shares of the classes (classes,) that posteriors are pulled towards in each round.
    weight : (tasks,) array or None
        How much each task counts in `calibrate`, `declared` and `shares`.
    shares : {"even", "learned"} or None
        Shares of the classes, where classifiers do not know them: the same for all, or as posteriors have them.
    named : (classes,) bool array or None
        Classes that can be true; the others get no belief.
    count : float or "auto"
        For how much of an answer each one is taken; "auto" asks the answers in each round (`answer_count`).
    max_iter, tol
        As for every EM model.
    still : float
        Mean change of the posteriors in a round below which EM has settled.
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
        declared: tuple[Array, float] | None = None,
        weight: Array | None = None,
        shares: Literal["even", "learned"] | None = None,
        named: Array | None = None,
        count: float | Literal["auto"] = 1.0,
        still: float = 0.0,
        monotone: bool = True,
    ) -> None:
        self.shares, self.count, self.still = shares, count, still
        self.named = np.ones(answers.n_classes, bool) if named is None else named
        some = None if self.named.all() else self.named / self.named.sum()
        self.share: list[Array | None] = [some] * len(workers)  # (classes,) each; None changes nothing
        self.counts = np.ones(len(workers)) if count == "auto" else np.full(len(workers), count)
        self.moved = np.inf  # mean change of the posteriors in the last round
        self.answers, self.gold, self.workers, self.classifier = answers, gold, workers, classifier
        self.calibrate, self.declared, self.weight = calibrate, declared, weight
        self.max_iter, self.tol, self.monotone = max_iter, tol, monotone
        self.weights = np.ones((len(workers), 1))  # (models, classifiers of each)
        self.says: Array = np.empty(0)  # what each classifier believes, (models, classifiers, tasks, classes)
        self.proba = self.f = np.empty(0)  # posteriors, and all classifiers' belief: (models, tasks, classes)

    def start(self, proba: Array, *, by_features: bool = False) -> None:
        """The first M-step, from first posteriors (tasks, classes).

        With `by_features` workers are then judged anew, by what cross-fitted classifiers have learned from these: a
        worker who is judged by votes is confirmed by his own, and where a task has one answer, by nothing else.
        """
        self.proba = np.repeat(fix_gold(proba, self.gold)[None], len(self.workers), axis=0)
        self._m_step(None, self.proba, None)
        if by_features:
            self._e_step(None, None)
            self.fit_workers(np.stack([fix_gold(self.f[m], self.gold) for m in range(len(self.f))]))

    def run(self, callback: Callback | None, done: int = 0, left: int = 0) -> tuple[list[float], bool]:
        """EM from where the pieces stand: the bounds, and whether they settled. `proba` holds the posteriors.

        The callback counts rounds from those `done` before, up to those `left` for after.
        """
        rounds = done + self.max_iter + left
        told: Callable[[int, float], None] | None = None
        if callback is not None:
            told = lambda i, bound: callback({"iteration": done + i + 1, "iterations": rounds, "bound": bound})  # noqa: E731
        _, history, converged = run_em(
            self, None, None, self.answers.n_answers, told, has_converged=lambda: self.moved < self.still
        )
        return history, converged

    def _e_step(self, work: None, parameters: None) -> tuple[Array, float]:
        says = self.says
        if self.weights.shape[1] != says.shape[1]:
            self.weights = np.full(says.shape[:2], 1 / says.shape[1])
        bound, before = -self.classifier.penalty(), self.proba
        self.proba, self.f = np.empty((2, len(says), *says.shape[2:]))
        for m, workers in enumerate(self.workers):
            if self.calibrate:
                self.weights[m] = self._weighed(says[m], workers, self.weights[m], self.share[m])
            self.f[m] = pool(says[m], self.weights[m], self.share[m])
            if self.count == "auto":
                self.counts[m] = workers.count(self.f[m], self.gold)
            counted = {} if self.counts[m] == 1 else {"count": self.counts[m]}  # which not all workers know
            self.proba[m], log_likelihood = workers.posterior(self.f[m], self.gold, **counted)
            if self.declared is not None:
                self.proba[m] = pulled(self.proba[m], *self.declared, self.gold, self.weight)
            bound += log_likelihood + workers.log_prior()
        self.moved = float(np.abs(self.proba - before).mean()) if before.shape == self.proba.shape else np.inf
        return self.proba, bound

    def _weighed(self, says: Array, workers: Any, start: Array, share: Array | None) -> Array:
        """Weights of the classifiers (classifiers,), by how likely they make the answers."""
        likely = workers.log_likelihood(pool(says, start, share), self.gold)
        with np.errstate(divide="ignore"):
            log_share = 0.0 if share is None else np.log(share)
        return pool_weights(np.log(np.maximum(says, FLOOR)), likely, self.weight, start, log_share)

    def _m_step(self, work: None, statistics: Array, parameters: None) -> None:
        self.classifier.fit(statistics)
        self.fit_workers(statistics)

    def fit_workers(self, proba: Array) -> None:
        """The workers' part of the M-step, from posteriors (models, tasks, classes)."""
        says = self.classifier.proba()
        self.says = says.reshape(len(self.workers), -1, *says.shape[1:])
        for m, workers in enumerate(self.workers):
            workers.fit(proba[m], self.says[m, 0])
            if self.shares is not None:
                share = np.average(proba[m], axis=0, weights=self.weight) if self.shares == "learned" else 1.0
                kept = np.where(self.named, np.maximum(share, RAREST), 0.0)
                self.share[m] = kept / kept.sum()

    def evidence(self) -> Array:
        """Log-likelihood of the answers to each task, (tasks,), each answer judged by others: of the first model."""
        out: Array = self.workers[0].evidence(self.f[0])
        return out


def answers_given_truth(f: Array, confusion: Array, row: Array, worker: Array) -> Array:
    """P(label) of some answers, (answers, labels): the classifier's belief seen through the worker's confusion."""
    return np.einsum("ac,acl->al", f[row], confusion[worker])
