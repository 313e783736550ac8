"""Methods as a user of the library writes them: subclasses, and objects that only have the same methods."""

from __future__ import annotations

import numpy as np

from crowdwise.learn.base import CrowdClassifier
from crowdwise.truth.base import TruthModel, fix_gold, vote_shares


class Sharpened(TruthModel):
    """Vote shares raised to a power."""

    def __init__(self, power=2.0, *, random_state=0):
        self.power = power
        self.random_state = random_state

    def _fit(self, answers, gold, rng, callback):
        shares = vote_shares(answers) ** self.power
        self.proba_ = fix_gold(shares / shares.sum(axis=1, keepdims=True), gold)


class Votes:
    """Labels by the most votes, nothing else."""

    class_equivariant = False  # the first of tied classes

    def fit(self, answers):
        self.labels_ = answers.classes[vote_shares(answers).argmax(axis=1)]


class Shares:
    """Vote shares, with settings and gold."""

    uses_weights = True

    def __init__(self, extra=0.0):
        self.extra = extra

    def fit(self, answers, gold=None):
        shares = vote_shares(answers) + self.extra
        self.proba_ = fix_gold(shares / shares.sum(axis=1, keepdims=True), gold)


class Centres:
    """The nearest centre of the votes."""

    def fit(self, X, answers):
        shares = vote_shares(answers)
        self.centres = [np.average(X, axis=0, weights=column) for column in shares.T]

    def predict_proba(self, X):
        distance = np.stack([((X - centre) ** 2).sum(axis=1) for centre in self.centres], axis=1)
        closeness = np.exp((distance.min(axis=1, keepdims=True) - distance) / X.shape[1])
        return closeness / closeness.sum(axis=1, keepdims=True)


class Logistic(CrowdClassifier):
    """Logistic regression on the labels of the vote."""

    def __init__(self, C=1.0):
        self.C = C

    def _fit(self, inputs):
        from crowdwise.learn.joint_em.logistic import fit_logistic

        counted = 1.0 if inputs.weight is None else inputs.weight[:, None]
        self.proba_ = fix_gold(vote_shares(inputs.answers), inputs.gold)
        x = inputs.features.matrix()
        self.coef_, _ = fit_logistic(x, self.proba_ * counted, ridge=1 / self.C, max_iter=50)

    def _predict_proba(self, features):
        from crowdwise.learn.joint_em.logistic import predict_logistic

        return predict_logistic(features.matrix(), self.coef_)

    def _proba_of_answers(self, features, rows, row, worker):
        return self._predict_proba(features.select(rows))[row]


class Broken(Sharpened):
    """Forgets the seed."""

    def _fit(self, answers, gold, rng, callback):
        super()._fit(answers, gold, rng, callback)
        self.proba_ = self.proba_ * 0.9 + 0.1 * np.random.default_rng().dirichlet(
            np.ones(answers.n_classes), answers.n_tasks
        )
