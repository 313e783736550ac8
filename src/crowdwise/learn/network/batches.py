"""Minibatches of tasks with their answers.

A batch holds one sample of tasks per network, `n_models` in all, concatenated: row m * B + b is the b-th task of model
m, and worker m * W + w is worker w of model m. A loss over the answers of several models is thus written as for one.
All models have the same answers, or each has a pool of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features
from crowdwise.learn.network import distributed
from crowdwise.learn.network.modules import Network
from crowdwise.learn.network.torch_support import Tensor, torch


@dataclass(slots=True)
class Batch:
    """Some tasks and their answers. Arrays are numpy; `tensor` converts one to torch on the device of the batch."""

    x: Tensor  # (models, rows, *shape); on several processes, only the rows of this process
    task: Array  # (models * rows,) int64: the task of each row; this and all below are of the complete batch
    row: Array  # (answers,) int64: the row of each answer
    worker: Array  # (answers,) int64: worker + n_workers * model
    label: Array  # (answers,) int64
    weight: Array | None  # (answers,) float32, mean one over all answers; None if all are one
    task_weight: Array | None  # (models * rows,) float32, mean one over all tasks; None if all are one
    n_models: int
    gamma: float = 0.0  # of the focal loss
    part: distributed.Part | None = None  # the rows of x; None for all

    @property
    def supports_fused(self) -> bool:
        """Whether `fused_losses` applies: single precision, on the CPU."""
        return self.x.device.type == "cpu" and self.x.dtype == torch.float32

    def tensor(self, array: Array) -> Tensor:
        """Convert an array of the batch to a tensor."""
        return torch.from_numpy(array).to(self.x.device)

    def gather_rows(self, rows: Tensor) -> Tensor:
        """Return an output for all rows of the batch from that for the rows of x, (models, rows, ...).

        In a loss, computations per row come before this call, and are divided among the processes. What comes after,
        each process computes for all rows.
        """
        return rows if self.part is None else self.part.gather_rows(rows)

    def logits(self, network: Network) -> Tensor:
        """Return the logits of a network for all rows, (models * rows, classes)."""
        return network.flat(self.x) if self.part is None else self.part.gather_rows(network(self.x)).flatten(0, 1)

    def answer_loss(self, log_proba: Tensor) -> Tensor:
        """Return the mean loss over the answers, from the log probability (answers,) of each answer.

        It is the cross-entropy, or the focal loss, (1 - p)^gamma times it. It is summed over models, so that a model's
        step does not depend on how many models are trained. The mean is over the answers of all models, of which each
        has an equal share on average; if models have their own pools, weights make it the mean of each model.
        """
        loss = -log_proba
        if self.gamma:
            loss = loss * (1 - log_proba.exp()).clamp_min(0) ** self.gamma
        if self.weight is not None:
            loss = loss * self.tensor(self.weight).to(loss.dtype)
        return loss.sum() * (self.n_models / len(self.row))

    def task_loss(self, loss: Tensor) -> Tensor:
        """Return the weighted mean over the tasks of a loss (models * rows,), summed over models."""
        if self.task_weight is not None:
            loss = loss * self.tensor(self.task_weight).to(loss.dtype)
        return loss.sum() * (self.n_models / len(self.task))


class Batches:
    """Draws the batches of each epoch. Memory grows with the answers, plus the features of one batch.

    Parameters
    ----------
    features : Features
        Features of the tasks.
    answers : Answers, or a sequence of them
        Answers to train on: the same for all models, or a pool per model with the same tasks, workers and classes.
    batch_size : int
        Largest number of tasks in a batch; batches differ by at most one task.
    n_models : int
        Number of models, each with its own sample of tasks in a batch.
    weight : (answers,) array, or one per pool, optional
        Weight of each answer.
    task_weight : (tasks,) or (models, tasks) array, optional
        Weight of each task, in addition.
    active : (tasks,) bool array, optional
        Tasks to draw. Those with answers by default.
    resample : bool
        Sample the answers of each epoch with replacement, so that every label is equally frequent; separately for
        each model.
    seed : int
        Seed of the order of tasks. Epoch e depends only on the seed and e, so a run can resume from any epoch.
    """

    active: Array
    answers: Answers
    batch_size: int
    features: Features
    gamma: float
    label: Array
    length: Array
    n_models: int
    resample: list[Array] | None
    seed: int
    starts: Array
    task_weight: Array | None
    weight: Array | None
    worker: Array

    def __init__(
        self,
        features: Features,
        answers: Answers | Sequence[Answers],
        *,
        batch_size: int,
        n_models: int = 1,
        weight: Array | Sequence[Array] | None = None,
        task_weight: Array | None = None,
        active: Array | None = None,
        resample: bool = False,
        gamma: float = 0.0,
        device: str = "cpu",
        seed: int = 0,
    ) -> None:
        pools = [answers] if isinstance(answers, Answers) else list(answers)
        weights = [weight] if isinstance(weight, np.ndarray) else weight
        if all(pool is pools[0] for pool in pools):
            pools, weights = pools[:1], None if weights is None else weights[:1]
        self.features, self.answers = features, pools[0]
        self.batch_size, self.n_models, self.gamma = batch_size, n_models, gamma
        self.device, self.seed = torch.device(device), seed
        self.length = np.array([np.diff(pool.task_starts) for pool in pools])  # (pools, tasks): number of answers
        self.active = np.flatnonzero((self.length > 0).any(axis=0) if active is None else active)
        # The answers of all pools, concatenated, and where those of each task start.
        self.worker = np.concatenate([pool.worker for pool in pools]).astype(np.int64)
        self.label = np.concatenate([pool.label for pool in pools]).astype(np.int64)
        first = np.cumsum([0, *(pool.n_answers for pool in pools[:-1])])
        self.starts = np.array([pool.task_starts[:-1] for pool in pools]) + first[:, None]  # (pools, tasks)
        self.task_weight = (
            None if task_weight is None else np.atleast_2d(_mean_one(task_weight))
        )  # (1 or models, tasks)
        self.weight = None if weights is None else np.concatenate([_mean_one(each) for each in weights])
        self.resample = [1 / np.bincount(pool.label)[pool.label] for pool in pools] if resample else None
        memory = getattr(features, "array", None)
        self.memory: Tensor | None = (
            None if memory is None else torch.from_numpy(memory)
        )  # (tasks, *shape) if in memory

    def __len__(self) -> int:
        return -(-len(self.active) // self.batch_size)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield the batches of one epoch."""
        drawn = [np.random.default_rng([self.seed, m, epoch]).permutation(self.active) for m in range(self.n_models)]
        cuts = np.linspace(0, len(self.active), len(self) + 1).astype(np.int64)
        order, model = _by_batch(drawn, cuts)  # (models * tasks,) each
        first_row = cuts * self.n_models
        pool = 0 if model is None or len(self.length) == 1 else model
        length = self.length[pool, order]
        ends = np.cumsum(length)
        first_answer = np.concatenate([[0], ends])[first_row]
        # The positions of the answers of each drawn task, concatenated.
        at = np.arange(ends[-1]) + np.repeat(self.starts[pool, order] - (ends - length), length)
        row = np.repeat(np.arange(len(order)) - np.repeat(first_row[:-1], np.diff(first_row)), length)
        worker = self.worker[at]
        if model is not None:
            worker += np.repeat(model * self.answers.n_workers, length)
        label = self.label[at]
        weight = self._answer_weights(at, np.repeat(order, length), model, length, epoch)
        if len(self.length) > 1:
            per_model = _per_model_weights(length, cuts, self.n_models)
            weight = per_model if weight is None else weight * per_model
        row_weight = None
        if self.task_weight is not None:
            row_weight = self.task_weight[0 if len(self.task_weight) == 1 or model is None else model, order]
        group = distributed.current()
        if group is not None:
            self._require_a_row_each(int(np.diff(cuts).min(initial=group.size)), group.size)
        for j in range(len(self)):
            rows, part = slice(first_row[j], first_row[j + 1]), slice(first_answer[j], first_answer[j + 1])
            process_part = None if group is None else group.part(int(cuts[j + 1] - cuts[j]))
            yield Batch(
                self._features(order[rows], process_part), order[rows], row[part], worker[part], label[part],
                None if weight is None else weight[part], None if row_weight is None else row_weight[rows],
                self.n_models, self.gamma, process_part,
            )  # fmt: skip

    def _require_a_row_each(self, smallest: int, n_processes: int) -> None:
        if smallest < n_processes:
            message = (
                f"a batch of {smallest} tasks is too small for {n_processes} processes ({len(self.active):,} training "
                f"tasks, batch_size={self.batch_size}). Use fewer processes, or larger batches."
            )
            raise ParameterError(message)

    def _features(self, tasks: Array, part: distributed.Part | None) -> Tensor:
        if part is not None:
            tasks = tasks.reshape(self.n_models, -1)[:, part.rows].ravel()
        if self.memory is not None:
            x = self.memory.index_select(0, torch.from_numpy(tasks))
        else:
            x = torch.from_numpy(self.features.rows(tasks))
        return x.view(self.n_models, -1, *x.shape[1:]).to(self.device)

    def _answer_weights(self, at: Array, task: Array, model: Array | None, length: Array, epoch: int) -> Array | None:
        """Return the weights of the answers of an epoch (own, of the task, times sampled), or None."""
        weight = None if self.weight is None else self.weight[at]
        if self.task_weight is not None:
            which = 0 if len(self.task_weight) == 1 or model is None else np.repeat(model, length)
            task_weight = self.task_weight[which, task]
            weight = task_weight if weight is None else weight * task_weight
        if self.resample is not None:
            if len(self.resample) == 1 and model is not None:  # one pool, from which each model samples separately
                at = at + np.repeat(model * len(self.label), length)
            times = self._times_sampled(epoch)[at]
            weight = times if self.task_weight is None else times * task_weight
        return weight

    def _times_sampled(self, epoch: int) -> Array:
        """Return how often each answer is sampled in an epoch, concatenated over models."""
        assert self.resample is not None
        shares = self.resample
        if self.weight is not None:
            parts = np.split(self.weight, np.cumsum([len(share) for share in shares])[:-1])
            shares = [share * part for share, part in zip(shares, parts, strict=True)]
        each = shares * self.n_models if len(shares) == 1 else shares
        # A trailing 0 in a seed does not change the draws: the first model samples as a single model would.
        streams = [np.random.default_rng([self.seed, epoch, len(share), m]) for m, share in enumerate(each)]
        drawn = [rng.multinomial(len(share), share / share.sum()) for rng, share in zip(streams, each, strict=True)]
        return np.concatenate(drawn).astype(np.float32)


def _by_batch(drawn: list[Array], cuts: Array) -> tuple[Array, Array | None]:
    """Return the tasks batch by batch, with the samples of all models in each, and the model of each row."""
    if len(drawn) == 1:
        return drawn[0], None
    table = np.array(drawn)  # (models, tasks)
    parts = [table[:, a:b] for a, b in pairwise(cuts)]
    model = [np.repeat(np.arange(len(drawn)), part.shape[1]) for part in parts]
    return np.concatenate([part.ravel() for part in parts]), np.concatenate(model)


def _per_model_weights(length: Array, cuts: Array, n_models: int) -> Array:
    """Return weights (answers,) that turn the mean over the answers of a batch into a mean per model.

    `length` (models * tasks,) is the number of answers of each row, batch by batch; `cuts` are the batch boundaries.

    >>> _per_model_weights(np.array([1, 0, 2, 1]), np.array([0, 2]), 2)  # a batch: two rows per model, two models
    array([2.       , 0.6666667, 0.6666667, 0.6666667], dtype=float32)
    """
    first = cuts[:-1, None] * n_models + np.arange(n_models) * np.diff(cuts)[:, None]  # (batches, models) rows
    count = np.add.reduceat(length, first.ravel()).reshape(first.shape)
    share = count.sum(axis=1, keepdims=True) / np.maximum(n_models * count, 1)
    return np.repeat(share.ravel(), count.ravel()).astype(np.float32)


def _mean_one(weight: Array) -> Array:
    """Scale weights so that the positive ones have mean one: excluding a task then does not change the others."""
    values = np.asarray(weight, dtype=np.float64)
    n_above = (values > 0).sum(axis=-1, keepdims=True)
    mean = values.sum(axis=-1, keepdims=True) / np.maximum(n_above, 1)
    return (values / np.where(mean > 0, mean, 1.0)).astype(np.float32)  # all weights may be zero
