"""EM with a difficulty per task: workers err more on tasks whose truth is uncertain.

    d_t                                easiness: 0 if all classes are equally likely, largest if one is certain
                                       (p - 1/2)^2 for two classes; in general (sum over c of p_c^2 - 1 / C) / 2
    P(worker w is right | truth c, t)  = e / (e + C - 1), e = exp(lambda[w, c] d_t):  sigmoid(lambda d) for C = 2
    P(w says l | truth c, t)           = (1 - that) / (C - 1) for each wrong l

    adaptive   p = f(x_t), the classifier's current probabilities (or the posterior: difficulty="posterior")
    fixed      p = vote shares

    E   T[t, c]  proportional to f(x_t)[c] * prod over answers of P(label | worker, c, t)
    M   lambda by Newton's method on the expected log-likelihood (concave); f on the soft labels T

The two-class models are those of the difficulty paper, with its formulas corrected: ascent, not descent; the square in
both factors; lambda starts at logit(accuracy) / (largest d). lambda >= 0 makes a worker never worse than chance;
`signed` removes that limit. The extension to more classes is ours; for two classes it is the paper's model.

In `AdaptiveDifficultyEM` the classifier also sets d, so fitting it to T alone may lower the bound. `exact=True` fits
it to the full bound (logistic classifier only), and the bound never falls. `hold=True` takes the plain step, but only
as far as the bound does not fall. In `FixedDifficultyEM` the bound never falls.

Fails: the plain adaptive form sometimes drifts to one class, even on answers simulated from the model itself; the exact
form does not, and `hold` seldom does. In `FixedDifficultyEM` d is computed from the answers it explains: if all agree,
d is largest, and the optimal lambda takes them to be right nearly always. A lambda left at its start, a worker's
accuracy, or moved by few small steps (`climb`) infers the truth better on simulated answers: see
`python -m reproduction difficulty-tables`.
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
from crowdwise.learn.methods.difficulty.classifiers import BoundLogistic, ExactLogistic, LimitedLogistic
from crowdwise.learn.methods.difficulty.workers import (
    DifficultyWorkers,
    StrengthUpdate,
    confusion_at,
    easiness,
    skill_from_strength,
)
from crowdwise.learn.methods.raykar import answered_weights, check_em, em_rounds, warn_if_not_converged
from crowdwise.learn.network.learner import TrainingOptions, reject_epoch_options
from crowdwise.learn.network.modules import Network
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
    exact = hold = False

    def __init__(
        self,
        *,
        prior: Literal["classifier", "votes"] = "classifier",
        signed: bool = False,
        pseudo: tuple[float, float] | None = (1.1, 0.1),
        climb: StrengthUpdate = "newton",
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
        require(
            climb is not None or not self.signed, "signed", self.signed, "False with climb=None: lambda starts >= 0"
        )
        check_em(self.cross_fit, self.calibrate, self.max_iter, self.tol)
        plain = self.network == "logistic" and self.cross_fit is None
        require(plain or not self.exact, "exact", self.exact, "False with a network or cross_fit")
        require(plain or not self.hold, "hold", self.hold, "False with a network or cross_fit")
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
            kind = ExactLogistic if self.exact else LimitedLogistic if self.hold else LogisticClassifier
            classifier = kind(x, weight, rows, ridge=self.ridge, solver="auto", max_iter=30)
            if isinstance(classifier, BoundLogistic):
                classifier.workers = workers
            return classifier

        folds = None if self.cross_fit is None else draw_folds(len(x), self.cross_fit, self.random_state)
        classifier: Any = make(None) if folds is None else CrossFitted(make, folds, x)
        rounds, tol = em_rounds(self.max_iter, self.tol, self.cross_fit)
        engine = JointEMEngine(
            answers, gold, [workers], classifier, max_iter=rounds, tol=tol, calibrate=self.calibrate,
            monotone=(self.exact or self.hold or (self._source() == "votes" and self.prior == "classifier"))
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
        self.skill_ = skill_from_strength(self.strength_)
        self.temperature_ = float(1 / max(engine.weights[0, 0], FLOOR))

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
    """EM in which the classifier's uncertainty, which changes as it learns, defines the difficulty of a task.

    Parameters
    ----------
    network : "logistic", or as in `TrainingOptions`
        A logistic classifier with its own solver, or a network in the training loop (`Logistic()` included).
    difficulty : {"classifier", "posterior"}
        Whose uncertainty defines the difficulty: the classifier's (the paper), or the last posterior's (its code).
    prior : {"classifier", "votes"}
        The prior of each task in the E-step.
    signed : bool
        Allow workers to be worse than chance.
    pseudo : (right, wrong) or None
        Pseudo-answers of each worker and class; None is the paper.
    climb : "newton", (steps, rate) or None
        How lambda is updated in each round: to its optimum by Newton's method, by steps of gradient ascent on the sum
        over answers (the paper's Algorithm 1), or never: it stays at 4 logit(accuracy against the votes).
    exact : bool
        Fit the classifier to the full bound, including its effect on the difficulty.
    hold : bool
        Fit the classifier to the labels alone, but halve its step until the full bound does not fall.
    ridge, cross_fit, calibrate, max_iter, tol
        As for `Raykar`; with a network, `epochs` and `epochs_per_round` replace `max_iter`.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    strength_ : (workers, classes) array
        lambda: how fast the accuracy of each worker rises as tasks get easier.
    skill_ : (workers, classes) array
        Accuracy of each worker on the easiest tasks: sigmoid(lambda / 4) for two classes, which the paper reports as
        specificity (class 0) and sensitivity (class 1).
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
        difficulty: Literal["classifier", "posterior"] = "classifier",
        exact: bool = False,
        hold: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.difficulty = difficulty
        self.exact = exact
        self.hold = hold

    def _check_parameters(self) -> None:
        super()._check_parameters()
        known = self.difficulty in ("classifier", "posterior")
        require(known, "difficulty", self.difficulty, "'classifier' or 'posterior'")
        by_classifier = self.difficulty == "classifier"
        for name, value in (("exact", self.exact), ("hold", self.hold)):
            require(by_classifier or not value, name, value, "False with difficulty='posterior'")
        require(not (self.exact and self.hold), "hold", self.hold, "False with exact=True, whose bound never falls")

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
        Accuracy of each worker on the easiest tasks: sigmoid(lambda / 4) for two classes, which the paper reports as
        specificity (class 0) and sensitivity (class 1).
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
