"""A network trained on soft labels of the tasks, with confusion matrices of the workers.

    loss  = mean over tasks of -sum over c of target[t, c] * log f(x_t)[c]
    P(worker w says l | x) = sum over c of f(x)[c] * confusion[w, c, l]

Shared by learners that infer labels first: two-stage baselines, AggNet, MBEM, the difficulty models.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.base import Array
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.torch_support import Tensor, functional, torch
from crowdwise.learn.network.training import CrowdModule

TINY = 1e-12


class TargetModule(CrowdModule):
    """A network, the soft labels it learns, and the workers' confusion matrices.

    Buffers: `target` (models, tasks, classes), `confusion` (models * workers, classes, labels), `temperature` (models,)
    by which the logits of the trained networks are divided.
    """

    target: Tensor
    confusion: Tensor
    temperature: Tensor

    def __init__(self, network: Network, answers: Answers) -> None:
        super().__init__(network, answers.n_workers)
        n, c = self.n_models, self.n_classes
        self.register_buffer("target", torch.full((n, answers.n_tasks, c), 1 / c))
        self.register_buffer("confusion", torch.full((n * answers.n_workers, c, c), 1 / c))
        self.register_buffer("temperature", torch.ones(n))

    def set_target(self, target: Array) -> None:
        """Set soft labels (tasks, classes), the same for all models, or (models, tasks, classes)."""
        self.target.copy_(torch.as_tensor(np.asarray(target), dtype=self.target.dtype))

    def set_confusion(self, confusion: Array) -> None:
        """Set confusion matrices (workers, classes, labels), the same for all models, or (models, workers, ...)."""
        shape = (self.n_models, self.n_workers, self.n_classes, self.n_classes)
        values = np.broadcast_to(confusion, shape).reshape(self.confusion.shape)
        self.confusion.copy_(torch.as_tensor(values.copy(), dtype=self.confusion.dtype))

    def class_log_proba(self, x: Tensor) -> Tensor:  # noqa: D102
        logits: Tensor = self.network(x)
        if not self.training:
            logits = logits / self.temperature[:, None, None]
        return functional.log_softmax(logits, dim=2)

    def remember(self, workers: list[Any]) -> None:
        """Store what a resumed run could not compute again from the model of the workers."""

    def recall(self, workers: list[Any]) -> None:
        """Restore what `remember` stored."""

    def keep(self, models: list[int]) -> None:
        """Keep only some of the models."""
        self.network.keep(models)
        shape = (self.n_models, self.n_workers, *self.confusion.shape[1:])
        self.target, self.temperature = self.target[models].clone(), self.temperature[models].clone()
        self.confusion = self.confusion.view(shape)[models].flatten(0, 1).clone()
        self.n_models: int = len(models)

    def loss(self, batch: Batch) -> Tensor:  # noqa: D102
        log_f = batch.gather_rows(self.class_log_proba(batch.x)).flatten(0, 1)  # (models * rows, classes)
        task = batch.tensor(batch.task)
        if self.n_models > 1:  # row m * B + b belongs to model m
            model = torch.arange(self.n_models, device=task.device).repeat_interleave(len(task) // self.n_models)
            target = self.target[model, task]
        else:
            target = self.target[0][task]
        return batch.task_loss(-(target * log_f).sum(1))

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        proba = torch.bmm(log_f.exp()[row][:, None], self.confusion[worker])[:, 0]  # (answers, labels)
        return proba.clamp_min(TINY).log()
