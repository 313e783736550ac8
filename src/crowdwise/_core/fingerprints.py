"""Short hashes of answers, features, models and settings: equal content has equal fingerprints, in any process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def fingerprint(*values: Any) -> str:
    """Return a hash of values of any type.

    >>> from crowdwise import DawidSkene
    >>> fingerprint(DawidSkene()) == fingerprint(DawidSkene(max_iter=7))
    False
    """
    return hashlib.sha256(json.dumps([_to_json(value) for value in values]).encode()).hexdigest()[:32]


def _to_json(value: Any) -> Any:
    """Return a JSON value that identifies the content; arrays are represented by their hash."""
    if hasattr(value, "_content"):  # answers and features list their own content
        return [_to_json(part) for part in value._content()]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [str(value.dtype), value.shape, hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()]
    if isinstance(value, Mapping):
        return {"dict": [[_to_json(key), _to_json(part)] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(_to_json, value)]
    if isinstance(value, np.ndarray):
        return _to_json(value.tolist())
    if hasattr(value, "get_params"):
        return [_qualified_name(type(value)), _to_json(value.get_params(deep=False))]
    if hasattr(value, "state_dict"):  # a torch module passed by the user, with its weights
        return [repr(value), [[name, _to_json(part.numpy(force=True))] for name, part in value.state_dict().items()]]
    if hasattr(value, "fit") and hasattr(value, "__dict__") and not isinstance(value, type):  # a user's model
        return [_qualified_name(type(value)), _to_json(vars(value))]
    if callable(value) and hasattr(value, "__qualname__"):
        return _qualified_name(value)
    return repr(value)  # a repr with a memory address differs in the next process: the fit is then simply repeated


def _qualified_name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
