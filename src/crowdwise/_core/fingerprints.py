"""Short hashes of answers, features, models and settings: equal content has equal fingerprints, in any process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def fingerprint(*values: Any) -> str:
    """A hash of values of any kind.

    >>> from crowdwise import DawidSkene
    >>> fingerprint(DawidSkene()) == fingerprint(DawidSkene(max_iter=7))
    False
    """
    return hashlib.sha256(json.dumps([_facts(value) for value in values]).encode()).hexdigest()[:32]


def _facts(value: Any) -> Any:
    if hasattr(value, "_content"):  # answers and features list what they hold
        return _content(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()]
    if isinstance(value, Mapping):
        return {"dict": [[_facts(key), _facts(part)] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(_facts, value)]
    if isinstance(value, np.ndarray):
        return _facts(value.tolist())
    if hasattr(value, "get_params"):
        return [_home(type(value)), _facts(value.get_params(deep=False))]
    if hasattr(value, "state_dict"):  # a torch module of the user's, with its weights
        return [repr(value), [[name, _facts(part.numpy(force=True))] for name, part in value.state_dict().items()]]
    if callable(value) and hasattr(value, "__qualname__"):
        return _home(value)
    return repr(value)  # where this tells where a thing lies in memory, it differs next time, and the fit is done anew


def _home(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"


def _content(value: Any) -> list[Any]:
    return [_facts(part) for part in value._content()]
