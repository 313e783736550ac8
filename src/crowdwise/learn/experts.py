"""The experts that `JointEM` hears: a kind of classifier on a view of the features, each cross-fitted.

lda, qda    Gaussian classes, the second with 15 % of its own covariance for each
logistic    logistic regression; unless asked for by name, where there are ten answers to each coefficient: fitted
            to fewer it learns to imitate the crowd, errors and all, and answers cannot tell that from being right
estimator   any scikit-learn classifier that takes `sample_weight`
"""

from __future__ import annotations

from collections.abc import Sequence
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

GAUSSIAN = {"lda": {"shrinkage": 0.1, "own": 0.0}, "qda": {"shrinkage": 0.1, "own": 0.15}}
ANSWERS_PER_COEFFICIENT = 10
RIDGE, STEPS = 1.0, 10  # of logistic regression; steps in each round, warm from the last


class Expert(NamedTuple):
    """One classifier on one view."""

    view: str
    transformer: Any  # fitted
    kind: str
    piece: Any  # a `Classifier` of one model that predicts other tasks, too

    def saved(self, weight: float) -> dict[str, Any]:
        """All that predicting needs, in values that a model file keeps."""
        whole = self.piece.whole if isinstance(self.piece, CrossFitted) else self.piece
        out: dict[str, Any] = {"view": self.view, "kind": self.kind, "weight": weight}
        out["transformer"] = numbers_of(self.transformer) if self.view in VIEWS else self.transformer
        if isinstance(whole, EstimatorClassifier):
            return {**out, "estimator": whole}
        return {**out, "numbers": whole.numbers()}


def make_experts(
    x: Array,
    answers: Answers,
    weight: Array | None,
    folds: Array | None,
    *,
    classifier: Any,
    features: Any,
    even: bool,
) -> list[Expert]:
    """Experts for features (tasks, features), by the names of classifier and views, or by estimators."""
    out: list[Expert] = []
    for name in views_of(features):
        transformer, seen = fit_view(name, x) if isinstance(name, str) else _fitted(name, x)
        for kind in _kinds(classifier, seen.shape[1], answers):
            shown = name if isinstance(name, str) else type(name).__name__
            out.append(Expert(shown, transformer, kind, _piece(classifier, kind, seen, weight, folds, even)))
    return out


def views_of(features: Any) -> Sequence[Any]:
    """The views that a setting names."""
    if isinstance(features, str):
        return VIEWS if features == "auto" else (features,)
    return features if isinstance(features, (list, tuple)) else (features,)


def predict_experts(saved: Sequence[dict[str, Any]], x: Array, named: Array) -> Array:
    """Class probabilities (rows, classes) by all experts together, from what `Expert.saved` gave; see `pool`."""
    says: list[Array] = []
    seen: dict[Any, Array] = {}
    for expert in saved:
        view, transformer = expert["view"], expert["transformer"]
        key = view if view in VIEWS else id(transformer)  # experts on the same view share it
        if key not in seen:
            made = view_from(view, transformer) if view in VIEWS else transformer
            seen[key] = np.asarray(made.transform(x), float)
        says.append(_predict(expert, seen[key]))
    return pool(np.stack(says), np.array([expert["weight"] for expert in saved]), named)


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


def _kinds(classifier: Any, n_axes: int, answers: Answers) -> tuple[str, ...]:
    if not isinstance(classifier, str):
        return ("estimator",)
    if classifier != "auto":
        return (classifier,)
    coefficients = (n_axes + 1) * (answers.n_classes - 1)
    enough = answers.n_answers >= ANSWERS_PER_COEFFICIENT * coefficients
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
