"""The networks of CrowdInG in one module, and the loss of each player over the answers of a pool.

    classifier      f, pre-trained as CrowdLayer's, then: risk of L_G on tasks of high entropy; G frozen, f its input
    generator       G, pre-trained to predict real answers, then: risk of delta on tasks of low entropy; f frozen
    discriminator   D, with the auxiliary network Q: half of mean of -log D over real answers plus 0.9 times the mean of
                    -log(1 - D) over chosen generated ones, plus lambda_b * mean of D, plus lambda * mean of CE over
                    generated ones; real answers are weighted in the means of D (`objective.matched_weights`)

Dropout and batch normalisation of frozen networks, and of generator and classifier in the game, are in evaluation mode,
so that G / G0 is one before the first step and changes only by training.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from crowdwise.augment.crowding.discriminator import Auxiliary, Discriminator
from crowdwise.augment.crowding.generator import HIDDEN, Generator, Noise
from crowdwise.augment.crowding.objective import Objective, by_model, entropy, risk, unlikely
from crowdwise.augment.crowding.pool import Pool, PoolSelection
from crowdwise.learn.base import Array
from crowdwise.learn.methods.crowdlayer import CrowdLayerModule
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.simulate.answers import draw_labels

FAKE = 0.9  # weight of generated answers in the discriminator's loss, in the authors' code
DRAWS = 8  # noise draws that a prediction is averaged over
CELLS = 4_000_000  # size of the largest array outside training


@dataclass
class GameSettings:
    """Settings of the game: the constructor arguments of `CrowdInG` of the same names."""

    information: float
    sparsity: float
    multiplier: float | None  # None: the mean of delta
    ratio_clip: float
    objective: Objective
    noise: float


class CrowdInGModule(CrowdLayerModule):
    """Classifier with its crowd layer, generator, discriminator and auxiliary network."""

    generating: Tensor
    pool: Pool

    def __init__(
        self,
        network: Network,
        n_workers: int,
        n_features: int,
        seed: int,
        settings: GameSettings,
        *,
        use_task: bool,
        use_worker: bool,
        graph: bool,
        scale: float = 1.0,
    ) -> None:
        super().__init__(network, n_workers, "mw", scale)
        n, c = self.n_models, self.n_classes
        self.settings, self.fresh = settings, Noise()
        self.generator = Generator(n, n_features, n_workers, c, seed, use_task=use_task, use_worker=use_worker)
        self.discriminator = Discriminator(n, n_features, n_workers, c, seed, graph)
        self.auxiliary = Auxiliary(n, c, seed)
        self.register_buffer("generating", torch.tensor(False))  # whether the generator has been trained
        self.measured: dict[str, Array] = {}  # (2, models) sums and counts, by name

    def crowd_parameters(self) -> list[nn.Parameter]:
        """Return all parameters but the network's and the judges', which may have weight decay."""
        judges = {id(p) for p in self.judges()}
        return [p for p in super().crowd_parameters() if id(p) not in judges]

    def judges(self) -> list[nn.Parameter]:
        """Return the parameters of the discriminator and the auxiliary network, which train together."""
        return [*self.discriminator.parameters(), *self.auxiliary.parameters()]

    # Before the game

    def generator_loss(self, batch: Batch) -> Tensor:
        """Return the mean of -log G over real answers, the loss of the generator's pre-training."""
        self.network.eval()
        row, worker, label = batch.tensor(batch.row), batch.tensor(batch.worker), batch.tensor(batch.label)
        with torch.no_grad():
            f = batch.gather_rows(self.class_log_proba(batch.x)).exp()
        noise = self.settings.noise * self.fresh.draw(len(row), self.n_classes).to(f.device)
        log_g = self.generator(self._flat_features(batch.x), f, row, worker, noise, batch.gather_rows)
        return batch.answer_loss(log_g.gather(1, label[:, None])[:, 0])

    # The game

    @torch.no_grad()
    def draw(self, pool: Pool, seed: list[int]) -> Array:
        """Draw the labels of the generated answers of a pool, and return the generator's entropy, (models, places).

        It is in nats. Also measures how well generator and crowd layer fit the real answers.
        """
        self.eval()
        self.pool = pool
        uncertainty = np.zeros(pool.labels.shape)
        dice = np.array([np.random.default_rng([*seed, m]).random(len(pool.generated)) for m in range(self.n_models)])
        for batch in pool.epoch(0):
            log_f = batch.gather_rows(self.class_log_proba(batch.x)).flatten(0, 1)  # (models * rows, classes)
            pool.f[self._model_of_rows(batch), batch.tensor(batch.task)] = log_f.exp()
            for which in (pool.generated, ~pool.generated):
                some = pool.select(batch, np.broadcast_to(which, pool.labels.shape))
                log_g = self._log_g(batch, self._f(batch), some)
                at, proba = tuple(index.cpu().numpy() for index in some.at), log_g.exp().cpu().double().numpy()
                uncertainty[at] = entropy(proba)
                if which is pool.generated:
                    pool.labels[some.at] = batch.tensor(draw_labels(proba, dice[at]))
                label = pool.labels[some.at][:, None]
                pool.log_g0[some.at] = log_g.gather(1, label)[:, 0]
            layer = super().answer_log_proba(batch.x, log_f, some.row, some.worker).gather(1, label)[:, 0]
            self._add_figure("generator_fit", pool.log_g0[some.at], some.model)
            self._add_figure("classifier_fit", layer, some.model)
        return uncertainty

    @torch.no_grad()
    def set_losses(self, pool: Pool) -> None:
        """Set L_G and delta of each generated answer of a pool."""
        self.eval()
        which = np.broadcast_to(pool.generated, pool.labels.shape)
        for batch in pool.epoch(0):
            some = pool.select(batch, which)
            label = pool.labels[some.at]
            embeddings = self.discriminator.embed(self._flat_features(batch.x), batch.gather_rows)
            loss = unlikely(self.discriminator(embeddings, some.row, some.worker, label), self.settings.objective)
            pool.unlikely[some.at] = loss
            if self.settings.information:
                log_q = self.auxiliary(embeddings, some.row, some.worker, label)
                loss = loss - self.settings.information * (self._f(batch)[some.row] * log_q).sum(1)
            pool.delta[some.at] = loss

    def judges_loss(self, batch: Batch) -> Tensor:
        """Return the loss of the discriminator and the auxiliary network."""
        some = self.pool.select(batch, self.pool.for_discriminator)
        label = self.pool.labels[some.at]
        embeddings = self.discriminator.embed(self._flat_features(batch.x), batch.gather_rows)
        logit = self.discriminator(embeddings, some.row, some.worker, label)  # (some,)
        fake = torch.from_numpy(self.pool.generated).to(logit.device)[some.at[1]]
        weight = self.pool.judged_weight[some.at]
        if some.weight is not None:
            weight = weight * some.weight
        real = by_model(functional.softplus(-logit), some.model, self.n_models, weight * ~fake)
        generated = by_model(functional.softplus(logit), some.model, self.n_models, weight * fake)
        loss = (real + FAKE * generated) / 2
        if self.settings.sparsity:
            loss = loss + self.settings.sparsity * by_model(torch.sigmoid(logit), some.model, self.n_models, weight)
        if self.settings.information:
            log_q = self.auxiliary(embeddings, some.row, some.worker, label)
            missed = -(self._f(batch)[some.row] * log_q).sum(1)
            self._add_figure("aux", missed[fake], some.model[fake])
            loss = loss + self.settings.information * by_model(missed, some.model, self.n_models, weight * fake)
        return loss.sum()

    def chance_judges_loss(self) -> float:
        """Return the loss of a discriminator and an auxiliary network that guess uniformly."""
        settings = self.settings
        discriminator = (1 + FAKE) / 2 * math.log(2)
        return discriminator + settings.sparsity / 2 + settings.information * math.log(self.n_classes)

    def generator_risk(self, batch: Batch) -> Tensor:
        """Return the generator's risk on tasks where the classifier is confident."""
        self.eval()
        some = self.pool.select(batch, self.pool.sure)
        log_ratio = self._log_ratio(self._log_g(batch, self._f(batch), some), some)
        self._add_figure("ratio", log_ratio.detach().exp(), some.model)
        return self._risk(log_ratio, self.pool.delta[some.at], some)

    def classifier_risk(self, batch: Batch) -> Tensor:
        """Return the classifier's risk on tasks where it is not confident."""
        self.eval()
        some = self.pool.select(batch, self.pool.unsure)
        f = batch.gather_rows(self.class_log_proba(batch.x)).exp().flatten(0, 1)
        log_ratio = self._log_ratio(self._log_g(batch, f, some, frozen=True), some)
        return self._risk(log_ratio, self.pool.unlikely[some.at], some)

    def _risk(self, log_ratio: Tensor, delta: Tensor, some: PoolSelection) -> Tensor:
        mu: Tensor | float = by_model(delta, some.model, self.n_models, some.weight)[some.model]
        if self.settings.multiplier is not None:
            mu = self.settings.multiplier
        terms = risk(log_ratio, delta, mu, self.settings.ratio_clip)
        return by_model(terms, some.model, self.n_models, some.weight).sum()

    def _log_ratio(self, log_g: Tensor, some: PoolSelection) -> Tensor:
        """Return log G / G0, (some,), of the logged labels."""
        return log_g.gather(1, self.pool.labels[some.at][:, None])[:, 0] - self.pool.log_g0[some.at]

    def _log_g(self, batch: Batch, f: Tensor, some: PoolSelection, *, frozen: bool = False) -> Tensor:
        """Return log G, (some, classes), with the logged noise. Gradients pass through a frozen generator to f."""
        f = f.view(self.n_models, -1, self.n_classes)
        inputs = (self._flat_features(batch.x), f, some.row, some.worker, self.pool.noise[some.at], batch.gather_rows)
        if frozen:
            return torch.func.functional_call(self.generator, self.generator.state_dict(), inputs)
        log_g: Tensor = self.generator(*inputs)
        return log_g

    # Predicting

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return the log of the mean of G over noise draws; before the generator is trained, the crowd layer's.

        All models have equally many answers, as in `predict_answers`.
        """
        if not self.generating:
            return super().answer_log_proba(x, log_f, row, worker)
        f, seen = log_f.exp().view(self.n_models, -1, self.n_classes), self._flat_features(x)
        normals = np.random.default_rng(0).standard_normal((DRAWS // 2, self.n_classes), np.float32)
        noise = self.settings.noise * torch.from_numpy(np.concatenate([normals, -normals])).to(x.device)
        rows, workers = row.view(self.n_models, -1), worker.view(self.n_models, -1)
        size = max(1, CELLS // (HIDDEN * self.n_models))
        parts = []
        for first in range(0, rows.shape[1], size):
            some = [index[:, first : first + size].flatten() for index in (rows, workers)]
            each = [self.generator(seen, f, *some, eps.expand(len(some[0]), -1)) for eps in noise]
            mean = torch.logsumexp(torch.stack(each), dim=0) - math.log(DRAWS)
            parts.append(mean.view(self.n_models, -1, self.n_classes))
        return torch.cat(parts, dim=1).flatten(0, 1)

    # Helpers

    def _flat_features(self, x: Tensor) -> Tensor:
        """Return the features as the network's input, (models, rows, features)."""
        network: Any = self.network
        x = x.flatten(2)
        return (x - network.mean) * network.scale if getattr(network, "wants_scale", False) else x

    def _f(self, batch: Batch) -> Tensor:
        """Return the classifier's prediction, (models * rows, classes), when the pool's answers were drawn."""
        return self.pool.f[self._model_of_rows(batch), batch.tensor(batch.task)]

    def _model_of_rows(self, batch: Batch) -> Tensor:
        return batch.tensor(np.repeat(np.arange(self.n_models), len(batch.task) // self.n_models))

    def _add_figure(self, name: str, values: Tensor, model: Tensor) -> None:
        """Add values to the sums and counts of a figure, per model."""
        both = torch.stack([values.detach(), torch.ones_like(values)])  # (2, answers)
        sums = both.new_zeros(2, self.n_models).index_add(1, model, both).cpu().double().numpy()
        self.measured[name] = self.measured.get(name, np.zeros(sums.shape)) + sums

    def figures(self) -> dict[str, Array]:
        """Return the means since the last call, by name, of the models with values; reset them."""
        found = {name: total[:, total[1] > 0] for name, total in self.measured.items()}
        self.measured = {}
        return {name: total[0] / total[1] for name, total in found.items() if total.size}
