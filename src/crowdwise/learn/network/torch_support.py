"""torch, or an error that says how to get it."""

from __future__ import annotations

from crowdwise.errors import MissingDependencyError

try:
    import torch
    import torch.nn.functional as functional
    from torch import Tensor, nn
except ImportError:  # pragma: no cover (torch is there in the tests)
    message = "networks need torch: pip install 'crowdwise[torch]'."
    raise MissingDependencyError(message) from None

__all__ = ["Tensor", "functional", "nn", "torch"]
