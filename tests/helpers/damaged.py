"""Damage and forge saved models of every method. A forged file has a valid checksum.

`tests/io/test_damaged_models.py` tries a few cases, `benchmarks/damaged_files.py` many.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from safetensors.numpy import load_file, save_file

import crowdwise as cw
from crowdwise._core import checksums
from crowdwise._core.registry import methods
from crowdwise.errors import CrowdwiseError
from crowdwise.io.model_files import KEY, VERSION

FEW = {
    "epochs": 1, "max_iter": 2, "batch_size": 32, "weight_epochs": 1, "rounds": 1, "iterations": 1, "warmup_epochs": 1,
    "decoder_epochs": 1, "generator_epochs": 1, "discriminator_epochs": 1, "adversarial_epochs": 1, "steps": 1,
}  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 0, 10**30, 1e400, float("nan"), "", "no-such", "__class__", [], {}, [[]], {"tensor": "no"}, "\0",
    {"model": {}}, {"fitted": {}}, {"module": "os.system"}, {"tuple": 3}, {"dict": []}, {"a": 1, "b": 2}, {"pickle": 1},
]  # fmt: skip


def crowd() -> tuple[np.ndarray, cw.Answers]:
    """Return features (30, 4) of tasks, and answers to them."""
    answers = cw.simulate.simulate(30, n_workers=5, n_classes=3, answers_per_task=3, seed=1)
    X = np.random.default_rng(0).normal(size=(30, 4)) + 2 * np.eye(3, 4)[answers.truth]
    return X, answers


def fit_method(name: str) -> Any:
    """Return a registered method, fitted with few iterations."""
    X, answers = crowd()
    model = cw.make(name)
    if isinstance(getattr(model, "base", None), str):
        model.set_params(base=cw.make(model.base))
    parameters = model.get_params()
    model.set_params(**{k: v for k, v in FEW.items() if k in parameters})
    model.set_params(**{f"base__{k}": v for k, v in FEW.items() if f"base__{k}" in parameters})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        needs = next(method for method in methods() if method.name == name).needs_features
        gold = answers.truth if getattr(model, "needs_gold", False) else None
        if model.answer_kind == "ratings":
            answers = cw.Ratings.from_frame(answers.to_arrow())
        elif model.answer_kind == "comparisons":
            answers = cw.simulate.comparisons(n_items=5, n_workers=4, n_comparisons=40, ties=0.5)
        return model.fit(X, answers) if needs else model.fit(answers, gold)


def predictions(model: Any) -> list[np.ndarray]:
    """Return all predictions of a model."""
    X, _ = crowd()
    return [model.proba_, *([model.predict_proba(X)] if hasattr(model, "predict_proba") else [])]


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """Flip bits, truncate, or delete, repeat or append bytes; half of the time in the header."""
    data = bytearray(content)
    length = min(8 + int.from_bytes(content[:8], "little"), len(content))
    within = length if rng.random() < 0.5 else len(data)
    kind = rng.integers(8)
    first, last = sorted(rng.integers(within, size=2).tolist())
    if kind < 4:
        for bit in rng.integers(8 * within, size=rng.integers(1, 4)).tolist():
            data[bit // 8] ^= 1 << bit % 8
    elif kind == 4:
        del data[first:]
    elif kind == 5:
        del data[first:last]
    elif kind == 6:
        data[first:first] = data[first:last]
    else:
        data[:8] = int(rng.integers(2**63)).to_bytes(8, "little") if rng.random() < 0.5 else data[:8]
        data += bytes(rng.integers(0, 256, size=rng.integers(1, 40), dtype=np.uint8))
    return bytes(data)


def write_forged(file: Path, target: Path, rng: np.random.Generator) -> None:
    """Write the file with a changed header or tensor, and a valid checksum."""
    tensors = load_file(file)
    metadata = checksums.read_metadata(file, KEY, VERSION)
    if rng.random() < 0.6:
        metadata = json.loads(json.dumps(metadata))
        found = list(places(metadata))
        container, key = found[rng.integers(len(found))]
        if isinstance(container, dict) and rng.random() < 0.2:
            container[f"{key}x"] = container.pop(key)
        else:
            container[key] = VALUES[rng.integers(len(VALUES))]
    else:
        _change(tensors, rng)
        if rng.random() < 0.7 and "tensors" in metadata:
            metadata["tensors"] = {name: [str(tensor.dtype), *tensor.shape] for name, tensor in tensors.items()}
    checksums.write_with_checksum(target, KEY, metadata, lambda header: save_file(tensors, target, metadata=header))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every place in a JSON value, as its container and key."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(part, (dict, list)):
            yield from places(part)


def compressed(ids: np.ndarray) -> np.ndarray:
    """Return the bytes of an id table, compressed: it could unpack to any size."""
    with pa.ipc.open_stream(ids.tobytes()) as reader:
        table = reader.read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _change(tensors: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """Swap, remove or add a tensor, change its values, shape or type, or compress it."""
    names = sorted(tensors)
    name, other = (names[i] for i in rng.integers(len(names), size=2))
    array = tensors[name].copy()
    kind = rng.integers(8)
    if kind == 0:
        tensors[name], tensors[other] = tensors[other], tensors[name]
    elif kind == 1:
        del tensors[name]
    elif kind == 2:
        tensors[f"{name}/more"] = array
    elif kind == 3:
        tensors[name] = np.ascontiguousarray(array.reshape(-1)[: max(array.size - 1, 0)])
    elif kind == 4:
        tensors[name] = array.astype([np.float32, np.int64, np.uint8, np.float64, np.bool_][rng.integers(5)])
    elif kind == 7 and name.endswith("_ids"):
        tensors[name] = compressed(array)
    elif array.size:
        at = np.unravel_index(rng.integers(array.size), array.shape)
        array[at] = np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1
        tensors[name] = array


def outcome(file: Path, expected: list[np.ndarray] | None) -> str:
    """Load a file and return the outcome; one that starts with FAULT is a bug. `expected` are the right predictions."""
    try:
        model = cw.load(file)
        predicted = None if expected is None else predictions(model)
    except CrowdwiseError as error:
        return "refused" if str(file) in str(error) else f"FAULT: the file is not named: {error}"
    except BaseException as error:
        return f"FAULT: {type(error).__name__}: {error}"
    if expected is None:
        return "loaded"
    same = len(expected) == len(predicted) and all(map(np.array_equal, expected, predicted))
    return "the same" if same else "FAULT: silently another model"


def attack(name: str, folder: Path, n_damaged: int, n_forged: int, seed: int) -> Counter[str]:
    """Damage and forge a saved model of one method, and count the outcomes."""
    model = fit_method(name)
    good, bad = folder / f"{name}.safetensors", folder / f"{name}-changed.safetensors"
    model.save(good)
    expected, content, rng = predictions(model), good.read_bytes(), np.random.default_rng(seed)
    count: Counter[str] = Counter()
    for _ in range(n_damaged):
        bad.write_bytes(damage(content, rng))
        count[f"damaged: {outcome(bad, expected)}"] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a forged parameter may cause one
        for _ in range(n_forged):
            write_forged(good, bad, rng)
            count[f"forged: {outcome(bad, None)}"] += 1
    return count
