"""Real and synthetic tasks together: their answers and features, and the network that learns from both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.torch_support import Tensor, functional, torch
from crowdwise.learn.network.training import CrowdModule

TINY = 1e-12


class AugmentedCrowd(NamedTuple):
    """Features, answers, weights and gold of the tasks to train on."""

    features: Features
    answers: Answers
    weight: Array  # (tasks,)
    gold: Array | None  # (tasks,) class codes, -1 unknown


class LabelModule(CrowdModule):
    """A network trained on labels of real and synthetic tasks. Synthetic ones may be points in its hidden layer.

        loss  = mean over tasks of -sum over c of target[t, c] * log f(x)[c],    f from z' for synthetic tasks
        P(worker w says l | x) = sum over c of g(x)[c] * confusion[w, c, l],     g(x)[c] = f(x)[c] * ratio[c] / sum

    f is trained on balanced classes; `ratio` is the share of a class among the real tasks over its share in training.
    All models share targets, synthetic tasks, and the confusion matrices (workers, classes, labels).
    """

    confusion: Tensor
    log_ratio: Tensor

    def __init__(self, network: Network, n_workers: int) -> None:
        super().__init__(network, n_workers)
        c = self.n_classes
        self.register_buffer("confusion", torch.full((n_workers, c, c), 1 / c))
        self.register_buffer("log_ratio", torch.zeros(c))
        self.target, self.made = torch.empty(0), torch.empty(0)

    def set_workers(self, confusion: Array, ratio: Array) -> None:
        """Set the confusion matrices (workers, classes, labels) and the ratio of class shares (classes,)."""
        self.confusion.copy_(torch.as_tensor(confusion, dtype=self.confusion.dtype))
        self.log_ratio.copy_(torch.as_tensor(ratio, dtype=self.log_ratio.dtype).clamp_min(TINY).log())

    def learn(self, target: Array, made: Array | None = None) -> None:
        """Set targets (tasks, classes), synthetic tasks last, and optionally the hidden layers of these.

        `made` is (synthetic tasks, models * width).
        """
        device = self.confusion.device
        self.target = torch.as_tensor(target, dtype=torch.float32).to(device)
        self.made = torch.empty(0) if made is None else torch.from_numpy(made).to(device)

    def loss(self, batch: Batch) -> Tensor:  # noqa: D102
        task = batch.tensor(batch.task)  # (models * rows,)
        hidden = batch.gather_rows(self.network.embed(batch.x))  # (models, rows, width)
        if len(self.made):  # their x is a placeholder, and no gradient reaches the layers below z'
            place = (task - (len(self.target) - len(self.made))).view(self.n_models, -1)  # (models, rows)
            model = torch.arange(self.n_models, device=task.device)[:, None]
            made = self.made.view(len(self.made), self.n_models, -1)[place.clamp_min(0), model]
            hidden = torch.where((place >= 0)[:, :, None], made, hidden)
        log_f = functional.log_softmax(self.network.classify(hidden).flatten(0, 1), dim=1)
        return batch.task_loss(-(self.target[task] * log_f).sum(1))

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        real = (log_f + self.log_ratio).softmax(dim=1)  # (models * rows, classes)
        proba = torch.bmm(real[row][:, None], self.confusion[worker % self.n_workers])[:, 0]  # (answers, labels)
        return proba.clamp_min(TINY).log()


def append_tasks(real: Answers, made: Answers) -> Answers:
    """Return answers to real tasks followed by those to synthetic ones; tasks are numbered."""
    weight = None
    if real.weight is not None and made.weight is not None:
        weight = np.concatenate([real.weight, made.weight])
    return Answers.from_codes(
        np.concatenate([real.task, made.task + real.n_tasks]), np.concatenate([real.worker, made.worker]),
        np.concatenate([real.label, made.label]), tasks=real.n_tasks + made.n_tasks, workers=real.worker_ids,
        classes=real.class_ids, weight=weight,
    )  # fmt: skip


def assign_task_ids(made: Answers, real: Answers) -> Answers:
    """Give synthetic tasks ids that no real task has: integers after the largest, or synthetic-0, synthetic-1, ...

    >>> real = Answers.from_codes([0, 1], [0, 0], [0, 1], tasks=["a", "b"], workers=1, classes=2)
    >>> made = Answers.from_codes([0, 1], [0, 0], [0, 1], tasks=2, workers=1, classes=2)
    >>> assign_task_ids(made, real).tasks.tolist()
    ['synthetic-0', 'synthetic-1']
    """
    ids, numbers = real.task_ids, range(made.n_tasks)
    if pa.types.is_boolean(ids.type):
        message = "task ids are booleans, so there are no ids for synthetic tasks: use integers or text as ids."
        raise ParameterError(message)
    if pa.types.is_integer(ids.type):
        new: list[int] | list[str] = [pc.max(ids).as_py() + 1 + i for i in numbers]
    else:
        prefix = "synthetic-"
        while pc.any(pc.starts_with(ids, prefix)).as_py():
            prefix = "more-" + prefix
        new = [f"{prefix}{i}" for i in numbers]
    return Answers.from_codes(
        made.task, made.worker, made.label, tasks=pa.array(new, ids.type), workers=real.worker_ids,
        classes=real.class_ids, weight=made.weight,
    )  # fmt: skip
