"""The experts that `JointEM` hears: a kind of classifier on a view of the features, each cross-fitted.

lda         Gaussian classes of one covariance
rda, qda    the same, with 15 % and 40 % of its own covariance for each class
logistic    logistic regression; unless asked for by name, where there are ten answers to each coefficient, and not on
            waves: else it learns to imitate the crowd, errors and all, and answers cannot tell that from being right
estimator   any scikit-learn classifier that takes `sample_weight`

What an expert says is freed of the shares of the classes, which stand apart (`pooling`): Gaussians do not know them,
and the beliefs of the others are divided by those they were taught.
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
from crowdwise.learn.joint_em.class_prior import freed
from crowdwise.learn.joint_em.classifiers import (
    Classifier,
    CrossFitted,
    EstimatorClassifier,
    LogisticClassifier,
    Several,
)
from crowdwise.learn.joint_em.gaussian import GaussianClassifier, predict_gaussian
from crowdwise.learn.joint_em.logistic import predict_logistic
from crowdwise.learn.joint_em.pooling import pool
from crowdwise.learn.joint_em.views import VIEWS, fit_view, numbers_of, view_from
from crowdwise.learn.network.architectures import NAMED as SPECS

GAUSSIAN = {
    "lda": {"shrinkage": 0.1, "own": 0.0},
    "rda": {"shrinkage": 0.1, "own": 0.15},
    "qda": {"shrinkage": 0.1, "own": 0.4},
}
NAMED = ("auto", *GAUSSIAN, "logistic", "mlp")
ANSWERS_PER_COEFFICIENT = 10
RIDGE, STEPS = 1.0, 10  # of logistic regression; steps in each round, warm from the last


class Expert(NamedTuple):
    """One classifier on one view."""

    place: int  # of the view, among those that are named
    view: str
    transformer: Any  # fitted
    kind: str
    piece: Any  # a `Classifier` of one model that predicts other tasks, too

    def saved(self, weight: float) -> dict[str, Any]:
        """All that predicting needs, in values that a model file keeps."""
        piece, out = self.piece, {"view": self.view, "kind": self.kind, "weight": weight}
        out["transformer"] = numbers_of(self.transformer) if self.view in VIEWS else self.transformer
        if isinstance(piece, Freed):
            out["taught"], piece = piece.taught, piece.piece
        whole = piece.whole if isinstance(piece, CrossFitted) else piece
        if isinstance(whole, EstimatorClassifier):
            return {**out, "estimator": whole}
        return {**out, "numbers": whole.numbers()}


class Freed:
    """A classifier whose beliefs are divided by the shares of the classes that it was taught.

    Parameters
    ----------
    piece : Classifier
        Of one model.
    weight : (tasks,) array or None
    """

    def __init__(self, piece: Any, weight: Array | None) -> None:
        self.piece, self.weight = piece, weight

    def fit(self, target: Array) -> None:  # noqa: D102
        self.piece.fit(target)
        self.taught = np.average(target[0], axis=0, weights=self.weight)

    def proba(self) -> Array:  # noqa: D102
        return freed(self.piece.proba(), self.taught)

    def penalty(self) -> float:  # noqa: D102
        return float(self.piece.penalty())


def check_experts(classifier: Any, features: Any, calibrate: bool) -> None:
    """Refuse classifiers and views that there are not, and several of them where nothing weighs them."""
    network = is_network(classifier)
    known = classifier in NAMED if isinstance(classifier, str) else network or _is_made(classifier, "predict_proba")
    allowed = f"one of {NAMED}, a scikit-learn classifier with predict_proba, or a torch module"
    require(known, "classifier", classifier, allowed)
    views = views_of(features)
    for view in views or [None]:
        known = view in VIEWS if isinstance(view, str) else _is_made(view, "transform")
        require(known, "features", features, f"'auto', some of {VIEWS}, or scikit-learn transformers")
    if network:
        one = (isinstance(features, str) and features == "auto") or (len(views) == 1 and views[0] in VIEWS)
        require(one, "features", features, "'auto' or one view, with networks")
        return
    several = len(views) > 1 or (isinstance(classifier, str) and classifier == "auto")
    if several and not calibrate:
        message = (
            "calibrate=False hears one classifier on one view: name both, as in "
            "JointEM('qda', features='standard', calibrate=False)."
        )
        raise ParameterError(message)


def is_network(classifier: Any) -> bool:
    """Whether a classifier is a network: a name, a specification such as `MLP()`, or a torch module."""
    if isinstance(classifier, str):
        return classifier == "mlp"
    return isinstance(classifier, tuple(SPECS.values())) or _is_made(classifier, "state_dict")


def _is_made(value: Any, method: str) -> bool:
    """Whether a value, and not a class still to be made, has a method."""
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
    even: bool,
    apart: bool = True,
    only: Collection[tuple[int, str]] | None = None,
    shown: Array | None = None,
) -> list[Expert]:
    """Experts for features (tasks, features), by the names of classifier and views, or by estimators.

    Those that are not Gaussian keep the shares of the classes in what they say unless these stand `apart`. With `only`
    those alone, by place of the view and kind. How many answers there are, where these are not all, is `n_answers`.
    Views are found from the rows that are `shown`, all unless given.
    """
    n_answers = answers.n_answers if n_answers is None else n_answers
    x = np.asarray(x, np.float64)
    out: list[Expert] = []
    for place, name in enumerate(views_of(features)):
        if only is not None and place not in {view for view, _ in only}:
            continue
        fit = fit_view if isinstance(name, str) else _fitted
        transformer, seen = fit(name, x if shown is None else x[shown])
        if shown is not None:
            seen = np.asarray(transformer.transform(x), float)
        for kind in _kinds(classifier, name, (seen.shape[1] + 1) * (answers.n_classes - 1), n_answers):
            if only is not None and (place, kind) not in only:
                continue
            view = name if isinstance(name, str) else type(name).__name__
            piece = _piece(classifier, kind, seen, weight, folds, even)
            heard = piece if kind in GAUSSIAN or not apart else Freed(piece, weight)
            out.append(Expert(place, view, transformer, kind, heard))
    return out


def views_of(features: Any) -> Sequence[Any]:
    """The views that a setting names."""
    if isinstance(features, str):
        return VIEWS if features == "auto" else (features,)
    return features if isinstance(features, (list, tuple)) else (features,)


def predict_experts(saved: Sequence[dict[str, Any]], x: Array, share: Array | None) -> Array:
    """Class probabilities (rows, classes) by all experts together, from what `Expert.saved` gave; see `pool`."""
    x = np.asarray(x, np.float64)  # as in the fit: in fewer digits, values that many tasks have fall to the other side
    says: list[Array] = []
    seen: dict[Any, Array] = {}
    for expert in saved:
        view, transformer = expert["view"], expert["transformer"]
        key = view if view in VIEWS else id(transformer)  # experts on the same view share it
        if key not in seen:
            made = view_from(view, transformer) if view in VIEWS else transformer
            seen[key] = np.asarray(made.transform(x), float)
        said = _predict(expert, seen[key])
        says.append(freed(said, expert["taught"]) if "taught" in expert else said)
    return pool(np.stack(says), np.array([expert["weight"] for expert in saved]), share)


def together(experts: Sequence[Expert]) -> Several:
    """The experts as one piece of joint EM."""
    return Several([expert.piece for expert in experts])


def _predict(expert: dict[str, Any], x: Array) -> Array:
    if expert["kind"] in GAUSSIAN:
        return predict_gaussian(x, expert["numbers"])
    if expert["kind"] == "logistic":
        return predict_logistic(x, expert["numbers"]["coef"])
    out: Array = expert["estimator"].predict(x)
    return out


def _kinds(classifier: Any, view: Any, n_coefficients: int, n_answers: int) -> tuple[str, ...]:
    if not isinstance(classifier, str):
        return ("estimator",)
    if classifier != "auto":
        return (classifier,)
    enough = view != "kernel" and n_answers >= ANSWERS_PER_COEFFICIENT * n_coefficients
    return (*GAUSSIAN, "logistic") if enough else tuple(GAUSSIAN)


def _piece(classifier: Any, kind: str, x: Array, weight: Array | None, folds: Array | None, even: bool) -> Any:
    if kind in GAUSSIAN:
        return GaussianClassifier(x, weight, folds, even=even, **GAUSSIAN[kind])

    def make(rows: Array | None) -> Classifier:
        if kind == "logistic":
            return LogisticClassifier(x, weight, rows, ridge=RIDGE, solver="auto", max_iter=STEPS)
        return EstimatorClassifier(classifier, x, weight, rows)

    return make(None) if folds is None else CrossFitted(make, folds, x)


def _fitted(transformer: Any, x: Array) -> tuple[Any, Array]:
    fitted = make_pipeline(clone(transformer), StandardScaler(with_std=False)).fit(x)
    return fitted, np.asarray(fitted.transform(x), float)
