"""Fitted models in one file that runs no code when it is loaded: safetensors for arrays, JSON for the rest.

The header contains the format version, the registry name of the model, its parameters and its results (`HEADER`
specifies each field). The tensors contain the arrays, the answers as int32 codes, the id tables as Arrow bytes, and
what a learner's `_tensors` returns (the state of its network). A checksum detects damage (`_core.checksums`); the
content is validated all the same. In the header, a value that JSON cannot represent is a mapping with one key that
names its kind:

    {"tensor": name}     an array, stored under this name among the tensors
    {"tuple": [...]}     also {"dict": {...}}, or {"items": [[key, value], ...]} where keys are not strings
    {"model": {...}}     a model, or a network such as MLP(), by its name and parameters
    {"fitted": {...}}    a model that another one fitted, with its results
    {"module": class}    a user-defined torch module: its parameters are in the file, its code is not
    {"estimator": {...}} an estimator of scikit-learn, see `estimator_files`
    {"own": {...}}       an object of a user's class, by the class and its attributes: its code is not in the file

A user's class is named `module:class`. Nothing is imported to find it: it must be known already (`_core.own_classes`).

Version 2 added the checksum and the list of tensors, version 3 how long a network was trained. Older
files can still be read.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from crowdwise._core import checksums
from crowdwise._core.atomic_io import atomic_write
from crowdwise._core.json_schema import Field, check
from crowdwise._core.own_classes import home_of, known_class
from crowdwise._core.parameters import is_model
from crowdwise._core.registry import ADAPTERS, MODELS, NETWORKS, load_class, make, methods
from crowdwise.answers import TABLES, Answers
from crowdwise.errors import CrowdwiseError, MissingDependencyError, ModelFileError, ParameterError
from crowdwise.io import estimator_files
from crowdwise.io.id_bytes import ids_from_bytes, ids_to_bytes
from crowdwise.io.result_checks import check_results, expect

VERSION = 3
REMEDY = "Restore it from a backup, or refit the model."
SPEC_FIELDS = {
    "method": Field(str, "a name listed by `methods()`, the name of a public class, or the home of a user's class"),
    "parameters": Field(dict, "constructor arguments by name"),
}
FITTED_FIELDS = {
    **SPEC_FIELDS,
    "scalars": Field(dict, "results by name"),
    "prefix": Field(str, "the prefix of the names of its tensors", needed=False),
    "removed": Field(dict, "the number of rows left out, by reason", needed=False),
    "table": Field(dict, "the kind of the answers and its own fields, unless they are classes", needed=False),
}
HEADER = {
    **FITTED_FIELDS,
    "version": Field(int, "the version of the format"),
    "tensors": Field(dict, "[type, *shape] of each tensor by name", needed=False),
}
_TYPES = {"weight": "float64", "pseudo": "bool"}  # of the columns of the answers; codes are int32
KEY = "crowdwise"  # name of the header in the safetensors metadata
_TABLES = {"task": "task_ids", "worker": "worker_ids", "label": "class_ids"}
_COLUMNS = ("task", "worker", "label", "weight", "pseudo", "truth")
Array = np.ndarray[Any, np.dtype[Any]]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, atomically."""
    writer = _Writer()
    header = {"version": VERSION, **writer.write_fitted(model, "")}
    header["tensors"] = {name: [str(tensor.dtype), *tensor.shape] for name, tensor in writer.tensors.items()}
    with atomic_write(Path(path)) as temporary:
        checksums.write_with_checksum(
            temporary, KEY, header, lambda metadata: save_file(writer.tensors, temporary, metadata=metadata)
        )


def load(path: str | os.PathLike[str], *, network: Any = None) -> Any:
    """Load a model that `save` wrote. It predicts, and continues with `partial_fit`, like the saved model.

    Parameters
    ----------
    path : path
        The file, or the folder written by `crowdwise fit`.
    network : torch.nn.Module, optional
        The network, if the model was fitted with your own module: the file contains its parameters, not its code.

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
    with _damage_errors(reader):
        model = reader.read_model(header)
    if network is not None and not reader.used_network:
        message = f"the model in {os.fspath(path)!r} contains its network: leave out network=."
        raise ParameterError(message)
    return model


def load_answers(path: str | os.PathLike[str]) -> Answers:
    """Load the answers that a saved model was fitted on, without the model; does not need torch."""
    header, tensors = _read(path)
    reader = _Reader(tensors, None, os.fspath(path))
    with _damage_errors(reader):
        return reader.read_answers(header.get("prefix", ""), header["removed"], header.get("table"))


@contextmanager
def _damage_errors(reader: _Reader) -> Iterator[None]:
    """Convert any exception to a ModelFileError that names the file: the file is at fault, whatever fails."""
    try:
        yield
    except (MissingDependencyError, ModelFileError):
        raise
    except Exception as error:  # a constructor may fail on an invalid value in any way
        problem = "is damaged or does not fit this network" if reader.used_network else "is damaged"
        reason = str(error) if isinstance(error, CrowdwiseError) else f"{type(error).__name__} {error}"
        message = f"{reader.path!r} {problem}: {reason}. {REMEDY}"
        raise ModelFileError(message) from error


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the header and tensors of a file."""
    try:
        header = checksums.read_metadata(path, KEY, VERSION)
    except FileNotFoundError:
        message = f"no model file {os.fspath(path)!r}."
        raise ModelFileError(message) from None
    except (OSError, ValueError) as error:
        message = f"{os.fspath(path)!r} is damaged or not a crowdwise model: {error}. {REMEDY}"
        raise ModelFileError(message) from None
    if header is None:
        message = f"{os.fspath(path)!r} is a safetensors file but not a crowdwise model."
        raise ModelFileError(message)
    if (version := header.get("version")) not in range(1, VERSION + 1):
        message = f"{os.fspath(path)!r} has format version {version!r}; upgrade crowdwise, which reads up to {VERSION}."
        raise ModelFileError(message)
    try:
        check(header, HEADER)
        with safe_open(path, framework="numpy") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        message = f"{os.fspath(path)!r} is damaged: {error}. {REMEDY}"
        raise ModelFileError(message) from None
    return header, tensors


class _Writer:
    """Converts models to JSON, and collects their arrays under names that give their place in the model."""

    def __init__(self) -> None:
        self.tensors: dict[str, Array] = {}

    def write_fitted(self, model: Any, prefix: str, outer: Answers | None = None) -> dict[str, Any]:
        """Convert a model with its results, and with its answers unless they are those of the outer model."""
        answers: Answers = model._fitted
        out = {**self.write_spec(model, f"{prefix}parameters"), "prefix": prefix}
        out["scalars"] = {
            name: self.write_value(value, f"{prefix}fitted/{name}", f"{type(model).__name__}.{name}", answers)
            for name, value in vars(model).items()
            if name.endswith("_") and name != "answers_" and not _is_module(value)  # modules are in _tensors
        }
        if answers is not outer:
            out["removed"] = dict(answers.removed)
            for name in _COLUMNS:
                if (column := getattr(answers, name)) is not None:
                    self.add_tensor(f"{prefix}answers/{name}", column)
            for name in _TABLES.values():
                self.add_tensor(f"{prefix}answers/{name}", ids_to_bytes(getattr(answers, name)))
            if answers.kind != Answers.kind:
                own = {name: getattr(answers, name) for name in answers.own_fields}
                out["table"] = {
                    name: self.write_value(value, f"{prefix}answers/{name}", f"{answers.kind}.{name}")
                    for name, value in {"kind": answers.kind, **own}.items()
                }
        for name, tensor in getattr(model, "_tensors", dict)().items():
            if not _is_finite(tensor):
                message = f"{name} of the network of {type(model).__name__} is not finite. Retrain with a lower lr."
                raise ModelFileError(message)
            self.add_tensor(f"{prefix}module/{name}", tensor)
        return out

    def write_spec(self, model: Any, prefix: str) -> dict[str, Any]:
        """Convert the name and parameters of a model."""
        cls = type(model).__name__
        parameters = {
            key: self.write_value(value, f"{prefix}/{key}", f"{cls}({key}=...)")
            for key, value in model.get_params(deep=False).items()
        }
        return {"method": _registry_name(model) or home_of(type(model)), "parameters": parameters}

    def write_value(self, value: Any, place: str, what: str, answers: Answers | None = None) -> Any:
        """Convert any value; `place` names its arrays, `what` names it in errors."""
        if isinstance(value, (enum.Enum, np.generic)):
            value = value.value if isinstance(value, enum.Enum) else value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return {"tensor": self.add_tensor(place, value)}
        if isinstance(value, (list, tuple)):
            parts = [self.write_value(part, f"{place}/{i}", what, answers) for i, part in enumerate(value)]
            return parts if isinstance(value, list) else {"tuple": parts}
        if isinstance(value, Mapping) and not all(isinstance(key, str) for key in value):
            parts = [[key, part] for key, part in value.items()]
            return {"items": [self.write_value(part, f"{place}/{i}", what, answers) for i, part in enumerate(parts)]}
        if isinstance(value, Mapping):
            return {
                "dict": {key: self.write_value(part, f"{place}/{key}", what, answers) for key, part in value.items()}
            }
        if _is_own(value) and not hasattr(type(value), "_fitted"):  # neither a truth model nor a learner
            attributes = self.write_value(vars(value), place, type(value).__name__, answers)["dict"]
            return {"own": {"class": home_of(type(value)), "attributes": attributes}}
        if (plain := estimator_files.to_plain(value)) is not None:
            plain["attributes"] = self.write_value(plain["attributes"], place, type(value).__name__, answers)["dict"]
            return {"estimator": plain}
        if answers is not None and hasattr(value, "answers_"):
            return {"fitted": self.write_fitted(value, f"{place}/", answers)}
        if _registry_name(value) is not None or _is_own(value):
            return {"model": self.write_spec(value, place)}
        if _is_module(value):
            return {"module": type(value).__name__}
        remedy = "leave it out"
        if is_model(value):
            known = "LogisticRegression, GaussianNB, a decision tree or forest, or a pipeline of them"
            remedy = f"use 'logistic', for methods that train networks 'mlp', or {known} of scikit-learn instead"
            if hasattr(value, "transform"):
                remedy = "use a named view such as 'rank' instead"
        elif callable(value):
            remedy = "use a named one such as 'cosine' instead"
        message = (
            f"{what} is {value!r:.80}, which could only be saved with pickle, and loading pickles runs code; {remedy}."
        )
        raise ModelFileError(message)

    def add_tensor(self, place: str, array: Array) -> str:
        """Store an array under a name, and return the name."""
        self.tensors[place] = np.asarray(array, order="C")  # ascontiguousarray would turn a scalar into a vector
        return place


class _Reader:
    """Rebuilds models from what `_Writer` wrote."""

    def __init__(self, tensors: dict[str, Array], network: Any, path: str) -> None:
        self.tensors, self.network, self.path = tensors, network, path
        self.used_network = False  # whether the file needed the user's network

    def read_model(self, header: dict[str, Any]) -> Any:
        """Rebuild the model of a file."""
        listed = header.get("tensors", {})
        expect(
            header["version"] < 2 or listed.keys() == self.tensors.keys(),
            "its tensors do not match the list in its header",
        )
        for name, (kind, *shape) in listed.items():
            tensor = self.tensors[name]
            expect(tensor.shape == tuple(shape) and tensor.dtype == kind, f"tensor {name!r} has changed")
        return self.read_fitted({name: value for name, value in header.items() if name in FITTED_FIELDS})

    def read_fitted(self, saved: dict[str, Any], outer: Answers | None = None) -> Any:
        check(saved, FITTED_FIELDS)
        prefix = saved.get("prefix", "")
        answers = self.read_answers(prefix, saved["removed"], saved.get("table")) if "removed" in saved else outer
        if answers is None:
            message = "it has no answers"
            raise ValueError(message)
        arrays = {name: array for name, array in self.tensors_below(f"{prefix}fitted/").items() if "/" not in name}
        results = {name: self.read_value(value, answers) for name, value in saved["scalars"].items()}
        results = {**arrays, **results}  # files of version 1 may not list arrays among the scalars
        check_results(results, answers)
        model = self.read_spec({name: saved[name] for name in SPEC_FIELDS})
        vars(model).update({**results, "answers_": answers})
        state = self.tensors_below(f"{prefix}module/")
        expect(all(map(_is_finite, state.values())), "a parameter of its network is not finite")
        if hasattr(model, "_restore"):
            model._restore(state)
        return model

    def read_spec(self, saved: dict[str, Any]) -> Any:
        check(saved, SPEC_FIELDS)
        parameters = {key: self.read_value(value) for key, value in saved["parameters"].items()}
        name, classes = saved["method"], MODELS | ADAPTERS
        if name in NETWORKS:
            return load_class(NETWORKS[name])(**parameters)
        if ":" in name:
            return self.own_class(name)(**parameters)
        return load_class(f"{classes[name]}:{name}")(**parameters) if name in classes else make(name, **parameters)

    def read_own(self, saved: dict[str, Any], answers: Answers | None) -> Any:
        cls = self.own_class(saved["class"])
        value: Any = object.__new__(cls)
        vars(value).update(self.read_value({"dict": saved["attributes"]}, answers))
        return value

    def own_class(self, home: str) -> type:
        if known_class(home) is None:
            methods()  # imports those of installed packages
        cls = known_class(home)
        if cls is None:
            module, _, name = home.partition(":")
            message = (
                f"the model in {self.path!r} is a {name} of the module {module}, whose code is not in the file. Import "
                f"it and call crowdwise.register('my-method', {name}) before loading."
            )
            raise ModelFileError(message)
        return cls

    def read_value(self, saved: Any, answers: Answers | None = None) -> Any:
        if isinstance(saved, list):
            return [self.read_value(part, answers) for part in saved]
        if not isinstance(saved, dict):
            return saved
        ((kind, content),) = saved.items()
        if kind == "tensor":
            return self.tensors[content]
        if kind == "tuple":
            return tuple(self.read_value(content, answers))
        if kind == "items":
            return dict(self.read_value(part, answers) for part in content)
        if kind == "dict":
            return {key: self.read_value(part, answers) for key, part in content.items()}
        if kind in ("model", "fitted"):
            return self.read_spec(content) if kind == "model" else self.read_fitted(content, answers)
        if kind == "own":
            return self.read_own(content, answers)
        if kind == "estimator":
            attributes = self.read_value({"dict": content["attributes"]}, answers)
            return estimator_files.from_plain(content["class"], content.get("version"), attributes)
        expect(kind == "module", f"a value of unknown kind {kind!r}")
        if self.network is None:
            message = (
                f"the model in {self.path!r} was fitted with your own torch module ({content}), whose code is not in "
                f"the file. Pass it: crowdwise.load(path, network={content}(...))."
            )
            raise ModelFileError(message)
        self.used_network = True
        return self.network

    def read_answers(self, prefix: str, removed: dict[str, int], saved_table: dict[str, Any] | None) -> Any:
        own = {} if saved_table is None else {name: self.read_value(value) for name, value in saved_table.items()}
        cls = TABLES[own.pop("kind", Answers.kind)]
        expect(own.keys() == set(cls.own_fields), f"the fields of {cls.__name__} are {', '.join(cls.own_fields)}")
        columns: dict[str, Any] = {name: self.tensors.get(f"{prefix}answers/{name}") for name in _COLUMNS}
        tables = {name: ids_from_bytes(self.tensors[f"{prefix}answers/{name}"]) for name in _TABLES.values()}
        sizes = dict.fromkeys(_COLUMNS, len(columns["task"])) | {"truth": len(tables["task_ids"])}
        for name, column in columns.items():  # compiled loops rely on the shapes and types
            expect(column is None or column.shape == (sizes[name],), f"{name} does not have {sizes[name]} entries")
            kind = "float64" if name == "truth" and isinstance(cls.unknown, float) else _TYPES.get(name, "int32")
            expect(column is None or column.dtype == kind, f"{name} of the answers is not of type {kind}")
        coded = _TABLES if isinstance(cls.unknown, float) else {**_TABLES, "truth": "class_ids"}
        for name, table in coded.items():
            codes = np.empty(0) if columns[name] is None else columns[name]
            low, high = codes.min(initial=0), codes.max(initial=-1)
            expect(low >= -(name == "truth") and high < len(tables[table]), f"codes of {name} are out of range")
        place = columns["task"].astype(np.int64) * len(tables["worker_ids"]) + columns["worker"]
        expect(bool((np.diff(place) > 0).all()), "the answers are not sorted, or contain a duplicate")
        weight = columns["weight"]
        expect(
            weight is None or bool((np.isfinite(weight) & (weight >= 0)).all()), "a weight is negative or not finite"
        )
        counts = all(isinstance(why, str) and type(count) is int for why, count in removed.items())
        expect(counts, "the counts of rows left out are not integers")
        answers = cls(**columns, **tables, removed=removed, **own)
        problem = answers.problem()
        expect(problem is None, str(problem))
        return answers

    def tensors_below(self, prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): array for name, array in self.tensors.items() if name.startswith(prefix)}


def _is_finite(tensor: Array) -> bool:
    return tensor.dtype.kind != "f" or bool(np.isfinite(tensor).all())


def _registry_name(model: Any) -> str | None:
    """Return the registry name of a model or network; classes are compared by name, to avoid importing them."""
    named = {method.home: method.name for method in methods()}
    named |= {f"{module}:{name}": name for name, module in (MODELS | ADAPTERS).items()}
    named |= {home: name for name, home in NETWORKS.items()}
    return named.get(home_of(type(model)))


def _is_own(value: Any) -> bool:
    """Return whether a value is a model of a class that only the user has, if it is not in the registry."""
    cls = type(value)
    return hasattr(cls, "_fitted") or (hasattr(cls, "fit") and known_class(home_of(cls)) is cls)


def _is_module(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(
        value, "load_state_dict"
    )  # duck typing, since torch may not be installed
