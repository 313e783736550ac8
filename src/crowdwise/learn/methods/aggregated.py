"""Two stages: labels from the answers alone, then a classifier on those labels. The papers' simplest baselines.

    Aggregated("majority-vote", soft=False)                MV-DL, DL-MV, MV+DNN
    Aggregated("naive-soft")                               NS
    Aggregated("dawid-skene", soft=False)                  DS-DL, D&S+DNN
    Aggregated("majority-vote", "logistic", soft=False)    MV+LR;  "dawid-skene": D&S+LR
    Aggregated("wds"), Aggregated("glad")                  WDS, GLAD: soft labels, as WAUM trains them

Fails where the first stage errs: the classifier learns its errors, which the other learners try to avoid.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from crowdwise.answers import Answers
from crowdwise.learn.base import Array, FitInput, training_mask
from crowdwise.learn.features import Features
from crowdwise.learn.joint_em.classifiers import fit_soft, predict_soft
from crowdwise.learn.joint_em.engine import ConfusionWorkers, label_proba
from crowdwise.learn.network.architectures import Spec
from crowdwise.learn.network.learner import NetworkLearner, reject_epoch_options
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.soft_targets import TargetModule
from crowdwise.learn.network.training import CrowdModule
from crowdwise.truth.adapter import as_truth_model
from crowdwise.truth.base import TruthModel


class Aggregated(NetworkLearner):
    """Any truth model, then any classifier on its labels.

    Parameters
    ----------
    truth : truth model or its name
        The model that infers the labels.
    network : as in `TrainingOptions`, or a scikit-learn classifier
        The classifier trained on them. An estimator takes soft labels as weights, or hard labels.
    soft : bool
        Train on the truth model's probabilities; False trains on its labels.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    truth_ : TruthModel
        The fitted truth model; its `proba_` is also that of this model.
    confusion_ : (workers, classes, classes) array
        Confusion matrices of the workers against the inferred labels.

    Examples
    --------
    >>> from crowdwise import Aggregated, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> Aggregated("dawid-skene", epochs=5).fit(X, answers).predict(X[:3]).shape
    (3,)
    """

    answer_loss = False
    infers_labels_first = True

    estimator_: Any

    proba_: Array

    def __init__(
        self,
        truth: TruthModel | str = "majority-vote",
        network: Spec = None,
        *,
        soft: bool = True,
        **training: Any,
    ) -> None:
        super().__init__(**{**training, "network": network})
        self.truth = truth
        self.soft = soft

    truth_: TruthModel
    confusion_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if hasattr(self.network, "predict_proba"):
            reject_epoch_options(self, "a scikit-learn classifier")

    @property
    def _uses_training_loop(self) -> bool:
        return not hasattr(self.network, "predict_proba")

    def member_proba(self, X: Any) -> Array:
        """Return the probabilities of each of the `n_models` networks, (models, tasks, classes)."""
        if hasattr(self.network, "predict_proba"):
            return self.predict_proba(X)[None]
        return super().member_proba(X)

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, _, _ = inputs
        if hasattr(self.network, "predict_proba"):  # a scikit-learn classifier
            target = self._labels(answers, weight, gold)
            scale = training_mask(answers, weight, gold) * (1.0 if weight is None else weight)
            self.estimator_ = fit_soft(self.network, features.matrix(), target * scale[:, None])
            self.proba_ = self.truth_.proba_
        else:
            super()._fit(inputs)

    def _labels(self, answers: Answers, weight: Array | None, gold: Array | None) -> Array:
        """Run the first stage; return the labels (tasks, classes) to train on."""
        truth = clone(as_truth_model(self.truth, "truth"))
        self.truth_ = truth.fit(answers, gold)
        workers = ConfusionWorkers(answers, "diagonal", weight)
        workers.fit(self.truth_.proba_, self.truth_.proba_)
        self.confusion_ = workers.confusion()
        return self.truth_.proba_ if self.soft else np.eye(answers.n_classes)[self.truth_.codes_]

    def _module(self, network: Network, answers: Answers) -> TargetModule:
        return TargetModule(network, answers)

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        assert isinstance(module, TargetModule)
        module.set_target(self._labels(answers, weight, gold))
        module.set_confusion(self.confusion_)

    def _infer_truth(self, features: Features, answers: Answers, gold: Array | None) -> Array:
        return self.truth_.proba_

    def _predict_proba(self, features: Features) -> Array:
        if hasattr(self, "estimator_"):
            parts = [predict_soft(self.estimator_, lines, self._fitted.n_classes) for lines in features.matrix_blocks()]
            return np.concatenate(parts)
        return super()._predict_proba(features)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        if hasattr(self, "estimator_"):
            x = features.rows(rows).reshape(len(rows), -1)
            f = predict_soft(self.estimator_, x, self._fitted.n_classes)
            return label_proba(f, self.confusion_, row, worker)
        return super()._proba_of_answers(features, rows, row, worker)

    def _tensors(self) -> dict[str, Array]:
        return super()._tensors() if self._uses_training_loop else {}

    def _restore(self, tensors: dict[str, Array]) -> None:
        if self._uses_training_loop:
            super()._restore(tensors)
