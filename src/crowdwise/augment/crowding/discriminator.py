"""The discriminator, which recognises real answers, and the auxiliary network, which infers the class from an answer.

    D(c | x, w)     sigmoid(u_w' M~_c v(x)), eq. (2)
    v(x)            two layers on the features, 128 units between them, batch normalise_graph; u_w an embedding and a
    bias A[c, d]         how often one worker answered c and another d to the same task
    M~              = norm(A + I) M W: classes answered together share parameters (label correlation aggregation)
    norm(B)         deg^-1/2 B deg^-1/2 ("symmetric", the paper) or deg^-1 B ("row", the authors' code), deg = B 1

    Q(c | x, w, l)  softmax of two layers on [u_w | v(x) | e(M~_l)], 128 units between them

W is 60 x 60 and initialised with the identity; the authors' code has 3600 x 3600, on flattened matrices.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.augment.crowding.generator import HIDDEN, SEED, WIDTH, GatherRows, Layout, TaskEncoder, identity
from crowdwise.learn.base import Array
from crowdwise.learn.network.modules import Linear
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch

EMBEDDING = 60  # length of the embeddings u and v

Normalisation = Literal["symmetric", "row"]


def cooccurrence(answers: Answers, task_weight: Array | None = None) -> Array:
    """Return A, how often one worker answered c and another d to a task, (classes, classes), without tasks of weight 0.

    >>> answers = Answers.from_arrays([0, 0, 1, 1, 1], [0, 1, 0, 1, 2], [0, 1, 1, 1, 0])
    >>> cooccurrence(answers)
    array([[0., 3.],
           [3., 2.]])
    """
    counts: Any = answers.counts()  # (tasks, classes), sparse
    own = np.ones(answers.n_answers) if answers.weight is None else answers.weight**2
    if task_weight is not None:
        counts, own = counts[np.flatnonzero(task_weight > 0)], own * (task_weight > 0)[answers.task]
    same_worker = np.bincount(answers.label, own, minlength=answers.n_classes)
    return np.asarray((counts.T @ counts).toarray() - np.diag(same_worker))


def normalise_graph(adjacency: Array, kind: Normalisation) -> Array:
    """Return norm(A + I), (classes, classes).

    >>> normalise_graph(np.array([[0.0, 1.0], [1.0, 2.0]]), "row")
    array([[0.5 , 0.5 ],
           [0.25, 0.75]])
    """
    linked = adjacency + np.eye(len(adjacency))
    degree = linked.sum(axis=1)
    if kind == "row":
        return linked / degree[:, None]
    return linked / np.sqrt(degree[:, None] * degree)


class Embeddings(NamedTuple):
    """The discriminator's embeddings of tasks, workers and labels; all models concatenated."""

    task: Tensor  # v (models * rows, place)
    worker: Tensor  # u (models * workers, place)
    label: Tensor  # M~ (models, classes, place, place)


class Discriminator(nn.Module):
    """Logits of D, (pairs,)."""

    graph: Tensor

    bias: nn.Parameter
    linked: bool
    matrix: nn.Parameter
    mix: nn.Parameter
    n_models: int
    worker: nn.Parameter

    def __init__(self, n_models: int, n_features: int, n_workers: int, n_classes: int, seed: int, graph: bool) -> None:
        super().__init__()
        self.n_models, self.linked = n_models, graph
        draws = [seed, SEED + 1]
        self.encoder = TaskEncoder(n_models, n_features, HIDDEN, EMBEDDING, [*draws, 0])
        table = Linear(n_models, n_workers, EMBEDDING, seed=[*draws, 1]).weight.detach().reshape(-1, EMBEDDING)
        self.worker = nn.Parameter(table * math.sqrt(n_workers / EMBEDDING))  # (models * workers, place)
        self.bias = nn.Parameter(
            Linear(n_models, EMBEDDING, EMBEDDING, seed=[*draws, 2]).bias.detach().reshape(-1, EMBEDDING)
        )
        matrix = Linear(n_models, EMBEDDING, n_classes * EMBEDDING, seed=[*draws, 3]).weight.detach()
        self.matrix = nn.Parameter(
            matrix.reshape(n_models, EMBEDDING, n_classes, EMBEDDING).transpose(1, 2).contiguous()
        )  # M
        if graph:
            self.mix = nn.Parameter(torch.eye(EMBEDDING).repeat(n_models, 1, 1))  # W
            self.register_buffer("graph", torch.eye(n_classes))  # norm(A + I)

    def embed(self, x: Tensor, gather: GatherRows = identity) -> Embeddings:
        """Return embeddings from features (models, rows, features); `gather` adds the rows of other processes."""
        label: Tensor = self.matrix
        if self.linked:
            label = torch.einsum("cd,mdij->mcij", self.graph, label) @ self.mix[:, None]
        worker = self.worker.view(self.n_models, -1, EMBEDDING) + self.bias[:, None]
        return Embeddings(gather(self.encoder(x)).flatten(0, 1), worker.flatten(0, 1), label)

    def forward(self, embeddings: Embeddings, row: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Return the logits of D for the answer label[p] of worker[p] to the task in row[p]."""
        task = embeddings.task.view(self.n_models, -1, EMBEDDING)
        by_class = torch.einsum("mrj,mcij->mrci", task, embeddings.label).flatten(
            0, 2
        )  # M~_c v, (models * rows * classes, place)
        chosen = by_class.index_select(0, row * embeddings.label.shape[1] + label)
        return (chosen * embeddings.worker.index_select(0, worker)).sum(1)


class Auxiliary(nn.Module):
    """Log of Q, (pairs, classes): the classifier's class behind an answer."""

    embed: Linear
    from_label: Linear
    from_task: Linear
    from_worker: Linear
    last: Linear
    n_classes: int
    n_models: int

    def __init__(self, n_models: int, n_classes: int, seed: int) -> None:
        super().__init__()
        self.n_models, self.n_classes = n_models, n_classes
        draws = [seed, SEED + 2]
        self.embed = Linear(n_models, EMBEDDING * EMBEDDING, WIDTH, seed=[*draws, 0])
        self.from_task = Linear(n_models, EMBEDDING, HIDDEN, seed=[*draws, 1])
        self.from_worker = Linear(n_models, EMBEDDING, HIDDEN, seed=[*draws, 2])
        self.from_label = Linear(n_models, WIDTH, HIDDEN, seed=[*draws, 3])
        self.last = Linear(n_models, HIDDEN, n_classes, seed=[*draws, 4])

    def forward(self, embeddings: Embeddings, row: Tensor, worker: Tensor, label: Tensor) -> Tensor:
        """Return log Q for the answer label[p] of worker[p] to the task in row[p]."""
        n = self.n_models
        model = worker // (len(embeddings.worker) // n)
        by_task = self.from_task(embeddings.task.view(n, -1, EMBEDDING)).flatten(0, 1)
        by_label = self.from_label(self.embed(embeddings.label.flatten(2))).flatten(0, 1)  # (models * classes, hidden)
        layout = Layout(model, n)
        by_pair = by_task.index_select(0, row) + layout.each(self.from_worker, embeddings.worker, worker)
        hidden = functional.relu(by_pair + by_label.index_select(0, model * self.n_classes + label))
        return functional.log_softmax(layout.flat(self.last(layout.spread(hidden))), dim=1)
