"""The state of one fit of ICED, renewed in each round: labels of the real tasks, synthetic tasks, decoder, workers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.augment.iced.augmented_crowd import AugmentedCrowd, LabelModule, append_tasks
from crowdwise.augment.iced.decoder import Autoencoder, encode
from crowdwise.augment.iced.inference import estimate_shares, posterior
from crowdwise.augment.iced.neighbours import (
    Interpolation,
    balancing_counts,
    certainty,
    certainty_groups,
    interpolate_tasks,
    nearest,
    simulate_answers,
    warm_up_plan,
)
from crowdwise.learn.base import Array, FitInput, training_mask
from crowdwise.learn.features import Features
from crowdwise.learn.features.base import MoreRows, SomeRows
from crowdwise.learn.joint_em.engine import ConfusionWorkers
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.training import Settings, Trainer
from crowdwise.truth.base import fix_gold, pick, vote_shares
from crowdwise.truth.methods.dawid_skene import DawidSkene

if TYPE_CHECKING:
    from crowdwise.augment.iced.iced import ICED

MAKING = 303  # separates these random numbers from others of the same seed
ROUNDS = 2  # with epochs_per_round="auto"
WARM_UP, DECODER = 1, 2  # phases of training; the decoder has one more in each round


def truth_model(options: ICED) -> DawidSkene:
    """Return the model of the labels, not fitted yet."""
    return DawidSkene(options.smoothing, options.prior, hard=options.hard, random_state=options.random_state)


def round_length(options: ICED, epochs: int) -> int:
    """Return the epochs of a round, of a fit with this number of epochs."""
    return -(-epochs // ROUNDS) if options.epochs_per_round == "auto" else options.epochs_per_round


class Rounds:
    """Creates tasks, infers labels and sets what the network learns, round by round.

    Parameters
    ----------
    options : ICED
        The options of the fit.
    module : LabelModule
        The network that is trained.
    inputs : FitInput
        The data. Tasks without answers, weight or gold are not used.

    Attributes
    ----------
    used : (used tasks,) array
        The tasks that are used, rows of the features.
    vote : (used tasks,) array
        Majority vote.
    truth : DawidSkene
        The last inference, of real and synthetic tasks.
    proba : (used tasks, classes) array
        Class probabilities of the real tasks.
    confusion, ratio : (workers, classes, labels) array, (classes,) array
        The workers and class shares of the last inference, as in `LabelModule.set_workers`.
    made : (made, features) array or None
        Features of the synthetic tasks of the last round.
    history : list of dict
        As `label_history_` of `ICED`.
    """

    truth: DawidSkene
    proba: Array
    confusion: Array
    ratio: Array

    start: Array | Array
    used: Array

    def __init__(self, options: ICED, module: LabelModule, inputs: FitInput) -> None:
        features, answers, weight, gold, _, _ = inputs
        self.options, self.module = options, module
        self.used = np.flatnonzero(training_mask(answers, weight, gold))
        complete = len(self.used) == answers.n_tasks
        self.crowd = AugmentedCrowd(
            features if complete else SomeRows(features, self.used), answers if complete else answers[self.used],
            np.ones(len(self.used)) if weight is None else weight[self.used],
            None if gold is None else gold[self.used],
        )  # fmt: skip
        self.shares: Array = fix_gold(vote_shares(self.crowd.answers), self.crowd.gold)  # (tasks, classes)
        self.vote: Array = pick(self.shares, np.random.default_rng(options.random_state))
        n_votes = np.diff(self.crowd.answers.task_starts)
        self.group: Array = certainty_groups(self.shares, float(np.median(n_votes[n_votes > 0])))
        self.decoder: Autoencoder | None = None
        self.made: Array | None = None
        self.history: list[dict[str, Any]] = []
        self._set_labels(self.vote)
        self.turn: int = 0

    def warm_up(self, settings: Settings, **report: Any) -> None:
        """Train the network on the majority vote, the decoder on its hidden layer, and infer labels from real answers.

        `report` are the options of `Trainer` that say where its records go.
        """
        options = self.options
        plan = warm_up_plan(options.warmup, options.warmup_epochs, self.group)
        settings = replace(settings, epochs=sum(epochs for _, epochs in plan), patience=None)
        trainer = Trainer(self.module, self._batches(self.crowd), settings, phase=WARM_UP, **report)
        self.module.learn(self.shares if options.soft else self.start)
        for tasks, epochs in plan:
            trainer.batches = self._batches(self.crowd, tasks)
            trainer.run(epochs)
        if options.decode:
            decoder = Autoencoder(self.module.network, self.crowd.features, options.random_state)  # type: ignore[abstract]  # no workers
            self.decoder = decoder.to(options.device)
            self._train_decoder(settings, options.decoder_epochs)
        self._infer(self.crowd.answers, vote_shares(self.crowd.answers))
        if options.first == "vote":
            self._set_labels(self.vote)

    def renew(self, settings: Settings) -> Batches:
        """Create tasks and infer labels. Return the batches to train on in this round."""
        options, crowd, module = self.options, self.crowd, self.module
        rng = np.random.default_rng([options.random_state, MAKING, self.turn])
        labels = self.labels
        z = encode(module.network, crowd.features, options.device)  # (tasks, models * width)
        made = interpolate_tasks(
            z, labels, certainty(self.shares, options.certainty_eps), balancing_counts(labels, self.start.shape[1]),
            k=options.k, delta=options.delta, noise=options.noise, rng=rng, most=options.max_tasks,
            candidate=self.group > 0 if options.candidates == "certain" else None,
        )  # fmt: skip
        z_made = made.apply(z)
        answers = crowd.answers
        if len(z_made):
            known = np.flatnonzero(np.diff(answers.task_starts))  # tasks with gold may have no answers
            near = known[nearest(z[known], z_made, options.k, options.max_tasks, rng)]  # (made, k)
            answers = append_tasks(answers, simulate_answers(answers, near, options.simulate, rng))
        start = vote_shares(answers)  # of synthetic tasks; real ones start from the labels before
        start[: len(z)] = self.start
        self._infer(answers, start)
        truth = self.truth  # of tasks + made
        target = truth.proba_ if options.soft else np.eye(answers.n_classes)[truth.codes_]
        weight = np.append(crowd.weight, crowd.weight[made.first])
        self.ratio = self.proba.mean(axis=0) / np.maximum(np.average(target, axis=0, weights=weight), 1e-9)
        module.set_workers(self.confusion, self.ratio)
        if self.decoder is None:
            features: Features = SomeRows(crowd.features, np.append(np.arange(len(z)), made.first))
            module.learn(target, z_made)
        else:
            if self.turn:  # the hidden layer has changed
                self._train_decoder(settings, round_length(options, settings.epochs))
            self.made = self.decoder.decode(z_made)
            if options.residual:
                self.made += self._interpolate_errors(made, z)
            features = MoreRows(crowd.features, self.made)
            module.learn(target)
        self.turn += 1
        return self._batches(AugmentedCrowd(features, answers, weight, None))

    def _interpolate_errors(self, made: Interpolation, z: Array) -> Array:
        """Return what decoding loses of the two real tasks of each synthetic one, interpolated, (made, features)."""
        assert self.decoder is not None
        tasks, place = np.unique(np.concatenate([made.first, made.second]), return_inverse=True)
        lost = self.crowd.features.rows(tasks) - self.decoder.decode(z[tasks])  # (tasks, features)
        first, second = np.split(place, 2)
        return made._replace(first=first, second=second).apply(lost)

    def _set_labels(self, labels: Array, start: Array | None = None) -> None:
        """Set the labels (tasks,) that tasks are created from, and where the next inference starts (tasks, classes)."""
        self.labels = labels
        self.start = np.eye(self.shares.shape[1])[labels] if start is None else start

    def _infer(self, answers: Answers, start: Array) -> None:
        """Infer labels from answers to real and synthetic tasks, and record how the real tasks' labels changed."""
        options, crowd, n_real = self.options, self.crowd, len(self.used)
        n_made = answers.n_tasks - n_real
        gold = None if crowd.gold is None else np.append(crowd.gold, np.full(n_made, -1, np.int32))
        truth = truth_model(options)
        truth.warm_start, truth.answers_, truth.proba_ = True, answers, start
        self.truth = truth.fit(answers, gold)
        codes, proba = truth.codes_[:n_real], truth.proba_[:n_real]
        if options.real_shares:
            likelihood = proba / np.maximum(truth.class_prior_, 1e-9)
            proba = posterior(likelihood, estimate_shares(likelihood))
        record = {
            "round": len(self.history),
            "made": n_made,
            "changed": float((codes != self.start.argmax(axis=1)).mean()),
        }
        self._set_labels(
            proba.argmax(axis=1), np.eye(answers.n_classes)[codes] if options.hard else truth.proba_[:n_real]
        )
        self.proba = proba
        if crowd.answers.truth is not None and (known := crowd.answers.truth >= 0).any():  # for the history only
            record["accuracy"] = float((codes == crowd.answers.truth)[known].mean())
        self.history.append(record)
        workers = ConfusionWorkers(crowd.answers, "diagonal", crowd.weight)
        workers.fit(proba, proba)
        self.confusion = workers.confusion()

    def _train_decoder(self, settings: Settings, epochs: int) -> None:
        assert self.decoder is not None
        self.decoder.train_on(self._batches(self.crowd, n_models=1), settings, epochs, phase=DECODER + self.turn)

    def _batches(self, crowd: AugmentedCrowd, tasks: Array | None = None, n_models: int | None = None) -> Batches:
        """Return batches of all tasks, or of these."""
        options = self.options
        return Batches(
            crowd.features, crowd.answers, batch_size=options.batch_size, n_models=n_models or options.n_models,
            task_weight=crowd.weight, active=np.ones(crowd.answers.n_tasks, bool) if tasks is None else tasks,
            device=options.device, seed=options.random_state,
        )  # fmt: skip
