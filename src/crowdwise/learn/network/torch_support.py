"""Imports of torch, with an error that says how to install it."""

from __future__ import annotations

from crowdwise.errors import MissingDependencyError

try:
    import torch
    import torch.nn.functional as functional
    from torch import Tensor, nn
except ImportError:  # pragma: no cover (the tests have torch)
    message = "networks need torch. Install it with pip install 'crowdwise[torch]'."
    raise MissingDependencyError(message) from None

__all__ = ["Tensor", "functional", "nn", "torch"]
