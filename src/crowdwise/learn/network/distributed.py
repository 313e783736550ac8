"""Training on several processes: each computes the network for its part of the rows of a batch.

Inside a process group of torch (`torchrun`, `torch.distributed.init_process_group`) every fit of a network is shared by
all processes of the group. Each of them calls `fit` with the same arguments and ends with the same model.

    batch         every process has the tasks and answers of the complete batch, and reads and computes its own rows
    gather_rows   collects the outputs of all processes, so that each has all rows and computes the loss of the batch
    gradients     are averaged. Every process backpropagates the same gradients, but only through its own rows:
                  `gather_rows` multiplies them by the number of processes, so that the average is the sum over rows
    dropout       draws the mask of the complete batch and uses its own rows
    batch norm    uses the moments of all rows

The loss of a method need not be a sum over rows, and it equals that of a single process up to rounding.
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
    """The processes that train together; this process is number `rank` of `size`."""

    rank: int
    size: int

    def part(self, n_rows: int) -> Part:
        """Return the rows of this process among `n_rows`; parts differ by at most one row."""
        cuts = np.linspace(0, n_rows, self.size + 1).astype(np.int64)
        return Part(self.size, slice(int(cuts[self.rank]), int(cuts[self.rank + 1])), n_rows)

    def average(self, tensors: list[Tensor]) -> None:
        """Replace each tensor by its mean over all processes, in one message."""
        if not tensors:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        _all_reduce(flat).div_(self.size)
        for tensor, mean in zip(tensors, torch.split(flat, [tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(mean.view_as(tensor))

    def broadcast_state(self, module: nn.Module) -> None:
        """Copy the parameters and buffers of the first process to all."""
        for value in module.state_dict().values():
            contiguous = value.contiguous()
            _communicate(partial(torch.distributed.broadcast, contiguous, 0))
            value.copy_(contiguous)  # needed only if `value` is not contiguous

    def measure_on_first(self, measure: Callable[[], float]) -> float:
        """Return what the first process measures, so that all processes use the same number."""
        value = torch.tensor([measure() if self.rank == 0 else 0.0], dtype=torch.float64)
        return float(_all_reduce(value))

    def read_on_first(self, read: Callable[[], bytes | None]) -> bytes | None:
        """Return what the first process reads; others may not have the file."""
        content = read() if self.rank == 0 else None
        length = torch.tensor([0 if content is None else len(content) + 1])
        if not (n_bytes := int(_all_reduce(length))):
            return None
        data = torch.zeros(n_bytes - 1, dtype=torch.uint8)
        if content is not None:
            data.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8))
        return _all_reduce(data).numpy().tobytes()

    def require_same_fit(self, fingerprint: str) -> None:
        """Raise ParameterError if another process has another fingerprint (hexadecimal) of data and settings."""
        digests = torch.zeros(self.size, 8, dtype=torch.int64)
        digests[self.rank] = torch.tensor([int(fingerprint[8 * i : 8 * i + 8], 16) for i in range(8)])
        others = (_all_reduce(digests) != digests[self.rank]).any(dim=1).nonzero().flatten().tolist()
        if others:
            message = (
                f"process {self.rank} and process {others[0]} of {self.size} have different data or settings. Every "
                f"process of a group must call fit with the same arguments. To fit in one process, use "
                f"`crowdwise.learn.network.distributed.alone()`."
            )
            raise ParameterError(message)


@dataclass(frozen=True)
class Part:
    """The rows of a batch that belong to this process."""

    size: int  # processes
    rows: slice
    n_rows: int  # in the complete batch

    def gather_rows(self, own: Tensor) -> Tensor:
        """Return the rows of all processes, (models, n_rows, ...), from its own, (models, own rows, ...)."""
        return _GatherRows.apply(own, self)  # type: ignore[no-untyped-call]

    def var_mean(self, x: Tensor, dim: list[int]) -> tuple[Tensor, Tensor, int]:
        """Return variance and mean over these dimensions and all processes, with kept dimensions, and the count."""
        own = 1
        for each in dim:
            own *= x.shape[each]
        n = own * self.n_rows // (self.rows.stop - self.rows.start)
        mean = _SumOverProcesses.apply(x.sum(dim, keepdim=True)) / n  # type: ignore[no-untyped-call]
        return _SumOverProcesses.apply((x - mean).square().sum(dim, keepdim=True)) / n, mean, n  # type: ignore[no-untyped-call]


def current() -> ProcessGroup | None:
    """Return the process group that shares a fit; None if this process fits alone."""
    has_group = torch.distributed.is_available() and torch.distributed.is_initialized()
    if not has_group or _alone.get() or torch.distributed.get_world_size() == 1:
        return None
    return ProcessGroup(torch.distributed.get_rank(), torch.distributed.get_world_size())


@contextmanager
def alone() -> Iterator[None]:
    """Fit in this process alone, even if it belongs to a group.

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
    """Whether this process writes files: it is the first of a group, or fits alone.

    >>> is_first()
    True
    """
    group = current()
    return group is None or group.rank == 0


@contextmanager
def synchronised_layers(module: nn.Module, group: ProcessGroup | None) -> Iterator[Callable[[Part | None], None]]:
    """Yield a function that sets the rows of a batch for the layers that need them: dropout and batch normalisation."""
    if group is None:
        yield lambda part: None
        return
    every = list(module.modules())
    layers: list[BatchNorm | Dropout] = [layer for layer in every if isinstance(layer, BatchNorm)]
    inside = [layer for network in every if isinstance(network, Network) for layer in network.modules()]
    layers += [layer for layer in inside if isinstance(layer, Dropout)]  # dropout elsewhere acts on all answers
    torch_norms: list[Any] = [layer for layer in every if isinstance(layer, nn.modules.batchnorm._BatchNorm)]

    def set_part(part: Part | None) -> None:
        for layer in layers:
            layer.part = part
        for layer in torch_norms:
            layer.forward = lambda x, layer=layer: _normalise(layer, x, part)

    try:
        yield set_part
    finally:
        for layer in layers:
            layer.part = None
        for layer in torch_norms:
            layer.__dict__.pop("forward", None)


def _normalise(layer: Any, x: Tensor, part: Part | None) -> Tensor:
    """Return the output of a batch normalisation of torch for (rows, channels, ...), with moments of all processes."""
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
    """Rows of all processes, as a sum in which each process has zeros for the rows of the others."""

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
    """Sum over processes. Gradients are summed too, as each process uses the sum in its own way."""

    @staticmethod
    def forward(ctx: Any, own: Tensor) -> Tensor:
        return _all_reduce(own.clone())

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> Tensor:
        return _all_reduce(slopes[0].clone())


def _all_reduce(tensor: Tensor) -> Tensor:
    """Sum a tensor over all processes, in place."""
    tensor = tensor.contiguous()
    _communicate(partial(torch.distributed.all_reduce, tensor))
    return tensor


def _communicate(operation: Callable[[], Any]) -> None:
    """Call an operation of torch.distributed; turn its errors into ours."""
    try:
        operation()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        if "device type cpu" in str(error):
            message = f"the process group has no backend for the CPU ({reason}). Use 'cpu:gloo,cuda:nccl'."
            raise ParameterError(message) from None
        message = (
            f"another process of this run has ended or cannot be reached ({reason}). With a checkpoint, rerun the "
            f"command to resume from the last completed epoch."
        )
        raise LostProcessError(message) from error
