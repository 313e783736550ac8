"""Networks as the classifier of joint EM: trained a little in each round by the training loop, never from scratch.

With folds, each model becomes folds + 1 networks trained side by side: one without each fold, to judge the tasks of
that fold, and one on all tasks, for those to come.
"""

from __future__ import annotations

import numpy as np

from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.network.prediction import predict_members
from crowdwise.learn.network.soft_targets import TargetModule
from crowdwise.learn.network.training import Trainer


class NetworkClassifier:
    """A piece of joint EM (see `classifiers.Classifier`).

    Parameters
    ----------
    trainer : Trainer
        Of a `TargetModule`.
    features : Features
    folds : (tasks,) int array or None
        The fold of each task.
    epochs : int
        Epochs of training in each round.
    """

    def __init__(self, trainer: Trainer, features: Features, folds: Array | None, epochs: int) -> None:
        assert isinstance(trainer.module, TargetModule)
        self.trainer, self.module, self.features = trainer, trainer.module, features
        self.folds, self.epochs = folds, epochs
        self.each = members_of(folds)

    def fit(self, target: Array) -> None:  # noqa: D102
        self.module.set_target(np.repeat(target, self.each, axis=0))
        self.trainer.run(self.epochs)

    def proba(self) -> Array:  # noqa: D102
        says = predict_members(self.module, self.features, self.trainer.settings.device)
        says = says.reshape(-1, self.each, *says.shape[1:])  # (models, networks of each, tasks, classes)
        if self.folds is None:
            return says[:, 0]
        return says[:, self.folds, np.arange(says.shape[2])]

    def penalty(self) -> float:
        """Weight decay is a part of each step, not of a bound."""
        return 0.0


def members_of(folds: Array | None) -> int:
    """How many networks a model consists of."""
    return 1 if folds is None else int(folds.max()) + 2


def fold_weights(folds: Array, n_models: int, weight: Array | None) -> Array:
    """Weights (networks, tasks) that leave out of each network the fold it judges.

    >>> fold_weights(np.array([0, 1, 1]), 1, None).tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    trained = np.arange(members_of(folds))[:, None] != folds  # (networks of a model, tasks)
    return np.tile(trained * (np.ones(len(folds)) if weight is None else weight), (n_models, 1))
