"""GC-MC: missing answers as the missing links of a graph of tasks and workers.

Every answer is a link between its task i and its worker k; its kind c is the label. One round of messages along the
links gives vectors of tasks and workers, and both vectors predict the label of a missing link.

    N_i, N_k       the links of task i, of worker k
    W_kc, W_ic     the message of worker k (task i) along a link of kind c: a vector per node and kind
    h_i            sum over links (i, k, c) of W_kc / z_ik;         h_k alike, from the tasks
    z_ik           |N_i| (|N_k| for h_k)                            norm="left"
                   sqrt(|N_i| |N_k|)                                norm="symmetric"
    f_i            hidden layer of a network on the features of task i
    u_i, v_k       relu(A relu(h_i) + B f_i + b),                   relu(A' relu(h_k) + b')
    P(label c of worker k on task i) = softmax over c of u_i' Q_c v_k

    loss           mean over answers of -log P(label)

A link must not carry the answer that it predicts. So each batch hides a share of its answers from the messages, and the
loss is that of the hidden ones; links are counted without them.

van den Berg, Kipf and Welling, "Graph convolutional matrix completion", 2017. Messages of the kinds are summed; kinds
are classes, so they have no order that could share weights. The paper keeps all links and drops nodes at random.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal, Unpack

import numpy as np

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.augment.pairs import pair_blocks
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.learner import NetworkLearner
from crowdwise.learn.network.modules import Dropout, Linear, Network
from crowdwise.learn.network.options import TrainingOptions
from crowdwise.learn.network.prediction import BLOCK
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch
from crowdwise.learn.network.training import CrowdModule

Norm = Literal["left", "symmetric"]
TASKS, WORKERS, LAYERS, DECODER = range(4)  # streams of the random starts


class GraphCompletion(NetworkLearner):
    """Graph convolutional matrix completion of the answers, with features of tasks as side information.

    It predicts answers, not the truth: `predict` returns the answer of a worker with the mean vector of all workers.
    Tasks that it was not fitted on get no messages and are predicted from their features alone.

    Parameters
    ----------
    width : int
        Length of messages and vectors.
    norm : {"left", "symmetric"}
        How messages are normalised.
    unseen : float
        Share of the answers of a batch that are hidden from the messages and predicted.
    **training
        See `TrainingOptions`; one network only. Each batch passes messages along all answers, so use large batches.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = GraphCompletion(epochs=5).fit(X, answers)
    >>> model.answer_proba(X[:3], worker=7).shape
    (3, 10)
    """

    defaults: ClassVar[TrainingOptions] = {"epochs": 50, "batch_size": 1024, "lr": 1e-2}

    def __init__(
        self, width: int = 16, *, norm: Norm = "left", unseen: float = 0.5, **training: Unpack[TrainingOptions]
    ) -> None:
        super().__init__(**training)
        self.width = width
        self.norm = norm
        self.unseen = unseen

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require(is_integer(self.width, 1), "width", self.width, "an integer, 1 or more")
        require(self.norm in ("left", "symmetric"), "norm", self.norm, "'left' or 'symmetric'")
        share = is_number(self.unseen) and 0 < self.unseen < 1
        require(share, "unseen", self.unseen, "the share of answers to hide, above 0 and below 1")
        require(self.n_models == 1, "n_models", self.n_models, "1: a graph has one network")

    def _module(self, network: Network, answers: Answers) -> CrowdModule:
        return GraphModule(network, answers, self.width, self.norm, self.unseen, self.random_state)

    def _prepare(
        self, module: CrowdModule, features: Features, answers: Answers, weight: Array | None, gold: Array | None
    ) -> None:
        assert isinstance(module, GraphModule)
        if weight is not None:
            module.strength *= module.strength.new_tensor(weight[answers.task])

    def _infer_truth(self, features: Features, answers: Answers, gold: Array | None) -> Array:
        every = np.arange(answers.n_tasks)
        mean = np.full(answers.n_tasks, answers.n_workers)  # the mean worker comes after the others
        return np.concatenate(
            [self.complete(features, *block) for block in pair_blocks(every, mean, features.block_size(BLOCK))]
        )

    def complete(self, features: Features, tasks: Array, row: Array, worker: Array) -> Array:
        """Return P(label), (pairs, classes), of worker[a] on the training task tasks[row[a]]."""
        module = self.module_
        assert isinstance(module, GraphModule)
        with torch.no_grad():
            x = torch.from_numpy(features.rows(tasks)).to(self.device)[None]
            messages, v = module.eval().all_vectors()
            u = module.task_vectors(module.network.embed(x), messages[torch.from_numpy(tasks)])
            log_p = module.decode(u, v, torch.from_numpy(row), torch.from_numpy(worker))
        return np.asarray(log_p.double().exp().cpu().numpy())


class GraphModule(CrowdModule):
    """The graph of the answers, the messages of its nodes, and the decoder."""

    strength: Tensor
    cached: tuple[Tensor, Tensor] | None = None  # result of `all_vectors`, until the next training

    def __init__(self, network: Network, answers: Answers, width: int, norm: Norm, unseen: float, seed: int) -> None:
        super().__init__(network, answers.n_workers)
        n_tasks, n_workers, c = answers.n_tasks, answers.n_workers, network.n_classes
        self.norm, self.unseen = norm, unseen
        self.graph = Graph(answers)
        self.from_workers = _normal([seed, WORKERS], n_workers * c, width)  # W_kc in row k * classes + c
        self.from_tasks = _normal([seed, TASKS], n_tasks * c, width)  # W_ic in row i * classes + c
        self.task_layer = Linear(1, width, width, seed=[seed, LAYERS, 0])  # A, b
        self.feature_layer = Linear(1, network.width, width, seed=[seed, LAYERS, 1])  # B
        self.worker_layer = Linear(1, width, width, seed=[seed, LAYERS, 2])  # A', b'
        self.decoder = _normal([seed, DECODER], c, width, width)  # Q
        self.hide = Dropout(unseen)
        weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
        self.register_buffer("strength", torch.tensor(weight, dtype=torch.float32), persistent=False)

    def loss(self, batch: Batch) -> Tensor:
        """Return the mean loss over the hidden answers of the batch, predicted without them."""
        at = torch.from_numpy(self.graph.find(batch.task[batch.row], batch.worker)).to(self.strength.device)
        keep = torch.ones_like(self.strength)
        keep[at] = (self.hide(keep[at]) > 0).to(keep.dtype)
        hidden = keep[at] == 0
        to_tasks, to_workers = self.links(keep)
        features = batch.gather_rows(self.network.embed(batch.x))  # (1, rows, width)
        u = self.task_vectors(features, self.task_messages(to_tasks)[batch.tensor(batch.task)])
        log_p = self.decode(u, self.worker_vectors(to_workers), batch.tensor(batch.row), batch.tensor(batch.worker))
        log_label = log_p.gather(1, batch.tensor(batch.label)[:, None])[:, 0]
        return batch.answer_loss(torch.where(hidden, log_label, 0.0)) / self.unseen

    def all_vectors(self) -> tuple[Tensor, Tensor]:
        """Return h of all tasks, and v of all workers with their mean, from all answers; cached for prediction."""
        if self.cached is None or self.training:
            to_tasks, to_workers = self.links(torch.ones_like(self.strength))
            self.cached = self.task_messages(to_tasks), self.worker_vectors(to_workers)
        return self.cached

    def train(self, mode: bool = True) -> GraphModule:
        """Set the mode; training discards what was computed for prediction."""
        if mode:
            self.cached = None
        return super().train(mode)

    def load_state_dict(self, *args: Any, **options: Any) -> Any:
        """Load the parameters and clear the cache."""
        self.cached = None
        return super().load_state_dict(*args, **options)

    def links(self, keep: Tensor) -> tuple[Tensor, Tensor]:
        """Return the weights of messages along links to tasks and to workers, (answers,) each."""
        strength = self.strength * keep
        task, worker = self.graph.task, self.graph.worker
        at_task = _degree(task, strength, self.graph.n_tasks)[task]  # (answers,) |N_i|
        at_worker = _degree(worker, strength, self.n_workers)[worker]  # (answers,) |N_k|
        if self.norm == "left":
            return strength / at_task, strength / at_worker
        both = strength / (at_task * at_worker).sqrt()
        return both, both

    def task_messages(self, links: Tensor) -> Tensor:
        """Return h of all tasks, (tasks, width): a product of the sparse graph with the messages of workers."""
        column = self.graph.worker * self.n_classes + self.graph.label
        return _sum_by(self.from_workers, column, self.graph.task_starts, links)

    def worker_vectors(self, links: Tensor) -> Tensor:
        """Return v of all workers, and their mean after them, (workers + 1, width)."""
        order = self.graph.by_worker
        column = (self.graph.task * self.n_classes + self.graph.label)[order]
        h = _sum_by(self.from_tasks, column, self.graph.worker_starts, links[order])
        v = functional.relu(self.worker_layer(functional.relu(h)))
        return torch.cat([v, v.mean(0, keepdim=True)])

    def task_vectors(self, hidden: Tensor, message: Tensor) -> Tensor:
        """Return u of tasks with these hidden layers (1, rows, width) and messages (rows, width)."""
        side = self.feature_layer(hidden.flatten(0, 1))
        return functional.relu(self.task_layer(functional.relu(message)) + side)

    def decode(self, u: Tensor, v: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return log P(label), (pairs, classes), of each pair."""
        turned = torch.einsum("rd,cde->rce", u, self.decoder)  # (rows, classes, width)
        return functional.log_softmax(torch.bmm(turned[row], v[worker][:, :, None])[:, :, 0], dim=1)

    # Tasks outside the graph

    def class_log_proba(self, x: Tensor) -> Tensor:
        """Return log P(label) of the mean worker, (1, rows, classes)."""
        rows = torch.arange(x.shape[1], device=x.device)
        return self.answer_log_proba(x, x, rows, torch.full_like(rows, self.n_workers))[None]

    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:  # noqa: D102
        no_messages = self.from_workers.new_zeros(x.shape[1], self.from_workers.shape[1])
        return self.decode(self.task_vectors(self.network.embed(x), no_messages), self.all_vectors()[1], row, worker)


class Graph(nn.Module):
    """The links: answers sorted by task, and the positions of the answers of each worker. Moves with the module."""

    task: Tensor
    worker: Tensor
    label: Tensor
    task_starts: Tensor
    by_worker: Tensor
    worker_starts: Tensor

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.n_tasks, self.n_workers = answers.n_tasks, answers.n_workers
        self.code = answers.task.astype(np.int64) * self.n_workers + answers.worker  # increasing
        for name in ("task", "worker", "label", "by_worker"):
            column = torch.from_numpy(getattr(answers, name).astype(np.int64))
            self.register_buffer(name, column, persistent=False)
        for name in ("task_starts", "worker_starts"):  # embedding_bag needs the starts of bags, not the end of the last
            starts = torch.from_numpy(getattr(answers, name)[:-1].astype(np.int64))
            self.register_buffer(name, starts, persistent=False)

    def find(self, task: Array, worker: Array) -> Array:
        """Return the positions of the answers of these workers to these tasks."""
        return np.searchsorted(self.code, task * self.n_workers + worker)


def _sum_by(source: Tensor, column: Tensor, starts: Tensor, links: Tensor) -> Tensor:
    """Return the sum of links[a] * source[column[a]] over the answers from each of `starts` to the next."""
    return functional.embedding_bag(column, source, starts, mode="sum", per_sample_weights=links)


def _degree(node: Tensor, strength: Tensor, n: int) -> Tensor:
    """Return the total strength of the links of each node, or 1 if it has none, to avoid division by zero."""
    degree = strength.new_zeros(n).index_add_(0, node, strength)
    return torch.where(degree > 0, degree, 1.0)


def _normal(seed: list[int], *shape: int) -> nn.Parameter:
    """Return a random start with standard deviation 1 / sqrt(width)."""
    values = np.random.default_rng(seed).normal(scale=1 / math.sqrt(shape[-1]), size=shape)
    return nn.Parameter(torch.tensor(values, dtype=torch.float32))
