"""The answers of one epoch of the game: all real ones, and generated ones for sampled pairs without an answer.

Each model has its own generated labels for the same pairs. Values per answer are stored by model and position in the
pool; the `label` of a batch is that position. Cost: answers plus sampled pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.augment.pairs import draw_missing
from crowdwise.learn.base import Array, training_mask
from crowdwise.learn.network.batches import Batch, Batches
from crowdwise.learn.network.torch_support import Tensor, torch


class PoolSelection(NamedTuple):
    """Selected answers of a batch, all models concatenated."""

    row: Tensor  # (some,) row of the batch
    worker: Tensor  # (some,) worker + n_workers * model
    model: Tensor  # (some,)
    at: tuple[Tensor, Tensor]  # model and position in the pool, an index into its tensors such as `pool.labels[at]`
    weight: Tensor | None  # (some,)


class Pool(Batches):
    """Batches of real and generated answers.

    Attributes
    ----------
    generated : (places,) bool array
        Which answers are generated.
    labels : (models, places) int64 tensor
        The labels: those of generated answers are 0 until they are drawn.
    noise : (models, places, classes) float32 tensor
        The generator's noise input per answer.
    log_g0 : (models, places) tensor
        Log probability of the answer under the generator that drew it.
    f : (models, tasks, classes) tensor
        The classifier's prediction when the answers were drawn.
    for_discriminator, sure, unsure : (models, places) bool arrays
        Answers that the discriminator trains on (real and chosen generated ones); generated answers on tasks where the
        classifier is confident, which the generator trains on; and the others, which the classifier trains on.
    judged_weight : (models, places) tensor
        Weight of each answer in the discriminator's loss.
    unlikely, delta : (models, places) tensors
        L_G of each generated answer, and delta, which adds the auxiliary network's loss.
    """

    labels: Tensor
    noise: Tensor
    log_g0: Tensor
    f: Tensor
    for_discriminator: Array
    judged_weight: Tensor
    sure: Array
    unsure: Array
    unlikely: Tensor
    delta: Tensor

    def __init__(self, real: Batches, batch_size: int, max_pairs: int, noise: float, epoch: int) -> None:
        answers, n_workers = real.answers, real.answers.n_workers
        by_task = None if real.task_weight is None else real.task_weight[0]
        allowed = np.ones(answers.n_tasks, bool) if by_task is None else by_task > 0
        task, worker = draw_missing(answers, max_pairs, np.random.default_rng([real.seed, epoch]))
        task, worker = task[allowed[task]], worker[allowed[task]]
        code = np.concatenate([answers.task.astype(np.int64) * n_workers + answers.worker, task * n_workers + worker])
        order = np.argsort(code)
        self.generated = order >= answers.n_answers
        label = np.concatenate([answers.label, np.zeros(len(task), np.int32)])[order]
        both = Answers.from_codes(
            code[order] // n_workers, code[order] % n_workers, label, tasks=answers.n_tasks, workers=n_workers,
            classes=answers.n_classes,
        )  # fmt: skip
        weight = None
        if real.weight is not None:
            weight = np.concatenate([real.weight, np.ones(len(task), np.float32)])[order]
        super().__init__(
            real.features, both, batch_size=batch_size, n_models=real.n_models, weight=weight, task_weight=by_task,
            active=training_mask(both, by_task, None), device=str(real.device), seed=real.seed,
        )  # fmt: skip
        self.label = np.arange(len(order))  # the position in the pool: labels there differ between models
        shape = (self.n_models, len(order))
        normals = [np.random.default_rng([self.seed, epoch, m, 1]) for m in range(self.n_models)]
        drawn = np.array([rng.standard_normal((len(order), answers.n_classes), np.float32) for rng in normals])
        self.noise = torch.from_numpy(drawn * np.float32(noise)).to(self.device)
        self.labels = torch.from_numpy(both.label.astype(np.int64)).to(self.device).repeat(self.n_models, 1)
        self.log_g0, self.unlikely, self.delta = (torch.zeros(shape, device=self.device) for _ in range(3))
        self.f = torch.zeros(self.n_models, answers.n_tasks, answers.n_classes, device=self.device)

    def select(self, batch: Batch, which: Array) -> PoolSelection:
        """Return the answers of a batch that are True in `which` (models, places)."""
        model = batch.worker // self.answers.n_workers
        kept = np.flatnonzero(which[model, batch.label])
        which_model = batch.tensor(model[kept])
        weight = None if batch.weight is None else batch.tensor(batch.weight[kept])
        at = (which_model, batch.tensor(batch.label[kept]))
        return PoolSelection(batch.tensor(batch.row[kept]), batch.tensor(batch.worker[kept]), which_model, at, weight)
