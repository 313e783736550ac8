"""Logistic classifiers of the difficulty models: their probabilities also define how easy a task is."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.classifiers import LogisticClassifier
from crowdwise.learn.joint_em.logistic import penalty
from crowdwise.learn.methods.difficulty.workers import DifficultyWorkers, answer_log_proba, easiness


class BoundLogistic(LogisticClassifier):
    """Logistic regression whose objective is the full bound, including its effect on the easiness of tasks."""

    workers: DifficultyWorkers

    def fit(self, target: Array) -> None:  # noqa: D102
        if self.coef is None or self.workers.strength is None:  # first round: there are no workers yet
            super().fit(target)
        else:
            self._step(target, self.coef)
            self.cost = penalty(self.coef, self.ridge)

    @abstractmethod
    def _step(self, target: Array, coef: Array) -> None:
        """Improve the coefficients, starting from the current ones."""

    def minus_bound(self, flat: Array, target: Array) -> tuple[float, Array]:
        """Return minus the expected log-likelihood of truth and answers, plus the ridge penalty; and its gradient."""
        a = self.workers.answers
        assert self.coef is not None and self.workers.strength is not None
        strength, right = self.workers.strength[a.worker], self.workers.right
        mass = target[0][a.task] * self.workers.weight[:, None]  # (answers, classes)
        scale = np.ones(len(self.x)) if self.weight is None else self.weight
        coef = flat.reshape(self.coef.shape)
        log_f = log_softmax(self.x @ coef[:-1] + coef[-1], axis=1)
        f = np.exp(log_f)
        pull = strength * easiness(f)[a.task, None]
        each = (mass * answer_log_proba(pull, right, a.n_classes)).sum(axis=1)
        value = float((scale[:, None] * target[0] * log_f).sum() + (scale[a.task] * each).sum())
        hit = np.exp(answer_log_proba(pull, True, a.n_classes))
        by_task = np.bincount(a.task, (mass * strength * (right - hit)).sum(axis=1), minlength=len(f))
        gain = f * by_task[:, None]  # d value / d f, as d easiness / d f = f
        slope = scale[:, None] * (target[0] - f * target[0].sum(axis=1, keepdims=True))
        slope += scale[:, None] * f * (gain - (f * gain).sum(axis=1, keepdims=True))
        full = np.vstack([self.x.T @ slope - self.ridge * coef[:-1], slope.sum(axis=0)])
        return penalty(coef, self.ridge) - value, -full.ravel()


class ExactLogistic(BoundLogistic):
    """Logistic regression fitted to the full bound."""

    def _step(self, target: Array, coef: Array) -> None:
        result = minimize(
            self.minus_bound, coef.ravel(), (target,), jac=True, method="L-BFGS-B", options={"maxiter": self.max_iter}
        )
        self.coef = result.x.reshape(coef.shape)


class LimitedLogistic(BoundLogistic):
    """Logistic regression fitted to the soft labels, with a step so short that the full bound does not fall."""

    def _step(self, target: Array, coef: Array) -> None:
        before = self.minus_bound(coef.ravel(), target)[0]
        LogisticClassifier.fit(self, target)
        assert self.coef is not None
        step = self.coef - coef
        for length in 0.5 ** np.arange(11):
            self.coef = coef + length * step
            if self.minus_bound(self.coef.ravel(), target)[0] <= before:
                return
        self.coef = coef
