"""Raykar et al.: a logistic classifier and the workers' confusion matrices, estimated together with the truth by EM.

    truth[t]   ~ f(x_t) = softmax(x_t W)                  W ~ normal, precision `ridge`
    label[a]   ~ confusion[worker[a], truth]              confusion[w, c] ~ Dirichlet(1 + prior[c])

    E   T[t, c]  proportional to f(x_t)[c] * prod over a to t of confusion[worker[a], c, label[a]]
    M   confusion as in Dawid-Skene; W by Newton's method or L-BFGS on the soft labels T

Raykar et al., "Learning from crowds", JMLR 11 (2010), for two classes (the sensitivity and specificity of a worker are
confusion[w, 1, 1] and confusion[w, 0, 0]) and for more. With uninformative features it is Dawid-Skene.

Fails with many features and few tasks: the classifier memorises its first labels and confirms them. Use `cross_fit`.
"""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.errors import ConvergenceWarning, ParameterError
from crowdwise.evaluate.calibration import tempered
from crowdwise.learn.base import Array, CrowdClassifier, FitInput, training_mask
from crowdwise.learn.beliefs import current_beliefs
from crowdwise.learn.features import Features
from crowdwise.learn.features.scaling import mean_and_scale
from crowdwise.learn.joint_em.classifiers import (
    Classifier,
    CrossFitted,
    EstimatorClassifier,
    LogisticClassifier,
    draw_folds,
    predict_soft,
)
from crowdwise.learn.joint_em.engine import ConfusionWorkers, JointEMEngine, label_proba
from crowdwise.learn.joint_em.logistic import Solver, predict_logistic
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.dawid_skene import Prior, check_prior


class Raykar(CrowdClassifier):
    """Logistic regression and confusion matrices by joint EM.

    Parameters
    ----------
    classifier : "logistic" or scikit-learn classifier
        The classifier of the features. An estimator must take `sample_weight` and have `predict_proba`.
    prior : as `DawidSkene` takes
        Pseudo-counts of the confusion matrices; None is the paper.
    ridge : float
        Strength of the penalty on the logistic coefficients (of standardised features).
    solver : {"auto", "newton", "lbfgs"}
        Solver of the logistic regression.
    cross_fit : int or None
        Number of folds. The classifier that judges a task is never trained on its answers.
    calibrate : bool
        Choose a temperature of the classifier in each round by the likelihood of the answers; needs `cross_fit`.
        `predict_proba` uses the last one.
    max_iter : int or None
        Maximum number of rounds. None is 100, or 12 with `cross_fit`, which always runs all rounds.
    tol : float
        Increase of the bound per answer below which EM stops.
    random_state : int
        Seed of the folds.

    Attributes
    ----------
    confusion_ : (workers, classes, classes) array
        `confusion_[w, c, l]` = P(worker w says l | truth c).
    coef_ : (features + 1, classes) array
        Coefficients of the standardised features, bias last (logistic only).

    Examples
    --------
    >>> from crowdwise import Raykar, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> Raykar(max_iter=20, tol=1e-3).fit(X, answers).predict(X[:2]).shape
    (2,)
    """

    estimator_: Any

    history_: list[dict[str, Any]]
    proba_: Array

    def __init__(
        self,
        classifier: Literal["logistic"] | ClassifierMixin = "logistic",
        *,
        prior: Prior = "diagonal",
        ridge: float = 1.0,
        solver: Solver = "auto",
        cross_fit: int | None = None,
        calibrate: bool = False,
        max_iter: int | None = None,
        tol: float = 1e-5,
        random_state: int = 0,
    ) -> None:
        self.classifier = classifier
        self.prior = prior
        self.ridge = ridge
        self.solver = solver
        self.cross_fit = cross_fit
        self.calibrate = calibrate
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    confusion_: Array
    coef_: Array
    mean_: Array
    scale_: Array
    bounds_: Array
    temperature_: float
    converged_: bool

    def _check_parameters(self) -> None:
        named = isinstance(self.classifier, str)
        known = self.classifier == "logistic" if named else hasattr(self.classifier, "predict_proba")
        require(known, "classifier", self.classifier, "'logistic' or a scikit-learn classifier with predict_proba")
        require(is_number(self.ridge) and self.ridge >= 0, "ridge", self.ridge, "a number, 0 or more")
        require(self.solver in ("auto", "newton", "lbfgs"), "solver", self.solver, "'auto', 'newton' or 'lbfgs'")
        check_prior(self.prior)
        check_em(self.cross_fit, self.calibrate, self.max_iter, self.tol)
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "an integer, 0 or more")

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, _, callback = inputs
        self.mean_, self.scale_ = mean_and_scale(features)
        x = self._standardise(features.matrix())
        weight = answered_weights(answers, weight, gold)
        classifier = self._make_classifier(x, weight)
        workers = ConfusionWorkers(answers, self.prior, weight)
        rounds, tol = em_rounds(self.max_iter, self.tol, self.cross_fit)
        engine = JointEMEngine(
            answers, gold, [workers], classifier, max_iter=rounds, tol=tol, calibrate=self.calibrate,
            monotone=isinstance(classifier, LogisticClassifier),
        )  # fmt: skip
        engine.start(vote_shares(answers) if self._resume_from is None else self._resume_from)
        bounds, self.converged_ = engine.run(callback)
        self.proba_, self.confusion_ = engine.proba[0], workers.confusion()
        self.temperature_ = float(1 / max(engine.weights[0, 0], FLOOR))
        self.history_ = [{"iteration": i + 1, "bound": bound} for i, bound in enumerate(bounds)]
        full = classifier.full if isinstance(classifier, CrossFitted) else classifier
        if isinstance(full, LogisticClassifier):
            assert full.coef is not None
            self.coef_ = full.coef
        else:
            self.estimator_ = full.fitted
        warn_if_not_converged(self, self.converged_, rounds, tol)

    def _find_start(self, features: Features, answers: Answers) -> Array | None:
        return current_beliefs(self, features, answers)

    def _make_classifier(self, x: Array, weight: Array | None) -> Any:
        def make(rows: Array | None) -> Classifier:
            if isinstance(self.classifier, str):
                return LogisticClassifier(x, weight, rows, ridge=self.ridge, solver=self.solver, max_iter=30)
            return EstimatorClassifier(self.classifier, x, weight, rows)

        if self.cross_fit is None:
            return make(None)
        return CrossFitted(make, draw_folds(len(x), self.cross_fit, self.random_state), x)

    def _standardise(self, x: Array) -> Array:
        return (x - self.mean_) * self.scale_

    def _predict_proba(self, features: Features) -> Array:
        return np.concatenate([self._classify(lines) for lines in features.matrix_blocks()])

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        f = self._classify(features.rows(rows).reshape(len(rows), -1))
        return label_proba(f, self.confusion_, row, worker)

    def _classify(self, x: Array) -> Array:
        """Return class probabilities (rows, classes)."""
        x = self._standardise(x)
        if hasattr(self, "coef_"):
            f = predict_logistic(x, self.coef_)
        else:
            f = predict_soft(self.estimator_, x, self._fitted.n_classes)
        return tempered(f, self.temperature_)


def warn_if_not_converged(model: CrowdClassifier, converged: bool, rounds: int, tol: float) -> None:
    """Give a `ConvergenceWarning` if EM stopped at `max_iter`."""
    if not converged and tol > 0:
        message = f"{type(model).__name__} did not converge in max_iter={rounds} rounds. Increase max_iter or tol."
        warnings.warn(message, ConvergenceWarning, stacklevel=5)


def em_rounds(max_iter: int | None, tol: float, cross_fit: int | None) -> tuple[int, float]:
    """Return the number of rounds and the tolerance. Cross-fitted EM runs all rounds: its bound may fall."""
    if cross_fit is None:
        return 100 if max_iter is None else max_iter, tol
    return 12 if max_iter is None else max_iter, 0.0


def check_em(cross_fit: int | None, calibrate: bool, max_iter: int | None, tol: float) -> None:
    """Raise unless the settings of joint EM are valid."""
    folds = cross_fit is None or is_integer(cross_fit, 2)
    require(folds, "cross_fit", cross_fit, "an integer, 2 or more, or None")
    require(max_iter is None or is_integer(max_iter, 1), "max_iter", max_iter, "an integer, 1 or more, or None")
    require(is_number(tol) and tol >= 0, "tol", tol, "a number, 0 or more (0 runs all rounds)")
    if calibrate and cross_fit is None:
        message = (
            "calibrate=True needs cross_fit, for example cross_fit=5: answers that trained the classifier cannot "
            "calibrate it."
        )
        raise ParameterError(message)


def answered_weights(answers: Answers, weight: Array | None, gold: Array | None) -> Array | None:
    """Return task weights that are zero for tasks without answers or gold, so that the classifier ignores them."""
    known = training_mask(answers, None, gold)
    if known.all():
        return weight
    return known.astype(float) if weight is None else weight * known
