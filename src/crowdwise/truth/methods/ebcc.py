"""Enhanced Bayesian classifier combination (Li, Rubinstein and Cohn 2019): subtypes of classes model shared errors.

    class_prior        ~ Dirichlet(alpha, ..., alpha)                         t = task, a = answer, w = worker
    share[c]           ~ Dirichlet(a_pi / M, ..., a_pi / M)                   M = num_groups subtypes of each class
    confusion[w, c, m] ~ Dirichlet(a_v for the right label, b_v for others)   one row per subtype
    truth[t]           ~ Categorical(class_prior)
    subtype[t]         ~ Categorical(share[truth])
    label[a]           ~ Categorical(confusion[worker[a], truth, subtype])

Given the truth alone, answers are not independent: on a subtype that is hard or looks like another class, many workers
make the same error. A small a_pi leaves superfluous subtypes empty. Inference is mean-field variational Bayes as in
IBCC, with the columns (c, m) in place of the classes:

    proba[t, (c, m)] proportional to exp(E log class_prior[c] + E log share[c, m]
                                         + sum over a to t of E log confusion[worker[a], c, m, label[a]])
    bound = ELBO = sum over tasks of log(normaliser) - KL(class_prior) - KL(share) - KL(confusion)

The paper's symbols: tau = class_prior, pi = share, v = confusion, a_v and b_v = beta on and off the diagonal.

Li, Rubinstein and Cohn, "Exploiting worker correlation for label aggregation in crowdsourcing", ICML 2019. Each start
splits the votes into subtypes at random; the best bound of `n_init` starts is kept. Memory grows with
(tasks + pairs) x classes x subtypes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels.confusion import ConfusionWork
from crowdwise.truth.kernels.threads import run
from crowdwise.truth.methods.dawid_skene import dense_confusion
from crowdwise.truth.methods.ibcc import check_dirichlet_weight, diagonal, dirichlet, dirichlet_rows, posterior_mean


class Work(NamedTuple):
    """Arrays of one fit. Columns are (class, subtype), in this order."""

    confusion: ConfusionWork
    prior: Array  # (labels, columns)
    allowed: Array | None  # (tasks, columns): false where a known truth rules out the column
    splits: Iterator[Array]  # (tasks, subtypes) for each start
    n_tasks: int
    shape: tuple[int, int]  # classes, subtypes
    log_table: Array  # (pairs, columns): E log confusion
    totals: Array  # (workers, columns): sums of Dirichlet weights
    divergence: Array  # (workers,): KL of each worker's posterior from the prior


class Parameters(NamedTuple):
    """The variational posteriors, as counts added to their priors."""

    sizes: Array  # (classes, subtypes)
    counts: Array  # (pairs, columns)


class EBCC(EMModel):
    """Bayesian Dawid-Skene with subtypes of each class, for workers whose errors are correlated.

    Parameters
    ----------
    num_groups : int
        Largest number of subtypes per class; those not needed stay empty.
    a_pi : float
        Dirichlet weight of all subtypes of a class together; small means few of them.
    alpha : float
        Dirichlet weight of each class.
    a_v, b_v : float
        Dirichlet weight of the right label in a confusion row, and of each wrong label. The defaults are the paper's
        and suit few classes. With ten or more, use a smaller b_v such as 0.5, or the wrong labels together outweigh
        the right one.
    max_iter, tol, n_init, warm_start, random_state
        As in `DawidSkene`; the starts differ in the random split of the votes into subtypes.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        Posterior mean of P(worker w says l | truth c) as [w, c, l], averaged over the subtypes.
    class_prior_ : (classes,) array
        Posterior mean.
    subtype_share_ : (classes, subtypes) array
        Posterior mean of each subtype's share of its class.
    history_ : list of float
        The ELBO.

    Examples
    --------
    >>> from crowdwise import EBCC, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> EBCC().fit(answers).labels_.tolist()
    ['x', 'y']
    """

    def __init__(
        self,
        num_groups: int = 10,
        a_pi: float = 0.1,
        alpha: float = 1.0,
        a_v: float = 4.0,
        b_v: float = 1.0,
        *,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_init: int = 3,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.num_groups = num_groups
        self.a_pi = a_pi
        self.alpha = alpha
        self.a_v = a_v
        self.b_v = b_v
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state

    has_matrices = True
    class_prior_: Array
    subtype_share_: Array
    table_: Array
    prior_: Array
    totals_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(self.num_groups >= 1, "num_groups", self.num_groups, "1 or more")
        require(0 < self.a_pi < np.inf, "a_pi", self.a_pi, "a Dirichlet weight above 0")
        for name in ("alpha", "a_v", "b_v"):
            check_dirichlet_weight(name, getattr(self, name))

    def _first_posteriors(self, answers: Answers, start: int, rng: np.random.Generator) -> Array:
        return super()._first_posteriors(answers, 0, rng)  # only the subtypes are random

    def _prepare(self, answers: Answers, gold: Array | None) -> Work:
        shape = (answers.n_classes, self.num_groups)
        prior = np.repeat(diagonal(answers.n_classes, self.a_v, self.b_v), self.num_groups, axis=1)
        allowed = None
        if gold is not None:
            of_class = np.repeat(np.arange(answers.n_classes), self.num_groups)  # (columns,)
            allowed = (gold[:, None] < 0) | (gold[:, None] == of_class)
        table = np.empty((len(answers.pairs.label), prior.shape[1]))
        totals = np.empty((answers.n_workers, prior.shape[1]))
        return Work(
            ConfusionWork(answers.task_starts, answers.pairs, answers.weight, prior.shape[1]), prior, allowed,
            random_splits(answers, self.num_groups, self.random_state), answers.n_tasks, shape,
            table, totals, np.empty(answers.n_workers),
        )  # fmt: skip

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        columns = (proba[:, :, None] * next(work.splits)[:, None, :]).reshape(work.n_tasks, -1)  # (tasks, columns)
        return Parameters(columns.sum(axis=0).reshape(work.shape), work.confusion.count(columns).copy())

    def _e_step(self, work: Work, parameters: Parameters, proba: Array | None = None) -> tuple[Any, float]:
        pairs = work.confusion.pairs
        run(
            dirichlet_rows, len(work.totals), parameters.counts, pairs.label, pairs.worker_starts, work.prior,
            work.log_table, work.totals, work.divergence,
        )  # fmt: skip
        work.confusion.set_log_table(work.log_table)
        log_class, class_divergence = dirichlet(parameters.sizes.sum(axis=1), self.alpha)  # (classes,)
        log_share, share_divergence = dirichlet(parameters.sizes, self.a_pi / self.num_groups)  # (classes, subtypes)
        column = np.exp(log_class[:, None] + log_share).ravel()
        prior = column if work.allowed is None else column * work.allowed
        counts, sizes, log_normaliser = work.confusion.e_step(prior, None, counts=proba is None, proba=proba)
        divergence = class_divergence + share_divergence + float(work.divergence.sum())
        return (sizes.reshape(work.shape), counts), log_normaliser - divergence

    def _m_step(self, work: Work, statistics: Any, parameters: Parameters) -> Parameters:
        sizes, counts = statistics
        return Parameters(sizes, counts.copy())

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        columns = np.empty((work.n_tasks, work.confusion.n_classes))
        self._e_step(work, parameters, columns)
        proba = columns.reshape(work.n_tasks, *work.shape).sum(axis=2)  # (tasks, classes)
        return proba / proba.sum(axis=1, keepdims=True)

    def _store(self, work: Work, parameters: Parameters) -> None:
        classes = parameters.sizes.sum(axis=1) + self.alpha
        self.class_prior_ = classes / classes.sum()
        shares = parameters.sizes + self.a_pi / self.num_groups
        self.subtype_share_ = shares / shares.sum(axis=1, keepdims=True)
        # Averaged over subtypes, the confusion of a label never used is prior * sum over m of share[m] / total[m].
        pairs = work.confusion.pairs
        mean = posterior_mean(parameters.counts, work.prior, work.totals, pairs.label, pairs.worker_starts)
        self.table_ = (mean.reshape(-1, *work.shape) * self.subtype_share_).sum(axis=2)  # (pairs, classes)
        self.totals_ = 1 / (self.subtype_share_ / work.totals.reshape(-1, *work.shape)).sum(axis=2)
        self.prior_ = np.ascontiguousarray(work.prior[:, :: self.num_groups])  # (labels, classes)

    @property
    def confusion_(self) -> Array:
        """Posterior mean of P(worker w says l | truth c) as [w, c, l]; raises TooLargeError if it does not fit."""
        return dense_confusion(self._fitted, self.table_, self.prior_, self.totals_)


def random_splits(answers: Answers, n_groups: int, seed: int) -> Iterator[Array]:
    """Yield random subtype shares per task, (tasks, subtypes), from a flat Dirichlet; new ones for each start.

    Each task's draws come from a fingerprint of its answers, so they do not depend on the order or names of tasks,
    workers and classes. Otherwise sorting the tasks differently could change the result.
    """
    task = fingerprints(answers)  # (tasks,)
    streams = np.random.default_rng(seed)
    while True:
        stream = streams.integers(2**64, size=n_groups, dtype=np.uint64)  # (subtypes,)
        bits = _mix(task[:, None] ^ stream) >> np.uint64(11)  # (tasks, subtypes): 53 random bits each
        draws = -np.log((bits.astype(float) + 0.5) / 2**53)  # exponential: Dirichlet, once divided by their sum
        yield draws / draws.sum(axis=1, keepdims=True)


def fingerprints(answers: Answers, rounds: int = 3) -> Array:
    """Return a hash per task that depends only on the structure of the answers (Weisfeiler-Lehman hashing).

    Tasks, workers and classes start equal; in each round, each adds the hashes of its neighbours. Integer sums
    (modulo 2**64) do not depend on the order.
    """
    codes = (answers.task, answers.worker, answers.label)
    sizes = (answers.n_tasks, answers.n_workers, answers.n_classes)
    node_hashes = [np.zeros(n, np.uint64) for n in sizes]
    weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
    for step in range(rounds):
        answer_hash = _mix(weight.view(np.uint64) + np.uint64(step))  # (answers,)
        for salt, (code, hashes) in enumerate(zip(codes, node_hashes, strict=True), start=1):
            answer_hash = _mix(answer_hash + _mix(hashes + np.uint64(salt))[code])
        answer_hash[weight == 0] = 0  # as if the answer did not exist
        for code, hashes in zip(codes, node_hashes, strict=True):
            np.add.at(hashes, code, answer_hash)
    return _mix(node_hashes[0])


def _mix(x: Array) -> Array:
    """SplitMix64's finalizer: every input bit affects all 64 output bits."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
