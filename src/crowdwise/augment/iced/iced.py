"""ICED: alternates between inferring labels and creating synthetic tasks of rare classes.

    G, F       the network's hidden layer z = G(x), and the classifier on it
    S[t]       certainty of the votes of task t                                    (2.4), `neighbours.certainty`
    T          labels by Dawid-Skene                                               (2.1, 2.2), `rounds`

    warm-up    F on majority-vote labels: certainty group 3, then 2, then 1 (the highest)
    repeat:
      create   tasks of each class, in z, until it is as frequent as the most frequent one under T:
               z' = z_i + delta (z_r - z_i)                                        (2.3, 2.5), `neighbours.between`
               answers to z': from the workers' answers to the k nearest real tasks
               x' = Q(z')                                                          `decoder.Autoencoder`
      infer    T from the answers to real and synthetic tasks together
      train    F on both with labels T

Wang, Thekinen, Liu, Liu and Tang, "Learning from imbalanced crowdsourced labeled data", SIAM SDM. Where we differ, and
how to get the paper's form:

    hard=True             Dawid-Skene decides for one class in each step. With few workers who answer everything, the
                          labels then become the answers of one of them in most runs.
    candidates="all"      all tasks labelled rare are interpolated, not only those of certainty groups 1 to 3. With
                          classes 10 to 1 and a vote that is right 85 % of the time, two of three of them are of the
                          common class.
    residual=False        decoded tasks lack what the decoder cannot restore; as they are of rare classes, the network
                          learns that real tasks are of the common class.
    real_shares=False     the labels of the real tasks assume classes as balanced as with the synthetic tasks.
    delta="printed"       (2.5) moves z' towards the less certain of the two tasks; the text says the more certain.

With `epochs="auto"` the number of steps is found with a network on Dawid-Skene's labels of the real tasks alone
(`training_length`), and the rounds together take as many.

The first round uses the vote's labels, as in the paper's Algorithm 1: under Dawid-Skene's own the rare class is no
longer rare, and few tasks would be created (`first`). Each inference starts from the previous labels. The paper has two
classes and every worker on every task; here there may be more classes, and a worker who answered none of the nearest
tasks does not answer z'. The synthetic tasks of a round replace those of the round before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.augment.iced.augmented_crowd import LabelModule, assign_task_ids
from crowdwise.augment.iced.inference import warn_of_dominant_worker
from crowdwise.augment.iced.neighbours import MOST, Delta, Simulate, WarmUp
from crowdwise.augment.iced.rounds import Rounds, round_length, truth_model
from crowdwise.learn.base import Array, FitInput
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.network.checkpoint import CheckpointFile
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import DEFAULTS, TrainingOptions
from crowdwise.learn.network.training import Trainer
from crowdwise.learn.network.training_length import TrainingPlan
from crowdwise.truth.base import pick, vote_shares
from crowdwise.truth.methods.dawid_skene import DawidSkene

Smoothing = float | Literal["diagonal", "hierarchical"] | None


class ICED(NetworkLearner):
    """Learning from imbalanced crowds with synthetic tasks of rare classes.

    Tasks of weight zero are ignored; other weights apply to the training of the network. With `n_models` networks,
    tasks are created in their concatenated hidden layers and are the same for all.

    Parameters
    ----------
    epochs_per_round : int or "auto"
        Epochs between two rounds of creating tasks and inferring labels; `epochs` is the total after the warm-up.
        "auto" is half of them.
    warmup : {"iced", "trad1", "trad2", None}
        Training on majority-vote labels before the first round. "iced": three certainty groups in turn, the highest
        last, `warmup_epochs` each. "trad1" and "trad2": all tasks, or the three groups together, three times as long.
    warmup_epochs : int
    delta : {"intended", "printed", "uniform"}
        Position between two real tasks: nearer to the more certain, to the less certain, or uniform (SMOTE).
    candidates : {"certain", "all"}
        Tasks of a rare class to interpolate between: those on which most workers agree (certainty groups 1 to 3), or
        all.
    k : int
        Nearest tasks: of the same class for interpolation, of any class to simulate answers.
    noise, certainty_eps : float
        Largest random change of delta, and the constant added to the variance of the votes.
    simulate : {"frequency", "majority"}
        Whether a worker's label is drawn from those they gave to the nearest tasks, or is the most frequent of them.
    decode : bool
        Decode synthetic tasks to features and train the full network on them; if False, only its last layer, on z'.
    residual : bool
        Add to a decoded task what decoding loses of the two real ones, interpolated. False is the paper's form: decoded
        tasks then look alike, and the network tells them from real ones by that.
    decoder_epochs : int
        Epochs of the decoder after the warm-up; in later rounds it has `epochs_per_round`.
    first : {"vote", "dawid-skene"}
        Labels of the first round: majority vote, or Dawid-Skene on the real answers.
    hard : bool
        Whether Dawid-Skene decides for one class in each step, as in the paper, instead of using probabilities.
    prior : {"uniform", "estimated"}
        Share of each class in Dawid-Skene, among real and synthetic tasks together.
    real_shares : bool
        Whether `proba_` uses the class shares of the real tasks alone, estimated from their answers.
    smoothing : number, "diagonal", "hierarchical" or None
        Pseudo-counts of the confusion matrices, like `prior` of `DawidSkene`. None is the paper's, whose workers gave
        hundreds of answers each.
    soft : bool
        Train the network on the probabilities of the labels; False trains on the labels.
    max_tasks : int
        Tasks in which neighbours are searched, a random sample if there are more.
    **training
        See `TrainingOptions`; `checkpoint` is not supported.

    Attributes
    ----------
    truth_ : DawidSkene
        The last inference: of the real tasks that were used, then of the synthetic ones. The network is trained on
        its labels. `proba_` is its posterior for the real tasks, with their own class shares, and the classifier's for
        tasks without answers.
    made_ : (made, features) array or None
        Features of the synthetic tasks of the last round.
    label_history_ : list of dict
        One record per inference, from the one before the first round (round 0) on: number of tasks `made`, share of
        real tasks whose label `changed` (at first, from the vote's), and `accuracy` on them if the truth is known.
    confusion_ : (workers, classes, classes) array
        Confusion matrices of the workers against the inferred labels, from real answers.

    Examples
    --------
    >>> from crowdwise import ICED, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = ICED(epochs=10).fit(X, answers)
    >>> model.predict(X[:3]).shape, [record["made"] > 0 for record in model.label_history_]
    ((3,), [False, True, True])
    """

    answer_loss: ClassVar[bool] = False

    proba_: Array

    def __init__(
        self,
        *,
        epochs_per_round: int | Literal["auto"] = "auto",
        warmup: WarmUp = "iced",
        warmup_epochs: int = 1,
        delta: Delta = "intended",
        k: int = 5,
        noise: float = 0.05,
        certainty_eps: float = 0.01,
        candidates: Literal["certain", "all"] = "certain",
        simulate: Simulate = "frequency",
        decode: bool = True,
        residual: bool = True,
        decoder_epochs: int = 10,
        first: Literal["vote", "dawid-skene"] = "vote",
        hard: bool = False,
        prior: Literal["uniform", "estimated"] = "uniform",
        real_shares: bool = True,
        smoothing: Smoothing = "diagonal",
        soft: bool = False,
        max_tasks: int = MOST,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(**training)
        self.epochs_per_round = epochs_per_round
        self.warmup = warmup
        self.warmup_epochs = warmup_epochs
        self.delta = delta
        self.k = k
        self.noise = noise
        self.certainty_eps = certainty_eps
        self.candidates = candidates
        self.simulate = simulate
        self.decode = decode
        self.residual = residual
        self.decoder_epochs = decoder_epochs
        self.first = first
        self.hard = hard
        self.prior = prior
        self.real_shares = real_shares
        self.smoothing = smoothing
        self.soft = soft
        self.max_tasks = max_tasks

    truth_: DawidSkene
    made_: Array | None
    label_history_: list[dict[str, Any]]
    confusion_: Array
    _rounds: Rounds

    def _check_parameters(self) -> None:
        super()._check_parameters()
        length = self.epochs_per_round
        fits = length == "auto" or is_integer(length, 1)
        require(fits, "epochs_per_round", length, "an integer of 1 or more, or 'auto'")
        for name in ("warmup_epochs", "k", "decoder_epochs", "max_tasks"):
            require(is_integer(getattr(self, name), 1), name, getattr(self, name), "an integer of 1 or more")
        for name, allowed in {
            "warmup": ("iced", "trad1", "trad2", None), "delta": ("intended", "printed", "uniform"),
            "simulate": ("frequency", "majority"), "first": ("vote", "dawid-skene"),
            "prior": ("uniform", "estimated"), "candidates": ("certain", "all"),
        }.items():  # fmt: skip
            require(getattr(self, name) in allowed, name, getattr(self, name), " or ".join(map(repr, allowed)))
        require(is_number(self.noise) and 0 <= self.noise <= 1, "noise", self.noise, "a number from 0 to 1")
        eps = self.certainty_eps
        require(is_number(eps) and eps > 0, "certainty_eps", eps, "a number above 0")
        counts: Any = self.smoothing
        fits = counts in ("diagonal", "hierarchical") if isinstance(counts, str) else is_number(counts) and counts >= 0
        require(counts is None or fits, "smoothing", counts, "a number >= 0, 'diagonal', 'hierarchical' or None")
        for name, default, used, needed in (
            ("warmup_epochs", 1, self.warmup is not None, "1 unless there is a warmup"),
            ("noise", 0.05, self.delta != "uniform", "0.05 unless delta is 'intended' or 'printed'"),
            ("certainty_eps", 0.01, self.delta != "uniform", "0.01 unless delta is 'intended' or 'printed'"),
            ("decoder_epochs", 10, self.decode, "10 unless decode=True"),
            ("residual", True, self.decode, "True unless decode=True"),
        ):
            value = getattr(self, name)
            require(used or value == default, name, value, needed)
        require(
            self.checkpoint is None,
            "checkpoint",
            self.checkpoint,
            "None: ICED cannot resume a fit",
        )

    def fit_resample(self, X: Any, answers: Answers, **options: Any) -> tuple[Array, Answers]:
        """Fit, and return features and answers of the real tasks, then of the synthetic ones of the last round.

        Synthetic answers are marked in `pseudo`. Any learner can be fitted on the result. The synthetic tasks balance
        the classes under the labels at the start of the round: those of the round before, or of `first` if there is one
        round. The labels inferred afterwards need not be balanced.

        Parameters
        ----------
        X, answers, **options
            As in `fit`; rows of numbers.

        Examples
        --------
        >>> from crowdwise import ICED, CrowdLayer, simulate
        >>> X, answers = simulate.digits_crowd()
        >>> X_more, more = ICED(epochs=2).fit_resample(X, answers)
        >>> bool(len(X_more) == more.n_tasks > answers.n_tasks)
        True
        >>> CrowdLayer(epochs=2).fit(X_more, more).predict(X[:3]).shape
        (3,)
        """
        require(self.decode, "decode", self.decode, "True: only decoded tasks have features")
        features = open_features(X, answers)
        self.fit(features, answers, **options)
        assert self.made_ is not None
        n_used = self.truth_.answers_.n_tasks - len(self.made_)
        made = self.truth_.answers_[n_used:]
        return np.concatenate([features.matrix(), self.made_]), answers.merge(
            assign_task_ids(made, answers), pseudo=True
        )

    def _trial(self) -> NetworkLearner:
        """Return a network on the labels of the real tasks, to search how to train: rounds would make it slow."""
        options = {name: getattr(self, name) for name in DEFAULTS}
        options |= {"checkpoint": None, "select": "last", "patience": None, "scheduler": None}
        return Aggregated(truth_model(self), soft=self.soft, **options)

    def _find_plan(self, inputs: FitInput, file: CheckpointFile | None) -> TrainingPlan:
        """Find for how long to train on the real tasks; with synthetic ones, as many steps are fewer epochs."""
        plan = super()._find_plan(inputs, file)
        count = np.bincount(pick(vote_shares(inputs.answers), np.random.default_rng(self.random_state)))
        larger = (count > 0).sum() * count.max() / count.sum()  # classes are as frequent as the most frequent
        return replace(plan, epochs=max(round(plan.epochs / larger), 1))

    def _module(self, network: Network, answers: Answers) -> LabelModule:
        return LabelModule(network, answers.n_workers)

    def _start(self, inputs: FitInput, steps: int | None, **options: Any) -> Trainer:
        module = self._module(self._network(inputs.features, inputs.answers.n_classes), inputs.answers).to(self.device)
        settings = self._settings()
        options |= {"history": self.history_, "callback": inputs.callback}
        self._rounds = Rounds(self, module, inputs)
        self._rounds.warm_up(settings, history=self.history_, callback=inputs.callback)
        return Trainer(module, self._rounds.renew(settings), settings, **options)

    def _train(self, trainer: Trainer) -> None:
        left = trainer.settings.epochs - trainer.epoch
        while True:
            trainer.run(min(round_length(self, trainer.settings.epochs), left))
            left = trainer.settings.epochs - trainer.epoch
            if trainer.stopped or not left:
                break
            trainer.batches = self._rounds.renew(trainer.settings)

    def _fit(self, inputs: FitInput) -> None:
        features, answers, _, gold, validation, _ = inputs
        training, monitor = self._epoch_selection(features, answers, validation)
        trainer = self._start(inputs._replace(answers=training), None, monitor=monitor)
        self.module_ = trainer.module
        self._train(trainer)
        trainer.finish()
        self.proba_ = self._infer_truth(features, answers, gold)

    def _infer_truth(self, features: Features, answers: Answers, gold: Array | None) -> Array:
        rounds = self._rounds
        del self._rounds
        self.truth_, self.made_, self.label_history_ = rounds.truth, rounds.made, rounds.history
        self.confusion_ = rounds.confusion
        rounds.module.set_workers(rounds.confusion, rounds.ratio)  # of the last round, whichever epoch is selected
        warn_of_dominant_worker(rounds.crowd.answers, rounds.proba.argmax(axis=1), rounds.vote)
        proba = super()._infer_truth(features, answers, gold)  # for tasks without answers
        proba[rounds.used] = rounds.proba
        return proba
