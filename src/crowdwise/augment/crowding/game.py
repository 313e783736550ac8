"""The adversarial game of CrowdInG: in every epoch discriminator, generator and classifier train in turn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.augment.crowding.divergence import (
    ENOUGH,
    ReferenceLevels,
    most_frequent,
    warn_if_untrained,
    warn_on_divergence,
)
from crowdwise.augment.crowding.module import CrowdInGModule
from crowdwise.augment.crowding.objective import choose_pairs, entropy, matched_weights
from crowdwise.augment.crowding.pool import Pool
from crowdwise.augment.pairs import n_missing
from crowdwise.learn.base import Array
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.torch_support import Tensor, nn, torch
from crowdwise.learn.network.training import Trainer

if TYPE_CHECKING:
    from crowdwise.augment.crowding.crowding import CrowdInG


class Game:
    """The game after pre-training of classifier and generator, and the checks of its result.

    Parameters
    ----------
    options : CrowdInG
        The learner, for its parameters.
    trainer : Trainer
        Trainer of the classifier's pre-training: batches of real answers, settings, monitor, history and callback.
    module : CrowdInGModule
        All networks.
    """

    classifier: Trainer
    first_classes: Array
    generator: Trainer
    judges: Trainer
    quota: Array
    trainer: Trainer

    def __init__(self, options: CrowdInG, trainer: Trainer, module: CrowdInGModule) -> None:
        self.options, self.trainer, self.module = options, trainer, module
        self.first_classes = np.empty(0, np.int64)  # (models, tasks) the classifier's predictions before the game
        self.real = trainer.batches.answers
        gaps = n_missing(self.real) > 0  # without missing pairs there is nothing to generate
        self.n_epochs: int = (options.discriminator_epochs + options.adversarial_epochs) * gaps
        counted = np.isin(self.real.task, trainer.batches.active)
        self.quota = np.bincount(self.real.worker[counted], minlength=self.real.n_workers)  # answers of each worker
        length, decay = options.adversarial_epochs, options.discriminator_decay
        self.judges = self._player(
            2, module.judges(), module.judges_loss, self.n_epochs, options.discriminator_lr, decay
        )
        self.generator = self._player(
            3, list(module.generator.parameters()), module.generator_risk, length, options.adversarial_lr
        )
        self.classifier = self._player(
            4, list(module.network.parameters()), module.classifier_risk, length, options.classifier_lr
        )
        self.classifier.monitor = trainer.monitor
        if trainer.monitor is not None:  # the state before the game may be the best
            self.classifier.measure_epoch(trainer.history[-1])

    def play(self) -> None:
        """Run the discriminator's pre-training, then the epochs with all players."""
        options, module = self.options, self.module
        pool, before = self._draw_pool(0)
        figures, shares = before, []
        for epoch in range(self.n_epochs):
            self._turns([self.judges] * options.steps, pool)
            if epoch >= options.discriminator_epochs:
                shares.append(pool.sure.sum(axis=1) / max(pool.generated.sum(), 1))  # (models,)
                module.set_losses(pool)
                movers, n = [self.generator, self.classifier], options.steps
                self._turns([player for player in movers for _ in range(n)] if options.two_step else movers * n, pool)
            learnt = module.figures()
            if shares:
                learnt["sure"] = shares[-1]
            pool, figures = self._draw_pool(epoch + 1)
            figures |= learnt
            self._record(epoch, figures)
            if self.classifier.stopped:
                break
        self.classifier.finish()
        if self.classifier.monitor is not None:  # the selected epoch may not be the last
            figures |= self._draw_pool(self.n_epochs)[1]
        first = max(options.discriminator_epochs * options.steps - 1, 0)  # the last pass before the game
        if losses := [record["loss"] for record in self.judges.history[first:]]:
            figures["loss_d"] = np.array(losses)
        real_share = most_frequent(self.real.label)
        warn_on_divergence(
            before, figures, ReferenceLevels(real_share, -math.log(module.n_classes), module.chance_judges_loss())
        )
        if shares and options.two_step:
            warn_if_untrained(np.array(shares), options.threshold)
        del module.pool  # only the trained weights remain

    def _player(
        self,
        phase: int,
        parameters: list[nn.Parameter],
        loss: Callable[[Batch], Tensor],
        n_epochs: int,
        lr: float,
        weight_decay: float = 0.0,
    ) -> Trainer:
        """Return a trainer whose epochs are passes over the pool, `steps` of them per epoch of the game."""
        settings, steps = self.trainer.settings, self.options.steps
        patience = None if settings.patience is None else settings.patience * steps
        settings = replace(settings, epochs=n_epochs * steps, lr=lr, weight_decay=weight_decay, patience=patience)
        return Trainer(self.module, self.trainer.batches, settings, phase=phase, parameters=parameters, loss=loss)

    def _turns(self, players: list[Trainer], pool: Pool) -> None:
        """Run one pass over the pool for each player."""
        for player in players:
            player.batches = pool
            player.run(1)

    def _draw_pool(self, epoch: int) -> tuple[Pool, dict[str, Array]]:
        """Return the pool of an epoch, with generated answers and who trains on which, and the figures measured."""
        options, module, seed = self.options, self.module, self.trainer.settings.random_state
        pool = Pool(self.trainer.batches, options.adversarial_batch_size, options.max_pairs, options.noise, epoch)
        uncertainty = module.draw(pool, [seed, epoch, 2])  # (models, places)
        here = np.flatnonzero(pool.generated)
        real, worker = np.flatnonzero(~pool.generated), pool.answers.worker
        labels = pool.labels[:, here].cpu().numpy()
        pool.for_discriminator = np.repeat(~pool.generated[None], module.n_models, axis=0)
        pool.judged_weight = torch.ones(pool.labels.shape, device=pool.device)
        for m in range(module.n_models):
            rng = np.random.default_rng([seed, epoch, 3, m])
            known = None if options.select_pairs == "random" else uncertainty[m, here]
            pool.for_discriminator[m, here] = choose_pairs(worker[here], known, self.quota, rng)
            if options.select_pairs == "matched":
                matched = matched_weights(worker[real], uncertainty[m, real]).astype(np.float32)
                pool.judged_weight[m, real] = torch.from_numpy(matched).to(pool.device)
        unsure = entropy(pool.f.cpu().double().numpy()) > options.threshold  # (models, tasks)
        pool.sure = pool.generated & ~(unsure & options.two_step)[:, pool.answers.task]
        pool.unsure = pool.generated & (unsure | (not options.two_step))[:, pool.answers.task]
        figures = module.figures()
        classes = pool.f[:, pool.active].argmax(2).cpu().numpy()  # (models, tasks)
        self.first_classes = classes if epoch == 0 else self.first_classes
        figures["agreement"] = (classes == self.first_classes).mean(axis=1)
        if len(here) >= ENOUGH:
            figures["entropy"] = uncertainty[:, here].mean(axis=1)
            figures["same"] = np.array([most_frequent(row) for row in labels])
        return pool, figures

    def _record(self, epoch: int, figures: dict[str, Array]) -> None:
        """Add a record to the history: means over models; losses over the passes, figures at the end of the epoch."""
        steps, before = self.options.steps, self.options.discriminator_epochs
        playing = epoch >= before
        record: dict[str, Any] = {
            "phase": "adversarial" if playing else "discriminator",
            "epoch": epoch + 1 - before * playing, "epochs": self.options.adversarial_epochs if playing else before,
        }  # fmt: skip
        players = {"loss_d": self.judges, "loss_g": self.generator, "loss_c": self.classifier}
        for name, player in list(players.items())[: 3 if playing else 1]:
            record[name] = float(np.mean([entry["loss"] for entry in player.history[-steps:]]))
        record["loss"] = record["loss_d"]
        record |= {name: float(values.mean()) for name, values in figures.items()}
        monitor = self.classifier.monitor
        if playing and monitor is not None:
            record[monitor.name] = self.classifier.history[-1][monitor.name]
        self.trainer.history.append(record)
        if self.trainer.callback is not None:
            self.trainer.callback({**record, "module": self.trainer.module})
