"""The experts of `JointEM`: component classifiers, each a kind of classifier on a view of the features, cross-fitted.

    lda         Gaussian classes with one covariance
    rda, qda    the same, with 15 % and 40 % of a covariance of its own per class
    logistic    logistic regression. Unless requested by name, it is used only with ten answers per coefficient, and not
                on the view "kernel": otherwise it learns to imitate the crowd, errors included, and the answers cannot
                tell imitation from being right
    estimator   any scikit-learn classifier that takes `sample_weight`

Experts leave out the class shares, which are estimated apart from them (`pooling`): Gaussian densities do not include
them, and the probabilities of the other kinds are divided by the shares of their training labels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array
from crowdwise.learn.joint_em.class_prior import remove_shares
from crowdwise.learn.joint_em.classifiers import (
    Classifier,
    CrossFitted,
    EstimatorClassifier,
    LogisticClassifier,
    predict_soft,
)
from crowdwise.learn.joint_em.gaussian import GaussianClassifier, predict_gaussian
from crowdwise.learn.joint_em.logistic import predict_logistic
from crowdwise.learn.joint_em.pooling import pool
from crowdwise.learn.joint_em.views import VIEWS, fit_view, restore_view, view_parameters
from crowdwise.learn.network.architectures import NAMED as SPECS

GAUSSIAN = {
    "lda": {"shrinkage": 0.1, "own": 0.0},
    "rda": {"shrinkage": 0.1, "own": 0.15},
    "qda": {"shrinkage": 0.1, "own": 0.4},
}
CLASSIFIERS = ("auto", *GAUSSIAN, "logistic", "mlp")
ANSWERS_PER_COEFFICIENT = 10
RIDGE, STEPS = 1.0, 10  # of logistic regression; steps per round, starting from the last coefficients


class Expert(NamedTuple):
    """One classifier on one view."""

    view_index: int  # position among the requested views
    view: str
    transformer: Any  # fitted
    kind: str
    classifier: Any  # a `Classifier` of one model that can also predict new tasks

    def to_dict(self, weight: float) -> dict[str, Any]:
        """Return all that prediction needs, as values that a model file can store."""
        classifier, out = self.classifier, {"view": self.view, "kind": self.kind, "weight": weight}
        out["transformer"] = view_parameters(self.transformer) if self.view in VIEWS else self.transformer
        if isinstance(classifier, ShareFreeClassifier):
            out["taught"], classifier = classifier.shares, classifier.classifier
        full = classifier.full if isinstance(classifier, CrossFitted) else classifier
        if isinstance(full, EstimatorClassifier):
            return {**out, "estimator": full.fitted, "n_classes": full.n_classes}
        return {**out, "numbers": full.parameters()}


class ShareFreeClassifier:
    """A classifier whose probabilities are divided by the class shares of its training labels.

    Parameters
    ----------
    classifier : Classifier
        Of one model.
    weight : (tasks,) array or None
    """

    classifier: Any
    shares: Array
    weight: Array | None

    def __init__(self, classifier: Any, weight: Array | None) -> None:
        self.classifier, self.weight = classifier, weight

    def fit(self, target: Array) -> None:  # noqa: D102
        self.classifier.fit(target)
        self.shares = np.average(target[0], axis=0, weights=self.weight)

    def proba(self) -> Array:  # noqa: D102
        return remove_shares(self.classifier.proba(), self.shares)

    def penalty(self) -> float:  # noqa: D102
        return float(self.classifier.penalty())


def check_experts(classifier: Any, features: Any, calibrate: bool) -> None:
    """Raise unless the classifier and the views are valid, and only one of each is used without `calibrate`."""
    network = is_network(classifier)
    known = (
        classifier in CLASSIFIERS
        if isinstance(classifier, str)
        else network or _is_instance_with(classifier, "predict_proba")
    )
    allowed = f"one of {CLASSIFIERS}, a scikit-learn classifier with predict_proba, or a torch module"
    require(known, "classifier", classifier, allowed)
    views = list_views(features)
    for view in views or [None]:
        known = view in VIEWS if isinstance(view, str) else _is_instance_with(view, "transform")
        require(known, "features", features, f"'auto', some of {VIEWS}, or scikit-learn transformers")
    if network:
        one = (isinstance(features, str) and features == "auto") or (len(views) == 1 and views[0] in VIEWS)
        require(one, "features", features, "'auto' or one view, with networks")
        return
    several = len(views) > 1 or (isinstance(classifier, str) and classifier == "auto")
    if several and not calibrate:
        message = (
            "calibrate=False uses one classifier on one view: name both, as in "
            "JointEM('qda', features='standard', calibrate=False)."
        )
        raise ParameterError(message)


def is_network(classifier: Any) -> bool:
    """Whether a classifier is a network: a name, a specification such as `MLP()`, or a torch module."""
    if isinstance(classifier, str):
        return classifier == "mlp"
    return isinstance(classifier, tuple(SPECS.values())) or _is_instance_with(classifier, "state_dict")


def _is_instance_with(value: Any, method: str) -> bool:
    """Whether a value is an instance, not a class, that has a method."""
    return hasattr(value, method) and not isinstance(value, type)


def make_experts(
    x: Array,
    answers: Answers,
    weight: Array | None,
    folds: Array | None,
    *,
    n_answers: int | None = None,
    classifier: Any,
    features: Any,
    equal_shares: bool,
    separate_shares: bool = True,
    only: Collection[tuple[int, str]] | None = None,
    rows: Array | None = None,
) -> list[Expert]:
    """Return the experts for features (tasks, features).

    Parameters
    ----------
    x : (tasks, features) array
    answers : Answers
    weight : (tasks,) array or None
    folds : (tasks,) int array or None
    n_answers : int, optional
        Number of answers in all, if `answers` are only a sample.
    classifier, features
        As `JointEM` takes them.
    equal_shares : bool
        Whether all classes are taken to be equally likely.
    separate_shares : bool
        Whether class shares are estimated apart from the experts; otherwise non-Gaussian experts include them.
    only : set of (view index, kind), optional
        Return only these experts.
    rows : (rows,) int array, optional
        Rows to fit the views to; all by default.
    """
    n_answers = answers.n_answers if n_answers is None else n_answers
    x = np.asarray(x, np.float64)
    out: list[Expert] = []
    for index, name in enumerate(list_views(features)):
        if only is not None and index not in {view for view, _ in only}:
            continue
        fit = fit_view if isinstance(name, str) else _fit_transformer
        transformer, z = fit(name, x if rows is None else x[rows])  # z: (tasks, axes), the view
        if rows is not None:
            z = np.asarray(transformer.transform(x), float)
        for kind in _kinds(classifier, name, (z.shape[1] + 1) * (answers.n_classes - 1), n_answers):
            if only is not None and (index, kind) not in only:
                continue
            view = name if isinstance(name, str) else type(name).__name__
            fold_classifier = _make_classifier(classifier, kind, z, weight, folds, equal_shares)
            if separate_shares and kind not in GAUSSIAN:
                fold_classifier = ShareFreeClassifier(fold_classifier, weight)
            out.append(Expert(index, view, transformer, kind, fold_classifier))
    return out


def list_views(features: Any) -> Sequence[Any]:
    """Return the views that the parameter `features` stands for."""
    if isinstance(features, str):
        return VIEWS if features == "auto" else (features,)
    return features if isinstance(features, (list, tuple)) else (features,)


def predict_experts(experts: Sequence[dict[str, Any]], x: Array, share: Array | None) -> Array:
    """Return pooled class probabilities (rows, classes) of experts as `Expert.to_dict` stores them."""
    x = np.asarray(x, np.float64)  # as in the fit: in single precision, values that many tasks share would change rank
    each_f: list[Array] = []
    transformed: dict[Any, Array] = {}
    for expert in experts:
        view, transformer = expert["view"], expert["transformer"]
        key = view if view in VIEWS else id(transformer)  # experts on the same view share it
        if key not in transformed:
            pipeline = restore_view(view, transformer) if view in VIEWS else transformer
            transformed[key] = np.asarray(pipeline.transform(x), float)
        f = _predict(expert, transformed[key])
        each_f.append(remove_shares(f, expert["taught"]) if "taught" in expert else f)
    return pool(np.stack(each_f), np.array([expert["weight"] for expert in experts]), share)


def _predict(expert: dict[str, Any], x: Array) -> Array:
    if expert["kind"] in GAUSSIAN:
        return predict_gaussian(x, expert["numbers"])
    if expert["kind"] == "logistic":
        return predict_logistic(x, expert["numbers"]["coef"])
    return predict_soft(expert["estimator"], x, expert["n_classes"])


def _kinds(classifier: Any, view: Any, n_coefficients: int, n_answers: int) -> tuple[str, ...]:
    if not isinstance(classifier, str):
        return ("estimator",)
    if classifier != "auto":
        return (classifier,)
    enough = view != "kernel" and n_answers >= ANSWERS_PER_COEFFICIENT * n_coefficients
    return (*GAUSSIAN, "logistic") if enough else tuple(GAUSSIAN)


def _make_classifier(
    classifier: Any, kind: str, x: Array, weight: Array | None, folds: Array | None, equal_shares: bool
) -> Any:
    if kind in GAUSSIAN:
        return GaussianClassifier(x, weight, folds, equal_shares=equal_shares, **GAUSSIAN[kind])

    def make(rows: Array | None) -> Classifier:
        if kind == "logistic":
            return LogisticClassifier(x, weight, rows, ridge=RIDGE, solver="auto", max_iter=STEPS)
        return EstimatorClassifier(classifier, x, weight, rows)

    return make(None) if folds is None else CrossFitted(make, folds, x)


def _fit_transformer(transformer: Any, x: Array) -> tuple[Any, Array]:
    pipeline = make_pipeline(clone(transformer), StandardScaler(with_std=False)).fit(x)
    return pipeline, np.asarray(pipeline.transform(x), float)
