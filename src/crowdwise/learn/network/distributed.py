"""Training on many processes: each puts its share of the rows of a batch through the network.

Inside a process group of torch (`torchrun`, `torch.distributed.init_process_group`) every fit of a network is shared by
all processes of the group; each of them calls `fit` with the same arguments and ends with the same model.

    batch       every process knows the tasks and answers of the whole batch; it reads and computes its own rows
    whole       puts what the processes made of their rows together: each then has all rows, and the loss of the batch
    gradients   averaged. All processes send the same slopes back, each through its own rows only: so `whole` multiplies
                them by the number of processes, and the average is the sum over rows
    dropout     draws the mask of the whole batch and takes its rows; batch normalisation takes moments of all rows

So a method's loss may be anything, not only a sum over rows, and it is that of one process but for rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from crowdwise.errors import LostProcessError, ParameterError
from crowdwise.learn.network.modules import BatchNorm, Dropout, Network
from crowdwise.learn.network.torch_support import Tensor, nn, torch

_alone: ContextVar[bool] = ContextVar("alone", default=False)


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train together; this one is number `rank` of `size`."""

    rank: int
    size: int

    def part(self, n_rows: int) -> Part:
        """The rows of this process among so many; shares differ by one row at most."""
        cuts = np.linspace(0, n_rows, self.size + 1).astype(np.int64)
        return Part(self.size, slice(int(cuts[self.rank]), int(cuts[self.rank + 1])), n_rows)

    def average(self, tensors: list[Tensor]) -> None:
        """Put the mean over all processes into each tensor, by one message."""
        if not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        _all_reduce(flat).div_(self.size)
        for tensor, mean in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def broadcast_state(self, module: nn.Module) -> None:
        """Take the parameters and buffers of the first process."""
        for value in module.state_dict().values():
            same = value.contiguous()
            _communicate(partial(torch.distributed.broadcast, same, 0))
            value.copy_(same)  # nothing to do but where it lies in another order

    def measure_on_first(self, measure: Callable[[], float]) -> float:
        """What the first process measures: all decide by the same number."""
        value = torch.tensor([measure() if self.rank == 0 else 0.0], dtype=torch.float64)
        return float(_all_reduce(value))

    def read_on_first(self, read: Callable[[], bytes | None]) -> bytes | None:
        """What the first process reads, which may be the only one that has the file."""
        content = read() if self.rank == 0 else None
        length = torch.tensor([0 if content is None else len(content) + 1])
        if not (n_bytes := int(_all_reduce(length))):
            return None
        data = torch.zeros(n_bytes - 1, dtype=torch.uint8)
        if content is not None:
            data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        return _all_reduce(data).numpy().tobytes()

    def require_same_fit(self, stamp: str) -> None:
        """Refuse to train when another process is about to train something else, by a hexadecimal digest of it."""
        stamps = torch.zeros(self.size, 8, dtype=torch.int64)
        stamps[self.rank] = torch.tensor([int(stamp[8 * i : 8 * i + 8], 16) for i in range(8)])
        others = (_all_reduce(stamps) != stamps[self.rank]).any(dim=1).nonzero().flatten().tolist()
        if others:
            message = (
                f"process {self.rank} and process {others[0]} of {self.size} were given other data or settings: every "
                f"process of a group calls fit with the same. `crowdwise.learn.network.distributed.alone()` "
                f"fits in one process."
            )
            raise ParameterError(message)


@dataclass(frozen=True)
class Part:
    """The rows of a batch that are this process's."""

    size: int  # processes
    rows: slice
    n_rows: int  # of the whole batch

    def gather_rows(self, own: Tensor) -> Tensor:
        """All rows, (models, n_rows, ...), from those of each process, (models, rows of its own, ...)."""
        return _GatherRows.apply(own, self)  # type: ignore[no-untyped-call]

    def var_mean(self, x: Tensor, dim: list[int]) -> tuple[Tensor, Tensor, int]:
        """Variance and mean over these dimensions and the rows of all processes, kept; and over how many numbers."""
        here = 1
        for each in dim:
            here *= x.shape[each]
        n = here * self.n_rows // (self.rows.stop - self.rows.start)
        mean = _SumOverProcesses.apply(x.sum(dim, keepdim=True)) / n  # type: ignore[no-untyped-call]
        return _SumOverProcesses.apply((x - mean).square().sum(dim, keepdim=True)) / n, mean, n  # type: ignore[no-untyped-call]


def current() -> ProcessGroup | None:
    """The group that a fit is shared by, None where a process trains alone."""
    there = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not there or _alone.get() or torch.distributed.get_world_size() == 1:
        return None
    return ProcessGroup(torch.distributed.get_rank(), torch.distributed.get_world_size())


@contextmanager
def alone() -> Iterator[None]:
    """Fit in this process alone, though it belongs to a group.

    >>> with alone():
    ...     current() is None
    True
    """
    before = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(before)


def is_first() -> bool:
    """Whether this process writes the files: the first of a group, or one alone.

    >>> is_first()
    True
    """
    group = current()
    return group is None or group.rank == 0


@contextmanager
def synchronised_layers(module: nn.Module, group: ProcessGroup | None) -> Iterator[Callable[[Part | None], None]]:
    """Yields a function that tells layers which rows of a batch they see: dropout, and all batch normalisation."""
    if group is None:
        yield lambda part: None
        return
    every = list(module.modules())
    layers: list[BatchNorm | Dropout] = [layer for layer in every if isinstance(layer, BatchNorm)]
    inside = [layer for network in every if isinstance(network, Network) for layer in network.modules()]
    layers += [layer for layer in inside if isinstance(layer, Dropout)]  # others draw for the answers of a whole batch
    foreign: list[Any] = [layer for layer in every if isinstance(layer, nn.modules.batchnorm._BatchNorm)]

    def set_part(part: Part | None) -> None:
        for layer in layers:
            layer.part = part
        for layer in foreign:
            layer.forward = lambda x, layer=layer: _normalise(layer, x, part)

    try:
        yield set_part
    finally:
        for layer in layers:
            layer.part = None
        for layer in foreign:
            layer.__dict__.pop("forward", None)


def _normalise(layer: Any, x: Tensor, part: Part | None) -> Tensor:
    """What a layer of batch normalisation says of (rows, channels, ...) by the moments of all processes' rows."""
    if part is None or not (layer.training or layer.running_mean is None):
        return type(layer).forward(layer, x)
    var, mean, n = part.var_mean(x, [axis for axis in range(x.ndim) if axis != 1])
    if layer.training and layer.running_mean is not None:
        layer.num_batches_tracked.add_(1)
        pace = 1 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
        with torch.no_grad():
            layer.running_mean.lerp_(mean.flatten(), pace)
            layer.running_var.lerp_(var.flatten() * n / max(n - 1, 1), pace)
    out = (x - mean) * torch.rsqrt(var + layer.eps)
    if layer.weight is None:
        return out
    shape = [-1 if axis == 1 else 1 for axis in range(x.ndim)]
    return out * layer.weight.view(shape) + layer.bias.view(shape)


class _GatherRows(torch.autograd.Function):
    """Rows of all processes, by a sum: where a process has no rows it has zeros."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, part: Part) -> Tensor:
        ctx.part = part
        out = own.new_zeros(own.shape[0], part.n_rows, *own.shape[2:])
        out[:, part.rows] = own
        return _all_reduce(out)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        return slopes[0][:, ctx.part.rows] * ctx.part.size, None


class _SumOverProcesses(torch.autograd.Function):
    """Sum over processes; what comes back is summed too, as each process has a use of its own for it."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        return _all_reduce(own.clone())

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        return _all_reduce(slopes[0].clone())


def _all_reduce(tensor: Tensor) -> Tensor:
    """Sum over processes, in place."""
    tensor = tensor.contiguous()
    _communicate(partial(torch.distributed.all_reduce, tensor))
    return tensor


def _communicate(message: Callable[[], Any]) -> None:
    """Send and receive, or say that somebody is not there any more."""
    try:
        message()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "device type cpu" in str(error):
            told = f"the process group has no backend for the processor ({reason}): use 'cpu:gloo,cuda:nccl'."
            raise ParameterError(told) from None
        told = (
            f"another process of this run has ended, or cannot be reached ({reason}). With a checkpoint, the same "
            f"command goes on from the last whole epoch."
        )
        raise LostProcessError(told) from error
