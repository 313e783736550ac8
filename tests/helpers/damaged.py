"""Saved models of every registered kind, and what can happen to a file: damage, and changes with a checksum that fits.

`tests/test_damage.py` does a little of it, `benchmarks/damaged_files.py` much.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
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
    """Features (30, 4) of tasks, and answers to them."""
    answers = cw.simulate.simulate(30, n_workers=5, n_classes=3, answers_per_task=3, seed=1)
    X = np.random.default_rng(0).normal(size=(30, 4)) + 2 * np.eye(3, 4)[answers.truth]
    return X, answers


def fitted(name: str) -> Any:
    """A registered method with little to do, fitted."""
    X, answers = crowd()
    model = cw.make(name)
    if isinstance(getattr(model, "base", None), str):
        model.set_params(base=cw.make(model.base))
    known = model.get_params()
    model.set_params(**{k: v for k, v in FEW.items() if k in known})
    model.set_params(**{f"base__{k}": v for k, v in FEW.items() if f"base__{k}" in known})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        needs = next(each for each in methods() if each.name == name).needs_features
        gold = answers.truth if getattr(model, "needs_gold", False) else None
        return model.fit(X, answers) if needs else model.fit(answers, gold)


def says(model: Any) -> list[np.ndarray]:
    """All that a model predicts."""
    X, _ = crowd()
    return [model.proba_, *([model.predict_proba(X)] if hasattr(model, "predict_proba") else [])]


def damage(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with bits flipped, half of the time in its header, or cut, or with bytes lost, doubled or added."""
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


def forged(file: Path, target: Path, rng: np.random.Generator) -> None:
    """The same file with a value of its header or a tensor changed, and a checksum that fits."""
    tensors = load_file(file)
    facts = checksums.read_metadata(file, KEY, VERSION)
    if rng.random() < 0.6:
        facts = json.loads(json.dumps(facts))
        places = list(_places(facts))
        holder, key = places[rng.integers(len(places))]
        if isinstance(holder, dict) and rng.random() < 0.2:
            holder[f"{key}x"] = holder.pop(key)
        else:
            holder[key] = VALUES[rng.integers(len(VALUES))]
    else:
        _change(tensors, rng)
        if rng.random() < 0.7 and "tensors" in facts:
            facts["tensors"] = {name: [str(each.dtype), *each.shape] for name, each in tensors.items()}
    checksums.write_with_checksum(target, KEY, facts, lambda metadata: save_file(tensors, target, metadata=metadata))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a JSON value, as what holds it and the key there."""
    for key, part in value.items() if isinstance(value, dict) else enumerate(value):
        yield value, key
        if isinstance(part, (dict, list)):
            yield from _places(part)


def _change(tensors: dict[str, np.ndarray], rng: np.random.Generator) -> None:
    """One tensor swapped with another, taken out, added, or with other values, another shape or type."""
    names = sorted(tensors)
    name, other = (names[i] for i in rng.integers(len(names), size=2))
    array = tensors[name].copy()
    kind = rng.integers(7)
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
    elif array.size:
        at = np.unravel_index(rng.integers(array.size), array.shape)
        array[at] = np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1
        tensors[name] = array


def outcome(file: Path, told: list[np.ndarray] | None) -> str:
    """What loading a file comes to; anything but these words is a fault. `told` are the predictions there should be."""
    try:
        model = cw.load(file)
        found = None if told is None else says(model)
    except CrowdwiseError as error:
        return "refused" if str(file) in str(error) else f"FAULT: the file is not named: {error}"
    except BaseException as error:
        return f"FAULT: {type(error).__name__}: {error}"
    if told is None:
        return "loaded"
    same = len(told) == len(found) and all(map(np.array_equal, told, found))
    return "the same" if same else "FAULT: silently another model"


def attacked(name: str, folder: Path, n_damaged: int, n_forged: int, seed: int) -> Counter[str]:
    """Outcomes by kind of attack on a saved model of one registered kind."""
    model = fitted(name)
    good, bad = folder / f"{name}.safetensors", folder / f"{name}-changed.safetensors"
    model.save(good)
    told, content, rng = says(model), good.read_bytes(), np.random.default_rng(seed)
    count: Counter[str] = Counter()
    for _ in range(n_damaged):
        bad.write_bytes(damage(content, rng))
        count[f"damaged: {outcome(bad, told)}"] += 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a forged parameter may be worth one
        for _ in range(n_forged):
            forged(good, bad, rng)
            count[f"forged: {outcome(bad, None)}"] += 1
    return count
