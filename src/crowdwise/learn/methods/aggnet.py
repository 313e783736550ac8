"""AggNet: Raykar's joint EM with a network for a classifier.

    E   T[t, c]  proportional to f(x_t)[c] * prod over a to t of confusion[worker[a], c, label[a]]
    M   confusion from T, as Dawid-Skene's; f trained for an epoch on the soft labels T

Albarqouni et al., "AggNet: deep learning from crowds for mitosis detection", IEEE TMI 35 (2016), for any number of
classes, with one epoch a round as in the code that made it known. A network that learns its own beliefs by heart
confirms them: `cross_fit` lets a task be judged only by networks that never saw its answers.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array, FitInput
from crowdwise.learn.joint_em.classifiers import draw_folds
from crowdwise.learn.joint_em.engine import ConfusionWorkers, Joint
from crowdwise.learn.joint_em.network_classifier import NetworkClassifier, fold_weights, members_of
from crowdwise.learn.methods.raykar import check_em
from crowdwise.learn.network.learner import NetworkLearner, TrainingOptions
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.soft_targets import TargetModule
from crowdwise.learn.network.torch_support import torch
from crowdwise.truth.base import fix_gold, vote_shares
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.dawid_skene import Prior, check_prior


class AggNet(NetworkLearner):
    """A network and confusion matrices by joint EM.

    Parameters
    ----------
    prior : as `DawidSkene` takes
        Pseudo-counts of the confusion matrices; 0.01 is the usual code's.
    cross_fit : int or None
        Folds: a task's own answers never train the network that judges it.
    calibrate : bool
        Choose a temperature of the network in each round by the likelihood of the answers; needs `cross_fit`.
        The last one is that of `predict_proba` too.
    epochs_per_round : int
        Epochs of training between two E-steps; `epochs` is their number in all.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        `confusion_[w, c, l]` = P(worker w says l | truth c); the mean over models.

    Examples
    --------
    >>> from crowdwise import AggNet, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> AggNet(epochs=5).fit(X, answers).labels_.shape
    (738,)
    """

    answer_loss = False

    def __init__(
        self,
        *,
        prior: Prior = "diagonal",
        cross_fit: int | None = None,
        calibrate: bool = False,
        epochs_per_round: int = 1,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(**training)
        self.prior = prior
        self.cross_fit = cross_fit
        self.calibrate = calibrate
        self.epochs_per_round = epochs_per_round

    confusion_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_prior()
        check_em(self.cross_fit, self.calibrate, None, 0.0)
        whole = is_integer(self.epochs_per_round, 1) and self.epochs % self.epochs_per_round == 0
        require(whole, "epochs_per_round", self.epochs_per_round, f"a divisor of epochs={self.epochs}")

    def _check_prior(self) -> None:
        check_prior(self.prior)

    def _module(self, network: Network, answers: Answers) -> TargetModule:
        return TargetModule(network, answers)

    def _workers(self, answers: Answers, weight: Array | None) -> Any:
        """The model of the workers, of one network."""
        return ConfusionWorkers(answers, self.prior, weight)

    def _declared(self, answers: Answers) -> tuple[Array, float] | None:
        """Shares of the classes that are declared, and how strongly."""
        return None

    def _count(self) -> Any:
        """For how much of an answer each one is taken."""
        return 1.0

    def _named(self) -> Array | None:
        """Classes that can be true, (classes,) bool; all unless given."""
        return None

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, validation, callback = inputs
        kept, monitor = self._epoch_selection(features, answers, validation)
        folds = None if self.cross_fit is None else draw_folds(kept.n_tasks, self.cross_fit, self.random_state)
        each = members_of(folds)
        module = self._module(self._network(features, kept.n_classes, self.n_models * each), kept).to(self.device)
        by_network = weight if folds is None else fold_weights(folds, self.n_models, weight)
        trainer = self._trainer(module, features, kept, by_network, gold, monitor=monitor, callback=callback)
        workers = [self._workers(kept, weight) for _ in range(self.n_models)]
        classifier = NetworkClassifier(trainer, features, folds, self.epochs_per_round)
        joint = _Rounds(
            kept, gold, workers, classifier, max_iter=1, tol=0.0, calibrate=self.calibrate,
            declared=self._declared(kept), weight=weight, count=self._count(), named=self._named(),
        )  # fmt: skip
        if trainer.epoch == 0:
            joint.start(vote_shares(kept))
        else:  # a run that was cut short: on from the labels of its last round
            first = fix_gold(vote_shares(kept), gold)
            for each_workers in workers:
                each_workers.fit(first, first)  # what is fixed by the first labels, as the prior may be
            joint.resume()
        joint.max_iter = (self.epochs - trainer.epoch) // self.epochs_per_round + 1
        joint.run(None)
        trainer.finish()
        if trainer.best_state:  # the labels and workers of the epoch that was kept
            joint.resume()
            joint.max_iter = 1
            joint.run(None)
        module.keep([m * each + each - 1 for m in range(self.n_models)])
        module.temperature.copy_(torch.from_numpy(1 / np.maximum(joint.weights[:, 0], FLOOR)))
        self.module_ = module
        self._finish(joint)

    def _finish(self, joint: Joint) -> None:
        """Take the results out of the engine."""
        self.proba_ = joint.proba.mean(axis=0)
        self.confusion_ = np.mean([workers.confusion() for workers in joint.workers], axis=0)


class _Rounds(Joint):
    """Joint EM that leaves in the module what a checkpoint needs: the labels and the workers."""

    classifier: NetworkClassifier

    def resume(self) -> None:
        """Stand where the module does, at the end of a round."""
        trainer = self.classifier.trainer
        trainer.run(-trainer.epoch % self.classifier.epochs)  # what is left of a round that was cut short
        self.classifier.module.recall(self.workers)
        self.fit_workers(self.classifier.module.target[:: self.classifier.each].double().cpu().numpy())

    def fit_workers(self, proba: Array) -> None:
        """As for all joint EM; and the module learns how workers answer, to predict hidden answers with."""
        super().fit_workers(proba.astype(np.float32).astype(np.float64))  # as a checkpoint keeps them
        self.classifier.module.remember(self.workers)
        confusion = np.array([workers.confusion() for workers in self.workers])
        self.classifier.module.set_confusion(np.repeat(confusion, self.classifier.each, axis=0))
