"""Minibatches of tasks with just the answers that were given to them.

A batch holds `n_models` draws of tasks, one for each network that is trained, laid end to end: row m * B + b is the
b-th task of model m, and worker m * W + w is worker w as model m sees him. So a loss over the answers of many models
is written as for one. All models have the same answers, or each a pool of its own.
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
    """Some tasks and their answers. Arrays are numpy; `tensor` turns one into torch on the right device."""

    x: Tensor  # (models, rows, *shape); on many processes the rows of this one, and all that follows of the whole batch
    task: Array  # (models * rows,) int64: which task each row is
    row: Array  # (answers,) int64: the row each answer belongs to
    worker: Array  # (answers,) int64: worker + n_workers * model
    label: Array  # (answers,) int64
    weight: Array | None  # (answers,) float32, mean one over all answers; None when all are one
    task_weight: Array | None  # (models * rows,) float32, mean one over all tasks; None when all are one
    n_models: int
    gamma: float = 0.0  # of the focal loss
    part: distributed.Part | None = None  # which rows x has, None for all

    @property
    def supports_fused(self) -> bool:
        """Whether the compiled passes of `fused` take it: single precision, on the processor."""
        return self.x.device.type == "cpu" and self.x.dtype == torch.float32

    def tensor(self, array: Array) -> Tensor:
        """An array of the batch as a tensor."""
        return torch.from_numpy(array).to(self.x.device)

    def gather_rows(self, rows: Tensor) -> Tensor:
        """What was made of the rows of x, (models, rows, ...), for all rows of the batch.

        Of a loss, what is done to each row by itself goes before, and is shared by the processes there are. What goes
        after, each of them does for all rows.
        """
        return rows if self.part is None else self.part.gather_rows(rows)

    def logits(self, network: Network) -> Tensor:
        """What a network says of all rows, (models * rows, classes)."""
        return network.flat(self.x) if self.part is None else self.part.gather_rows(network(self.x)).flatten(0, 1)

    def answer_loss(self, log_proba: Tensor) -> Tensor:
        """Mean loss over the answers, from the log probability (answers,) of what each worker said.

        Cross-entropy, or focal (1 - p)^gamma times it. Summed over models, so that no model's step grows or shrinks
        with how many are trained beside it. The mean is over the answers that all of them drew, of which each has its
        share but for chance; weights make it each model's own where they have pools of their own.
        """
        loss = -log_proba
        if self.gamma:
            loss = loss * (1 - log_proba.exp()).clamp_min(0) ** self.gamma
        if self.weight is not None:
            loss = loss * self.tensor(self.weight).to(loss.dtype)
        return loss.sum() * (self.n_models / len(self.row))

    def task_loss(self, loss: Tensor) -> Tensor:
        """Mean over the tasks of a loss (models * rows,), by the weights of tasks; summed over models."""
        if self.task_weight is not None:
            loss = loss * self.tensor(self.task_weight).to(loss.dtype)
        return loss.sum() * (self.n_models / len(self.task))


class Batches:
    """Draws the batches of each epoch. Cost and memory: the answers, and the features of one batch.

    Parameters
    ----------
    features : Features
        Rows follow the tasks of the answers.
    answers : Answers, or a sequence of them
        What is trained on: the same for all models, or a pool for each, over the same tasks, workers and classes.
    batch_size : int
        Tasks in a batch, at most; batches differ by one task at most, so none is tiny.
    n_models : int
        Draws in each batch.
    weight : (answers,) array, or one for each pool, optional
        How much each answer counts.
    task_weight : (tasks,) or (models, tasks) array, optional
        How much each task counts, on top.
    active : (tasks,) bool array, optional
        Tasks that are drawn; those with answers unless given.
    resample : bool
        Draw the answers of each epoch with replacement, so that every label is drawn equally often; for each model
        by itself.
    seed : int
        Decides the order of tasks; epoch e is the same whatever came before, so a resumed run goes on as if unbroken.
    """

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
        self.length = np.array([np.diff(pool.task_starts) for pool in pools])  # (pools, tasks): answers of each task
        self.active = np.flatnonzero((self.length > 0).any(axis=0) if active is None else active)
        # The answers of all pools end to end, and where those of each task start in them.
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
        self.memory = None if memory is None else torch.from_numpy(memory)  # (tasks, *shape) when all in memory

    def __len__(self) -> int:
        return -(-len(self.active) // self.batch_size)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """The batches of one epoch."""
        drawn = [np.random.default_rng([self.seed, m, epoch]).permutation(self.active) for m in range(self.n_models)]
        cuts = np.linspace(0, len(self.active), len(self) + 1).astype(np.int64)
        order, model = _by_batch(drawn, cuts)  # (models * tasks,) each
        first_row = cuts * self.n_models
        pool = 0 if model is None or len(self.length) == 1 else model
        length = self.length[pool, order]
        ends = np.cumsum(length)
        first_answer = np.concatenate([[0], ends])[first_row]
        # Each drawn task's run of answers, laid end to end.
        at = np.arange(ends[-1]) + np.repeat(self.starts[pool, order] - (ends - length), length)
        row = np.repeat(np.arange(len(order)) - np.repeat(first_row[:-1], np.diff(first_row)), length)
        worker = self.worker[at]
        if model is not None:
            worker += np.repeat(model * self.answers.n_workers, length)
        label = self.label[at]
        weight = self._answer_weights(at, np.repeat(order, length), model, length, epoch)
        if len(self.length) > 1:
            own = _per_model_weights(length, cuts, self.n_models)
            weight = own if weight is None else weight * own
        by_task = None
        if self.task_weight is not None:
            by_task = self.task_weight[0 if len(self.task_weight) == 1 or model is None else model, order]
        group = distributed.current()
        if group is not None:
            self._require_a_row_each(int(np.diff(cuts).min(initial=group.size)), group.size)
        for j in range(len(self)):
            rows, part = slice(first_row[j], first_row[j + 1]), slice(first_answer[j], first_answer[j + 1])
            here = None if group is None else group.part(int(cuts[j + 1] - cuts[j]))
            yield Batch(
                self._features(order[rows], here), order[rows], row[part], worker[part], label[part],
                None if weight is None else weight[part], None if by_task is None else by_task[rows],
                self.n_models, self.gamma, here,
            )  # fmt: skip

    def _require_a_row_each(self, smallest: int, n_processes: int) -> None:
        if smallest < n_processes:
            message = (
                f"a batch of {smallest} tasks cannot be shared by {n_processes} processes: {len(self.active):,} tasks "
                f"are trained on, batch_size={self.batch_size}. Use fewer processes, or larger batches."
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
        """Weights of the epoch's answers (their own, their task's, how often they were drawn), or None."""
        weight = None if self.weight is None else self.weight[at]
        if self.task_weight is not None:
            which = 0 if len(self.task_weight) == 1 or model is None else np.repeat(model, length)
            of_task = self.task_weight[which, task]
            weight = of_task if weight is None else weight * of_task
        if self.resample is not None:
            if len(self.resample) == 1 and model is not None:  # one pool for all, of which each model draws its own
                at = at + np.repeat(model * len(self.label), length)
            times = self._times(epoch)[at]
            weight = times if self.task_weight is None else times * of_task
        return weight

    def _times(self, epoch: int) -> Array:
        """How often each answer is drawn in an epoch, those of all models end to end."""
        assert self.resample is not None
        shares = self.resample
        if self.weight is not None:
            parts = np.split(self.weight, np.cumsum([len(share) for share in shares])[:-1])
            shares = [share * part for share, part in zip(shares, parts, strict=True)]
        each = shares * self.n_models if len(shares) == 1 else shares
        # A trailing 0 draws what is drawn without it: the first model draws as one alone would.
        streams = [np.random.default_rng([self.seed, epoch, len(share), m]) for m, share in enumerate(each)]
        drawn = [rng.multinomial(len(share), share / share.sum()) for rng, share in zip(streams, each, strict=True)]
        return np.concatenate(drawn).astype(np.float32)


def _by_batch(drawn: list[Array], cuts: Array) -> tuple[Array, Array | None]:
    """Tasks batch by batch, the draws of all models beside each other; and which model each row belongs to."""
    if len(drawn) == 1:
        return drawn[0], None
    table = np.array(drawn)  # (models, tasks)
    parts = [table[:, a:b] for a, b in pairwise(cuts)]
    model = [np.repeat(np.arange(len(drawn)), part.shape[1]) for part in parts]
    return np.concatenate([part.ravel() for part in parts]), np.concatenate(model)


def _per_model_weights(length: Array, cuts: Array, n_models: int) -> Array:
    """Weights (answers,) that turn the mean over the answers of a batch into that of each model's, by their numbers.

    `length` (models * tasks,) is how many answers each row has, batch by batch, cut at `cuts`.

    >>> _per_model_weights(np.array([1, 0, 2, 1]), np.array([0, 2]), 2)  # a batch: two rows per model, two models
    array([2.       , 0.6666667, 0.6666667, 0.6666667], dtype=float32)
    """
    first = cuts[:-1, None] * n_models + np.arange(n_models) * np.diff(cuts)[:, None]  # (batches, models) rows
    count = np.add.reduceat(length, first.ravel()).reshape(first.shape)
    share = count.sum(axis=1, keepdims=True) / np.maximum(n_models * count, 1)
    return np.repeat(share.ravel(), count.ravel()).astype(np.float32)


def _mean_one(weight: Array) -> Array:
    """Weights of which those above zero have mean one: leaving some out leaves the others as they are."""
    values = np.asarray(weight, dtype=np.float64)
    n_above = (values > 0).sum(axis=-1, keepdims=True)
    mean = values.sum(axis=-1, keepdims=True) / np.maximum(n_above, 1)
    return (values / np.where(mean > 0, mean, 1.0)).astype(np.float32)  # a fold may hold all that counts
