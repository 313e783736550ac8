"""Fitted models in one file that executes nothing when it is loaded: safetensors for numbers, JSON for the rest.

The header holds the format's version, the registry name of the model, its parameters and its results (`HEADER` says
what each field must be); the tensors hold the arrays, the answers as int32 codes, the id tables as Arrow bytes, and
what a learner's `_tensors` gives (the state of its network). A checksum shows damage (`sealed`); what a file says is
checked all the same. In the header, what JSON does not know is a mapping with one key that says what it is:

    {"tensor": name}     an array, under this name among the tensors
    {"tuple": [...]}     and {"dict": {...}}, or {"items": [[key, value], ...]} where keys are no strings
    {"model": {...}}     a model, or a network such as MLP(), by its name and parameters
    {"fitted": {...}}    a model that another one fitted, with its results
    {"module": class}    a torch module of the user's: its numbers are here, its code is not

Version 2 has the checksum, and lists its tensors. Files of version 1 are read as they are.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator

from crowdwise._core import checksums
from crowdwise._core.atomic_io import atomic_write
from crowdwise._core.json_schema import Field, check
from crowdwise._core.registry import MODELS, NETWORKS, load_class, make, methods
from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseError, MissingDependencyError, ModelFileError, ParameterError

VERSION = 2
REMEDY = "Restore it from a copy, or fit the model again."
DESCRIBED = {
    "method": Field(str, "a name that `methods()` lists, or the name of a public class"),
    "parameters": Field(dict, "values by the names of constructor arguments"),
}
FITTED = {
    **DESCRIBED,
    "scalars": Field(dict, "results by name"),
    "prefix": Field(str, "what the names of its tensors begin with", needed=False),
    "removed": Field(dict, "numbers of rows left out, by reason", needed=False),
}
HEADER = {
    **FITTED,
    "version": Field(int, "the version of the format"),
    "tensors": Field(dict, "[type, *shape] of each tensor by name", needed=False),
}
SHAPES = {  # of results that others rely on; the rest is a method's own
    "proba_": ("tasks", "classes"),
    "codes_": ("tasks",),
    "confusion_": ("workers", "classes", "classes"),
}
_TYPES = {"weight": "float64", "pseudo": "bool"}  # of columns of the answers; codes are int32
KEY = "crowdwise"  # of the header among the metadata
_TABLES = {"task": "task_ids", "worker": "worker_ids", "label": "class_ids"}
_COLUMNS = ("task", "worker", "label", "weight", "pseudo", "truth")
Array = np.ndarray[Any, np.dtype[Any]]


def save(model: BaseEstimator, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, whole or not at all."""
    writer = _Writer()
    header = {"version": VERSION, **writer.fitted(model, "")}
    header["tensors"] = {name: [str(tensor.dtype), *tensor.shape] for name, tensor in writer.tensors.items()}
    with atomic_write(Path(path)) as beside:
        checksums.write_with_checksum(
            beside, KEY, header, lambda metadata: save_file(writer.tensors, beside, metadata=metadata)
        )


def load(path: str | os.PathLike[str], *, network: Any = None) -> Any:
    """Read a model that `save` wrote; it predicts, and goes on with `partial_fit`, as the one that was saved.

    Parameters
    ----------
    path : path
        The file, or the folder that `crowdwise fit` wrote.
    network : torch.nn.Module, optional
        The network, where the model was fitted with a module of your own: the file holds its numbers, not its code.

    Examples
    --------
    >>> import tempfile, crowdwise as cw
    >>> model = cw.MajorityVote().fit(cw.Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"]))
    >>> file = tempfile.mkdtemp() + "/vote.safetensors"
    >>> model.save(file)
    >>> cw.load(file).labels_.tolist()
    ['x', 'y']
    """
    if Path(path).is_dir():
        path = Path(path) / "model.safetensors"
    header, tensors = _read(path)
    reader = _Reader(tensors, network, os.fspath(path))
    model = _understood(lambda: reader.read_model(header), reader)
    if network is not None and not reader.used:
        message = f"the model in {os.fspath(path)!r} knows its network: leave out network=."
        raise ParameterError(message)
    return model


def load_answers(path: str | os.PathLike[str]) -> Answers:
    """The answers that the model of a file was fitted on, without the model: torch need not be there."""
    header, tensors = _read(path)
    reader = _Reader(tensors, None, os.fspath(path))
    return _understood(lambda: reader.answers(header.get("prefix", ""), header["removed"]), reader)


def _understood(read: Callable[[], Any], reader: _Reader) -> Any:
    """What `read` makes of a file; whatever goes wrong on the way, the file is at fault, and is named."""
    try:
        return read()
    except (MissingDependencyError, ModelFileError):
        raise
    except Exception as error:  # a constructor may stumble over any value in its own way
        why = "is damaged or does not fit this network" if reader.used else "is damaged"
        said = str(error) if isinstance(error, CrowdwiseError) else f"{type(error).__name__} {error}"
        message = f"{reader.path!r} {why}: {said}. {REMEDY}"
        raise ModelFileError(message) from error


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and tensors of a file."""
    try:
        header = checksums.read_metadata(path, KEY, VERSION)
    except FileNotFoundError:
        message = f"no model at {os.fspath(path)!r}."
        raise ModelFileError(message) from None
    except (OSError, ValueError) as error:
        message = f"{os.fspath(path)!r} is damaged or no crowdwise model: {error}. {REMEDY}"
        raise ModelFileError(message) from None
    if header is None:
        message = f"{os.fspath(path)!r} is a safetensors file but no crowdwise model."
        raise ModelFileError(message)
    if (version := header.get("version")) not in range(1, VERSION + 1):
        message = f"{os.fspath(path)!r} has format version {version!r}, this crowdwise reads up to {VERSION}: upgrade."
        raise ModelFileError(message)
    try:
        check(header, HEADER)
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        message = f"{os.fspath(path)!r} is damaged: {error}. {REMEDY}"
        raise ModelFileError(message) from None
    return header, tensors


class _Writer:
    """Models as JSON; their arrays are collected under names that say where they stand."""

    def __init__(self) -> None:
        self.tensors: dict[str, Array] = {}

    def fitted(self, model: Any, prefix: str, around: Answers | None = None) -> dict[str, Any]:
        """A model with its results, and with its answers unless they are those of the model around it."""
        answers: Answers = model._fitted
        out = {**self.described(model, f"{prefix}parameters"), "prefix": prefix}
        out["scalars"] = {
            name: self.value(value, f"{prefix}fitted/{name}", f"{type(model).__name__}.{name}", answers)
            for name, value in vars(model).items()
            if name.endswith("_") and name != "answers_" and not _is_module(value)  # modules are in _tensors
        }
        if answers is not around:
            out["removed"] = dict(answers.removed)
            for name in _COLUMNS:
                if (column := getattr(answers, name)) is not None:
                    self.keep(f"{prefix}answers/{name}", column)
            for name in _TABLES.values():
                self.keep(f"{prefix}answers/{name}", _arrow_bytes(getattr(answers, name)))
        for name, tensor in getattr(model, "_tensors", dict)().items():
            if not _is_finite(tensor):
                message = f"{name} of the network of {type(model).__name__} is no number: train again, with a lower lr."
                raise ModelFileError(message)
            self.keep(f"{prefix}module/{name}", tensor)
        return out

    def described(self, model: BaseEstimator, prefix: str) -> dict[str, Any]:
        """Name and parameters of a model."""
        cls = type(model).__name__
        parameters = {
            key: self.value(value, f"{prefix}/{key}", f"{cls}({key}=...)")
            for key, value in model.get_params(deep=False).items()
        }
        if (name := _name_of(model)) is None:
            message = f"{cls} is no method of crowdwise, and code is not saved: fit a method that `methods()` lists."
            raise ModelFileError(message)
        return {"method": name, "parameters": parameters}

    def value(self, value: Any, place: str, what: str, answers: Answers | None = None) -> Any:
        """Any value; `place` is for its arrays, `what` for errors."""
        if isinstance(value, (enum.Enum, np.generic)):
            value = value.value if isinstance(value, enum.Enum) else value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return {"tensor": self.keep(place, value)}
        if isinstance(value, (list, tuple)):
            parts = [self.value(part, f"{place}/{i}", what, answers) for i, part in enumerate(value)]
            return parts if isinstance(value, list) else {"tuple": parts}
        if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
            parts = [[key, part] for key, part in value.items()]
            return {"items": [self.value(part, f"{place}/{i}", what, answers) for i, part in enumerate(parts)]}
        if isinstance(value, Mapping):
            return {"dict": {key: self.value(part, f"{place}/{key}", what, answers) for key, part in value.items()}}
        if answers is not None and hasattr(value, "answers_"):
            return {"fitted": self.fitted(value, f"{place}/", answers)}
        if _name_of(value) is not None:
            return {"model": self.described(value, place)}
        if _is_module(value):
            return {"module": type(value).__name__}
        remedy = "leave it out"
        if isinstance(value, BaseEstimator):
            remedy = "use 'logistic' or, where networks are trained, 'mlp' in its place"
            if hasattr(value, "transform"):
                remedy = "use a view that has a name, such as 'rank', in its place"
        elif callable(value):
            remedy = "use one that has a name, such as 'cosine', in its place"
        message = f"{what} is {value!r:.80}: only pickle could save it, which runs code when it is loaded; {remedy}."
        raise ModelFileError(message)

    def keep(self, place: str, array: Array) -> str:
        """Keep an array under a name."""
        self.tensors[place] = np.asarray(array, order="C")  # ascontiguousarray would give a single number an axis
        return place


class _Reader:
    """What `_Writer` wrote, as models again."""

    def __init__(self, tensors: dict[str, Array], network: Any, path: str) -> None:
        self.tensors, self.network, self.path = tensors, network, path
        self.used = False  # whether the user's network was called for

    def read_model(self, header: dict[str, Any]) -> Any:
        """The model of a file."""
        listed = header.get("tensors", {})
        _expect(header["version"] < VERSION or listed.keys() == self.tensors.keys(), "its tensors are not those listed")
        for name, (kind, *shape) in listed.items():
            found = self.tensors[name]
            _expect(found.shape == tuple(shape) and found.dtype == kind, f"tensor {name!r} has changed")
        return self.fitted({name: value for name, value in header.items() if name in FITTED})

    def fitted(self, saved: dict[str, Any], around: Answers | None = None) -> Any:
        check(saved, FITTED)
        prefix = saved.get("prefix", "")
        answers = self.answers(prefix, saved["removed"]) if "removed" in saved else around
        if answers is None:
            message = "it has no answers"
            raise ValueError(message)
        arrays = {name: array for name, array in self.below(f"{prefix}fitted/").items() if "/" not in name}
        results = {name: self.value(value, answers) for name, value in saved["scalars"].items()}
        results = {**arrays, **results}  # the first files did not name arrays among the scalars
        _check_results(results, answers)
        model = self.described({name: saved[name] for name in DESCRIBED})
        vars(model).update({**results, "answers_": answers})
        state = self.below(f"{prefix}module/")
        _expect(all(map(_is_finite, state.values())), "a parameter of its network is no number")
        if hasattr(model, "_restore"):
            model._restore(state)
        return model

    def described(self, saved: dict[str, Any]) -> Any:
        check(saved, DESCRIBED)
        parameters = {key: self.value(value) for key, value in saved["parameters"].items()}
        name = saved["method"]
        if name in NETWORKS:
            return load_class(NETWORKS[name])(**parameters)
        return load_class(f"{MODELS[name]}:{name}")(**parameters) if name in MODELS else make(name, **parameters)

    def value(self, saved: Any, answers: Answers | None = None) -> Any:
        if isinstance(saved, list):
            return [self.value(part, answers) for part in saved]
        if not isinstance(saved, dict):
            return saved
        ((kind, content),) = saved.items()
        if kind == "tensor":
            return self.tensors[content]
        if kind == "tuple":
            return tuple(self.value(content, answers))
        if kind == "items":
            return dict(self.value(part, answers) for part in content)
        if kind == "dict":
            return {key: self.value(part, answers) for key, part in content.items()}
        if kind in ("model", "fitted"):
            return self.described(content) if kind == "model" else self.fitted(content, answers)
        _expect(kind == "module", f"a value of unknown kind {kind!r}")
        if self.network is None:
            message = (
                f"the model in {self.path!r} was fitted with a torch module of your own ({content}), whose code is not "
                f"in the file: crowdwise.load(path, network={content}(...))."
            )
            raise ModelFileError(message)
        self.used = True
        return self.network

    def answers(self, prefix: str, removed: dict[str, int]) -> Answers:
        columns: dict[str, Any] = {name: self.tensors.get(f"{prefix}answers/{name}") for name in _COLUMNS}
        tables = {name: _arrow_table(self.tensors[f"{prefix}answers/{name}"]) for name in _TABLES.values()}
        sizes = dict.fromkeys(_COLUMNS, len(columns["task"])) | {"truth": len(tables["task_ids"])}
        for name, column in columns.items():  # compiled loops trust them
            _expect(column is None or column.shape == (sizes[name],), f"{name} does not have {sizes[name]} entries")
            kind = _TYPES.get(name, "int32")
            _expect(column is None or column.dtype == kind, f"{name} of the answers is not of type {kind}")
        for name, table in {**_TABLES, "truth": "class_ids"}.items():
            codes = np.empty(0) if columns[name] is None else columns[name]
            low, high = codes.min(initial=0), codes.max(initial=-1)
            _expect(low >= -(name == "truth") and high < len(tables[table]), f"codes of {name} point nowhere")
        place = columns["task"].astype(np.int64) * len(tables["worker_ids"]) + columns["worker"]
        _expect(bool((np.diff(place) > 0).all()), "the answers are not in order, or one stands there twice")
        weight = columns["weight"]
        _expect(weight is None or bool((np.isfinite(weight) & (weight >= 0)).all()), "a weight is no number from 0 on")
        counts = all(isinstance(why, str) and type(count) is int for why, count in removed.items())
        _expect(counts, "the numbers of rows left out are no numbers")
        return Answers(**columns, **tables, removed=removed)

    def below(self, prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): array for name, array in self.tensors.items() if name.startswith(prefix)}


def _expect(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


def _check_results(results: Mapping[str, Any], answers: Answers) -> None:
    """Refuse results that no fit could have had: what comes after trusts them."""
    sizes = {name: getattr(answers, f"n_{name}") for name in ("tasks", "workers", "classes")}
    for name, value in results.items():
        _expect(name.endswith("_") and not name.startswith("_") and name != "answers_", f"{name!r} is no result")
        if name in SHAPES and value is not None:
            shape = tuple(sizes[axis] for axis in SHAPES[name])
            _expect(isinstance(value, np.ndarray) and value.shape == shape, f"{name} is no array of shape {shape}")
            integral, most = value.dtype.kind == "i", sizes["classes"] - 1 if name == "codes_" else 1 + 1e-6
            _expect(integral == (name == "codes_"), f"{name} holds {value.dtype}")
            inside = bool(((value >= -1e-6) & (value <= most)).all())  # which no NaN is
            _expect(inside, f"{name} holds a value that is no {'class' if integral else 'probability'}")


def _is_finite(tensor: Array) -> bool:
    return tensor.dtype.kind != "f" or bool(np.isfinite(tensor).all())


def _name_of(model: Any) -> str | None:
    """The name by which a model or network is made again; classes are compared by name, to import none of them."""
    cls = type(model)
    home = f"{cls.__module__.removeprefix('crowdwise.')}:{cls.__name__}"
    named = {method.home: method.name for method in methods()}
    named |= {f"{module}:{name}": name for name, module in MODELS.items()}
    named |= {home: name for name, home in NETWORKS.items()}
    return named.get(home)


def _is_module(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")  # torch need not be there


def _arrow_bytes(array: pa.Array) -> np.ndarray:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], names=["id"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def _arrow_table(data: np.ndarray) -> pa.Array:
    with pa.ipc.open_stream(pa.py_buffer(data.tobytes())) as reader:
        ids = reader.read_next_batch().column(0)
    ids.validate(full=True)  # lengths that point outside would be followed in compiled code
    known = ids.type in (pa.int64(), pa.bool_(), pa.string(), pa.large_string())
    _expect(known and ids.null_count == 0, f"a table of ids is of type {ids.type}, or lacks some")
    _expect(len(ids.unique()) == len(ids), "an id stands twice in its table")
    return ids
