"""Imports of torch, with an error that says how to install it.

A process that was forked after torch has computed on several threads hangs in torch's next parallel loop: the threads
are gone, but OpenMP waits for them. A forked process therefore computes on one thread. Start processes with "spawn"
(`multiprocessing.get_context("spawn")`) to use more; Crowdwise's own pools do.
"""

from __future__ import annotations

import os

from crowdwise._core.installation import install_command
from crowdwise.errors import MissingDependencyError, ParameterError

try:
    import torch
    import torch.nn.functional as functional
    from torch import Tensor, nn
except ImportError:  # pragma: no cover (the tests have torch)
    message = f"networks need torch. Install it with {install_command('torch')}."
    raise MissingDependencyError(message) from None

if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))

__all__ = ["Tensor", "functional", "nn", "require_device", "torch"]


def require_device(device: str) -> None:
    """Raise ParameterError if the device is not available."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError) as error:
        message = f"device={device!r} is not available ({str(error).splitlines()[0]}). Use 'cpu' or another device."
        raise ParameterError(message) from None
