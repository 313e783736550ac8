"""The discriminator, which tells real answers, and the auxiliary network, which tells the class behind an answer.

    D(c | x, w)     sigmoid(u_w' M~_c v(x)), eq. (2)
    v(x)            two layers on the features, 128 units between them, batch normalised; u_w an embedding and a bias
    A[c, d]         how often one worker said c and another d of the same task
    M~              = norm(A + I) M W: classes that are said together are judged alike (label correlation aggregation)
    norm(B)         deg^-1/2 B deg^-1/2 ("symmetric", the paper) or deg^-1 B ("row", the authors' code), deg = B 1

    Q(c | x, w, l)  softmax of two layers on [u_w | v(x) | e(M~_l)], 128 units between them

W is 60 x 60 and starts from the identity: the authors' code has one of 3600 x 3600, on flattened matrices.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.augment.crowding.generator import HIDDEN, SEED, WIDTH, Layout, TaskEncoder, Whole, as_it_is
from crowdwise.learn.base import Array
from crowdwise.learn.network.modules import Linear
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch

PLACE = 60  # length of u and v

Normalisation = Literal["symmetric", "row"]


def cooccurrence(answers: Answers, task_weight: Array | None = None) -> Array:
    """A: how often a worker said c and another d of the same task, (classes, classes); tasks of weight 0 are left out.

    >>> answers = Answers.from_arrays([0, 0, 1, 1, 1], [0, 1, 0, 1, 2], [0, 1, 1, 1, 0])
    >>> cooccurrence(answers)
    array([[0., 3.],
           [3., 2.]])
    """
    counts: Any = answers.counts()  # (tasks, classes), sparse
    own = np.ones(answers.n_answers) if answers.weight is None else answers.weight**2
    if task_weight is not None:
        counts, own = counts[np.flatnonzero(task_weight > 0)], own * (task_weight > 0)[answers.task]
    himself = np.bincount(answers.label, own, minlength=answers.n_classes)
    return np.asarray((counts.T @ counts).toarray() - np.diag(himself))


def normalised(adjacency: Array, kind: Normalisation) -> Array:
    """norm(A + I), (classes, classes).

    >>> normalised(np.array([[0.0, 1.0], [1.0, 2.0]]), "row")
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    linked = adjacency + np.eye(len(adjacency))
    degree = linked.sum(axis=1)
    if kind == "row":
        return linked / degree[:, None]
    return linked / np.sqrt(degree[:, None] * degree)


class Places(NamedTuple):
    """What the discriminator makes of tasks, workers and labels; all models end to end."""

    task: Tensor  # v (models * rows, place)
    worker: Tensor  # u (models * workers, place)
    label: Tensor  # M~ (models, classes, place, place)


class Discriminator(nn.Module):
    """Logits of D, (pairs,)."""

    graph: Tensor

    def __init__(self, n_models: int, n_features: int, n_workers: int, n_classes: int, seed: int, graph: bool) -> None:
        super().__init__()
        self.n_models, self.linked = n_models, graph
        draws = [seed, SEED + 1]
        self.encoder = TaskEncoder(n_models, n_features, HIDDEN, PLACE, [*draws, 0])
        table = Linear(n_models, n_workers, PLACE, seed=[*draws, 1]).weight.detach().reshape(-1, PLACE)
        self.worker = nn.Parameter(table * math.sqrt(n_workers / PLACE))  # (models * workers, place)
        self.bias = nn.Parameter(Linear(n_models, PLACE, PLACE, seed=[*draws, 2]).bias.detach().reshape(-1, PLACE))
        matrix = Linear(n_models, PLACE, n_classes * PLACE, seed=[*draws, 3]).weight.detach()
        self.matrix = nn.Parameter(matrix.reshape(n_models, PLACE, n_classes, PLACE).transpose(1, 2).contiguous())  # M
        if graph:
            self.mix = nn.Parameter(torch.eye(PLACE).repeat(n_models, 1, 1))  # W
            self.register_buffer("graph", torch.eye(n_classes))  # norm(A + I)

    def places(self, x: Tensor, whole: Whole = as_it_is) -> Places:
        """From features (models, rows, features); `whole` puts rows together with those that other processes have."""
        label: Tensor = self.matrix
        if self.linked:
            label = torch.einsum("cd,mdij->mcij", self.graph, label) @ self.mix[:, None]
        worker = self.worker.view(self.n_models, -1, PLACE) + self.bias[:, None]
        return Places(whole(self.encoder(x)).flatten(0, 1), worker.flatten(0, 1), label)

    def forward(self, places: Places, row: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Logits of the answer label[p] of worker[p] to the task in row[p]."""
        task = places.task.view(self.n_models, -1, PLACE)
        seen = torch.einsum("mrj,mcij->mrci", task, places.label).flatten(
            0, 2
        )  # M~_c v, (models * rows * classes, place)
        said = seen.index_select(0, row * places.label.shape[1] + label)
        return (said * places.worker.index_select(0, worker)).sum(1)


class Auxiliary(nn.Module):
    """Log of Q, (pairs, classes): the classifier's class behind an answer."""

    def __init__(self, n_models: int, n_classes: int, seed: int) -> None:
        super().__init__()
        self.n_models, self.n_classes = n_models, n_classes
        draws = [seed, SEED + 2]
        self.embed = Linear(n_models, PLACE * PLACE, WIDTH, seed=[*draws, 0])
        self.from_task = Linear(n_models, PLACE, HIDDEN, seed=[*draws, 1])
        self.from_worker = Linear(n_models, PLACE, HIDDEN, seed=[*draws, 2])
        self.from_label = Linear(n_models, WIDTH, HIDDEN, seed=[*draws, 3])
        self.last = Linear(n_models, HIDDEN, n_classes, seed=[*draws, 4])

    def forward(self, places: Places, row: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Of the answer label[p] of worker[p] to the task in row[p]."""
        n = self.n_models
        model = worker // (len(places.worker) // n)
        by_task = self.from_task(places.task.view(n, -1, PLACE)).flatten(0, 1)
        by_label = self.from_label(self.embed(places.label.flatten(2))).flatten(0, 1)  # (models * classes, hidden)
        layout = Layout(model, n)
        by_pair = by_task.index_select(0, row) + layout.each(self.from_worker, places.worker, worker)
        hidden = functional.relu(by_pair + by_label.index_select(0, model * self.n_classes + label))
        return functional.log_softmax(layout.flat(self.last(layout.spread(hidden))), dim=1)
