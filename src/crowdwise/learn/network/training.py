"""The training loop that all networks share.

A `CrowdModule` defines the loss of a batch. The loop does the rest: batches, optimiser steps, learning rate, gradient
clipping, history, epoch selection, checkpoints. The random numbers of epoch e depend only on the seed and e, so a run
that resumes from a checkpoint gives the same result, bit for bit, as an uninterrupted one.
"""

from __future__ import annotations

import math
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from crowdwise.errors import ParameterError, TrainingError
from crowdwise.learn.base import Callback
from crowdwise.learn.network import checkpoint, distributed
from crowdwise.learn.network.batches import Batch, Batches
from crowdwise.learn.network.modules import Dense, Dropout, Network
from crowdwise.learn.network.torch_support import Tensor, functional, nn, torch

WORTH_THREADS = 20_000_000  # multiplications in a forward pass above which a second thread is faster
_torch_generator_lock = threading.Lock()  # torch has one generator per process
Scheduler = Literal["cosine", "step", "cyclic"] | Callable[[float], float] | None


class CrowdModule(nn.Module):
    """A classifier network and the layers that a method adds. A method overrides what differs from the defaults."""

    n_classes: int
    n_models: int
    n_workers: int

    def __init__(self, network: Network, n_workers: int) -> None:
        super().__init__()
        self.network = network
        self.n_workers, self.n_classes, self.n_models = n_workers, network.n_classes, network.n_models

    def loss(self, batch: Batch) -> Tensor:
        """Return the loss of a batch: minus the mean log probability of its answers, plus `penalty`."""
        log_f = batch.gather_rows(self.class_log_proba(batch.x)).flatten(0, 1)  # (models * rows, classes)
        log_p = self.label_log_proba(log_f, batch)  # (answers,)
        return batch.answer_loss(log_p) + self.penalty(log_f)

    def backward(self, batch: Batch) -> Tensor:
        """Compute the gradients of the loss, and return the loss."""
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def label_log_proba(self, log_f: Tensor, batch: Batch) -> Tensor:
        """Return the log probability (answers,) of the answers of a batch."""
        row, worker, label = batch.tensor(batch.row), batch.tensor(batch.worker), batch.tensor(batch.label)
        return self.answer_log_proba(batch.x, log_f, row, worker).gather(1, label[:, None])[:, 0]

    def penalty(self, log_f: Tensor) -> Tensor | float:
        """Return a term to add to the loss of a batch."""
        return 0.0

    def class_log_proba(self, x: Tensor) -> Tensor:
        """Return the log probabilities of the classifier, (models, rows, classes)."""
        return functional.log_softmax(self.network(x), dim=2)

    @abstractmethod
    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return log P(label), (answers, classes), of worker[a] on row[a].

        Rows and workers of all models are concatenated, as in `Batch`.
        """

    def predict_answer_log_proba(self, x: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Return log P(label), (answers, classes), from features alone, to predict."""
        return self.answer_log_proba(x, self.class_log_proba(x).flatten(0, 1), row, worker)

    def crowd_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that are not part of the network; weight decay does not apply to them."""
        own = {id(p) for p in self.network.parameters()}
        return [p for p in self.parameters() if id(p) not in own]


@dataclass(frozen=True)
class Settings:
    """Training settings, from the options of a network learner."""

    epochs: int = 50
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float | tuple[float, ...] = 0.0  # one per model, if they differ; not with adamw
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    scheduler: Scheduler = None
    clip: float | None = None
    patience: int | None = None
    device: str = "cpu"
    random_state: int = 0


@dataclass(frozen=True)
class Monitor:
    """A measure to select an epoch by; higher is better."""

    name: str
    measure: Callable[[CrowdModule], float]


class Trainer:
    """Trains a module on batches.

    Parameters
    ----------
    module : CrowdModule
        The module to train.
    batches : Batches
        The batches to train on.
    settings : Settings
        How to train.
    monitor : Monitor, optional
        Measured after each epoch. `finish` restores the best epoch, and training stops after `patience` epochs without
        improvement.
    history : list
        Gets a record per epoch.
    callback : callable, optional
        Called with each record, the seconds the epoch took, the module, and the phase.
    checkpoint_file : checkpoint.Saved, optional
        File to store the state in after each epoch, and to resume from.
    phase : int
        Number of this training, for methods that train more than once.
    parameters : list, optional
        Parameters to train. All parameters of the module by default.
    loss : callable, optional
        Loss of a batch. `module.loss` by default.
    """

    best: float
    best_epoch: int
    epoch: int
    phase: int
    stopped: bool

    def __init__(
        self,
        module: CrowdModule,
        batches: Batches,
        settings: Settings,
        *,
        monitor: Monitor | None = None,
        history: list[dict[str, Any]] | None = None,
        callback: Callback | None = None,
        checkpoint_file: checkpoint.CheckpointFile | None = None,
        phase: int = 0,
        parameters: list[nn.Parameter] | None = None,
        loss: Callable[[Batch], Tensor] | None = None,
    ) -> None:
        self.module, self.batches, self.settings = module, batches, settings
        self.monitor, self.callback, self.checkpoint_file, self.phase = monitor, callback, checkpoint_file, phase
        self.history: list[dict[str, Any]] = [] if history is None else history
        self.loss = loss
        self.epoch, self.best, self.best_epoch, self.stopped = 0, -math.inf, -1, False
        self.best_state: dict[str, Tensor] = {}
        self.optimiser = _optimiser(module, settings, parameters)
        self.decay: Tensor | None = _decay_by_model(module, settings)
        self.group = distributed.current()
        if self.group is not None:
            self.group.require_same_fit(self._fingerprint())
            self.group.broadcast_state(module)
        if checkpoint_file is not None:
            checkpoint_file.load_into(self)

    def run(self, epochs: int | None = None) -> None:
        """Train for this many more epochs, or for all remaining ones."""
        end = self.settings.epochs if epochs is None else self.epoch + epochs
        while self.epoch < end and not self.stopped:
            self._run_epoch()
            if self.checkpoint_file is not None:
                self.checkpoint_file.save(self)

    def finish(self) -> None:
        """Restore the best epoch, if one is selected, and set the module to evaluation mode."""
        if self.best_state:
            self.module.load_state_dict(self.best_state)
        self.module.eval()

    def _run_epoch(self) -> None:
        start = time.perf_counter()
        module, clip, group = self.module.train(), self.settings.clip, self.group
        total, n_batches = torch.zeros((), device=self.batches.device), 0
        trained = list(module.parameters())
        self._set_rate()
        seed = [self.settings.random_state, self.phase, self.epoch]
        with (
            _seeded(module, seed, 0 if group is None else group.rank),
            _threads(module, self.batches),
            distributed.synchronised_layers(module, group) as set_part,
        ):
            for batch in self.batches.epoch(self.epoch + 1_000_000 * self.phase):
                for parameter in trained:  # faster than zero_grad
                    parameter.grad = None
                set_part(batch.part)
                loss = self.backward(batch)
                if group is not None:
                    group.average([parameter.grad for parameter in trained if parameter.grad is not None])
                if self.decay is not None:
                    for parameter in module.network.parameters():
                        if parameter.grad is not None:
                            parameter.grad.addcmul_(parameter.detach(), self.decay)
                if clip is not None:  # the joint norm of n models at the limit is sqrt(n) times it
                    nn.utils.clip_grad_norm_(module.parameters(), clip * math.sqrt(self.batches.n_models))
                self.optimiser.step()
                total += loss
                n_batches += 1
        mean = float(total) / max(n_batches, 1) / self.batches.n_models
        if not math.isfinite(mean):
            message = f"the loss is {mean} in epoch {self.epoch + 1}. Lower lr={self.settings.lr:g}, or set clip=1.0."
            raise TrainingError(message)
        record = {"epoch": self.epoch + 1, "epochs": self.settings.epochs, "loss": mean}
        if self.monitor is not None:
            self.measure_epoch(record)
        self.epoch += 1
        self.history.append(record)
        if self.callback is not None:  # seconds are not in the history, which is the same for equal runs
            seconds = time.perf_counter() - start
            self.callback({**record, "seconds": seconds, "module": self.module, "phase": self.phase})

    def backward(self, batch: Batch) -> Tensor:
        """Compute the gradients of the loss of this phase, and return the loss."""
        if self.loss is None:
            return self.module.backward(batch)
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def measure_epoch(self, record: dict[str, Any]) -> None:
        """Measure the current epoch, and keep its state if it is the best so far."""
        assert self.monitor is not None
        self.module.eval()
        with torch.no_grad():
            measure = partial(self.monitor.measure, self.module)
            score = measure() if self.group is None else self.group.measure_on_first(measure)
        record[self.monitor.name] = score
        if score > self.best:
            self.best, self.best_epoch = score, self.epoch
            self.best_state = {name: value.clone() for name, value in self.module.state_dict().items()}
        elif self.settings.patience is not None and self.epoch - self.best_epoch >= self.settings.patience:
            self.stopped = True

    def _fingerprint(self) -> str:
        """Return a fingerprint of the data and settings, which must be equal in all processes of a group."""
        settings = {name: value for name, value in vars(self.settings).items() if name != "device"}
        if callable(self.settings.scheduler):  # its repr may contain a memory address
            settings["scheduler"] = type(self.settings.scheduler).__name__
        facts = {**settings, "n_models": self.batches.n_models, "phase": self.phase, "seed": self.batches.seed}
        return checkpoint.fit_fingerprint(self.batches.answers, self.batches.features, facts, self.batches.active)

    def _set_rate(self) -> None:
        factor = rate_factor(self.settings.scheduler, self.epoch / max(self.settings.epochs, 1))
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.lr * factor


def rate_factor(scheduler: Scheduler, done: float) -> float:
    """Return the factor of the learning rate after this fraction of the epochs.

    >>> [round(rate_factor("cosine", d), 2) for d in (0, 0.5, 1)]
    [1.0, 0.5, 0.0]
    """
    if scheduler is None:
        return 1.0
    if callable(scheduler):
        return float(scheduler(done))
    if scheduler == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    if scheduler == "step":
        return 0.1 ** int(3 * done)
    if scheduler == "cyclic":  # five triangles between 0.1 and 1
        return 0.1 + 0.9 * abs((5 * done) % 1 * 2 - 1)
    message = f"scheduler={scheduler!r}: use 'cosine', 'step', 'cyclic', None, or a function of the fraction completed."
    raise ParameterError(message)


def _optimiser(module: CrowdModule, settings: Settings, parameters: list[nn.Parameter] | None) -> torch.optim.Optimizer:
    """Return the optimiser. Weight decay applies to the network only: for workers' parameters, zero is not neutral."""
    chosen = list(module.parameters()) if parameters is None else parameters
    crowd = {id(p) for p in module.crowd_parameters()}
    decay = 0.0 if isinstance(settings.weight_decay, tuple) else settings.weight_decay
    groups = [
        {"params": [p for p in chosen if id(p) not in crowd], "weight_decay": decay},
        {"params": [p for p in chosen if id(p) in crowd], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if not decay:  # a single group needs one fused call
        groups = [{"params": chosen}]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=0.9, fused=True)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if settings.optimizer not in kinds:
        message = f"optimizer={settings.optimizer!r}: use 'adam', 'adamw' or 'sgd'."
        raise ParameterError(message)
    return kinds[settings.optimizer](groups, lr=settings.lr, fused=True)


def _decay_by_model(module: CrowdModule, settings: Settings) -> Tensor | None:
    """Return the weight decay of each model, (models, 1, 1), if they differ: optimisers take one for all."""
    if not isinstance(settings.weight_decay, tuple):
        return None
    decay = np.repeat(settings.weight_decay, module.network.n_models // len(settings.weight_decay))
    device = next(module.network.parameters()).device
    return torch.tensor(decay, dtype=torch.float32, device=device)[:, None, None]


class _OneThread:
    """A context in which torch computes on one thread.

    torch's number of threads belongs to the thread that set it, and to threads that start later. If fits in several
    threads overlap, the first to enter records the previous number and each restores it on exit. A fit that did not
    restore it would take the single thread for the previous number when it enters again.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        with self.lock:
            now = torch.get_num_threads()  # in each thread, where the first call adopts the number of the process
            if not self.inside:
                self.before = now
            self.inside += 1
            torch.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside -= 1
            torch.set_num_threads(self.before)


_one_thread = _OneThread()


@contextmanager
def _threads(module: CrowdModule, batches: Batches) -> Iterator[None]:
    """Use one thread for small networks: a second adds little, and both stall if another process needs the core."""
    size = sum(p.numel() for p in module.network.parameters())
    if not isinstance(module.network, Dense) or size * batches.batch_size > WORTH_THREADS:
        yield
    else:
        with _one_thread:
            yield


@contextmanager
def _seeded(module: nn.Module, seed: list[int], rank: int) -> Iterator[None]:
    """Seed dropout. Our layers have their own generators; layers of a user's module use torch's generator.

    If torch's generator is used, each process of a group draws its own masks for its own rows, and fits in several
    threads take turns, epoch by epoch.
    """
    state = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1)
    uses_torch_generator = False
    for layer in module.modules():
        if isinstance(layer, Dropout):
            layer.reseed(state)
        else:
            uses_torch_generator = uses_torch_generator or getattr(layer, "is_user_module", False)
    if not uses_torch_generator:
        yield
        return
    with _torch_generator_lock, torch.random.fork_rng():
        torch.manual_seed(state + rank)
        yield
