"""Dawid and Skene (1979): each worker has a confusion matrix; EM estimates the truth and the matrices together.

    truth[t]        ~ Categorical(class_prior)                  t = task
    label[a]        ~ Categorical(confusion[worker[a], truth])  a = answer
    confusion[w, c] ~ Dirichlet(1 + prior[c])                   MAP when a prior is given

    E   proba[t, c]         proportional to class_prior[c] * prod over a to t of confusion[worker[a], c, label[a]]
    M   confusion[w, c, l]  proportional to prior[c, l] + sum over w's answers a that say l of proba[task[a], c]
        class_prior[c]      = mean over tasks of proba[t, c]

    bound = log-likelihood of the answers + log prior of the matrices (up to a constant)

Dawid and Skene, "Maximum likelihood estimation of observer error-rates using the EM algorithm", Applied Statistics 28
(1979). Without a prior, a worker with a handful of answers gets a matrix of zeros and ones and far too much or too
little weight: that is where plain EM loses to majority vote. It also fails when workers err together.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers, Pairs
from crowdwise.errors import TooLargeError
from crowdwise.truth.base import Array
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels.confusion import ConfusionWork, confusion_rows
from crowdwise.truth.kernels.shared import FLOOR

Prior = Literal["hierarchical", "diagonal"] | float | Array | None


class Work(NamedTuple):
    """Arrays of one fit."""

    confusion: ConfusionWork
    gold: Array | None
    n_tasks: int
    totals: Array  # (workers, classes): normaliser of each confusion row
    log_prior: Array  # (workers,)


class Parameters(NamedTuple):
    """The parameters that EM estimates."""

    class_prior: Array  # (classes,)
    table: Array  # (pairs, classes)
    prior: Array  # (labels, classes) or (workers, labels, classes): pseudo-counts, fixed during EM
    log_prior: float
    totals: Array  # (workers, classes)


class DawidSkene(EMModel):
    """One confusion matrix per worker, estimated together with the truth by EM.

    Parameters
    ----------
    prior : "hierarchical", "diagonal", float, (classes, classes) or (workers, classes, classes) array, or None
        Pseudo-counts added to each worker's confusion matrix (rows = truth, columns = label). A float is the same count
        for every cell. "diagonal" is 0.1 for every cell and 1 more on the diagonal. "hierarchical" is smaller counts of
        that kind plus the confusion of all workers together, which pulls workers with few answers towards the average.
        An array with one matrix per worker (in the order of `answers.workers`) holds earlier knowledge about them.
        None, as in the paper, adds nothing.
    class_prior : {"estimated", "uniform"}
        Whether to estimate the share of each class.
    hard : bool
        Whether each E-step decides for the most probable class (classification EM), as in ICED.
    max_iter : int
        Largest number of iterations.
    tol : float
        Rise of the bound per answer at which the iteration stops; 0 runs all `max_iter` iterations.
    n_init : int
        Number of starts; the one with the best bound is kept.
    warm_start : bool
        Whether `fit` starts from the posteriors of the previous fit.
    random_state : int
        Seed for the starts and for breaking ties.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        `confusion_[w, c, l]` = P(worker w says l | truth c).
    class_prior_ : (classes,) array

    Examples
    --------
    >>> from crowdwise import Answers, DawidSkene
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> DawidSkene().fit(answers).labels_.tolist()
    ['x', 'y']
    """

    def __init__(
        self,
        prior: Prior = "diagonal",
        class_prior: Literal["estimated", "uniform"] = "estimated",
        *,
        hard: bool = False,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_init: int = 1,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.prior = prior
        self.class_prior = class_prior
        self.hard = hard
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state

    has_matrices = True
    class_prior_: Array
    table_: Array
    prior_: Array
    totals_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_prior(self.prior)
        require(
            self.class_prior in ("estimated", "uniform"),
            "class_prior",
            self.class_prior,
            "'estimated' or 'uniform'",
        )

    def _prepare(self, answers: Answers, gold: Array | None) -> Work:
        work = ConfusionWork(answers.task_starts, answers.pairs, answers.weight, answers.n_classes)
        shape = (answers.n_workers, answers.n_classes)
        return Work(work, gold, answers.n_tasks, np.empty(shape), np.empty(answers.n_workers))

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        counts = work.confusion.count(proba)
        prior = prior_counts(self.prior, counts, work.confusion.pairs)
        return self._estimate(work, counts, proba.sum(axis=0), prior)

    def _e_step(self, work: Work, parameters: Parameters) -> tuple[Any, float]:
        work.confusion.set_table(parameters.table)
        counts, totals, log_likelihood = work.confusion.e_step(parameters.class_prior, work.gold, hard=self.hard)
        return (counts, totals), log_likelihood + parameters.log_prior

    def _m_step(self, work: Work, statistics: Any, parameters: Parameters) -> Parameters:
        counts, totals = statistics
        return self._estimate(work, counts, totals, parameters.prior)

    def _estimate(self, work: Work, counts: Array, totals: Array, prior: Array) -> Parameters:
        pairs = work.confusion.pairs
        table = np.empty_like(counts)
        by_worker = prior.reshape(-1, *prior.shape[-2:])  # (1 or workers, labels, classes)
        confusion_rows(counts, pairs.label, pairs.worker_starts, by_worker, table, work.totals, work.log_prior)
        class_prior = self._shares(totals, work.n_tasks)
        return Parameters(class_prior, table, prior, float(work.log_prior.sum()), work.totals.copy())

    def _shares(self, sizes: Array, n_tasks: int) -> Array:
        """Return the share of each class from its expected number of tasks."""
        if self.class_prior == "uniform":
            return np.full(len(sizes), 1 / len(sizes))
        return np.maximum(sizes / n_tasks, FLOOR)

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        work.confusion.set_table(parameters.table)
        return work.confusion.posterior(parameters.class_prior, work.gold)

    def _store(self, work: Work, parameters: Parameters) -> None:
        self.class_prior_ = parameters.class_prior
        self.table_, self.prior_, self.totals_ = (
            parameters.table,
            parameters.prior,
            parameters.totals,
        )

    @property
    def confusion_(self) -> Array:
        """P(worker w says l | truth c) as [w, c, l]; raises TooLargeError if it does not fit in memory."""
        answers = self._fitted
        return dense_confusion(answers, self.table_, self.prior_, self.totals_)


def check_prior(prior: Prior) -> None:
    """Raise ParameterError unless this is a valid prior of confusion matrices."""
    if isinstance(prior, str):
        named = prior in ("hierarchical", "diagonal")
        require(named, "prior", prior, "'hierarchical', 'diagonal', a number, a matrix or None")
    elif prior is not None:
        counts = np.asarray(prior)
        fits = counts.dtype.kind in "iuf" and bool(np.isfinite(counts).all() and (counts >= 0).all())
        require(fits, "prior", prior, "finite counts >= 0")


def prior_counts(prior: Prior, counts: Array, pairs: Pairs) -> Array:
    """Return the pseudo-counts (labels, classes) or (workers, labels, classes) for a `prior` argument.

    `counts` (pairs, classes) are the first confusion counts, which the hierarchical prior needs.
    """
    n_classes = counts.shape[1]
    if prior is None:
        return np.zeros((n_classes, n_classes))
    if isinstance(prior, str):
        if prior == "diagonal":
            return 0.1 + np.eye(n_classes)
        pooled = np.zeros((n_classes, n_classes))
        np.add.at(pooled, pairs.label, counts)  # (labels, classes): all workers together
        pooled += FLOOR
        return 0.02 + 0.5 * np.eye(n_classes) + 4 * pooled / pooled.sum(axis=0)
    matrix = np.asarray(prior, dtype=float)
    n_workers, square = len(pairs.worker_starts) - 1, (n_classes, n_classes)
    require(
        matrix.shape in ((), square, (n_workers, *square)),
        "prior",
        matrix.shape,
        f"a {n_classes} x {n_classes} matrix, or one for each of the {n_workers} workers",
    )
    if matrix.ndim == 0:
        matrix = np.full(square, matrix)
    return np.ascontiguousarray(matrix.swapaxes(-1, -2))


def dense_confusion(answers: Answers, table: Array, prior: Array, totals: Array, max_cells: int = 500_000_000) -> Array:
    """Return confusion matrices [worker, truth, label]; labels that a worker never used have their prior."""
    shape = (answers.n_workers, answers.n_classes, answers.n_classes)
    if np.prod(shape, dtype=float) > max_cells:
        message = (
            f"the confusion matrices of {shape[0]:,} workers and {shape[1]:,} classes do not fit in memory. "
            f"Fit fewer workers at a time or merge rare classes."
        )
        raise TooLargeError(message)
    pairs = answers.pairs
    by_truth = prior.swapaxes(-1, -2)  # (truth, labels), or (workers, truth, labels)
    dense = by_truth / np.maximum(totals, FLOOR)[:, :, None]  # (workers, truth, labels): labels never used
    worker = np.repeat(np.arange(answers.n_workers), np.diff(pairs.worker_starts))
    dense[worker, :, pairs.label] = table
    empty = dense.sum(axis=2) <= 0  # no answers and no prior: equal probabilities
    dense[empty] = 1 / answers.n_classes
    return np.ascontiguousarray(dense / dense.sum(axis=2, keepdims=True))
