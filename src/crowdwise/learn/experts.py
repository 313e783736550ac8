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

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.classifiers import Classifier, CrossFitted, EstimatorClassifier, LogisticClassifier, Several
from crowdwise.learn.gaussian import GaussianClassifier, predict_gaussian
from crowdwise.learn.logistic import predict_logistic
from crowdwise.learn.pooling import pool
from crowdwise.learn.views import VIEWS, fit_view, numbers_of, view_from

GAUSSIAN = {
    "lda": {"shrinkage": 0.1, "own": 0.0},
    "rda": {"shrinkage": 0.1, "own": 0.15},
    "qda": {"shrinkage": 0.1, "own": 0.4},
}
ANSWERS_PER_COEFFICIENT = 10
RIDGE, STEPS = 1.0, 10  # of logistic regression; steps in each round, warm from the last
RAREST = 1e-6  # share of a class that a belief is divided by


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


def freed(proba: Array, taught: Array) -> Array:
    """Beliefs (..., classes) as they would be if all classes were equally likely."""
    out = proba / np.maximum(taught, RAREST)
    return np.asarray(out / out.sum(axis=-1, keepdims=True))


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
) -> list[Expert]:
    """Experts for features (tasks, features), by the names of classifier and views, or by estimators.

    Those that are not Gaussian keep the shares of the classes in what they say unless these stand `apart`. With `only`
    those alone, by place of the view and kind. How many answers there are, where these are not all, is `n_answers`.
    """
    n_answers = answers.n_answers if n_answers is None else n_answers
    x = np.asarray(x, np.float64)
    out: list[Expert] = []
    for place, name in enumerate(views_of(features)):
        if only is not None and place not in {view for view, _ in only}:
            continue
        transformer, seen = fit_view(name, x) if isinstance(name, str) else _fitted(name, x)
        for kind in _kinds(classifier, name, (seen.shape[1] + 1) * (answers.n_classes - 1), n_answers):
            if only is not None and (place, kind) not in only:
                continue
            shown = name if isinstance(name, str) else type(name).__name__
            piece = _piece(classifier, kind, seen, weight, folds, even)
            heard = piece if kind in GAUSSIAN or not apart else Freed(piece, weight)
            out.append(Expert(place, shown, transformer, kind, heard))
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
