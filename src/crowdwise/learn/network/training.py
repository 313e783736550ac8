"""The one training loop.

A `CrowdModule` says what the loss of a batch is; the loop does the rest: batches, optimiser steps, learning rate,
clipping, the record of each epoch, the choice of an epoch, checkpoints. Every random draw of epoch e follows from the
seed and e alone, so a run that was killed goes on from its checkpoint bit for bit as if it had not been.
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

WORTH_THREADS = 20_000_000  # multiplications in a forward pass from which a second thread pays
_borrowing = threading.Lock()  # torch has one generator a process
Scheduler = Literal["cosine", "step", "cyclic"] | Callable[[float], float] | None


class CrowdModule(nn.Module):
    """A classifier network with what a method puts on top of it. A method overrides what is particular to it."""

    def __init__(self, network: Network, n_workers: int) -> None:
        super().__init__()
        self.network = network
        self.n_workers, self.n_classes, self.n_models = n_workers, network.n_classes, network.n_models

    def loss(self, batch: Batch) -> Tensor:
        """The loss of a batch: minus the mean log probability of its answers, and what `penalty` adds."""
        log_f = batch.gather_rows(self.class_log_proba(batch.x)).flatten(0, 1)  # (models * rows, classes)
        log_p = self.label_log_proba(log_f, batch)  # (answers,)
        return batch.answer_loss(log_p) + self.penalty(log_f)

    def backward(self, batch: Batch) -> Tensor:
        """Leave the gradients of the loss in the parameters, and return the loss."""
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def label_log_proba(self, log_f: Tensor, batch: Batch) -> Tensor:
        """Log probability (answers,) of what each worker of the batch said."""
        row, worker, label = batch.tensor(batch.row), batch.tensor(batch.worker), batch.tensor(batch.label)
        return self.answer_log_proba(batch.x, log_f, row, worker).gather(1, label[:, None])[:, 0]

    def penalty(self, log_f: Tensor) -> Tensor | float:
        """What is added to the loss of a batch."""
        return 0.0

    def class_log_proba(self, x: Tensor) -> Tensor:
        """Log of what the classifier says, (models, rows, classes)."""
        return functional.log_softmax(self.network(x), dim=2)

    @abstractmethod
    def answer_log_proba(self, x: Tensor, log_f: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """Log P(each label), (answers, classes), of worker[a] on row[a]; rows and workers of all models end to end."""

    def predict_answer_log_proba(self, x: Tensor, row: Tensor, worker: Tensor) -> Tensor:
        """The same from features alone, to predict."""
        return self.answer_log_proba(x, self.class_log_proba(x).flatten(0, 1), row, worker)

    def crowd_parameters(self) -> list[nn.Parameter]:
        """Parameters that are not the network's: they are not decayed."""
        own = {id(p) for p in self.network.parameters()}
        return [p for p in self.parameters() if id(p) not in own]


@dataclass(frozen=True)
class Settings:
    """How to train; the options every network learner takes."""

    epochs: int = 50
    batch_size: int = 64
    lr: float = 1e-3
    weight_decay: float = 0.0
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    scheduler: Scheduler = None
    clip: float | None = None
    patience: int | None = None
    device: str = "cpu"
    random_state: int = 0


@dataclass(frozen=True)
class Monitor:
    """A figure measured after each epoch, higher is better: the epoch with the best one can be kept."""

    name: str
    measure: Callable[[CrowdModule], float]
    stamp: str = ""  # of what is measured on, for checkpoints


class Trainer:
    """Trains a module on batches.

    Parameters
    ----------
    module, batches, settings
        What, on what, and how.
    monitor : Monitor, optional
        Measured after each epoch; the best epoch is restored by `finish`, and `patience` epochs without a better one
        end the run.
    history : list
        Gets a record for each epoch.
    callback : callable, optional
        Called with each record, the seconds it took, the module, and the phase.
    checkpoint_file : checkpoint.Saved, optional
        Where to keep the state after each epoch, and to go on from.
    phase : int
        Which of a method's trainings this is, for methods that train more than once.
    parameters : list, optional
        What to train, all of the module's unless given.
    loss : callable, optional
        The loss of a batch, `module.loss` unless given.
    """

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
        self.history = [] if history is None else history
        self.loss = loss
        self.epoch, self.best, self.best_epoch, self.stopped = 0, -math.inf, -1, False
        self.best_state: dict[str, Tensor] = {}
        self.optimiser = _optimiser(module, settings, parameters)
        self.group = distributed.current()
        if self.group is not None:
            self.group.require_same_fit(self._fingerprint())
            self.group.broadcast_state(module)
        if checkpoint_file is not None:
            checkpoint_file.load_into(self)

    def run(self, epochs: int | None = None) -> None:
        """Train for this many epochs more, or for all that are left."""
        end = self.settings.epochs if epochs is None else self.epoch + epochs
        while self.epoch < end and not self.stopped:
            self._one_epoch()
            if self.checkpoint_file is not None:
                self.checkpoint_file.save(self)

    def finish(self) -> None:
        """Go back to the best epoch, where one was looked for, and leave the module ready to predict."""
        if self.best_state:
            self.module.load_state_dict(self.best_state)
        self.module.eval()

    def _one_epoch(self) -> None:
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
                for parameter in trained:  # what zero_grad does, without its ceremony
                    parameter.grad = None
                set_part(batch.part)
                loss = self.backward(batch)
                if group is not None:
                    group.average([parameter.grad for parameter in trained if parameter.grad is not None])
                if clip is not None:  # each model within its own limit would be sqrt(models) times as long in all
                    nn.utils.clip_grad_norm_(module.parameters(), clip * math.sqrt(self.batches.n_models))
                self.optimiser.step()
                total += loss
                n_batches += 1
        mean = float(total) / max(n_batches, 1) / self.batches.n_models
        if not math.isfinite(mean):
            message = f"the loss is {mean} in epoch {self.epoch + 1}: lower lr={self.settings.lr:g}, or set clip=1.0."
            raise TrainingError(message)
        record = {"epoch": self.epoch + 1, "epochs": self.settings.epochs, "loss": mean}
        if self.monitor is not None:
            self.measure_epoch(record)
        self.epoch += 1
        self.history.append(record)
        if self.callback is not None:  # how long it took is for the eye: it would make two equal runs differ
            told = {**record, "seconds": time.perf_counter() - start, "module": self.module, "phase": self.phase}
            self.callback(told)

    def backward(self, batch: Batch) -> Tensor:
        """Gradients of the loss of this phase, and the loss."""
        if self.loss is None:
            return self.module.backward(batch)
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def measure_epoch(self, record: dict[str, Any]) -> None:
        """Measure, and keep the state when it is the best so far."""
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
        """A digest of what is trained on and how: the same for all processes of a group."""
        settings = {name: value for name, value in vars(self.settings).items() if name != "device"}
        if callable(self.settings.scheduler):  # its text may hold where it lies in memory
            settings["scheduler"] = type(self.settings.scheduler).__name__
        facts = {**settings, "n_models": self.batches.n_models, "phase": self.phase, "seed": self.batches.seed}
        return checkpoint.fit_fingerprint(self.batches.answers, self.batches.features, facts, self.batches.active)

    def _set_rate(self) -> None:
        factor = rate_factor(self.settings.scheduler, self.epoch / max(self.settings.epochs, 1))
        for group in self.optimiser.param_groups:
            group["lr"] = self.settings.lr * factor


def rate_factor(scheduler: Scheduler, done: float) -> float:
    """What the learning rate is multiplied by when this share of the epochs is done.

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
    if scheduler == "cyclic":  # five triangles between a tenth and all of it
        return 0.1 + 0.9 * abs((5 * done) % 1 * 2 - 1)
    message = f"scheduler={scheduler!r}: use 'cosine', 'step', 'cyclic', None, or a function of the share done."
    raise ParameterError(message)


def _optimiser(module: CrowdModule, settings: Settings, parameters: list[nn.Parameter] | None) -> torch.optim.Optimizer:
    """Decays the network only: workers' parameters pulled to zero would mean something else in each method."""
    chosen = list(module.parameters()) if parameters is None else parameters
    crowd = {id(p) for p in module.crowd_parameters()}
    groups = [
        {"params": [p for p in chosen if id(p) not in crowd], "weight_decay": settings.weight_decay},
        {"params": [p for p in chosen if id(p) in crowd], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if not settings.weight_decay:  # one group is one fused call
        groups = [{"params": chosen}]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=settings.lr, momentum=0.9, fused=True)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if settings.optimizer not in kinds:
        message = f"optimizer={settings.optimizer!r}: use 'adam', 'adamw' or 'sgd'."
        raise ParameterError(message)
    return kinds[settings.optimizer](groups, lr=settings.lr, fused=True)


class _OneThread:
    """Blocks in which torch computes on one thread.

    Its number of threads is that of the thread that set it, and of threads that begin later. Of fits that overlap, in
    threads of ours, the first to enter looks at what it was, and each puts it back for itself: one that kept the one
    thread would take it, on its next way in, for what was there before.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, 1

    def __enter__(self) -> None:
        with self.lock:
            now = torch.get_num_threads()  # asked in each thread: the first time it takes the number of the process
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
    """One thread for small networks: a second brings little, and stalls both when another process wants the core."""
    size = sum(p.numel() for p in module.network.parameters())
    if not isinstance(module.network, Dense) or size * batches.batch_size > WORTH_THREADS:
        yield
    else:
        with _one_thread:
            yield


@contextmanager
def _seeded(module: nn.Module, seed: list[int], rank: int) -> Iterator[None]:
    """Dropout follows from the seed: ours has its own generator; that of the user's layers borrows torch's.

    Of the processes of a group each has other rows, and draws its own masks for them where it borrows. Fits in threads
    that borrow take turns, epoch by epoch.
    """
    state = int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1)
    borrowed = False
    for layer in module.modules():
        if isinstance(layer, Dropout):
            layer.reseed(state)
        else:
            borrowed = borrowed or getattr(layer, "is_user_module", False)
    if not borrowed:
        yield
        return
    with _borrowing, torch.random.fork_rng():
        torch.manual_seed(state + rank)
        yield
