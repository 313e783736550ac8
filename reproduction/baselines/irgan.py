"""IRGAN on a crowd: CrowdLayer generates answers and learns from a discriminator of real and generated ones.

    G(c | i, k)    P(label c of worker k on task i), by CrowdLayer
    D_c(i, k)      sigmoid(s_c(i, k)): probability that label c of worker k on task i is real
    s_c(i, k)      u_k' M_c v_i;  u_k a vector per worker, v_i from the features by a separate network

    D descends     mean of -log D over real answers + mean of -log(1 - D) over answers drawn from G for missing pairs
    G ascends      the mean of r = log(1 + exp(s_c)) = -log(1 - D) over c drawn from G for missing pairs, by the policy
                   gradient: the mean of (r - b) grad log G(c | i, k)
    b              mean reward of the other draws; it does not depend on the draw itself, so there is no bias

Each real answer is paired with a missing one: the same task, with a worker drawn from those who did not answer it.

Wang et al., "IRGAN: a minimax game for unifying generative and discriminative information retrieval models", SIGIR
2017, with documents instead of answers; a baseline in CrowdInG (Chu and Wang, KDD 2021).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.features.scaling import mean_and_scale
from crowdwise.learn.methods.crowdlayer import CrowdLayer, CrowdLayerModule, Kind
from crowdwise.learn.network.architectures import build_network
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.modules import Dropout, Linear, Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.learn.network.training import CrowdModule, Trainer

DISCRIMINATOR = 7  # stream of its random start


class IRGAN(CrowdLayer):
    """CrowdLayer that continues to train against a discriminator after learning from the answers.

    Parameters
    ----------
    kind, scale
        As in `CrowdLayer`.
    rounds : int
        Adversarial rounds, after `epochs` of CrowdLayer: first the discriminator learns, then the generator.
    discriminator_epochs : int
        Epochs of the discriminator per round; the generator has one.
    generator_lr : float
        Learning rate of the generator in the adversarial rounds.
    width : int
        Length of u and v.
    **training
        See `TrainingOptions`; with `select`, an epoch of CrowdLayer is chosen.

    Attributes
    ----------
    history_ : list of dict
        The epochs of CrowdLayer, then the adversarial rounds with the loss of each side. The loss of a discriminator
        that cannot separate real and generated answers is 2 log 2.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> X, answers = simulate.digits_crowd()
    >>> IRGAN(epochs=5, rounds=2).fit(X, answers).answer_proba(X[:3], worker=7).shape
    (3, 10)
    """

    separate_answers: ClassVar[bool] = False  # pairs are drawn from all answers

    def __init__(
        self,
        kind: Kind = "mw",
        *,
        scale: float = 1.0,
        rounds: int = 20,
        discriminator_epochs: int = 5,
        generator_lr: float = 1e-4,
        width: int = 20,
        **training: Unpack[TrainingOptions],
    ) -> None:
        super().__init__(kind, scale=scale, **training)
        self.rounds = rounds
        self.discriminator_epochs = discriminator_epochs
        self.generator_lr = generator_lr
        self.width = width

    def _check_parameters(self) -> None:
        super()._check_parameters()
        for name in ("rounds", "discriminator_epochs", "width"):
            require(is_integer(getattr(self, name), 1), name, getattr(self, name), "an integer, 1 or more")
        rate = self.generator_lr
        require(is_number(rate) and rate > 0, "generator_lr", rate, "a number above 0")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        seed = self.random_state + DISCRIMINATOR
        judge = build_network(self.network, tuple(self.shape_in_), answers.n_classes, network.n_models, seed)
        discriminator = Discriminator(judge, answers.n_workers, self.width, seed)
        return GameModule(network, answers, self.kind, self.scale, discriminator)

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        assert isinstance(module, GameModule)
        if getattr(module.discriminator.network, "wants_scale", False):
            module.discriminator.network.standardise(*mean_and_scale(features))

    def _train(self, trainer: Trainer) -> None:
        trainer.run()
        trainer.finish()  # the adversarial rounds start from the chosen epoch
        trainer.best_state = {}
        module, settings = trainer.module, trainer.settings
        assert isinstance(module, GameModule)
        if len(module.given) == trainer.batches.answers.n_tasks * module.n_workers:
            return  # no pair is missing
        own = list(module.discriminator.parameters())
        judges = {id(p) for p in own}
        discriminator = Trainer(
            module, trainer.batches, replace(settings, epochs=self.rounds * self.discriminator_epochs),
            phase=1, parameters=own, loss=module.discriminator_loss,
        )  # fmt: skip
        generator = Trainer(
            module, trainer.batches, replace(settings, epochs=self.rounds, lr=self.generator_lr),
            phase=2, parameters=[p for p in module.parameters() if id(p) not in judges], loss=module.generator_loss,
            callback=trainer.callback,
        )  # fmt: skip
        for i in range(self.rounds):
            discriminator.run(self.discriminator_epochs)
            generator.run(1)
            losses = {"discriminator": discriminator.history[-1]["loss"], "generator": generator.history[-1]["loss"]}
            trainer.history.append({"round": i + 1, **losses})


class Discriminator(nn.Module):
    """Scores answers, with a network, a vector per worker and a matrix per class."""

    def __init__(self, network: Network, n_workers: int, width: int, seed: int) -> None:
        super().__init__()
        self.network = network
        n_models, c, scale = network.n_models, network.n_classes, 1 / math.sqrt(width)
        draws = [np.random.default_rng([seed, DISCRIMINATOR, m]) for m in range(n_models)]
        u = np.concatenate([rng.normal(size=(n_workers, width)) for rng in draws])
        matrix = np.stack([rng.normal(scale=scale, size=(c, width, width)) for rng in draws])
        self.worker = nn.Parameter(torch.tensor(u, dtype=torch.float32))  # (models * workers, width)
        self.matrix = nn.Parameter(torch.tensor(matrix, dtype=torch.float32))  # (models, classes, width, width)
        self.task = Linear(n_models, network.width, width, seed=[seed, DISCRIMINATOR])

    def scores(self, batch: Batch) -> Tensor:
        """Return M_c v_i of each row, (models * rows, classes, width), to be multiplied by the worker's vector."""
        v = batch.gather_rows(self.task(self.network.embed(batch.x)))  # (models, rows, width)
        return torch.einsum("mcde,mre->mrcd", self.matrix, v).flatten(0, 1)

    def score(self, scores: Tensor, row: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Return s of each answer, (answers,)."""
        return (scores[row, label] * self.worker[worker]).sum(1)


class GameModule(CrowdLayerModule):
    """CrowdLayer and its discriminator."""

    def __init__(
        self, network: Network, answers: Answers, kind: Kind, scale: float, discriminator: Discriminator
    ) -> None:
        super().__init__(network, answers.n_workers, kind, scale)
        self.discriminator = discriminator
        self.given = answers.task.astype(np.int64) * answers.n_workers + answers.worker  # increasing
        self.draws = Dropout(0.0)  # drops nothing; used because the training loop seeds its generator

    def discriminator_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the discriminator on the answers of the batch and equally many generated ones."""
        self.network.eval()  # only the discriminator learns
        row, worker, missing = self.missing_pairs(batch)
        with torch.no_grad():
            label = self.draw(self.log_generator(batch, row, worker))
        scores = self.discriminator.scores(batch)
        real = self.discriminator.score(scores, row, batch.tensor(batch.worker), batch.tensor(batch.label))
        drawn = self.discriminator.score(scores, row, worker, label)
        loss = functional.softplus(-real) * _weights(batch, torch.ones_like(missing))
        loss = loss + functional.softplus(drawn) * _weights(batch, missing)
        return loss.sum() * batch.n_models

    def generator_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the generator, whose gradient is minus the policy gradient of the mean reward."""
        self.discriminator.eval()
        row, worker, missing = self.missing_pairs(batch)
        log_p = self.log_generator(batch, row, worker)
        label = self.draw(log_p.detach())
        with torch.no_grad():
            score = self.discriminator.score(self.discriminator.scores(batch), row, worker, label)
        drawn = log_p.gather(1, label[:, None])[:, 0]
        return policy_loss(drawn, functional.softplus(score), _weights(batch, missing)) * batch.n_models

    def log_generator(self, batch: Batch, row: Tensor, worker: Tensor) -> Tensor:
        """Return log G of all labels, (pairs, classes)."""
        log_f = batch.gather_rows(self.class_log_proba(batch.x)).flatten(0, 1)  # (models * rows, classes)
        return self.answer_log_proba(batch.x, log_f, row, worker)

    def missing_pairs(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Draw a pair per answer of the batch; return rows, workers, and whether the pair has no answer."""
        worker = self.draws.generator.integers(self.n_workers, size=len(batch.row))
        code = batch.task[batch.row] * self.n_workers + worker
        at = np.minimum(np.searchsorted(self.given, code), len(self.given) - 1)
        worker += batch.worker - batch.worker % self.n_workers  # the same model as that of the answer
        return batch.tensor(batch.row), batch.tensor(worker), batch.tensor(self.given[at] != code)

    def draw(self, log_p: Tensor) -> Tensor:
        """Draw a label from each row of log probabilities, (rows,)."""
        chance = torch.from_numpy(self.draws.generator.random((len(log_p), 1))).to(log_p.device)
        return (chance > log_p.double().exp().cumsum(1)).sum(1).clamp_max(self.n_classes - 1)


def policy_loss(log_p: Tensor, reward: Tensor, weight: Tensor) -> Tensor:
    """Return minus the sum of weight (reward - baseline) log_p; the baseline is the mean reward of the other draws.

    >>> log_p = torch.tensor([-1.0, -2.0, -3.0])
    >>> policy_loss(log_p, torch.tensor([1.0, 0.0, 9.0]), torch.tensor([0.5, 0.5, 0.0]))
    tensor(-0.5000)
    """
    counts = weight > 0
    others = counts.sum() - 1
    baseline = ((reward * counts).sum() - reward) / others.clamp_min(1)
    baseline = torch.where(others > 0, baseline, 0.0)
    return -(weight * (reward - baseline) * log_p).sum()


def _weights(batch: Batch, counts: Tensor) -> Tensor:
    """Return weights (answers,) that sum to one over answers that count, in proportion to those of the batch."""
    weight = counts.to(batch.x.dtype)
    if batch.weight is not None:
        weight = weight * batch.tensor(batch.weight)
    return weight / weight.sum().clamp_min(1e-12)
