"""The answers of one epoch of the game: all real ones, and generated ones for pairs of a task and a worker without.

Every model has generated labels of its own for the same pairs. What is known of an answer is kept by model and by its
place in the pool; a batch names that place where others have the label. Cost: answers plus sampled pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.augment.pairs import draw_missing
from crowdwise.learn.base import Array, training_mask
from crowdwise.learn.network.batches import Batch, Batches
from crowdwise.learn.network.torch_support import Tensor, torch


class Some(NamedTuple):
    """Some answers of a batch, all models end to end."""

    row: Tensor  # (some,) row of the batch
    worker: Tensor  # (some,) worker + n_workers * model
    model: Tensor  # (some,)
    at: tuple[Tensor, Tensor]  # model and place in the pool: `pool.label[at]` and the like
    weight: Tensor | None  # (some,)


class Pool(Batches):
    """Batches of real and generated answers.

    Attributes
    ----------
    generated : (places,) bool array
        Which answers are generated.
    said : (models, places) int64 tensor
        The labels: those of generated answers are 0 until they are drawn.
    noise : (models, places, classes) float32 tensor
        What the generator is given beside the pair, logged with its answer.
    log_g0 : (models, places) tensor
        Log probability of the answer under the generator that drew it.
    f : (models, tasks, classes) tensor
        What the classifier said when the answers were drawn.
    judged, sure, unsure : (models, places) bool arrays
        Answers the discriminator trains on, real ones and chosen ones; generated ones on tasks the classifier is sure
        of, which the generator trains on, and on the others, which the classifier trains on.
    unlikely, delta : (models, places) tensors
        What the discriminator holds against a generated answer, and with what the auxiliary network does.
    """

    said: Tensor
    noise: Tensor
    log_g0: Tensor
    f: Tensor
    judged: Array
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
        self.label = np.arange(len(order))  # the place in the pool: what was said there differs between models
        shape = (self.n_models, len(order))
        normals = [np.random.default_rng([self.seed, epoch, m, 1]) for m in range(self.n_models)]
        drawn = np.array([rng.standard_normal((len(order), answers.n_classes), np.float32) for rng in normals])
        self.noise = torch.from_numpy(drawn * np.float32(noise)).to(self.device)
        self.said = torch.from_numpy(both.label.astype(np.int64)).to(self.device).repeat(self.n_models, 1)
        self.log_g0, self.unlikely, self.delta = (torch.zeros(shape, device=self.device) for _ in range(3))
        self.f = torch.zeros(self.n_models, answers.n_tasks, answers.n_classes, device=self.device)

    def some(self, batch: Batch, which: Array) -> Some:
        """The answers of a batch among those that `which` (models, places) names."""
        model = batch.worker // self.answers.n_workers
        kept = np.flatnonzero(which[model, batch.label])
        which_model = batch.tensor(model[kept])
        weight = None if batch.weight is None else batch.tensor(batch.weight[kept])
        at = (which_model, batch.tensor(batch.label[kept]))
        return Some(batch.tensor(batch.row[kept]), batch.tensor(batch.worker[kept]), which_model, at, weight)
