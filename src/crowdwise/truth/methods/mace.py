"""MACE, Hovy et al. (2013): each answer is either the truth or spam; spam follows the worker's own habits.

    truth[t] ~ Uniform(classes)                                            t = task
    spam[a]  ~ Bernoulli(1 - competence[w])                                a = answer, by worker w to task t
    label[a] = truth[t] unless spam[a], then ~ Categorical(strategy[w])
    competence[w] ~ Beta(beta, alpha),  strategy[w] ~ Dirichlet(strategy_prior)

    paper   theta_j = competence      xi_j = strategy      delta = smoothing / classes

    With know = competence[w] and guess = (1 - competence[w]) * strategy[w, l], both of the (worker, label) pair of a:

    E   proba[t, c] proportional to the product over a to t that say c of (know + guess) / guess,
        since an answer favours only the class it names
    M   known[w, l]   = sum over w's answers a that say l of proba[t, l] * know / (know + guess); the rest is spam
        competence[w] = share of known answers;  strategy[w, l] = share of label l among the spam

    method "em": delta is added to every count; bound = log-likelihood + the corresponding log prior (up to a constant)
    method "vb": the counts update Beta and Dirichlet posteriors, and exp E log replaces know and guess;
                 bound = evidence lower bound

Hovy, Berg-Kirkpatrick, Vaswani and Hovy, "Learning whom to trust with MACE", NAACL 2013. Errors other than spam, for
example confusing two classes, do not fit the model: use Dawid-Skene for those.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels.odds import expect


class Work(NamedTuple):
    """Arrays of one fit."""

    answers: Answers
    gold: Array | None
    worker: Array  # (pairs,): the worker of each pair
    answered: Array  # (pairs,): total weight of the pair's answers
    prior: tuple[float, float, float]  # pseudo-counts of known answers, of spam, and of each label in the spam


class Parameters(NamedTuple):
    """Counts with their pseudo-counts, and the logs (or expected logs) of the probabilities that follow from them."""

    known: Array  # (workers,)
    spam: Array  # (workers,)
    labels: Array  # (pairs,): spam answers with the label
    log_know: Array  # (pairs,): the same for all pairs of a worker
    log_guess: Array  # (pairs,)
    log_prior: float  # the prior's part of the bound


class MACE(EMModel):
    """Competence and spamming habits of each worker, estimated together with the truth by EM or variational Bayes.

    Parameters
    ----------
    method : {"vb", "em"}
        Variational Bayes with the priors below, or EM with smoothed counts.
    alpha, beta : float
        Beta prior of each worker: pseudo-counts of spam and of known answers ("vb").
    strategy_prior : float
        Dirichlet prior: pseudo-count of each label in a worker's spam ("vb").
    smoothing : float
        Pseudo-count, divided by the number of classes and added to every count ("em").
    max_iter, tol, n_init, warm_start, random_state
        As in `DawidSkene`.

    Attributes
    ----------
    competence_ : (workers,) array
        Probability that an answer of the worker is the truth rather than spam.
    strategy_ : (workers, classes) array
        Distribution of the worker's labels when spamming.

    Examples
    --------
    >>> from crowdwise import MACE, Answers
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> mace = MACE().fit(answers)
    >>> mace.labels_.tolist(), mace.workers_[mace.competence_.argmin()]
    (['x', 'y'], 'c')
    """

    def __init__(
        self,
        method: Literal["vb", "em"] = "vb",
        *,
        alpha: float = 0.5,
        beta: float = 0.5,
        strategy_prior: float = 10.0,
        smoothing: float = 0.01,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_init: int = 1,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.method = method
        self.alpha = alpha
        self.beta = beta
        self.strategy_prior = strategy_prior
        self.smoothing = smoothing
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state

    competence_: Array
    labels_of_spam_: Array  # (pairs,)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(self.method in ("vb", "em"), "method", self.method, "'vb' or 'em'")
        for name in ("alpha", "beta", "strategy_prior", "smoothing"):
            value = getattr(self, name)
            require(bool(np.isfinite(value)) and value > 0, name, value, "a number above 0")

    def _prior(self, n_classes: int) -> tuple[float, float, float]:
        if self.method == "vb":
            return self.beta, self.alpha, self.strategy_prior
        return (self.smoothing / n_classes,) * 3

    def _prepare(self, answers: Answers, gold: Array | None) -> Work:
        pairs = answers.pairs
        worker = np.repeat(np.arange(answers.n_workers), np.diff(pairs.worker_starts))  # (pairs,)
        answered = np.bincount(pairs.of_answer, answers.weight, minlength=len(worker)).astype(float)
        return Work(answers, gold, worker, answered, self._prior(answers.n_classes))

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        # As if half of all answers were uniform spam: no worker starts with a competence near 1.
        n_classes = work.answers.n_classes
        return estimate(work, agreements(work, proba) * n_classes / (n_classes + 1), bayes=self.method == "vb")

    def _e_step(self, work: Work, parameters: Parameters) -> tuple[Array, float]:
        agreed, log_likelihood = posteriors(work, parameters)
        knew = np.exp(parameters.log_know - np.logaddexp(parameters.log_know, parameters.log_guess))  # (pairs,)
        return agreed * knew, log_likelihood + parameters.log_prior

    def _m_step(self, work: Work, statistics: Array, parameters: Parameters) -> Parameters:
        return estimate(work, statistics, bayes=self.method == "vb")

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        proba = np.empty((work.answers.n_tasks, work.answers.n_classes))
        posteriors(work, parameters, proba)
        return proba

    def _store(self, work: Work, parameters: Parameters) -> None:
        self.competence_ = parameters.known / (parameters.known + parameters.spam)
        self.labels_of_spam_ = parameters.labels

    @property
    def strategy_(self) -> Array:
        """Distribution of each worker's labels when spamming, (workers, classes)."""
        answers = self._fitted
        pairs = answers.pairs
        worker = np.repeat(np.arange(answers.n_workers), np.diff(pairs.worker_starts))
        counts = np.full((answers.n_workers, answers.n_classes), self._prior(answers.n_classes)[2])
        counts[worker, pairs.label] = self.labels_of_spam_
        return counts / counts.sum(axis=1, keepdims=True)


def posteriors(work: Work, parameters: Parameters, proba: Array | None = None) -> tuple[Array, float]:
    """Return the expected right answers of each pair, (pairs,), and the log-likelihood; fill `proba` if given."""
    answers = work.answers
    log_odds = np.logaddexp(parameters.log_know, parameters.log_guess) - parameters.log_guess  # (pairs,)
    uniform = np.full(answers.n_classes, 1 / answers.n_classes)
    agreed, _, log_sum = expect(answers, answers.pairs.of_answer, log_odds, uniform, work.gold, proba)
    return agreed, log_sum + float(work.answered @ parameters.log_guess)


def agreements(work: Work, proba: Array) -> Array:
    """Return the expected number of right answers of each pair under these posteriors, (pairs,)."""
    answers = work.answers
    right = proba[answers.task, answers.label]  # (answers,)
    if answers.weight is not None:
        right *= answers.weight
    return np.bincount(answers.pairs.of_answer, right, minlength=len(work.worker))


def estimate(work: Work, knew: Array, *, bayes: bool) -> Parameters:
    """Return the parameters, given the expected number of each pair's answers that are not spam, (pairs,)."""
    n_workers, n_classes = work.answers.n_workers, work.answers.n_classes
    know_prior, spam_prior, label_prior = work.prior
    spammed = np.maximum(work.answered - knew, 0.0)  # (pairs,)
    by_worker = np.bincount(work.worker, spammed, minlength=n_workers)  # (workers,)
    known = np.bincount(work.worker, knew, minlength=n_workers) + know_prior
    spam, labels = by_worker + spam_prior, spammed + label_prior
    label_total = by_worker + n_classes * label_prior

    log = digamma if bayes else np.log
    log_known, log_spam = log(known) - log(known + spam), log(spam) - log(known + spam)  # (workers,)
    log_labels = log(labels) - log(label_total)[work.worker]  # (pairs,)
    if bayes:
        log_prior = -(
            divergence(known, log_known, know_prior)
            + divergence(spam, log_spam, spam_prior)
            + divergence(labels, log_labels, label_prior)
            + totals_divergence(known + spam, know_prior + spam_prior)
            + totals_divergence(label_total, n_classes * label_prior)
        )
    else:
        unused = n_classes - np.bincount(work.worker, minlength=n_workers)  # (workers,): number of labels never used
        log_unused = unused @ (np.log(label_prior) - np.log(label_total))
        log_prior = know_prior * (log_known.sum() + log_spam.sum() + log_labels.sum() + log_unused)
    return Parameters(known, spam, labels, log_known[work.worker], log_spam[work.worker] + log_labels, float(log_prior))


# KL divergence of Dirichlet(counts) from Dirichlet(prior), in two parts: the components (those without answers equal
# the prior and add nothing), and the totals.


def divergence(counts: Array, expected_log: Array, prior: float) -> float:
    """Return the components' part of the KL divergence of posteriors from a symmetric Dirichlet prior."""
    return float((gammaln(prior) - gammaln(counts) + (counts - prior) * expected_log).sum())


def totals_divergence(totals: Array, prior: float) -> float:
    """Return the totals' part of the same divergence."""
    return float((gammaln(totals) - gammaln(prior)).sum())
