"""EM with a difficulty per task: workers err more on tasks whose truth is uncertain.

    d_t                                easiness: 0 if all classes are equally likely, largest if one is certain
                                       (p - 1/2)^2 for two classes; in general (sum over c of p_c^2 - 1 / C) / 2
    P(worker w is right | truth c, t)  = e / (e + C - 1), e = exp(lambda[w, c] d_t):  sigmoid(lambda d) for C = 2
    P(w says l | truth c, t)           = (1 - that) / (C - 1) for each wrong l

    adaptive   p = the posterior, as in the authors' code, or f(x_t) as in the text (difficulty="classifier")
    fixed      p = vote shares

    E   T[t, c]  proportional to f(x_t)[c] * prod over answers of P(label | worker, c, t)
    M   f on the soft labels T; lambda stays at logit(accuracy against the votes) / (largest d), or climbs (`climb`)

The two-class models are those of the difficulty paper, with its formulas corrected: ascent, not descent; the square in
both factors; the start of lambda. lambda >= 0 makes a worker never worse than chance; `signed` removes that limit. The
extension to more classes is ours; for two classes it is the paper's model.

The authors' code takes d from the posterior of the round before. With that, tasks whose answers contradict each other
switch between easy and hard for ever; here d is the mean of that d and of the one that it leads to.

Why lambda stays: d is made of the answers that it explains, or of a classifier trained on them. Its optimum
(climb="newton") takes answers to easy tasks to be right nearly always, so labels that are wrong confirm each other. The
small steps of the authors hardly move it. `skill_` needs the optimum, so that is computed once, after the last round.

Fails: workers with a large lambda (10 to 20), whose answers then count too little beside the features: the labels of
`AdaptiveDifficultyEM` may fall below the vote's. With difficulty="classifier" and climb="newton" the labels may drift
to one class, even on answers simulated from the model itself. Fitting the classifier to the full bound (`exact`) keeps
the bound from falling, but may drift too. A `OneClassWarning` says so. Figures: `python -m reproduction
difficulty-tables difficulty-by-task`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.evaluate.calibration import tempered
from crowdwise.learn.base import Array, FitInput
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.features.scaling import mean_and_scale
from crowdwise.learn.joint_em.classifiers import CrossFitted, LogisticClassifier, draw_folds
from crowdwise.learn.joint_em.engine import JointEMEngine
from crowdwise.learn.joint_em.logistic import predict_logistic
from crowdwise.learn.methods.aggnet import AggNet
from crowdwise.learn.methods.difficulty.classifiers import ExactLogistic
from crowdwise.learn.methods.difficulty.collapse import warn_of_one_class
from crowdwise.learn.methods.difficulty.workers import DifficultyWorkers, StrengthUpdate, confusion_at, easiness
from crowdwise.learn.methods.raykar import answered_weights, check_em, em_rounds, warn_if_not_converged
from crowdwise.learn.network.learner import reject_epoch_options
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.soft_targets import TargetModule
from crowdwise.learn.network.torch_support import Tensor, torch
from crowdwise.truth.base import vote_shares
from crowdwise.truth.kernels.shared import FLOOR


class DifficultyModule(TargetModule):
    """A network on soft labels that stores lambda (models, workers, classes) and the easiness of its prior."""

    strength: Tensor
    easiness: Tensor

    def __init__(self, network: Network, answers: Answers, n_models: int) -> None:
        super().__init__(network, answers)
        shape = (n_models, answers.n_workers, answers.n_classes)
        self.register_buffer("strength", torch.full(shape, torch.nan, dtype=torch.float64))
        self.register_buffer("easiness", torch.zeros(n_models, dtype=torch.float64))

    def remember(self, workers: list[Any]) -> None:  # noqa: D102
        self.strength.copy_(torch.from_numpy(np.array([each.strength for each in workers])))
        self.easiness.copy_(torch.tensor([each.prior_easiness for each in workers], dtype=torch.float64))

    def recall(self, workers: list[Any]) -> None:  # noqa: D102
        for m, each in enumerate(workers):
            known = bool(torch.isfinite(self.strength[m]).all())  # NaN until the end of the first round
            each.strength = self.strength[m].cpu().numpy().copy() if known else None
            each.prior_easiness = float(self.easiness[m])


class _DifficultyEM(AggNet):
    """The base of both difficulty models, with a logistic classifier or a network."""

    defaults: ClassVar[TrainingOptions] = {"network": "logistic"}
    prior: Any
    exact = False

    def __init__(
        self,
        *,
        prior: Literal["classifier", "votes"] = "classifier",
        signed: bool = False,
        pseudo: tuple[float, float] | None = (1.1, 0.1),
        climb: StrengthUpdate = None,
        ridge: float = 1.0,
        max_iter: int | None = None,
        tol: float = 1e-5,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.prior = prior
        self.signed = signed
        self.pseudo = pseudo
        self.climb = climb
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol

    strength_: Array
    skill_: Array
    temperature_: float
    coef_: Array
    mean_: Array
    scale_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(is_number(self.ridge) and self.ridge >= 0, "ridge", self.ridge, "a number, 0 or more")
        pair = isinstance(self.pseudo, (tuple, list)) and len(self.pseudo) == 2 and all(map(is_number, self.pseudo))
        valid = self.pseudo is None or (pair and min(self.pseudo) >= 0)
        require(valid, "pseudo", self.pseudo, "two counts (right, wrong), 0 or more, or None")
        climb: Any = self.climb
        known = climb is None or climb == "newton"
        if not known and isinstance(climb, (tuple, list)) and len(climb) == 2:
            known = is_integer(climb[0], 1) and is_number(climb[1]) and climb[1] > 0
        require(known, "climb", climb, "'newton', (steps, rate) with 1 or more steps, or None")
        require(climb is not None or not self.signed, "signed", self.signed, "False, or climb='newton'")
        check_em(self.cross_fit, self.calibrate, self.max_iter, self.tol)
        plain = self.network == "logistic" and self.cross_fit is None
        require(plain or not self.exact, "exact", self.exact, "False with a network or cross_fit")
        if self.network == "logistic":
            reject_epoch_options(self, "network='logistic'")

    def _check_prior(self) -> None:
        require(self.prior in ("classifier", "votes"), "prior", self.prior, "'classifier' or 'votes'")

    @property
    def _uses_training_loop(self) -> bool:
        return bool(self.network != "logistic")

    @abstractmethod
    def _source(self) -> Any:
        """Return whose uncertainty defines the difficulty of a task."""

    def _module(self, network: Network, answers: Answers) -> DifficultyModule:
        return DifficultyModule(network, answers, self.n_models)

    def member_proba(self, X: Any) -> Array:
        """Return the probabilities of each of the `n_models` networks, (models, tasks, classes)."""
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        return self.predict_proba(X)[None] if hasattr(self, "coef_") else super().member_proba(X)

    def _make_workers(self, answers: Answers, weight: Array | None) -> DifficultyWorkers:
        return DifficultyWorkers(
            answers, source=self._source(), prior=self.prior, signed=self.signed, pseudo=self.pseudo, weight=weight,
            climb=self.climb,
        )  # fmt: skip

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, _, callback = inputs
        if self.network != "logistic":
            super()._fit(inputs)
            return
        self.mean_, self.scale_ = mean_and_scale(features)
        x = (features.matrix() - self.mean_) * self.scale_
        weight = answered_weights(answers, weight, gold)
        workers = self._make_workers(answers, weight)

        def make(rows: Array | None) -> LogisticClassifier:
            kind = ExactLogistic if self.exact else LogisticClassifier
            classifier = kind(x, weight, rows, ridge=self.ridge, solver="auto", max_iter=30)
            if isinstance(classifier, ExactLogistic):
                classifier.workers = workers
            return classifier

        folds = None if self.cross_fit is None else draw_folds(len(x), self.cross_fit, self.random_state)
        classifier: Any = make(None) if folds is None else CrossFitted(make, folds, x)
        rounds, tol = em_rounds(self.max_iter, self.tol, self.cross_fit)
        engine = JointEMEngine(
            answers, gold, [workers], classifier, max_iter=rounds, tol=tol, calibrate=self.calibrate,
            monotone=(self.exact or (self._source() == "votes" and self.prior == "classifier"))
            and not isinstance(self.climb, (tuple, list)),  # a gradient step may overshoot
        )  # fmt: skip
        engine.start(vote_shares(answers))
        bounds, converged = engine.run(callback)
        warn_if_not_converged(self, converged, rounds, tol)
        self.history_ = [{"iteration": i + 1, "bound": bound} for i, bound in enumerate(bounds)]
        self.coef_ = classifier.coef if folds is None else classifier.full.coef
        self._finish(engine)

    def _finish(self, engine: JointEMEngine) -> None:
        super()._finish(engine)
        self.strength_ = np.mean([workers.strength for workers in engine.workers], axis=0)
        skills = [workers.skill(proba) for workers, proba in zip(engine.workers, engine.proba, strict=True)]
        self.skill_ = np.mean(skills, axis=0)
        self.temperature_ = float(1 / max(engine.weights[0, 0], FLOOR))
        warn_of_one_class(engine.answers, self.proba_.argmax(axis=1), type(self).__name__)

    def _predict_proba(self, features: Features) -> Array:
        if not hasattr(self, "coef_"):
            return super()._predict_proba(features)
        parts = [predict_logistic((lines - self.mean_) * self.scale_, self.coef_) for lines in features.matrix_blocks()]
        return tempered(np.concatenate(parts), self.temperature_)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        f = self._predict_proba(open_features(features.rows(rows)))  # new tasks have no votes: f replaces them
        confusion = confusion_at(self.strength_[worker], easiness(f)[row], f.shape[1])  # (answers, classes, labels)
        return np.einsum("ac,acl->al", f[row], confusion)

    def _tensors(self) -> dict[str, Array]:
        return {} if hasattr(self, "coef_") else super()._tensors()

    def _restore(self, tensors: dict[str, Array]) -> None:
        if self.network != "logistic":
            super()._restore(tensors)


class AdaptiveDifficultyEM(_DifficultyEM):
    """EM in which the uncertainty about the truth, which changes as the model learns, defines the difficulty of a task.

    Parameters
    ----------
    network : "logistic", or as in `TrainingOptions`
        A logistic classifier with its own solver, or a network in the training loop (`Logistic()` included).
    difficulty : {"posterior", "classifier"}
        Whose uncertainty defines the difficulty: the posterior's (the authors' code), or the classifier's (the paper's
        text).
    prior : {"classifier", "votes"}
        The prior of each task in the E-step.
    signed : bool
        Allow workers to be worse than chance; needs a lambda that climbs, as nobody is worse than chance at first.
    pseudo : (right, wrong) or None
        Pseudo-answers of each worker and class; None is the paper.
    climb : None, (steps, rate) or "newton"
        How lambda is updated in each round: never (it stays at 4 logit(accuracy against the votes)), by steps of
        gradient ascent on the sum over answers (the paper's Algorithm 1), or to its optimum by Newton's method.
    exact : bool
        Fit the classifier to the full bound, including its effect on the difficulty; needs difficulty="classifier".
    ridge, cross_fit, calibrate, max_iter, tol
        As for `Raykar`; with a network, `epochs` and `epochs_per_round` replace `max_iter`.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    strength_ : (workers, classes) array
        lambda: how fast the accuracy of each worker rises as tasks get easier.
    skill_ : (workers, classes) array
        Accuracy of each worker on the easiest tasks, which the paper reports as specificity (class 0) and sensitivity
        (class 1): sigmoid(lambda / 4) for two classes, at the optimal lambda for the final posteriors if climb=None.
    confusion_ : (workers, classes, classes) array
        On a task of average easiness.

    Examples
    --------
    >>> from crowdwise import AdaptiveDifficultyEM, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> AdaptiveDifficultyEM(max_iter=5, tol=0).fit(X, answers).labels_.shape
    (738,)
    """

    def __init__(
        self,
        *,
        difficulty: Literal["posterior", "classifier"] = "posterior",
        exact: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.difficulty = difficulty
        self.exact = exact

    def _check_parameters(self) -> None:
        super()._check_parameters()
        known = self.difficulty in ("posterior", "classifier")
        require(known, "difficulty", self.difficulty, "'posterior' or 'classifier'")
        require(
            not self.exact or self.difficulty == "classifier", "exact", self.exact, "False, or difficulty='classifier'"
        )

    def _source(self) -> Any:
        return self.difficulty


class FixedDifficultyEM(_DifficultyEM):
    """EM in which the vote shares define the difficulty of a task; they do not change during the fit.

    Parameters
    ----------
    network, prior, signed, pseudo, climb, ridge, cross_fit, calibrate, epochs_per_round, max_iter, tol
        As for `AdaptiveDifficultyEM`. prior="votes" is the paper's Algorithm 3, "classifier" its code.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    strength_ : (workers, classes) array
        lambda: how fast the accuracy of each worker rises as tasks get easier.
    skill_ : (workers, classes) array
        Accuracy of each worker on the easiest tasks, which the paper reports as specificity (class 0) and sensitivity
        (class 1): sigmoid(lambda / 4) for two classes, at the optimal lambda for the final posteriors if climb=None.
    confusion_ : (workers, classes, classes) array
        On a task of average easiness.

    Examples
    --------
    >>> from crowdwise import FixedDifficultyEM, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> FixedDifficultyEM(max_iter=5, tol=0).fit(X, answers).labels_.shape
    (738,)
    """

    def _source(self) -> Any:
        return "votes"
