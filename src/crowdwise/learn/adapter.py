"""`LearnerAdapter`: any object with `fit(X, answers)` and `predict_proba(X)` as a learner; and `as_model`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from crowdwise._core.own_classes import remember
from crowdwise._core.registry import make
from crowdwise.errors import ParameterError, WeightError
from crowdwise.learn.base import Array, CrowdClassifier, FitInput
from crowdwise.learn.features import Features
from crowdwise.learn.joint_em.engine import ConfusionWorkers, label_proba
from crowdwise.truth.adapter import TruthAdapter, as_probabilities, display, fit_options, fresh, is_own
from crowdwise.truth.base import TruthModel, fix_gold


class LearnerAdapter(CrowdClassifier):
    """A learner around an object of another class.

    Parameters
    ----------
    model : object
        `fit(X, answers)` gets the features as an array (tasks, ...) and the `Answers`; of its further arguments, those
        called `gold`, `sample_weight` and `callback` are passed if the caller gave them. `predict_proba(X)` returns
        (rows, classes), in the order of `answers.classes`. After the fit, `proba_` (tasks, classes) are the beliefs
        about the training tasks, if it is set, and `confusion_` (workers, classes, classes) is how workers answer;
        without it, it is estimated from the answers and `proba_`. Answers with weights are rejected unless the class
        has `uses_weights = True`. A copy is fitted, not the object itself.

    Attributes
    ----------
    model_ : object
        The fitted copy.
    confusion_ : (workers, classes, classes) array
        Its confusion matrices, or those estimated from its beliefs.
    """

    model_: Any

    proba_: Array

    def __init__(self, model: Any) -> None:
        self.model = model

    @property
    def class_equivariant(self) -> bool:  # type: ignore[override]
        """Whether permuted classes permute the result, as the class says."""
        return bool(getattr(self.model, "class_equivariant", True))

    def _fit(self, inputs: FitInput) -> None:
        remember(type(self.model))
        features, answers, weight, gold, _, callback = inputs
        features.require_memory()
        self.model_, name, k = fresh(self.model), type(self.model).__name__, answers.n_classes
        wanted = {"gold": gold, "sample_weight": weight, "callback": callback}
        taken = fit_options(self.model_)
        if answers.weight is not None and not getattr(self.model, "uses_weights", False):
            message = f"{name} does not use the weights of answers; fit it on answers without weights."
            raise WeightError(message)
        if weight is not None and "sample_weight" not in taken:
            message = f"{name}.fit does not take sample_weight: leave out the weights of tasks."
            raise ParameterError(message)
        options = {key: value for key, value in wanted.items() if value is not None and key in taken}
        self.model_.fit(features.rows(np.arange(features.n_rows)), answers, **options)
        if (proba := getattr(self.model_, "proba_", None)) is None:
            self.proba_ = self._predict_proba(features)
        else:
            self.proba_ = as_probabilities(proba, (answers.n_tasks, k), f"{name}.proba_")
        self.proba_ = fix_gold(self.proba_, gold)
        if (confusion := getattr(self.model_, "confusion_", None)) is None:
            workers = ConfusionWorkers(answers, "diagonal", weight)
            workers.fit(self.proba_, self.proba_)
            confusion = workers.confusion()
        self.confusion_: Array = as_probabilities(confusion, (answers.n_workers, k, k), f"{name}.confusion_")

    def _predict_proba(self, features: Features) -> Array:
        parts = [self._proba_of_rows(block) for block in features.blocks()]
        return np.concatenate(parts)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        return label_proba(self._proba_of_rows(features.rows(rows)), self.confusion_, row, worker)

    def _proba_of_rows(self, x: Array) -> Array:
        shape, what = (len(x), self._fitted.n_classes), f"{type(self.model).__name__}.predict_proba(X)"
        return as_probabilities(self.model_.predict_proba(x), shape, what)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return display(self.model)


def as_model(model: Any, what: str = "model") -> TruthModel | CrowdClassifier:
    """Return a truth model or learner from one, its name, or any object with their main methods.

    >>> as_model("dawid-skene")
    DawidSkene()
    """
    found = make(model) if isinstance(model, str) else model
    if isinstance(found, (TruthModel, CrowdClassifier)):
        return found
    if isinstance(found, ClassifierMixin) and is_own(found):
        message = (
            f"{what}={found!r:.80} is a classifier for known labels. Use Aggregated('dawid-skene', network=...) or "
            "JointEM(classifier=...) around it."
        )
        raise ParameterError(message)
    if is_own(found):
        remember(type(found))
        return LearnerAdapter(found) if hasattr(found, "predict_proba") else TruthAdapter(found)
    message = (
        f"{what}={found!r:.80}: use a truth model, a learner, the name of one, or an object with fit(answers), or with "
        "fit(X, answers) and predict_proba(X)."
    )
    raise ParameterError(message)
