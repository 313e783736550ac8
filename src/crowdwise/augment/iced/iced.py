"""ICED: alternates between inferring labels and creating synthetic tasks of rare classes.

    G, F       the network's hidden layer z = G(x), and the classifier on it
    S[t]       certainty of the votes of task t                                    (2.4), `neighbours.certainty`
    T          labels: hard Dawid-Skene                                            (2.1, 2.2), `truth.DawidSkene`

    warm-up    F on majority-vote labels: certainty group 3, then 2, then 1 (the highest)
    repeat:
      create   tasks of each class, in z, until it is as frequent as the most frequent one under T:
               z' = z_i + delta (z_r - z_i)                                        (2.3, 2.5), `neighbours.between`
               answers to z': from the workers' answers to the k nearest real tasks
               x' = Q(z')                                                          `decoder.Autoencoder`
      infer    T from the answers to real and synthetic tasks together
      train    F on both with labels T

Wang, Thekinen, Liu, Liu and Tang, "Learning from imbalanced crowdsourced labeled data", SIAM SDM. Hard Dawid-Skene with
a uniform class prior separates a rare class from a common one badly; with equally many tasks of each it does not. As
printed, (2.5) moves z' towards the less certain of the two tasks; the text says the more certain. `delta` has both. The
first round uses the vote's labels, as in the paper's Algorithm 1: under Dawid-Skene's own the rare class is no longer
rare, and few tasks would be created (`first`). Each inference starts from the previous labels. The paper has two
classes and every worker on every task; here there may be more classes, and a worker who answered none of the nearest
tasks does not answer z'. The synthetic tasks of a round replace those of the round before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.augment.iced.augmented_crowd import AugmentedCrowd, LabelModule, append_tasks, assign_task_ids
from crowdwise.augment.iced.decoder import Autoencoder, encode
from crowdwise.augment.iced.neighbours import (
    MOST,
    Delta,
    Simulate,
    WarmUp,
    balancing_counts,
    certainty,
    interpolate_tasks,
    nearest,
    simulate_answers,
    warm_up_plan,
)
from crowdwise.learn.base import Array, FitInput, training_mask
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.features.base import MoreRows, SomeRows
from crowdwise.learn.joint_em.engine import ConfusionWorkers
from crowdwise.learn.network.batches import Batches
from crowdwise.learn.network.learner import NetworkLearner, TrainingOptions
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.prediction import predict_mean
from crowdwise.learn.network.training import Trainer
from crowdwise.truth.base import fix_gold, pick, vote_shares
from crowdwise.truth.methods.dawid_skene import DawidSkene

Smoothing = float | Literal["diagonal", "hierarchical"] | None
MAKING = 303  # separates these random numbers from others of the same seed


class ICED(NetworkLearner):
    """Learning from imbalanced crowds with synthetic tasks of rare classes.

    Tasks of weight zero are ignored; other weights apply to the training of the network. With `n_models` networks,
    tasks are created in their concatenated hidden layers and are the same for all.

    Parameters
    ----------
    rounds : int
        Rounds of creating tasks, inferring labels, and training the network for `epochs`.
    warmup : {"iced", "trad1", "trad2", None}
        Training on majority-vote labels before the first round. "iced": three certainty groups in turn, the highest
        last, `warmup_epochs` each. "trad1" and "trad2": all tasks, or the three groups together, three times as long.
    warmup_epochs : int
    delta : {"intended", "printed", "uniform"}
        Position between two real tasks: nearer to the more certain, to the less certain, or uniform (SMOTE).
    k : int
        Nearest tasks: of the same class for interpolation, of any class to simulate answers.
    noise, certainty_eps : float
        Largest random change of delta, and the constant added to the variance of the votes.
    simulate : {"frequency", "majority"}
        Whether a worker's label is drawn from those they gave to the nearest tasks, or is the most frequent of them.
    decode : bool
        Decode synthetic tasks to features and train the full network on them; if False, only its last layer, on z'.
    decoder_epochs : int
        Epochs of the autoencoder at the start, and of its decoder in each round.
    first : {"vote", "dawid-skene"}
        Labels of the first round: majority vote, or Dawid-Skene on the real answers.
    prior : {"uniform", "estimated"}
        Share of each class in Dawid-Skene.
    smoothing : number, "diagonal", "hierarchical" or None
        Pseudo-counts of the confusion matrices, like `prior` of `DawidSkene`. None is the paper's, whose workers gave
        hundreds of answers each.
    max_tasks : int
        Tasks in which neighbours are searched, a random sample if there are more.
    **training
        See `TrainingOptions`; `checkpoint` is not supported.

    Attributes
    ----------
    truth_ : DawidSkene
        The last inference: of the real tasks that were used, then of the synthetic ones. `proba_` is its posterior for
        the real tasks, with the matrices of its hard labels, and the classifier's for tasks without answers.
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
    >>> model = ICED(rounds=2, epochs=3).fit(X, answers)
    >>> model.predict(X[:3]).shape, len(model.label_history_)
    ((3,), 3)
    """

    defaults: ClassVar[TrainingOptions] = {"epochs": 10}
    answer_loss: ClassVar[bool] = False

    def __init__(
        self,
        rounds: int = 5,
        *,
        warmup: WarmUp = "iced",
        warmup_epochs: int = 5,
        delta: Delta = "intended",
        k: int = 5,
        noise: float = 0.05,
        certainty_eps: float = 0.05,
        simulate: Simulate = "frequency",
        decode: bool = True,
        decoder_epochs: int = 10,
        first: Literal["vote", "dawid-skene"] = "vote",
        prior: Literal["uniform", "estimated"] = "uniform",
        smoothing: Smoothing = "diagonal",
        max_tasks: int = MOST,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(**training)
        self.rounds = rounds
        self.warmup = warmup
        self.warmup_epochs = warmup_epochs
        self.delta = delta
        self.k = k
        self.noise = noise
        self.certainty_eps = certainty_eps
        self.simulate = simulate
        self.decode = decode
        self.decoder_epochs = decoder_epochs
        self.first = first
        self.prior = prior
        self.smoothing = smoothing
        self.max_tasks = max_tasks

    truth_: DawidSkene
    made_: Array | None
    label_history_: list[dict[str, Any]]
    confusion_: Array

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("rounds", "warmup_epochs", "k", "decoder_epochs", "max_tasks"):
            require(is_integer(getattr(self, name), 1), name, getattr(self, name), "an integer of 1 or more")
        for name, allowed in {
            "warmup": ("iced", "trad1", "trad2", None), "delta": ("intended", "printed", "uniform"),
            "simulate": ("frequency", "majority"), "first": ("vote", "dawid-skene"),
            "prior": ("uniform", "estimated"),
        }.items():  # fmt: skip
            require(getattr(self, name) in allowed, name, getattr(self, name), " or ".join(map(repr, allowed)))
        require(is_number(self.noise) and 0 <= self.noise <= 1, "noise", self.noise, "a number from 0 to 1")
        eps = self.certainty_eps
        require(is_number(eps) and eps > 0, "certainty_eps", eps, "a number above 0")
        counts: Any = self.smoothing
        fits = counts in ("diagonal", "hierarchical") if isinstance(counts, str) else is_number(counts) and counts >= 0
        require(counts is None or fits, "smoothing", counts, "a number >= 0, 'diagonal', 'hierarchical' or None")
        for name, default, used, needed in (
            ("warmup_epochs", 5, self.warmup is not None, "5 unless there is a warmup"),
            ("noise", 0.05, self.delta != "uniform", "0.05 unless delta is 'intended' or 'printed'"),
            ("certainty_eps", 0.05, self.delta != "uniform", "0.05 unless delta is 'intended' or 'printed'"),
            ("decoder_epochs", 10, self.decode, "10 unless decode=True"),
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
        >>> X_more, more = ICED(rounds=1, epochs=2).fit_resample(X, answers)
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

    def _module(self, network: Network, answers: Answers) -> LabelModule:
        return LabelModule(network, answers.n_workers)

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, validation, callback = inputs
        kept, monitor = self._epoch_selection(features, answers, validation)
        module = self._module(self._network(features, answers.n_classes), answers).to(self.device)
        self.module_, self.made_, self.label_history_ = module, None, []
        used = np.flatnonzero(training_mask(kept, weight, gold))
        complete = len(used) == kept.n_tasks
        crowd = AugmentedCrowd(
            features if complete else SomeRows(features, used), kept if complete else kept[used],
            np.ones(len(used)) if weight is None else weight[used], None if gold is None else gold[used],
        )  # fmt: skip
        decoder = self._autoencoder(crowd)
        shares = fix_gold(vote_shares(crowd.answers), crowd.gold)
        vote = pick(shares, np.random.default_rng(self.random_state))
        warm_up = warm_up_plan(self.warmup, self.warmup_epochs, shares, np.diff(crowd.answers.task_starts))
        settings = replace(self._settings(), epochs=sum(n for _, n in warm_up) + self.rounds * self.epochs)
        trainer = Trainer(module, self._batches(crowd), settings, history=self.history_, callback=callback)
        module.learn(vote)
        for tasks, epochs in warm_up:
            trainer.batches = self._batches(crowd, tasks)
            trainer.run(epochs)
        self._infer(crowd, crowd.answers, vote)
        trainer.monitor = monitor
        sure, labels = certainty(shares, self.certainty_eps), vote if self.first == "vote" else self.truth_.codes_
        for turn in range(self.rounds):
            trainer.batches = self._round(crowd, labels, sure, decoder, turn)
            labels = self.truth_.codes_[: len(vote)]
            trainer.run(self.epochs)
            if trainer.stopped:
                break
        trainer.finish()
        self.proba_ = predict_mean(module, features, self.device)  # for tasks without answers
        self.proba_[used] = self.truth_.proba_[: len(used)]
        module.set_confusion(self.confusion_)

    def _autoencoder(self, crowd: AugmentedCrowd) -> Autoencoder | None:
        """Return the autoencoder after its first training, or None if tasks are not decoded."""
        if not self.decode:
            return None
        decoder = Autoencoder(  # type: ignore[abstract]  # it has no worker model
            self.module_.network, crowd.features, self.random_state
        ).to(self.device)
        decoder.train_on(self._batches(crowd, n_models=1), self._settings(), self.decoder_epochs, phase=1)
        return decoder

    def _round(
        self, crowd: AugmentedCrowd, labels: Array, sure: Array, decoder: Autoencoder | None, turn: int
    ) -> Batches:
        """Create tasks and infer labels. Return the batches to train on in this round."""
        module, rng = self.module_, np.random.default_rng([self.random_state, MAKING, turn])
        assert isinstance(module, LabelModule)
        z = encode(module.network, crowd.features, self.device)  # (tasks, models * width)
        made = interpolate_tasks(
            z, labels, sure, balancing_counts(labels, crowd.answers.n_classes), k=self.k, delta=self.delta,
            noise=self.noise, rng=rng, most=self.max_tasks,
        )  # fmt: skip
        z_made = made.apply(z)
        answers = crowd.answers
        if len(z_made):
            known = np.flatnonzero(np.diff(answers.task_starts))  # tasks with gold may have no answers
            near = known[nearest(z[known], z_made, self.k, self.max_tasks, rng)]  # (made, k)
            answers = append_tasks(answers, simulate_answers(answers, near, self.simulate, rng))
        self._infer(crowd, answers, labels)
        if decoder is None:
            features: Features = SomeRows(crowd.features, np.append(np.arange(len(z)), made.first))
            module.learn(self.truth_.codes_, z_made)
        else:
            decoder.train_on(
                self._batches(crowd, n_models=1), self._settings(), self.decoder_epochs, phase=2 + turn, frozen=True
            )
            self.made_ = decoder.decode(z_made)
            features = MoreRows(crowd.features, self.made_)
            module.learn(self.truth_.codes_)
        weight = np.append(crowd.weight, crowd.weight[made.first])
        return self._batches(AugmentedCrowd(features, answers, weight, None))

    def _infer(self, crowd: AugmentedCrowd, answers: Answers, before: Array) -> None:
        """Infer labels from answers to real and synthetic tasks, and record how the real tasks' labels changed."""
        n_real, n_made = crowd.answers.n_tasks, answers.n_tasks - crowd.answers.n_tasks
        gold = None if crowd.gold is None else np.append(crowd.gold, np.full(n_made, -1, np.int32))
        truth = DawidSkene(self.smoothing, self.prior, hard=True, random_state=self.random_state)
        if n_made:  # EM starts from the current labels; synthetic tasks start from their votes
            start = vote_shares(answers)
            start[:n_real] = np.eye(answers.n_classes)[before]
            truth.warm_start, truth.answers_, truth.proba_ = True, answers, start
        self.truth_ = truth.fit(answers, gold)
        codes, proba = truth.codes_[:n_real], truth.proba_[:n_real]
        record = {"round": len(self.label_history_), "made": n_made, "changed": float((codes != before).mean())}
        if crowd.answers.truth is not None and (known := crowd.answers.truth >= 0).any():  # for `label_history_` only
            record["accuracy"] = float((codes == crowd.answers.truth)[known].mean())
        self.label_history_.append(record)
        workers = ConfusionWorkers(crowd.answers, "diagonal", crowd.weight)
        workers.fit(proba, proba)
        self.confusion_ = workers.confusion()
        assert isinstance(self.module_, LabelModule)
        self.module_.set_confusion(self.confusion_)

    def _batches(self, crowd: AugmentedCrowd, tasks: Array | None = None, n_models: int | None = None) -> Batches:
        """Return batches of all tasks, or of these."""
        return Batches(
            crowd.features, crowd.answers, batch_size=self.batch_size, n_models=n_models or self.n_models,
            task_weight=crowd.weight, active=np.ones(crowd.answers.n_tasks, bool) if tasks is None else tasks,
            device=self.device, seed=self.random_state,
        )  # fmt: skip
