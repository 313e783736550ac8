"""`NetworkLearner`, the base class of learners that train a network: options, batches, epoch selection, predictions.

A method implements `_module`, which returns its `CrowdModule`: the loss of a batch, and how workers answer. The options
that all network learners share are documented once, in `TrainingOptions`; `defaults` holds a method's own defaults.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Literal, Unpack

import numpy as np
from sklearn.base import clone

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseError, ParameterError
from crowdwise.learn.base import Array, CrowdClassifier, FitInput, require_known_labels, training_mask
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.features.scaling import common_scale, mean_and_deviation
from crowdwise.learn.network.architectures import Spec, build_network
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.checkpoint import CheckpointFile, fit_fingerprint
from crowdwise.learn.network.continuing import Continuation, continuation, use_weights
from crowdwise.learn.network.imbalance import Loss, answer_weights, focal_gamma
from crowdwise.learn.network.label_check import warn_of_poor_labels
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import DEFAULTS, TrainingOptions
from crowdwise.learn.network.prediction import held_out_log_likelihood, predict_answers, predict_mean, predict_members
from crowdwise.learn.network.torch_support import require_device, torch
from crowdwise.learn.network.training import CrowdModule, Monitor, Scheduler, Settings, Trainer, rate_factor
from crowdwise.learn.network.training_length import Candidate, Scaling, TrainingPlan, candidate_list, search_plan
from crowdwise.learn.wrapper import Wrapper
from crowdwise.truth.vote_check import split_answers


class NetworkLearner(CrowdClassifier):
    """A classifier trained by the training loop. Accepts `TrainingOptions` as keyword arguments.

    Attributes
    ----------
    module_ : CrowdModule
        The trained network with the layers that the method adds.
    epochs_, n_steps_ : int
        How long the network was trained: passes over the tasks, and optimiser steps.
    weight_decay_ : float
        Weight decay it was trained with.
    scaling_ : {"each", "common"}
        Whether the network divides each feature by its own deviation or all by a common one, if it standardises them.
    training_search_ : list of dict
        With `epochs="auto"`, the candidates: `scaling`, `weight_decay`, the `steps` of the best score, the score
        `held_out` (a log-likelihood per held-out answer), whether it was `chosen`, and `searched`, the steps until the
        search ended. Otherwise empty.
    """

    defaults: ClassVar[TrainingOptions] = {}
    answer_loss: ClassVar[bool] = True  # whether the loss is on answers, so that `loss` and `sampling` apply
    # Whether each network can train on its own answers (`_pools`): the method reads answers only from batches or by
    # pool. Methods that infer labels from all answers first, or draw pairs without an answer, cannot.
    separate_answers: ClassVar[bool] = False

    network: Spec
    epochs: int | Literal["auto"]
    batch_size: int
    lr: float
    weight_decay: float | Literal["auto"]
    optimizer: Literal["adam", "adamw", "sgd"]
    scheduler: Scheduler
    clip: float | None
    loss: Loss
    sampling: Literal["resample"] | None
    select: Literal["last", "held_out", "validation"]
    hidden: float
    patience: int | None
    n_models: int
    device: str
    checkpoint: str | None
    random_state: int

    module_: CrowdModule
    epochs_: int
    n_steps_: int
    weight_decay_: float
    scaling_: Scaling
    training_search_: list[dict[str, Any]]
    # One set of answers per network, if they differ (set by DASC). They share the ids of the answers passed to `fit`,
    # and the same workers have answers in each.
    _pools: Sequence[Answers] | None = None
    # The settings of the networks of a search, of which each is `n_models / len(_candidates)` models.
    _candidates: Sequence[Candidate] = ()
    _checkpoint_file: CheckpointFile | None = None

    proba_: Array

    def __init__(self, **training: Unpack[TrainingOptions]) -> None:
        for name in training:
            if name not in DEFAULTS:
                message = (
                    f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(self._get_param_names())}."
                )
                raise ParameterError(message)
        for name, value in {**DEFAULTS, **self.defaults, **training}.items():
            setattr(self, name, value)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Add the shared options to the signature, which scikit-learn, editors and `help` read."""
        super().__init_subclass__(**kwargs)
        own = [p for p in inspect.signature(cls.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD]
        names = {p.name for p in own}
        shared = inspect.signature(super(cls, cls).__init__).parameters.values()
        merged = [*own, *(p.replace(kind=p.KEYWORD_ONLY) for p in shared if p.name not in names)]
        merged = [p.replace(default=cls.defaults[p.name]) if p.name in cls.defaults else p for p in merged]  # type: ignore[literal-required]
        original = cls.__init__

        def init(self: Any, *args: Any, **options: Any) -> None:
            original(self, *args, **options)

        init.__signature__ = inspect.Signature(merged)  # type: ignore[attr-defined]
        cls.__init__ = init  # type: ignore[method-assign]

    # What a method implements or overrides

    @abstractmethod
    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        """Return the module to train."""

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        """Initialise the module, if its initial values depend on the data."""

    def _train(self, trainer: Trainer) -> None:
        """Train. Methods with more than one phase override this."""
        trainer.run()

    def _infer_truth(self, features: Features, answers: Answers, gold: Array | None) -> Array:
        """Return `proba_`, the class probabilities of the training tasks."""
        return self._predict_proba(features)

    @property
    def _uses_training_loop(self) -> bool:
        """Whether the model is trained by the training loop, rather than by a solver."""
        return True

    # How to train

    def _before_fit(self, inputs: FitInput) -> None:
        """Choose how to train: as set by hand, or as a search finds."""
        if not self._uses_training_loop:
            return
        self._epoch_selection(inputs.features, inputs.answers, inputs.validation)  # raises before a long search
        self.training_search_ = []
        file = None if self.checkpoint is None else self._open_checkpoint(inputs)
        if self._resume_from is not None:
            plan = self._resume_from.plan
        elif self.epochs == "auto":
            plan = self._find_plan(inputs, file)
        else:
            plan = TrainingPlan(self.epochs, *candidate_list(self, inputs.features)[0])
        self.epochs_, self.weight_decay_, self.scaling_ = plan.epochs, plan.weight_decay, plan.scaling
        self.n_steps_ = plan.epochs * self._n_batches(inputs.answers, inputs.weight, inputs.gold)
        self._checkpoint_file = file

    def _find_plan(self, inputs: FitInput, file: CheckpointFile | None) -> TrainingPlan:
        """Search how to train, or read what an interrupted fit found."""
        saved = None if file is None else file.read()
        if file is not None and saved is not None:
            file.plan = dict(saved[0]["plan"])
            self.training_search_ = file.plan["search"]
            return TrainingPlan(**{name: value for name, value in file.plan.items() if name != "search"})
        plan, self.training_search_ = search_plan(self, inputs)
        if file is not None:
            file.plan = {**asdict(plan), "search": self.training_search_}
            file.write({}, {"phase": -1})
        return plan

    def _open_checkpoint(self, inputs: FitInput) -> CheckpointFile:
        settings = {k: v for k, v in self.get_params().items() if k != "checkpoint"}
        labels = None if inputs.validation is None else np.asarray(inputs.validation[1])
        assert self.checkpoint is not None
        fingerprint = fit_fingerprint(
            inputs.answers, inputs.features, settings, inputs.weight, inputs.gold,
            None if labels is None else np.array(str(labels.tolist())),
        )  # fmt: skip
        return CheckpointFile(self.checkpoint, fingerprint)

    def _trial(self) -> NetworkLearner:
        """Return a learner like this one, to search how to train."""
        trial: NetworkLearner = clone(self).set_params(checkpoint=None, select="last", patience=None, scheduler=None)
        return trial

    def _n_batches(self, answers: Answers, weight: Array | None, gold: Array | None) -> int:
        """Return the number of batches per epoch."""
        pools = [answers] if self._pools is None else self._pools
        active = np.any([training_mask(pool, weight, gold) for pool in pools], axis=0)
        return max(-(-int(active.sum()) // self.batch_size), 1)

    def _round_epochs(self, epochs: int) -> int:
        """Return the nearest number of epochs that the method can train for."""
        return epochs

    def _after_fit(self, inputs: FitInput) -> None:
        used = training_mask(inputs.answers, inputs.weight, None)
        warn_of_poor_labels(type(self).__name__, inputs.answers, self.codes_, used, stacklevel=4)

    # Fitting

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, validation, callback = inputs
        if gold is not None and self.answer_loss:
            message = (
                f"{type(self).__name__} does not infer labels, so gold cannot be fixed. Add gold as the answers of a "
                f"trusted worker."
            )
            raise ParameterError(message)
        training, monitor = self._epoch_selection(features, answers, validation)
        self.module_ = self._module(self._network(features, answers.n_classes), training).to(self.device)
        self._prepare(self.module_, features, training, weight, gold)
        if self._resume_from is not None:
            use_weights(self.module_, self._resume_from)
        trainer = self._trainer(self.module_, features, training, weight, gold, monitor=monitor, callback=callback)
        self._train(trainer)
        trainer.finish()
        self.proba_ = self._infer_truth(features, answers, gold)

    def _find_start(self, features: Features, answers: Answers) -> Continuation | None:
        plain = type(self)._fit is NetworkLearner._fit and type(self)._train is NetworkLearner._train
        return continuation(self, answers) if plain else None  # a method with phases of its own is fitted again

    def _network(self, features: Features, n_classes: int, n_models: int | None = None) -> Network:
        n_models = self.n_models if n_models is None else n_models
        network = build_network(self.network, features.shape, n_classes, n_models, self.random_state)
        if getattr(network, "wants_scale", False):
            network.standardise(*self._mean_and_scale(features, n_models))
        return network

    def _mean_and_scale(self, features: Features, n_models: int) -> tuple[Array, Array]:
        """Return the mean of the features and one over their deviation, (features,) or (models, 1, features)."""
        mean, deviation = mean_and_deviation(features)
        scales = {"each": 1 / np.where(deviation > 0, deviation, 1.0), "common": common_scale(deviation)}
        names = [candidate.scaling for candidate in self._candidates] or [self.scaling_]
        if len(set(names)) == 1:
            return mean, scales[names[0]]
        return mean, np.repeat([scales[name] for name in names], n_models // len(names), axis=0)[:, None]

    def _trainer(
        self,
        module: CrowdModule,
        features: Features,
        answers: Answers,
        weight: Array | None,
        gold: Array | None = None,
        **options: Any,
    ) -> Trainer:
        """Return a trainer of the module on these answers, with the options of this learner."""
        pools = [answers] if self._pools is None else self._pools
        weights = [own for pool in pools if (own := self._answer_weight(pool)) is not None]  # for all pools, or none
        batches = Batches(
            features, pools, batch_size=self.batch_size, n_models=module.n_models,
            weight=weights or None, task_weight=weight,
            active=np.any([training_mask(pool, weight, gold) for pool in pools], axis=0),
            resample=self.sampling == "resample", gamma=focal_gamma(self.loss), device=self.device,
            seed=self.random_state,
        )  # fmt: skip
        file = self._checkpoint_file
        return Trainer(module, batches, self._settings(), history=self.history_, checkpoint_file=file, **options)

    def _answer_weight(self, answers: Answers) -> Array | None:
        """Return the weight of each answer, from its label and its own weight; None if all are equal."""
        by_label = answer_weights(self.loss, answers) if self.answer_loss else None
        if answers.weight is None:
            return by_label
        return answers.weight if by_label is None else by_label * answers.weight

    def _settings(self) -> Settings:
        decays = tuple(candidate.weight_decay for candidate in self._candidates)
        decay = decays if len(decays) > 1 else self.weight_decay_
        return Settings(
            self.epochs_, self.batch_size, self.lr, decay, self.optimizer, self.scheduler, self.clip, self.patience,
            self.device, self.random_state,
        )  # fmt: skip

    def _epoch_selection(
        self, features: Features, answers: Answers, validation: tuple[Any, Any] | None
    ) -> tuple[Answers, Monitor | None]:
        """Return the answers to train on and what to measure after each epoch, according to `select`."""
        if self.select == "held_out":
            training, held_out = split_answers(answers, self.hidden, self.random_state)
            return training, Monitor(
                "held_out", lambda module: held_out_log_likelihood(module, features, held_out, self.device)
            )
        if self.select == "validation":
            if validation is None:
                message = "select='validation' needs tasks with known labels. Pass fit(..., validation=(X, labels))."
                raise ParameterError(message)
            rows, labels = open_features(validation[0]), np.asarray(validation[1])
            if rows.n_rows != len(labels) or not len(labels):
                message = f"validation has {rows.n_rows} rows of X and {len(labels)} labels. Pass one label per row."
                raise ParameterError(message)
            require_known_labels(labels, answers.classes)
            classes = answers.classes
            return answers, Monitor(
                "validation",
                lambda module: float((classes[predict_mean(module, rows, self.device).argmax(1)] == labels).mean()),
            )
        return answers, None

    def _check_parameters(self) -> None:
        found = is_integer(self.epochs, 1) or self.epochs == "auto"
        require(found, "epochs", self.epochs, "an integer, 1 or more, or 'auto'")
        for name in ("batch_size", "n_models"):
            require(is_integer(getattr(self, name), 1), name, getattr(self, name), "an integer, 1 or more")
        require(is_integer(self.random_state, 0), "random_state", self.random_state, "an integer, 0 or more")
        require_device(self.device)
        require(is_number(self.lr) and self.lr > 0, "lr", self.lr, "a number above 0")
        decay = self.weight_decay
        found = decay == "auto" or (is_number(decay) and decay >= 0)
        require(found, "weight_decay", decay, "a number, 0 or more, or 'auto'")
        require(self.optimizer in ("adam", "adamw", "sgd"), "optimizer", self.optimizer, "'adam', 'adamw' or 'sgd'")
        rate_factor(self.scheduler, 0.0)  # raises if the schedule is invalid
        require(self.clip is None or (is_number(self.clip) and self.clip > 0), "clip", self.clip, "a number above 0")
        require(self.patience is None or is_integer(self.patience, 1), "patience", self.patience, "1 or more, or None")
        is_fraction = is_number(self.hidden) and 0 < self.hidden < 1
        require(is_fraction, "hidden", self.hidden, "the fraction of answers to hold out, above 0 and below 1")
        require(self.loss in ("ce", "focal", "cb_focal", "reweight"), "loss", self.loss,
                "'ce', 'focal', 'cb_focal' or 'reweight'")  # fmt: skip
        require(self.sampling in (None, "resample"), "sampling", self.sampling, "'resample' or None")
        require(self.select in ("last", "held_out", "validation"), "select", self.select,
                "'last', 'held_out' or 'validation'")  # fmt: skip
        is_default = self.loss == "ce" and self.sampling is None
        require(is_default or self.answer_loss, "loss", self.loss, "'ce': this method has no loss on answers")

    # Predicting

    def _predict_proba(self, features: Features) -> Array:
        return predict_mean(self.module_, features, self.device)

    def member_proba(self, X: Any) -> Array:
        """Return the predictions of each of the `n_models` networks, (models, tasks, classes)."""
        self._fitted  # noqa: B018 (raises if the model is not fitted)
        return predict_members(self.module_, self._open_features(X), self.device)

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        return predict_answers(self.module_, features.rows(rows), row, worker, self.device).exp().mean(0).numpy()

    # Saving

    def _tensors(self) -> dict[str, Array]:
        return {name: value.cpu().numpy() for name, value in self.module_.state_dict().items()}

    def _restore(self, tensors: dict[str, Array]) -> None:
        network = build_network(
            self.network, tuple(self.shape_in_), self.answers_.n_classes, self.n_models, self.random_state
        )
        self.module_ = self._module(network, self.answers_).to(self.device)
        try:
            self.module_.load_state_dict({name: torch.from_numpy(value) for name, value in tensors.items()})
        except RuntimeError as error:
            raise CrowdwiseError(str(error)) from None
        self.module_.eval()


def trains_network(model: Any) -> bool:
    """Whether a learner, or the learner inside a framework, trains a network by the training loop."""
    while isinstance(model, Wrapper):
        model = model._new_base()
    return isinstance(model, NetworkLearner) and model._uses_training_loop


def reject_epoch_options(model: NetworkLearner, reason: str) -> None:
    """Raise ParameterError if options of the training loop are set although a solver replaces it."""
    for name, default in (("select", "last"), ("n_models", 1), ("checkpoint", None)):
        value = getattr(model, name)
        require(value == default, name, value, f"{default!r} with {reason}, which is not trained in epochs")


NetworkLearner.__init__.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    + [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value) for name, value in DEFAULTS.items()]
)
