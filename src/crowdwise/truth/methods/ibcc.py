"""Independent Bayesian classifier combination (Kim and Ghahramani 2012): Dawid-Skene with parameters integrated out.

    class_prior     ~ Dirichlet(alpha, ..., alpha)                            t = task, a = answer, w = worker
    confusion[w, c] ~ Dirichlet(prior[c])                                     heavier on the diagonal
    truth[t]        ~ Categorical(class_prior)
    label[a]        ~ Categorical(confusion[worker[a], truth])

Mean-field variational Bayes, q(truth) q(class_prior) q(confusion); each factor is optimised in turn, given the others:

    truth       proba[t, c]       proportional to exp(E log class_prior[c] + sum over a to t of
                                                      E log confusion[worker[a], c, label[a]])
    class_prior Dirichlet(alpha + sizes)           sizes[c]        = sum over tasks of proba[t, c]
    confusion   Dirichlet(prior[c] + counts[w, c]) counts[w, c, l] = sum over w's answers a that say l of proba[task, c]

For Dirichlet weights d, the expected log of share x is digamma(d[x]) - digamma(sum d).

    bound = ELBO = sum over tasks of log(normaliser of proba[t]) - KL(class_prior) - sum of all KL(confusion[w, c])

The bound is never above the log evidence of the answers. A label that a worker never used has the same weight in prior
and posterior, so its terms of the KL cancel: only the (worker, label) pairs that occur, and sums, are computed.

Kim and Ghahramani, "Bayesian classifier combination", AISTATS 2012. Workers with few answers keep wide posteriors and
have little influence. With many classes a large b_v outweighs the diagonal (20 classes and b_v = 1: worse than majority
vote). Mean field is overconfident with few answers. On crowds drawn from its own prior (3 classes, 30 answers per
worker), labels of mean probability .967 were right .922 of the time with 3 answers per task, .994 and .971 with 5,
1.000 and .997 with 10. The exact posterior of tiny crowds, by enumeration, is calibrated to .003
(`benchmarks/statistical_checks.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels.confusion import ConfusionWork
from crowdwise.truth.kernels.threads import compiled, run
from crowdwise.truth.methods.dawid_skene import dense_confusion

MIN_DIRICHLET_WEIGHT = 0.02  # below this, products of a few exp(digamma) underflow


class Work(NamedTuple):
    """Arrays of one fit."""

    confusion: ConfusionWork
    prior: Array  # (labels, classes)
    gold: Array | None
    n_tasks: int
    log_table: Array  # (pairs, classes): E log confusion
    totals: Array  # (workers, classes): sums of Dirichlet weights
    divergence: Array  # (workers,): KL of each worker's posterior from the prior


class Parameters(NamedTuple):
    """The variational posteriors, as counts added to their priors."""

    sizes: Array  # (classes,)
    counts: Array  # (pairs, classes)


class IBCC(EMModel):
    """Bayesian Dawid-Skene by variational inference.

    Parameters
    ----------
    alpha : float
        Dirichlet weight of each class.
    a_v, b_v : float
        Dirichlet weight of the right label in a confusion row, and of each wrong label.
    max_iter, tol, n_init, warm_start, random_state
        As in `DawidSkene`.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        Posterior mean of P(worker w says l | truth c), as [w, c, l].
    class_prior_ : (classes,) array
        Posterior mean.
    history_ : list of float
        The ELBO.

    Examples
    --------
    >>> from crowdwise import IBCC, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> IBCC().fit(answers).labels_.tolist()
    ['x', 'y']
    """

    def __init__(
        self,
        alpha: float = 1.0,
        a_v: float = 3.0,
        b_v: float = 0.5,
        *,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_init: int = 1,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
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
    table_: Array
    prior_: Array
    totals_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("alpha", "a_v", "b_v"):
            check_dirichlet_weight(name, getattr(self, name))

    def _prepare(self, answers: Answers, gold: Array | None) -> Work:
        prior = diagonal(answers.n_classes, self.a_v, self.b_v)
        work = ConfusionWork(answers.task_starts, answers.pairs, answers.weight, answers.n_classes)
        shape = (len(answers.pairs.label), answers.n_classes)
        totals = np.empty((answers.n_workers, answers.n_classes))
        return Work(work, prior, gold, answers.n_tasks, np.empty(shape), totals, np.empty(answers.n_workers))

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        return Parameters(proba.sum(axis=0), work.confusion.count(proba).copy())

    def _e_step(self, work: Work, parameters: Parameters) -> tuple[Any, float]:
        log_shares, divergence = self._expected_logs(work, parameters)
        counts, sizes, log_normaliser = work.confusion.e_step(np.exp(log_shares), work.gold)
        return (sizes, counts), log_normaliser - divergence - float(work.divergence.sum())

    def _expected_logs(self, work: Work, parameters: Parameters) -> tuple[Array, float]:
        """Return E log class_prior (classes,) and its KL; set the table (E log confusion) and `work.divergence`."""
        pairs = work.confusion.pairs
        run(
            dirichlet_rows, len(work.totals), parameters.counts, pairs.label, pairs.worker_starts, work.prior,
            work.log_table, work.totals, work.divergence,
        )  # fmt: skip
        work.confusion.set_log_table(work.log_table)
        return dirichlet(parameters.sizes, self.alpha)

    def _m_step(self, work: Work, statistics: Any, parameters: Parameters) -> Parameters:
        sizes, counts = statistics
        return Parameters(sizes, counts.copy())

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        return work.confusion.posterior(np.exp(self._expected_logs(work, parameters)[0]), work.gold)

    def _store(self, work: Work, parameters: Parameters) -> None:
        share = parameters.sizes + self.alpha
        self.class_prior_ = share / share.sum()
        pairs = work.confusion.pairs
        self.prior_, self.totals_ = work.prior, work.totals
        self.table_ = posterior_mean(parameters.counts, work.prior, work.totals, pairs.label, pairs.worker_starts)

    @property
    def confusion_(self) -> Array:
        """Posterior mean of P(worker w says l | truth c) as [w, c, l]; raises TooLargeError if it does not fit."""
        return dense_confusion(self._fitted, self.table_, self.prior_, self.totals_)


def check_dirichlet_weight(name: str, value: float) -> None:
    """Raise ParameterError unless this is a valid Dirichlet weight."""
    valid = MIN_DIRICHLET_WEIGHT <= value < np.inf
    require(valid, name, value, f"a Dirichlet weight of {MIN_DIRICHLET_WEIGHT} or more")


def diagonal(n_classes: int, right: float, wrong: float) -> Array:
    """Return Dirichlet weights (labels, classes) of a confusion matrix: `right` on the diagonal, `wrong` elsewhere."""
    return np.where(np.eye(n_classes, dtype=bool), right, wrong)


def dirichlet(counts: Array, prior: float) -> tuple[Array, float]:
    """Return E log of the shares under Dirichlet(prior + counts), last axis, and its KL from Dirichlet(prior)."""
    weights = counts + prior
    total, base = weights.sum(axis=-1), prior * counts.shape[-1]
    logs = digamma(weights) - digamma(total)[..., None]
    divergence = gammaln(total) - gammaln(base) + (gammaln(prior) - gammaln(weights) + counts * logs).sum(axis=-1)
    return logs, float(divergence.sum())


def posterior_mean(counts: Array, prior: Array, totals: Array, label: Array, worker_starts: Array) -> Array:
    """Return the expected probability of each pair under each class, (pairs, classes)."""
    worker = np.repeat(np.arange(len(totals)), np.diff(worker_starts))  # (pairs,)
    return (counts + prior[label]) / totals[worker]


@compiled
def digamma_and_log_gamma(x: float) -> tuple[float, float]:
    """Return both functions for x > 0: recurrence up to 10, then the asymptotic series."""
    back, product = 0.0, 1.0
    while x < 10:
        back += 1 / x
        product *= x
        x += 1
    r = 1 / x
    s = r * r
    log_x = np.log(x)
    psi = log_x - r / 2 - s * (1 / 12 - s * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s / 132))))
    series = r * (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188))))
    return psi - back, (x - 0.5) * log_x - x + 0.9189385332046727 + series - np.log(product)  # log sqrt(2 pi)


@compiled
def dirichlet_rows(
    first_worker: int, end_worker: int, counts: Array, label: Array, worker_starts: Array, prior: Array,
    log_table: Array, totals: Array, divergence: Array,
) -> None:  # fmt: skip
    """Compute expected logs, sum and KL from the prior of Dirichlet(prior[:, c] + counts), each worker's row c.

    `counts` and `log_table` are (pairs, columns), `prior` (labels, columns), `totals` (workers, columns).
    """
    columns = counts.shape[1]
    base = prior.sum(axis=0)
    log_gamma_base = np.empty(columns)
    for c in range(columns):
        log_gamma_base[c] = digamma_and_log_gamma(base[c])[1]
    log_gamma_prior = np.empty_like(prior)
    for labels in range(prior.shape[0]):
        for c in range(columns):
            log_gamma_prior[labels, c] = digamma_and_log_gamma(prior[labels, c])[1]
    for w in range(first_worker, end_worker):
        first, end = worker_starts[w], worker_starts[w + 1]
        kl = 0.0
        for c in range(columns):
            total = base[c]
            for p in range(first, end):
                total += counts[p, c]
            totals[w, c] = total
            psi_total, log_gamma_total = digamma_and_log_gamma(total)
            kl += log_gamma_total - log_gamma_base[c]
            for p in range(first, end):
                psi, log_gamma = digamma_and_log_gamma(counts[p, c] + prior[label[p], c])
                log_table[p, c] = psi - psi_total
                kl += log_gamma_prior[label[p], c] - log_gamma + counts[p, c] * log_table[p, c]
        divergence[w] = kl
