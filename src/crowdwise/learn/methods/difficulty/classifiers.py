"""The logistic classifier of `exact=True`: its probabilities also define how easy a task is."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.classifiers import LogisticClassifier
from crowdwise.learn.joint_em.logistic import penalty
from crowdwise.learn.methods.difficulty.workers import DifficultyWorkers, answer_log_proba, easiness


class ExactLogistic(LogisticClassifier):
    """Logistic regression fitted to the full bound, including its effect on the easiness of tasks."""

    workers: DifficultyWorkers

    def fit(self, target: Array) -> None:  # noqa: D102
        if self.coef is None or self.workers.strength is None:  # first round: there are no workers yet
            super().fit(target)
            return
        start, options = self.coef.ravel(), {"maxiter": self.max_iter}
        result = minimize(self.minus_bound, start, (target,), jac=True, method="L-BFGS-B", options=options)
        self.coef = result.x.reshape(self.coef.shape)
        self.cost: float = penalty(self.coef, self.ridge)

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
