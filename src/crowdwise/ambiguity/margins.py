"""Margins: how far a label leads the other classes during training, and the module that records them.

    s(x)          the network's output for x in a training step: probabilities (softmax), or logits
    s_[j]         the j-th largest of these over classes

    "yang"        s_y - s_[k + 1]                                   k = top_k; Yang and Koyejo, ICML 2020
    "pleiss"      s_y - the k-th largest of the other classes       Pleiss et al., NeurIPS 2020 (k = 1, logits)

    AUM(x, y)     mean of the margin over the epochs: the area under the margin

Both are the same if y is among the k largest. Otherwise Pleiss subtracts s_[k], Yang the smaller s_[k + 1].
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from crowdwise.learn.base import Array
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.torch_support import Tensor, functional, torch
from crowdwise.learn.network.training import CrowdModule

Margin = Literal["yang", "pleiss"]
Scale = Literal["probabilities", "logits"]


def margins(scores: Tensor, kind: Margin = "yang", top_k: int = 1) -> Tensor:
    """Return the margin of every class, (rows, classes), from scores of the same shape.

    >>> margins(torch.tensor([[0.5, 0.25, 0.25]])), margins(torch.tensor([[0.5, 0.25, 0.25]]), "pleiss")
    (tensor([[0.2500, 0.0000, 0.0000]]), tensor([[ 0.2500, -0.2500, -0.2500]]))
    """
    largest = scores.topk(top_k + 1, dim=1).values  # (rows, k + 1)
    at_k, after = largest[:, -2:-1], largest[:, -1:]  # (rows, 1) each: s_[k] and s_[k + 1]
    if kind == "yang":
        return scores - after
    # Without y, the k-th largest is s_[k + 1] if y is among the k largest (or ties with them), otherwise s_[k].
    return scores - torch.where(scores >= at_k, after, at_k)


class StackedModule(CrowdModule):
    """A network trained on each answer as a label of its task; it predicts the same answer for every worker.

    Buffers, row m * tasks + t for task t under model m: `total` (models * tasks, classes), the sum of the margins of
    each class so far, and `seen` (models * tasks,), the number of epochs. They are part of the state: training
    resumed from a checkpoint continues them, and the best epoch is restored with its own.
    """

    total: Tensor
    seen: Tensor

    n_tasks: int
    top_k: int

    def __init__(
        self,
        network: Network,
        n_workers: int,
        n_tasks: int,
        margin: Margin,
        scale: Scale,
        top_k: int,
        *,
        double_softmax: bool,
    ) -> None:
        super().__init__(network, n_workers)
        self.n_tasks, self.margin, self.scale, self.top_k = n_tasks, margin, scale, top_k
        self.double_softmax = double_softmax
        self.register_buffer("total", torch.zeros(self.n_models * n_tasks, self.n_classes, dtype=torch.float64))
        self.register_buffer("seen", torch.zeros(self.n_models * n_tasks, dtype=torch.int64))

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean cross-entropy of the answers, and record the margins."""
        log_f = batch.gather_rows(self.class_log_proba(batch.x)).flatten(0, 1)  # (models * rows, classes)
        self._record(batch, log_f.detach())
        if self.double_softmax:
            log_f = functional.log_softmax(log_f.exp(), dim=1)
        return batch.answer_loss(self.label_log_proba(log_f, batch))

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        return log_f.index_select(0, row)

    def recorded(self, tasks: Array) -> tuple[Array, Array]:
        """Return the AUM of every class for these tasks, (rows, classes), mean over models; and which trained."""
        at = torch.tensor(tasks, dtype=torch.int64, device=self.seen.device)
        shape = (self.n_models, self.n_tasks)
        total = self.total.view(*shape, -1)[:, at].sum(0).cpu().numpy()
        seen = self.seen.view(shape)[:, at].sum(0).cpu().numpy()
        return total / np.maximum(seen, 1)[:, None], seen > 0

    def _record(self, batch: Batch, log_f: Tensor) -> None:
        scores = log_f if self.scale == "logits" else log_f.exp()  # logits up to a constant, which cancels in margins
        place = batch.tensor(batch.task)
        if self.n_models > 1:  # row m * B + b belongs to model m
            model = torch.arange(self.n_models, device=place.device).repeat_interleave(len(place) // self.n_models)
            place = place + model * self.n_tasks
        self.total[place] += margins(scores, self.margin, self.top_k).to(self.total.dtype)  # each task occurs once
        self.seen[place] += 1
