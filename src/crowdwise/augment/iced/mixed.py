"""Real and made tasks together: their answers, their features, and the network that learns both."""

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


class MixedCrowd(NamedTuple):
    """Tasks to train on."""

    features: Features
    answers: Answers
    weight: Array  # (tasks,)
    gold: Array | None  # (tasks,) codes of known labels, -1 unknown


class LabelModule(CrowdModule):
    """A network trained on labels of real and made tasks; made ones may be given as its hidden layer.

        loss  = mean over tasks of -log f(x)[label],    f from z' where there is one
        P(worker w says l | x) = sum over c of f(x)[c] * confusion[w, c, l]

    All models share labels, made tasks, and the confusion matrices (workers, classes, labels).
    """

    confusion: Tensor

    def __init__(self, network: Network, n_workers: int) -> None:
        super().__init__(network, n_workers)
        c = self.n_classes
        self.register_buffer("confusion", torch.full((n_workers, c, c), 1 / c))
        self.labels, self.made = torch.empty(0, dtype=torch.int64), torch.empty(0)

    def set_confusion(self, confusion: Array) -> None:
        """Take confusion matrices (workers, classes, labels)."""
        self.confusion.copy_(torch.as_tensor(confusion, dtype=self.confusion.dtype))

    def learn(self, labels: Array, made: Array | None = None) -> None:
        """Take labels (tasks,), made tasks last, and where these are to be hidden layers (made, models * width)."""
        device = self.confusion.device
        self.labels = torch.as_tensor(labels, dtype=torch.int64).to(device)
        self.made = torch.empty(0) if made is None else torch.from_numpy(made).to(device)

    def loss(self, batch: Batch) -> Tensor:  # noqa: D102
        task = batch.tensor(batch.task)  # (models * rows,)
        hidden = batch.gather_rows(self.network.embed(batch.x))  # (models, rows, width)
        if len(self.made):  # x of a made task stands in for it, and no gradient reaches the layers below z'
            place = (task - (len(self.labels) - len(self.made))).view(self.n_models, -1)  # (models, rows)
            model = torch.arange(self.n_models, device=task.device)[:, None]
            made = self.made.view(len(self.made), self.n_models, -1)[place.clamp_min(0), model]
            hidden = torch.where((place >= 0)[:, :, None], made, hidden)
        log_f = functional.log_softmax(self.network.classify(hidden).flatten(0, 1), dim=1)
        return batch.task_loss(-log_f.gather(1, self.labels[task][:, None])[:, 0])

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        said = torch.bmm(log_f.exp()[row][:, None], self.confusion[worker % self.n_workers])[:, 0]  # (answers, labels)
        return said.clamp_min(TINY).log()


def joined(real: Answers, made: Answers) -> Answers:
    """Answers to real tasks and, after them, to made ones; tasks are numbered."""
    weight = None
    if real.weight is not None and made.weight is not None:
        weight = np.concatenate([real.weight, made.weight])
    return Answers.from_codes(
        np.concatenate([real.task, made.task + real.n_tasks]), np.concatenate([real.worker, made.worker]),
        np.concatenate([real.label, made.label]), tasks=real.n_tasks + made.n_tasks, workers=real.worker_ids,
        classes=real.class_ids, weight=weight,
    )  # fmt: skip


def named(made: Answers, real: Answers) -> Answers:
    """The made tasks under ids that no real task has: numbers after the largest, or synthetic-0, synthetic-1, ...

    >>> real = Answers.from_codes([0, 1], [0, 0], [0, 1], tasks=["a", "b"], workers=1, classes=2)
    >>> made = Answers.from_codes([0, 1], [0, 0], [0, 1], tasks=2, workers=1, classes=2)
    >>> named(made, real).tasks.tolist()
    ['synthetic-0', 'synthetic-1']
    """
    ids, numbers = real.task_ids, range(made.n_tasks)
    if pa.types.is_boolean(ids.type):
        message = "tasks are named True and False, and there is no third: give them numbers or names."
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
