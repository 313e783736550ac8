"""One-coin Dawid-Skene: one accuracy per worker for all classes; errors are spread evenly over the other classes.

    truth[t] ~ Categorical(class_prior)                                       t = task, K = classes
    label[a] = truth with probability skill[worker[a]]                        a = answer
               each other class with probability (1 - skill[worker[a]]) / (K - 1)
    skill[w] ~ Beta(1 + correct, 1 + wrong)                                   MAP when a prior is given

    E   proba[t, c]     proportional to class_prior[c] * exp(sum over a to t that say c of odds[worker[a]])
                        odds[w] = log(skill[w] (K - 1) / (1 - skill[w]))
    M   skill[w]        = (correct + sum over w's answers a of proba[task[a], label[a]]) / (correct + wrong + answers)
        class_prior[c]  = 1 / K, or the mean over tasks of proba[t, c]

    bound = log-likelihood of the answers + log prior of the skills (up to a constant)

Zhang, Chen, Zhou and Jordan, "Spectral methods meet EM", NIPS 2014, call this the one-coin model. One number per worker
can be learned from few answers: this model is better than full confusion matrices when workers answered a handful of
tasks, and worse when they confuse particular classes.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.truth.base import Array
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels.odds import expect
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.wawa import agreement_sums, answer_weights, worker_rates


class Work(NamedTuple):
    """Arrays of one fit."""

    answers: Answers
    gold: Array | None
    total: Array  # (workers,): total weight of each worker's answers

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of tasks and classes."""
        return self.answers.n_tasks, self.answers.n_classes

    def agreement_sums(self, proba: Array) -> Array:
        """Return the expected number of right answers of each worker, (workers,), under these posteriors."""
        return agreement_sums(self.answers, proba)

    def expect(self, log_odds: Array, class_prior: Array, proba: Array | None = None) -> tuple[Array, Array, float]:
        """Return the same under the posteriors of these odds, the class sizes, and the sum of the log normalisers."""
        return expect(self.answers, self.answers.worker, log_odds, class_prior, self.gold, proba)


class Parameters(NamedTuple):
    """The parameters that EM estimates."""

    class_prior: Array  # (classes,)
    skill: Array  # (workers,)


class OneCoin(EMModel):
    """One accuracy per worker, estimated together with the truth by EM.

    Parameters
    ----------
    prior : (correct, wrong) or None
        Pseudo-counts of right and wrong answers added for each worker. None is maximum likelihood.
    class_prior : {"uniform", "estimated"}
        Whether to estimate the share of each class. The paper does not. With weak workers, estimating it can give all
        tasks to the most frequent class, as nothing else in the model tells the classes apart.
    max_iter, tol, n_init, warm_start, random_state
        As in `DawidSkene`.

    Attributes
    ----------
    skill_ : (workers,) array
        Accuracy of each worker.
    class_prior_ : (classes,) array

    Examples
    --------
    >>> from crowdwise import Answers, OneCoin
    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), ["x", "x", "y", "y", "y", "y"])
    >>> model = OneCoin().fit(answers)
    >>> model.labels_.tolist()
    ['x', 'y']
    >>> bool(model.skill_[0] > model.skill_[2])
    True
    """

    def __init__(
        self,
        prior: tuple[float, float] | None = (4.0, 1.0),
        class_prior: Literal["uniform", "estimated"] = "uniform",
        *,
        max_iter: int = 500,
        tol: float = 1e-6,
        n_init: int = 1,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.prior = prior
        self.class_prior = class_prior
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state

    class_prior_: Array
    skill_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.prior is not None:
            fits = len(self.prior) == 2 and all(0 <= count < np.inf for count in self.prior)
            require(fits, "prior", self.prior, "two counts, (correct, wrong), 0 or more each, or None")
        require(self.class_prior in ("uniform", "estimated"), "class_prior", self.class_prior,
                "'uniform' or 'estimated'")  # fmt: skip

    def _prepare(self, answers: Answers, gold: Array | None) -> Work:
        return Work(answers, gold, answer_weights(answers))

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        return self._estimate(work, work.agreement_sums(proba), proba.sum(axis=0))

    def _e_step(self, work: Work, parameters: Parameters) -> tuple[Any, float]:
        hit, miss = answer_probability(parameters.skill, work.shape[1])  # (workers,) each
        right, sizes, log_sum = work.expect(np.log(hit / miss), parameters.class_prior)
        log_prior = self._counts[0] * np.log(hit) + self._counts[1] * np.log1p(-hit)  # (workers,)
        return (right, sizes), log_sum + float(work.total @ np.log(miss) + log_prior.sum())

    def _m_step(self, work: Work, statistics: Any, parameters: Parameters) -> Parameters:
        return self._estimate(work, *statistics)

    def _estimate(self, work: Work, right: Array, sizes: Array) -> Parameters:
        correct, wrong = self._counts
        skill = worker_rates(right + correct, work.total + correct + wrong)
        if self.class_prior == "uniform":
            return Parameters(np.full(len(sizes), 1 / len(sizes)), skill)
        return Parameters(np.maximum(sizes / work.shape[0], FLOOR), skill)

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        hit, miss = answer_probability(parameters.skill, work.shape[1])
        proba = np.empty(work.shape)
        work.expect(np.log(hit / miss), parameters.class_prior, proba)
        return proba

    def _store(self, work: Work, parameters: Parameters) -> None:
        self.class_prior_, self.skill_ = parameters

    @property
    def _counts(self) -> tuple[float, float]:
        return (0.0, 0.0) if self.prior is None else self.prior


def answer_probability(skill: Array, n_classes: int) -> tuple[Array, Array]:
    """Return P(right class) and P(one particular wrong class) of each worker, neither below FLOOR."""
    right = np.clip(skill, FLOOR, 1 - FLOOR)
    return right, np.maximum((1 - right) / max(n_classes - 1, 1), FLOOR)
