"""Short hashes of answers, features, models and settings: the same content has the same one, in any process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.learn.features import Features
from crowdwise.learn.features.pictures import Pictures


def digest(*values: Any) -> str:
    """A hash of values of any kind.

    >>> from crowdwise import DawidSkene
    >>> digest(DawidSkene()) == digest(DawidSkene(max_iter=7))
    False
    """
    return hashlib.sha256(json.dumps([_facts(value) for value in values]).encode()).hexdigest()[:32]


def _facts(value: Any) -> Any:
    if isinstance(value, Answers):
        columns = (value.task, value.worker, value.label, value.weight, value.pseudo)
        return [*map(_facts, columns), *(_facts(ids.tolist()) for ids in (value.tasks, value.workers, value.classes))]
    if isinstance(value, Features):
        return _facts(_rows(value))
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


def _rows(features: Features) -> list[Any]:
    """What a hash of features looks at: all of them."""
    array = getattr(features, "array", None)
    if array is None:
        whole = hashlib.sha256()
        if isinstance(features, Pictures):  # files as they are stored, not decoded
            for number in range(features.n_rows):
                whole.update(features.encoded(number))
        else:
            for block in features.blocks():
                whole.update(block.tobytes())
        array = whole.hexdigest()
    return [features.n_rows, features.shape, array]
