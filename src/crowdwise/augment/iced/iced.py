"""ICED: labels inferred from the answers, and made-up tasks of rare classes, each improving the other in turn.

    G, F       the network's hidden layer z = G(x), and the classifier on it
    S[t]       certainty of the votes of task t                                    (2.4), `neighbours.certainty`
    T          labels: hard Dawid-Skene                                            (2.1, 2.2), `truth.DawidSkene`

    warm-up    F on the votes' labels: the third group by certainty, then the second, then the highest
    repeat:
      make     between tasks of each class rarer than the commonest under T, in z, until it is as common:
               z' = z_i + delta (z_r - z_i)                                        (2.3, 2.5), `neighbours.between`
               what the workers say of z': what they say of the k real tasks nearest to it
               x' = Q(z')                                                          `decoder.Autoencoder`
      infer    T from the answers to real and made tasks together
      train    F on both with labels T

Wang, Thekinen, Liu, Liu and Tang, "Learning from imbalanced crowdsourced labeled data", SIAM SDM. Hard Dawid-Skene with
a uniform class prior splits a rare class from a common one badly; among as many tasks of each it does not. Printed,
(2.5) moves z' towards the less certain of the two tasks, the text says the more certain: `delta` offers both. The first
round makes tasks by the vote's labels, as the paper's Algorithm 1: by Dawid-Skene's own, in which the rare class is no
longer rare, there is little to make (`first`). Each inference goes on from the labels before it. The paper has two
classes and every worker on every task; here there may be more classes, and a worker who answered none of the nearest
tasks says nothing of z'. The tasks made in a round replace those of the round before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.augment.iced.decoder import Autoencoder, encode
from crowdwise.augment.iced.mixed import LabelModule, MixedCrowd, joined, named
from crowdwise.augment.iced.neighbours import (
    MOST,
    Delta,
    Simulate,
    WarmUp,
    between,
    certainty,
    nearest,
    quotas,
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
MAKING = 303  # sets the draws of made tasks apart from others of the same seed


class ICED(NetworkLearner):
    """Learns from imbalanced crowds: labels and made-up tasks of rare classes that improve each other.

    A task of weight zero is left out altogether; other weights count when the network is trained. With `n_models`
    networks, tasks are made in their hidden layers side by side and are the same for all.

    Parameters
    ----------
    rounds : int
        How often tasks are made, labels inferred and the network trained, each time for `epochs`.
    warmup : {"iced", "trad1", "trad2", None}
        First training, on the labels of the vote: three groups in turn, from the third in certainty to the highest,
        `warmup_epochs` on each; all tasks, or those of the three groups, at once for three times that; or none.
    warmup_epochs : int
    delta : {"intended", "printed", "uniform"}
        Where made tasks lie between two real ones: nearer to the more certain, the less certain, or anywhere (SMOTE).
    k : int
        Nearest tasks: of the same class to interpolate with, of any class to simulate answers from.
    noise, certainty_eps : float
        Largest random change of delta, and what is added to the variance of the votes.
    simulate : {"frequency", "majority"}
        Whether a worker's label of a made task is drawn from those he gave nearby, or the commonest of them.
    decode : bool
        Bring made tasks back to features and train all of the network on them; or only its last layer, on z'.
    decoder_epochs : int
        Epochs of the autoencoder before anything else, and of its decoder in each round.
    first : {"vote", "dawid-skene"}
        Whose labels the first round starts from: the vote's, or those of Dawid-Skene on the real answers.
    prior : {"uniform", "estimated"}
        Share of each class in Dawid-Skene.
    smoothing : number, "diagonal", "hierarchical" or None
        Pseudo-counts of its confusion matrices, as the `prior` of `DawidSkene`. None is the paper, whose workers gave
        hundreds of answers each.
    max_tasks : int
        Tasks that neighbours are looked for among, drawn at random where there are more.
    **training
        See `TrainingOptions`; `checkpoint` is refused.

    Attributes
    ----------
    truth_ : DawidSkene
        The last labels inferred, of the real tasks that were used, then of the made ones; `proba_` is its posterior of
        the real tasks, under the matrices that hard decisions led to, and the classifier's where there is no answer.
    made_ : (made, features) array or None
        Features of the tasks made last.
    label_history_ : list of dict
        After each inference, from the one before any task is made (round 0): the tasks made, the share of real tasks
        whose label changed (at first, from the vote's), and where truth is known the accuracy on them.
    confusion_ : (workers, classes, classes) array
        Confusion matrices of the workers against the labels inferred, from real answers.

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
            require(is_integer(getattr(self, name), 1), name, getattr(self, name), "a whole number, 1 or more")
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
        require(counts is None or fits, "smoothing", counts, "a number, 0 or more, 'diagonal', 'hierarchical' or None")
        for name, default, used, needed in (
            ("warmup_epochs", 5, self.warmup is not None, "it with a warmup only"),
            ("noise", 0.05, self.delta != "uniform", "it with delta='intended' or 'printed' only"),
            ("certainty_eps", 0.05, self.delta != "uniform", "it with delta='intended' or 'printed' only"),
            ("decoder_epochs", 10, self.decode, "it with decode=True only"),
        ):
            value = getattr(self, name)
            require(used or value == default, name, value, needed)
        require(self.checkpoint is None, "checkpoint", self.checkpoint, "None: what a round makes is not kept on disk")

    def fit_resample(self, X: Any, answers: Answers, **options: Any) -> tuple[Array, Answers]:
        """Fit, and return features and answers: the real tasks, then those made in the last round.

        Made answers are marked in `pseudo`. Any learner can be fitted on the result. As many tasks were made of each
        class as it lacked to be as common as the commonest, by the labels that round began with: those the round before
        inferred, or in the only round those of `first`. The labels inferred after, of real and made tasks, need not be
        balanced.

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
        require(self.decode, "decode", self.decode, "True: made tasks are features only when they are decoded")
        features = open_features(X, answers)
        self.fit(features, answers, **options)
        assert self.made_ is not None
        n_used = self.truth_.answers_.n_tasks - len(self.made_)
        made = self.truth_.answers_[n_used:]
        return np.concatenate([features.matrix(), self.made_]), answers.merge(named(made, answers), pseudo=True)

    def _module(self, network: Network, answers: Answers) -> LabelModule:
        return LabelModule(network, answers.n_workers)

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, validation, callback = inputs
        kept, monitor = self._epoch_selection(features, answers, validation)
        module = self._module(self._network(features, answers.n_classes), answers).to(self.device)
        self.module_, self.made_, self.label_history_ = module, None, []
        used = np.flatnonzero(training_mask(kept, weight, gold))
        whole = len(used) == kept.n_tasks
        crowd = MixedCrowd(
            features if whole else SomeRows(features, used), kept if whole else kept[used],
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
        self.proba_ = predict_mean(module, features, self.device)  # what is said of tasks without answers
        self.proba_[used] = self.truth_.proba_[: len(used)]
        module.set_confusion(self.confusion_)

    def _autoencoder(self, crowd: MixedCrowd) -> Autoencoder | None:
        """The autoencoder after its first training, where there is one."""
        if not self.decode:
            return None
        decoder = Autoencoder(  # type: ignore[abstract]  # trained like the others, but it knows no workers
            self.module_.network, crowd.features, self.random_state
        ).to(self.device)
        decoder.train_on(self._batches(crowd, n_models=1), self._settings(), self.decoder_epochs, phase=1)
        return decoder

    def _round(self, crowd: MixedCrowd, labels: Array, sure: Array, decoder: Autoencoder | None, turn: int) -> Batches:
        """Make tasks and infer labels: what to train on in this round."""
        module, rng = self.module_, np.random.default_rng([self.random_state, MAKING, turn])
        assert isinstance(module, LabelModule)
        z = encode(module.network, crowd.features, self.device)  # (tasks, models * width)
        made = between(
            z, labels, sure, quotas(labels, crowd.answers.n_classes), k=self.k, delta=self.delta, noise=self.noise,
            rng=rng, most=self.max_tasks,
        )  # fmt: skip
        z_made = made.of(z)
        answers = crowd.answers
        if len(z_made):
            known = np.flatnonzero(np.diff(answers.task_starts))  # gold may be all that is known of a task
            near = known[nearest(z[known], z_made, self.k, self.max_tasks, rng)]  # (made, k)
            answers = joined(answers, simulate_answers(answers, near, self.simulate, rng))
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
        return self._batches(MixedCrowd(features, answers, weight, None))

    def _infer(self, crowd: MixedCrowd, answers: Answers, before: Array) -> None:
        """Labels from answers to real and made tasks; and what became of the real tasks' labels."""
        n_real, n_made = crowd.answers.n_tasks, answers.n_tasks - crowd.answers.n_tasks
        gold = None if crowd.gold is None else np.append(crowd.gold, np.full(n_made, -1, np.int32))
        truth = DawidSkene(self.smoothing, self.prior, hard=True, random_state=self.random_state)
        if n_made:  # EM goes on from the labels there are; what is made starts from its votes
            start = vote_shares(answers)
            start[:n_real] = np.eye(answers.n_classes)[before]
            truth.warm_start, truth.answers_, truth.proba_ = True, answers, start
        self.truth_ = truth.fit(answers, gold)
        codes, proba = truth.codes_[:n_real], truth.proba_[:n_real]
        record = {"round": len(self.label_history_), "made": n_made, "changed": float((codes != before).mean())}
        if crowd.answers.truth is not None and (known := crowd.answers.truth >= 0).any():  # for the eye alone
            record["accuracy"] = float((codes == crowd.answers.truth)[known].mean())
        self.label_history_.append(record)
        workers = ConfusionWorkers(crowd.answers, "diagonal", crowd.weight)
        workers.fit(proba, proba)
        self.confusion_ = workers.confusion()
        assert isinstance(self.module_, LabelModule)
        self.module_.set_confusion(self.confusion_)

    def _batches(self, crowd: MixedCrowd, tasks: Array | None = None, n_models: int | None = None) -> Batches:
        """Batches of all tasks, or of some."""
        return Batches(
            crowd.features, crowd.answers, batch_size=self.batch_size, n_models=n_models or self.n_models,
            task_weight=crowd.weight, active=np.ones(crowd.answers.n_tasks, bool) if tasks is None else tasks,
            device=self.device, seed=self.random_state,
        )  # fmt: skip
