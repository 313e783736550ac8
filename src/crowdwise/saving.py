"""Fitted models in one file that executes nothing when it is loaded: safetensors for numbers, JSON for the rest.

The header holds the format's version, the registry name of the model, its parameters and its scalar results; the
tensors hold the arrays, the answers as int32 codes, and the id tables as Arrow bytes.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator

from crowdwise.answers import Answers
from crowdwise.errors import ModelFileError
from crowdwise.registry import make, methods

VERSION = 1
_TABLES = ("task_ids", "worker_ids", "class_ids")
_COLUMNS = ("task", "worker", "label", "weight", "pseudo", "truth")


def save(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, whole or not at all."""
    tensors: dict[str, np.ndarray] = {}
    answers: Answers = model._fitted
    scalars = {}
    for name, value in vars(model).items():
        if not name.endswith("_") or name == "answers_":
            continue
        if isinstance(value, np.ndarray):
            tensors[f"fitted/{name}"] = np.ascontiguousarray(value)
        else:
            scalars[name] = value
    for name in _COLUMNS:
        if (column := getattr(answers, name)) is not None:
            tensors[f"answers/{name}"] = np.ascontiguousarray(column)
    for name in _TABLES:
        tensors[f"answers/{name}"] = _arrow_bytes(getattr(answers, name))
    described = _describe(model, "parameters", tensors)
    header: dict[str, Any] = {"version": VERSION, **described, "scalars": scalars, "removed": dict(answers.removed)}
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        save_file(tensors, partial, metadata={"crowdwise": json.dumps(header)})
        partial.replace(target)
    except (OSError, SafetensorError) as error:
        message = f"{os.fspath(path)!r} cannot be written: {error}"
        raise ModelFileError(message) from None
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; it predicts, and goes on with `partial_fit`, as the one that was saved.

    >>> import tempfile, crowdwise as cw
    >>> model = cw.MajorityVote().fit(cw.Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"]))
    >>> file = tempfile.mkdtemp() + "/vote.safetensors"
    >>> model.save(file)
    >>> cw.load(file).labels_.tolist()
    ['x', 'y']
    """
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {}).get("crowdwise", "null"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except FileNotFoundError:
        message = f"no model at {os.fspath(path)!r}."
        raise ModelFileError(message) from None
    except (SafetensorError, OSError, ValueError) as error:
        message = f"{os.fspath(path)!r} is damaged or no crowdwise model: {error}"
        raise ModelFileError(message) from None
    if not isinstance(header, dict):
        message = f"{os.fspath(path)!r} is a safetensors file but no crowdwise model."
        raise ModelFileError(message)
    if header.get("version") != VERSION:
        found = header.get("version")
        message = f"{os.fspath(path)!r} has format version {found!r}, this crowdwise reads {VERSION}: upgrade."
        raise ModelFileError(message)
    try:
        model = _rebuild(header, tensors)
        fields = {name: tensors.get(f"answers/{name}") for name in _COLUMNS}
        tables = {name: _arrow_table(tensors[f"answers/{name}"]) for name in _TABLES}
        model.answers_ = Answers(**fields, **tables, removed=header["removed"])  # type: ignore[arg-type]
        vars(model).update(header["scalars"])
        fitted = {n.removeprefix("fitted/"): t for n, t in tensors.items() if n.startswith("fitted/")}
        vars(model).update(fitted)
    except (KeyError, TypeError, AttributeError, ValueError, pa.ArrowInvalid) as error:
        message = f"{os.fspath(path)!r} is damaged: {type(error).__name__} {error}"
        raise ModelFileError(message) from None
    return model


def _describe(model: BaseEstimator, prefix: str, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """Registry name and parameters; arrays among them go to the tensors, models are described in turn."""
    home = f"{type(model).__module__.removeprefix('crowdwise.')}:{type(model).__name__}"
    name = next(m.name for m in methods() if m.home == home)
    parameters: dict[str, Any] = {}
    for key, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray):
            tensors[f"{prefix}/{key}"] = np.ascontiguousarray(value)
            parameters[key] = {"tensor": f"{prefix}/{key}"}
        elif isinstance(value, BaseEstimator):
            parameters[key] = {"model": _describe(value, f"{prefix}/{key}", tensors)}
        elif isinstance(value, tuple):
            parameters[key] = {"tuple": value}
        else:
            parameters[key] = value.item() if isinstance(value, np.generic) else value
    return {"method": name, "parameters": parameters}


def _rebuild(described: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    parameters = {}
    for key, value in described["parameters"].items():
        if isinstance(value, dict) and "tensor" in value:
            value = tensors[value["tensor"]]
        elif isinstance(value, dict) and "model" in value:
            value = _rebuild(value["model"], tensors)
        elif isinstance(value, dict) and "tuple" in value:
            value = tuple(value["tuple"])
        parameters[key] = value
    return make(described["method"], **parameters)


def _arrow_bytes(array: pa.Array) -> np.ndarray:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], names=["id"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def _arrow_table(data: np.ndarray) -> pa.Array:
    with pa.ipc.open_stream(pa.py_buffer(data.tobytes())) as reader:
        return reader.read_next_batch().column(0)
