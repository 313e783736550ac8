"""AggNet: Raykar's joint EM with a network as the classifier.

    E   T[t, c]  proportional to f(x_t)[c] * prod over a to t of confusion[worker[a], c, label[a]]
    M   confusion from T, as in Dawid-Skene; f trained for an epoch on the soft labels T

Albarqouni et al., "AggNet: deep learning from crowds for mitosis detection", IEEE TMI 35 (2016), for any number of
classes, with one epoch per round as in the widely used code.

Fails when the network memorises its own labels and confirms them: with `cross_fit`, only networks that never saw the
answers to a task judge it.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array, FitInput
from crowdwise.learn.joint_em.classifiers import draw_folds
from crowdwise.learn.joint_em.engine import ConfusionWorkers, JointEMEngine
from crowdwise.learn.joint_em.network_classifier import NetworkClassifier, fold_weights, networks_per_model
from crowdwise.learn.methods.raykar import check_em
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
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
        Pseudo-counts of the confusion matrices; 0.01 is the value in the usual code.
    cross_fit : int or None
        Number of folds. The network that judges a task is never trained on its answers.
    calibrate : bool
        Choose a temperature of the network in each round by the likelihood of the answers; needs `cross_fit`.
        `predict_proba` uses the last one.
    epochs_per_round : int
        Epochs of training between two E-steps; `epochs` is the total.
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

    module_: TargetModule
    proba_: Array

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
        per_round = self.epochs_per_round
        divides = is_integer(per_round, 1) and (self.epochs == "auto" or self.epochs % per_round == 0)
        require(divides, "epochs_per_round", per_round, f"a divisor of epochs={self.epochs}")

    def _check_prior(self) -> None:
        check_prior(self.prior)

    def _round_epochs(self, epochs: int) -> int:
        return -(-epochs // self.epochs_per_round) * self.epochs_per_round

    def _module(self, network: Network, answers: Answers) -> TargetModule:
        return TargetModule(network, answers)

    def _make_workers(self, answers: Answers, weight: Array | None) -> Any:
        """Return the worker model for one network."""
        return ConfusionWorkers(answers, self.prior, weight)

    def _declared_shares(self, answers: Answers) -> tuple[Array, float] | None:
        """Return the declared class shares and their strength, or None."""
        return None

    def _em_answer_weight(self) -> Any:
        """Return the weight of each answer."""
        return 1.0

    def _possible_classes(self) -> Array | None:
        """Return the classes that can be true, (classes,) bool; None for all."""
        return None

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, validation, callback = inputs
        train, monitor = self._epoch_selection(features, answers, validation)
        folds = None if self.cross_fit is None else draw_folds(train.n_tasks, self.cross_fit, self.random_state)
        per_model = networks_per_model(folds)
        module = self._module(self._network(features, train.n_classes, self.n_models * per_model), train)
        module = module.to(self.device)
        by_network = weight if folds is None else fold_weights(folds, self.n_models, weight)
        trainer = self._trainer(module, features, train, by_network, gold, monitor=monitor, callback=callback)
        workers = [self._make_workers(train, weight) for _ in range(self.n_models)]
        classifier = NetworkClassifier(trainer, features, folds, self.epochs_per_round)
        engine = _ResumableEngine(
            train, gold, workers, classifier, max_iter=1, tol=0.0, calibrate=self.calibrate,
            declared_shares=self._declared_shares(train), weight=weight, answer_weight=self._em_answer_weight(),
            possible=self._possible_classes(),
        )  # fmt: skip
        if trainer.epoch == 0:
            engine.start(vote_shares(train))
        else:  # an interrupted run: continue from the labels of its last round
            first = fix_gold(vote_shares(train), gold)
            for worker_model in workers:
                worker_model.fit(first, first)  # sets what the first labels determine, such as the prior
            engine.resume()
        engine.max_iter = (self.epochs_ - trainer.epoch) // self.epochs_per_round + 1
        engine.run(None)
        trainer.finish()
        if trainer.best_state:  # return to the labels and workers of the selected epoch
            engine.resume()
            engine.max_iter = 1
            engine.run(None)
        module.keep([m * per_model + per_model - 1 for m in range(self.n_models)])
        module.temperature.copy_(torch.from_numpy(1 / np.maximum(engine.weights[:, 0], FLOOR)))
        self.module_ = module
        self._finish(engine)

    def _finish(self, engine: JointEMEngine) -> None:
        """Set the fitted attributes from the engine."""
        self.proba_ = engine.proba.mean(axis=0)
        self.confusion_ = np.mean([workers.confusion() for workers in engine.workers], axis=0)


class _ResumableEngine(JointEMEngine):
    """Joint EM that stores in the module what a checkpoint needs: the labels and the workers."""

    classifier: NetworkClassifier

    def resume(self) -> None:
        """Take the state from the module, at the end of a round."""
        trainer = self.classifier.trainer
        trainer.run(-trainer.epoch % self.classifier.epochs)  # the rest of an interrupted round
        self.classifier.module.recall(self.workers)
        self.fit_workers(self.classifier.module.target[:: self.classifier.per_model].double().cpu().numpy())

    def fit_workers(self, proba: Array) -> None:
        """Fit the workers, and store their confusion matrices in the module, which predicts held-out answers."""
        super().fit_workers(proba.astype(np.float32).astype(np.float64))  # in the precision of a checkpoint
        self.classifier.module.remember(self.workers)
        confusion = np.array([workers.confusion() for workers in self.workers])
        self.classifier.module.set_confusion(np.repeat(confusion, self.classifier.per_model, axis=0))
