"""Networks as the classifier of joint EM: the training loop trains them a little in each round, never from scratch.

With folds, each model becomes folds + 1 networks trained side by side: one without each fold, to judge the tasks of
that fold, and one on all tasks, for new ones.
"""

from __future__ import annotations

import numpy as np

from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.network.prediction import predict_members
from crowdwise.learn.network.soft_targets import TargetModule
from crowdwise.learn.network.training import Trainer


class NetworkClassifier:
    """Networks as a `Classifier` of joint EM.

    Parameters
    ----------
    trainer : Trainer
        Of a `TargetModule`.
    features : Features
    folds : (tasks,) int array or None
        The fold of each task.
    epochs : int
        Epochs of training per round.
    """

    epochs: int
    features: Features
    folds: Array | None
    trainer: Trainer

    def __init__(self, trainer: Trainer, features: Features, folds: Array | None, epochs: int) -> None:
        assert isinstance(trainer.module, TargetModule)
        self.trainer, self.module, self.features = trainer, trainer.module, features
        self.folds, self.epochs = folds, epochs
        self.per_model: int = networks_per_model(folds)

    def fit(self, target: Array) -> None:  # noqa: D102
        self.module.set_target(np.repeat(target, self.per_model, axis=0))
        self.trainer.run(self.epochs)

    def proba(self) -> Array:  # noqa: D102
        f = predict_members(self.module, self.features, self.trainer.settings.device)
        f = f.reshape(-1, self.per_model, *f.shape[1:])  # (models, networks per model, tasks, classes)
        if self.folds is None:
            return f[:, 0]
        return f[:, self.folds, np.arange(f.shape[2])]

    def penalty(self) -> float:
        """Return 0: weight decay is part of each training step, not of the bound."""
        return 0.0


def networks_per_model(folds: Array | None) -> int:
    """Return the number of networks that a model consists of."""
    return 1 if folds is None else int(folds.max()) + 2


def fold_weights(folds: Array, n_models: int, weight: Array | None) -> Array:
    """Return task weights (networks, tasks) that are 0 in the fold that the network judges.

    >>> fold_weights(np.array([0, 1, 1]), 1, None).tolist()
    [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    """
    trained = np.arange(networks_per_model(folds))[:, None] != folds  # (networks per model, tasks)
    return np.tile(trained * (np.ones(len(folds)) if weight is None else weight), (n_models, 1))
