"""CrowdInG: a generator adds missing answers, a discriminator compares them with real ones, a classifier learns.

    f(x)             the classifier's class probabilities
    G(l | x, w)      generator: P(worker w answers l to task x), given f(x) and noise
    D(l | x, w)      discriminator: P(the answer is real)
    Q(c | x, w, l)   auxiliary network: the classifier's class, inferred from an answer

    pre-training     f as CrowdLayer's; G on real answers; D (and Q) on real answers against G's
    each epoch       1. G, now G0, answers sampled pairs of a task and a worker without an answer
                     2. D and Q train on as many of them per worker as the worker gave, drawn by 1 / entropy of G,
                        and on the real answers, weighted by 1 / entropy of G (select_pairs="matched")
                     3. G learns to be taken for real (L_G) and to let Q infer f (lambda CE), on tasks where the
                        entropy of f is at most t
                     4. f learns to make G be taken for real, on the other tasks

Formulas: `objective` (the risk of 3. and 4., choice of pairs), `generator`, `discriminator` (with the graph of labels),
`module` (losses). Chu and Wang, "Improve learning from crowds via generative augmentation", KDD 2021. CrowdG is
information=0; CrowdInG-U, -I, -R are use_task=False, use_worker=False, select_pairs="random".

D learns from the same answers as CrowdLayer, so f changes little after pre-training. Without the weights of 2.
(select_pairs="entropy", the paper), generated answers are for clear pairs and more often right than real ones. D then
learns that right answers are generated, and f drifts away from the truth (on LabelMe it does).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Literal, NamedTuple, Self, Unpack

import numpy as np
from sklearn.base import clone

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.augment.crowding.discriminator import Normalisation, cooccurrence, normalise_graph
from crowdwise.augment.crowding.game import Game
from crowdwise.augment.crowding.module import CrowdInGModule, GameSettings
from crowdwise.augment.crowding.objective import Objective, choose_pairs, entropy
from crowdwise.augment.pairs import draw_missing
from crowdwise.errors import CrowdwiseWarning
from crowdwise.learn.base import Array, FitInput
from crowdwise.learn.features import Features, open_features
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.plans import follow_plan, found_plan
from crowdwise.learn.network.torch_support import torch
from crowdwise.learn.network.training import CrowdModule, Trainer
from crowdwise.simulate.answers import draw_labels
from crowdwise.truth.vote_check import split_answers

GRID = (0.6, 0.7, 0.8, 0.9, 1.0)  # values of mu to search
NEAR = 0.1  # largest distance of the mean of G / G0 from one for a searched mu
ALIKE = 1e-4  # nats per hidden answer; smaller differences are ignored
BLOCK = 1024  # tasks at a time


class Generated(NamedTuple):
    """Generated answers, marked as pseudo, and the probability of each label per answer."""

    answers: Answers
    proba: Array  # (answers, classes)


class CrowdInG(NetworkLearner):
    """A classifier trained in an adversarial game with a generator of missing answers.

    `epochs`, `lr` and the other training options apply to the pre-training of the classifier, which is identical to
    `CrowdLayer`'s; `loss` and `sampling` apply only there. `select` chooses an epoch there, and then one of the game or
    the state before it. `answer_proba` is the generator's mean over noise. A fit resumed from a `checkpoint` restarts
    the game. Training that diverges raises a `DivergenceWarning` (see `divergence`), a network without any task to
    learn from a `CrowdwiseWarning`. In `history_` an epoch of the game has losses, `generator_fit` and `classifier_fit`
    (mean log-likelihood of real answers), the classifier's `agreement` with its predictions before the game, and the
    share of generated answers on tasks where it is confident, `sure`.

    Parameters
    ----------
    information : float
        lambda, weight of the auxiliary network's loss; 0 disables it (CrowdG).
    graph : bool
        Share parameters between labels given to the same tasks, by a graph convolution.
    normalisation : {"symmetric", "row"}
        Normalisation of the graph, as in the paper or in the authors' code.
    threshold : float
        t, in nats. The generator learns on tasks where the classifier's entropy is at most t, the classifier on the
        others.
    two_step : bool
        If False, both learn on all tasks in alternating passes, without `threshold`.
    multiplier : "mean", "search" or float
        mu: "mean" is the mean of delta over the answers of a batch. "search" is the best of 0.6, 0.7, ..., 1.0 by the
        likelihood of hidden answers, among those with a mean of G / G0 near one; it takes six times as long, and falls
        back to the mean if the likelihoods do not differ. Or a number.
    ratio_clip : float
        Largest G / G0.
    select_pairs : {"matched", "entropy", "random"}
        How to choose the discriminator's generated answers: by 1 / entropy of the generator ("entropy", the paper), or
        at random (CrowdInG-R). "matched" also weights real answers by 1 / entropy, so that real and generated answers
        are for equally clear pairs.
    use_task, use_worker : bool
        Whether the generator sees the features (False: CrowdInG-U) and the worker (False: CrowdInG-I).
    objective : {"nonsaturating", "printed"}
        L_G: -log D as in the authors' code, or log(1 - D) as in the paper.
    generator_epochs, discriminator_epochs, adversarial_epochs : int
        Length of the generator's and the discriminator's pre-training and of the game.
    steps : int
        Passes over the answers for each player in each epoch of the game.
    generator_lr, discriminator_lr : float
        Learning rates of the generator's pre-training, and of discriminator and auxiliary network.
    adversarial_lr, classifier_lr : float
        Learning rates of generator and classifier in the game. High ones make it diverge.
    discriminator_decay : float
        Weight decay of discriminator and auxiliary network.
    sparsity : float
        lambda_b: weight of the mean of the discriminator's outputs.
    noise : float
        Standard deviation of the generator's noise.
    scale : float
        Initial value on the diagonal of the crowd layer's matrices in pre-training, as in `CrowdLayer`.
    max_pairs : int
        Largest number of pairs sampled per epoch. Cost grows with it and the answers, not with tasks x workers.
    adversarial_batch_size : int
        Tasks in a batch of the game.
    **training
        See `TrainingOptions`.

    Attributes
    ----------
    multiplier_ : float or None
        mu; None for the mean.
    search_ : list of dict
        For multiplier="search": each mu with its `held_out` likelihood, mean `ratio` G / G0, and whether it was
        `chosen` (none if the likelihoods do not differ).

    Examples
    --------
    >>> from crowdwise import AnnoReg, CrowdInG, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = CrowdInG(generator_epochs=2, discriminator_epochs=1, adversarial_epochs=2).fit(X, answers)
    >>> more = model.generate(X).answers
    >>> more.n_answers == answers.n_answers, bool(more.pseudo.all())
    (True, True)
    >>> AnnoReg(epochs=5).fit(X, answers.merge(more)).predict(X[:3]).shape
    (3,)
    """

    def __init__(
        self,
        *,
        information: float = 0.5,
        graph: bool = True,
        normalisation: Normalisation = "symmetric",
        threshold: float = 0.5,
        two_step: bool = True,
        multiplier: Literal["mean", "search"] | float = "mean",
        ratio_clip: float = 5.0,
        select_pairs: Literal["matched", "entropy", "random"] = "matched",
        use_task: bool = True,
        use_worker: bool = True,
        objective: Objective = "nonsaturating",
        generator_epochs: int = 50,
        discriminator_epochs: int = 10,
        adversarial_epochs: int = 40,
        steps: int = 5,
        generator_lr: float = 1e-4,
        discriminator_lr: float = 1e-4,
        adversarial_lr: float = 1e-5,
        classifier_lr: float = 4e-6,
        discriminator_decay: float = 1e-2,
        sparsity: float = 0.01,
        noise: float = 1.0,
        scale: float = 1.0,
        max_pairs: int = 10_000,
        adversarial_batch_size: int = 256,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(**training)
        self.information = information
        self.graph = graph
        self.normalisation = normalisation
        self.threshold = threshold
        self.two_step = two_step
        self.multiplier = multiplier
        self.ratio_clip = ratio_clip
        self.select_pairs = select_pairs
        self.use_task = use_task
        self.use_worker = use_worker
        self.objective = objective
        self.generator_epochs = generator_epochs
        self.discriminator_epochs = discriminator_epochs
        self.adversarial_epochs = adversarial_epochs
        self.steps = steps
        self.generator_lr = generator_lr
        self.discriminator_lr = discriminator_lr
        self.adversarial_lr = adversarial_lr
        self.classifier_lr = classifier_lr
        self.discriminator_decay = discriminator_decay
        self.sparsity = sparsity
        self.noise = noise
        self.scale = scale
        self.max_pairs = max_pairs
        self.adversarial_batch_size = adversarial_batch_size

    multiplier_: float | None
    search_: list[dict[str, Any]]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("generator_epochs", "steps", "max_pairs", "adversarial_batch_size"):
            require(is_integer(getattr(self, name), 1), name, getattr(self, name), "an integer of 1 or more")
        for name in ("discriminator_epochs", "adversarial_epochs"):
            require(is_integer(getattr(self, name), 0), name, getattr(self, name), "an integer of 0 or more")
        for name in ("generator_lr", "discriminator_lr", "adversarial_lr", "classifier_lr"):
            value = getattr(self, name)
            require(is_number(value) and value > 0, name, value, "a number above 0")
        for name in ("information", "threshold", "discriminator_decay", "sparsity", "noise"):
            value = getattr(self, name)
            require(is_number(value) and value >= 0, name, value, "a number of 0 or more")
        require(is_number(self.scale), "scale", self.scale, "a number")
        mu = self.multiplier
        require(mu in ("mean", "search") or is_number(mu), "multiplier", mu, "'mean', 'search' or a number")
        clip = self.ratio_clip
        require(is_number(clip) and clip >= 1, "ratio_clip", clip, "a number of 1 or more")
        kinds = {"normalisation": ("symmetric", "row"), "select_pairs": ("matched", "entropy", "random"),
                 "objective": ("nonsaturating", "printed")}  # fmt: skip
        for name, allowed in kinds.items():
            require(getattr(self, name) in allowed, name, getattr(self, name), " or ".join(map(repr, allowed)))
        require(self.graph or self.normalisation == "symmetric", "normalisation", self.normalisation,
                "'symmetric' unless graph=True")  # fmt: skip
        require(self.two_step or self.threshold == 0.5, "threshold", self.threshold, "0.5 unless two_step=True")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        mu = None if isinstance(self.multiplier, str) else self.multiplier
        settings = GameSettings(self.information, self.sparsity, mu, self.ratio_clip, self.objective, self.noise)
        return CrowdInGModule(
            network, answers.n_workers, int(np.prod(self.shape_in_)), self.random_state, settings,
            use_task=self.use_task, use_worker=self.use_worker, graph=self.graph, scale=self.scale,
        )  # fmt: skip

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        assert isinstance(module, CrowdInGModule)
        if self.graph:
            linked = normalise_graph(cooccurrence(answers, weight), self.normalisation)
            module.discriminator.graph.copy_(torch.from_numpy(linked))

    def _trial(self) -> Self:
        trial = super()._trial()  # ends before the game
        return trial.set_params(multiplier="mean") if self.multiplier == "search" else trial

    def _fit(self, inputs: FitInput) -> None:
        self.multiplier_ = None if isinstance(self.multiplier, str) else self.multiplier
        if self.multiplier == "search":
            self.multiplier_, self.search_ = self._search_multiplier(inputs)
        super()._fit(inputs)

    def _search_multiplier(self, inputs: FitInput) -> tuple[float | None, list[dict[str, Any]]]:
        """Return the best mu of the grid, or None if hidden answers show no difference, and a record per trial."""
        kept, held = split_answers(inputs.answers, self.hidden, self.random_state)
        tried, fits = [], []
        for mu in GRID:
            trial: CrowdInG = clone(self).set_params(multiplier=mu, select="last", checkpoint=None)
            trial = follow_plan(trial, found_plan(self), inputs.features.shape)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrowdwiseWarning)
                trial.fit(inputs.features, kept, sample_weight=inputs.weight)
            fits.append(trial.answer_log_likelihood(inputs.features, held))  # (held,)
            ratio = trial.history_[-1].get("ratio", 1.0)
            tried.append({"multiplier": mu, "held_out": float(fits[-1].mean()), "ratio": ratio, "chosen": False})
        near = [i for i, trial in enumerate(tried) if abs(trial["ratio"] - 1) <= NEAR] or list(range(len(tried)))
        best, worst = (pick(near, key=lambda i: tried[i]["held_out"]) for pick in (max, min))
        gain = fits[best] - fits[worst]
        if not gain.mean() > max(ALIKE, gain.std() / np.sqrt(len(gain))):
            return None, tried
        tried[best]["chosen"] = True
        return GRID[best], tried

    def _train(self, trainer: Trainer) -> None:
        module = trainer.module
        assert isinstance(module, CrowdInGModule)
        module.settings.multiplier = self.multiplier_
        trainer.run()
        trainer.finish()  # the generator trains with the classifier of the selected epoch
        trainer.best_state = {}
        module.zero_grad()  # frozen parameters must not count in the norm that `clip` limits
        settings = replace(trainer.settings, epochs=self.generator_epochs, lr=self.generator_lr)
        Trainer(
            module, trainer.batches, settings, history=trainer.history, callback=trainer.callback,
            checkpoint_file=trainer.checkpoint_file,
            phase=1, parameters=list(module.generator.parameters()), loss=module.generator_loss,
        ).run()  # fmt: skip
        module.generating.fill_(True)
        Game(self, trainer, module).play()

    def generate(
        self,
        X: Any,
        answers: Answers | None = None,
        *,
        per_worker: Literal["real", "all"] | int = "real",
        max_pairs: int | None = None,
        random_state: int = 0,
    ) -> Generated:
        """Generate answers for pairs of a task and a worker without one, for use with any learner.

        Parameters
        ----------
        X : features
            Rows follow the tasks of `answers`.
        answers : Answers, optional
            The existing answers (default: those of `fit`). A model that is not fitted is fitted on them.
        per_worker : "real", "all" or int
            How many answers per worker: as many as they gave, all sampled pairs, or this number; chosen as in training.
        max_pairs : int, optional
            Largest number of pairs to sample (default: the model's).
        random_state : int
            Seed of the pairs and of the labels, which are drawn from the probabilities.
        """
        fits = per_worker in ("real", "all") or is_integer(per_worker, 1)
        require(fits, "per_worker", per_worker, "'real', 'all' or an integer of 1 or more")
        max_pairs = self.max_pairs if max_pairs is None else max_pairs
        require(is_integer(max_pairs, 1), "max_pairs", max_pairs, "an integer of 1 or more")
        if answers is not None and not self.__sklearn_is_fitted__():
            self.fit(X, answers)
        base = self._fitted if answers is None else answers
        self._open_features(X)  # raises if X has another shape than in `fit`
        features, codes = open_features(X, base), self._worker_codes(base.workers)
        rng = np.random.default_rng(random_state)
        task, worker = draw_missing(base, max_pairs, rng)
        proba = np.empty((len(task), self._fitted.n_classes))
        size = features.block_size(BLOCK)
        for first in range(0, base.n_tasks, size):  # tasks are sorted
            rows = np.arange(first, min(first + size, base.n_tasks))
            part = slice(*np.searchsorted(task, [first, first + size]))
            if part.start < part.stop:
                proba[part] = self._proba_of_answers(features, rows, task[part] - first, codes[worker[part]])
        label = draw_labels(proba, rng.random(len(task)))
        if per_worker != "all":
            counts = np.bincount(base.worker, minlength=base.n_workers)
            quota = counts if per_worker == "real" else np.full(base.n_workers, per_worker)
            chosen = choose_pairs(worker, None if self.select_pairs == "random" else entropy(proba), quota, rng)
            task, worker, label, proba = task[chosen], worker[chosen], label[chosen], proba[chosen]
        made = Answers.from_codes(
            task, worker, label, tasks=base.tasks, workers=base.workers, classes=self.classes_,
            pseudo=np.ones(len(task), bool),
        )  # fmt: skip
        return Generated(made, proba)
