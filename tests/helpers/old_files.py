"""Writes small models and a run folder in the current formats, kept in `tests/fixtures` for later versions to read.

python -m tests.helpers.old_files tests/fixtures        # after raising a format version; keep the older fixtures
"""

from __future__ import annotations

import json
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
from safetensors import safe_open

import crowdwise as cw
from crowdwise.learn.network.architectures import MLP
from crowdwise.run import run

NAMES = ["é-1", "=cat", "<b>", "1", "x,y"]
OPTIONS = {"method": ["one-coin", "dawid-skene"], "folds": 2, "budget": 5}
ENDS = (".csv", ".json", ".parquet", ".safetensors")


def answers(n_tasks: int = 24) -> cw.Answers:
    """Return simulated answers with ids that are hard to write."""
    made = cw.simulate.simulate(n_tasks, n_workers=5, n_classes=2, answers_per_task=3, seed=5)
    workers = [NAMES[w] for w in made.worker]
    return cw.Answers.from_arrays(made.task, workers, [["ja", "=nein"][c] for c in made.label])


def model() -> Any:
    """Return a fitted truth model with an array parameter."""
    prior = np.array([[2.0, 0.5], [0.5, 2.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cw.DawidSkene(prior=prior, max_iter=9).fit(answers(), gold={0: "ja"})


def learner() -> Any:
    """Return a fitted learner with a truth model and a network."""
    X = np.random.default_rng(0).normal(size=(24, 3)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cw.Aggregated(cw.OneCoin(max_iter=5), network=MLP((4,)), epochs=1).fit(X, answers())


def write_all(folder: Path, model_version: int, run_version: int) -> None:
    """Write all files, named by the versions of their formats."""
    model().save(folder / f"model_v{model_version}.safetensors")
    learner().save(folder / f"learner_v{model_version}.safetensors")
    place = folder / f"run_v{run_version}"
    shutil.rmtree(place, ignore_errors=True)
    made = run(answers(), place, texts=[f"text {t}" for t in range(24)], encode=False, **OPTIONS)
    for file in ("report.html", "times.json"):  # large, never the same, and not read back
        (made.path / file).unlink(missing_ok=True)


def structure(path: Path) -> Any:
    """Return the structure of a file or folder without its values: names, types, columns."""
    if path.is_dir():
        return {each.name: structure(each) for each in sorted(path.iterdir()) if each.suffix in ENDS}
    if path.suffix == ".json":
        return _kinds(json.loads(path.read_text("utf-8")))
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path).column_names
    if path.suffix == ".parquet":
        return [f"{field.name}: {field.type}" for field in pq.read_schema(path)]
    with safe_open(path, framework="numpy") as file:
        tensors = {name: [str(file.get_tensor(name).dtype), file.get_tensor(name).ndim] for name in file.keys()}  # noqa: SIM118
        return {"header": _kinds(json.loads(file.metadata()["crowdwise"])), "tensors": tensors}


def _kinds(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _kinds(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_kinds(part) for part in value[:1]]
    return "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__


if __name__ == "__main__":
    from crowdwise.io.model_files import VERSION
    from crowdwise.run.stored_files import FORMAT

    write_all(Path(sys.argv[1]), VERSION, FORMAT)
