"""Fuzz targets for other inputs: tables of Python, numpy, pandas and polars, feature files, and run folders.

As in `fuzz_targets`, each target returns "right" or the name of a crowdwise error, or fails.
"""

from __future__ import annotations

import io
import json
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise import Answers
from crowdwise._core.checksums import CHECKSUM_KEY
from crowdwise.errors import CrowdwiseError
from crowdwise.learn.features.sources import open_features
from crowdwise.report.page import render
from crowdwise.run.comparison import compare
from crowdwise.run.folder import Run
from crowdwise.run.stored_files import CONFIG, METRICS, _json_checksum, seal_metrics
from tests.helpers.damaged import VALUES, places
from tests.helpers.fuzz_documents import INTEGERS, TEXTS, random_answers
from tests.helpers.fuzz_targets import ODD_VALUES, answer_rows, check_answers, mutate

ANSWERS = Answers.from_arrays(["a", "b", "c"], ["w", "w", "v"], ["x", "y", "x"])
NUMBERS = (0.0, 1.0, -2.5, 3e38, 1e-40, 7.0, 0.1)


def frame_intact(draw: Random, folder: Path) -> str:
    """Answers survive conversion to a table of any library."""
    rows = random_answers(draw)
    task, worker, label = map(list, zip(*rows, strict=True))
    columns = {"task": task, "worker": worker, "label": label}
    kind = draw.choice(("dict", "arrow", "pandas", "polars", "numpy", "arrays"))
    if kind == "arrays":
        answers = Answers.from_arrays(task, worker, label, as_classes=True)
    else:
        answers = Answers.from_frame(_as_frame(columns, kind), as_classes=True)
    check_answers(answers)
    assert answer_rows(answers) == sorted(rows, key=repr)
    return "right"


def _as_frame(columns: dict[str, list[Any]], kind: str) -> Any:
    if kind == "arrow":
        return pa.table(columns)
    if kind == "pandas":
        import pandas as pd

        return pd.DataFrame(columns)
    if kind == "polars":
        import polars as pl

        return pl.DataFrame(columns)
    return {name: np.array(values) for name, values in columns.items()} if kind == "numpy" else columns


def frame_odd(draw: Random, folder: Path) -> str:
    """A table with arbitrary values gives valid answers or is rejected."""
    size = draw.randint(0, 4)
    pools = [
        draw.choice((TEXTS, INTEGERS, ODD_VALUES, (1.0, float("nan"), 2.0**63, 2.5), (b"x", b"\xff"))) for _ in range(3)
    ]
    columns = {
        n: [draw.choice(pool) for _ in range(size)] for n, pool in zip(("task", "worker", "label"), pools, strict=True)
    }
    for name in ("weight", "truth", "pseudo"):
        if draw.random() < 0.3:
            columns[name] = [draw.choice(draw.choice((ODD_VALUES, (0, 1, 0.5), TEXTS))) for _ in range(size)]
    if draw.random() < 0.1:
        columns["task"] = columns["task"][:-1]
    options = {"duplicates": draw.choice(("error", "first", "last", "vote")), "nulls": draw.choice(("error", "drop"))}
    if draw.random() < 0.2:
        options["classes"] = draw.choice((["a"], [], [1, 1], [None], columns["label"]))
    try:
        if draw.random() < 0.2:
            table = [[draw.choice(pools[0]) for _ in range(size)] for _ in range(size)]
            answers = Answers.from_wide(np.array(table, dtype=object), **options)
        else:
            answers = Answers.from_frame(columns, **options)
    except CrowdwiseError as error:
        return type(error).__name__
    check_answers(answers)
    return "right"


def features_intact(draw: Random, folder: Path) -> str:
    """Features are read from a file in the order of the tasks."""
    width, order = draw.randint(1, 4), draw.sample(range(4), 4)
    wanted = np.array(
        [[draw.choice(NUMBERS) for _ in range(width)] for _ in range(4)], np.float32
    )  # (tasks + 1, width)
    file = folder / draw.choice(("X.csv", "X.tsv", "X.csv.gz", "X.parquet", "X.npy", "X.npz"))
    file.write_bytes(_features(file.name, wanted, order, draw))
    found = open_features(file, ANSWERS).matrix()
    assert np.array_equal(found, wanted[:3]), f"read {found}, but {wanted[:3]} was written"
    return "right"


def features_damaged(draw: Random, folder: Path) -> str:
    """Damaged features are rejected, or are finite numbers of the right shape."""
    wanted = np.array([[draw.choice(NUMBERS) for _ in range(2)] for _ in range(4)], np.float32)
    file = folder / draw.choice(("X.csv", "X.tsv", "X.csv.gz", "X.parquet", "X.npy", "X.npz"))
    file.write_bytes(bytes(mutate(bytearray(_features(file.name, wanted, list(range(4)), draw)), draw)))
    try:
        features = open_features(file, ANSWERS)
        found = features.matrix()
    except CrowdwiseError as error:
        assert str(file) in str(error) or "X has" in str(error) or "row" in str(error), (
            f"the file is not named: {error}"
        )
        return type(error).__name__
    assert len(found) == 3
    assert np.isfinite(found).all()
    return "right"


def _features(name: str, matrix: np.ndarray, order: list[int], draw: Random) -> bytes:
    import gzip

    out, ids = io.BytesIO(), ["a", "b", "c", "unanswered"]
    if name == "X.npy":
        np.save(out, matrix[:3])
    elif name == "X.npz":
        (np.savez_compressed if draw.random() < 0.5 else np.savez)(out, **{draw.choice(("X", "features")): matrix[:3]})
    elif name == "X.parquet":
        columns = {f"f{i}": matrix[order, i] for i in range(matrix.shape[1])}
        pq.write_table(pa.table({"task": [ids[i] for i in order], **columns}), out)
    else:
        mark = "\t" if name == "X.tsv" else ","
        lines = [["task", *(f"f{i}" for i in range(matrix.shape[1]))]]
        lines += [[ids[i], *(repr(float(v)) for v in matrix[i])] for i in order]
        text = "\n".join(mark.join(line) for line in lines).encode()
        return gzip.compress(text, 1, mtime=0) if name.endswith("gz") else text
    return out.getvalue()


@cache
def finished_run() -> dict[str, bytes]:
    """Return the files of a finished run of a few answers; computed once."""
    from crowdwise import simulate
    from crowdwise.run import run

    with tempfile.TemporaryDirectory() as folder:
        answers = simulate.simulate(n_tasks=12, n_workers=4, n_classes=2, seed=0)
        done = run(answers, Path(folder) / "run", method="majority-vote")
        return {file.name: file.read_bytes() for file in sorted(done.path.iterdir()) if file.is_file()}


def run_damaged(draw: Random, folder: Path) -> str:
    """A run folder with one damaged file is rejected or read."""
    intact, where = finished_run(), folder / "run"
    where.mkdir(exist_ok=True)
    hit = draw.choice([name for name in intact if name.endswith((".json", ".csv", ".parquet", ".safetensors"))])
    for name, data in intact.items():
        (where / name).write_bytes(bytes(mutate(bytearray(data), draw)) if name == hit else data)
    try:
        run = Run(where)
        for part in ("config", "metrics", "answers", "labels", "workers", "tasks", "next", "model", "proba"):
            getattr(run, part)
        run.feedback(run.answers.workers[0])
    except CrowdwiseError as error:
        return type(error).__name__
    return "right"


def run_forged(draw: Random, folder: Path) -> str:
    """A run folder with a changed value, or more rows, and right checksums is rejected by its name or shown."""
    where = folder / "run"
    where.mkdir(exist_ok=True)
    for name, data in finished_run().items():
        (where / name).write_bytes(data)
    metrics = json.loads((where / METRICS).read_bytes())
    kind = draw.random()
    if kind < 0.1:
        labels = pq.read_table(where / "labels.parquet")
        labels = pa.concat_tables([labels] * draw.choice((1, 1, 0, 10_000)))
        text = pa.DictionaryArray.from_arrays(np.zeros(len(labels), np.int8), ["x" * draw.choice((1, 10**7))])
        pq.write_table(
            labels.append_column("text", text), where / "labels.parquet", compression="zstd", store_schema=False
        )
    elif kind < 0.3:
        config = json.loads((where / CONFIG).read_bytes())
        forge_value(config, draw)
        (where / CONFIG).write_text(json.dumps(config))
    else:
        forge_value(metrics, draw)
    (where / METRICS).write_text(json.dumps(resealed(metrics, where)))
    try:
        run = Run(where)
        render(run)
        str(compare(run, run))
        run.feedback(run.answers.workers[0])
    except CrowdwiseError as error:
        assert str(where) in str(error), f"the folder is not named: {error}"
        return type(error).__name__
    return "right"


def forge_value(content: dict[str, Any], draw: Random) -> None:
    """Change or remove one value somewhere in a JSON object."""
    container, key = draw.choice(list(places(content)))
    if draw.random() < 0.25:
        del container[key]
    else:
        container[key] = draw.choice(VALUES)


def resealed(metrics: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the content of metrics.json with the checksums of the files as they are now."""
    content = {name: part for name, part in metrics.items() if name != CHECKSUM_KEY}
    content["files"] = seal_metrics({}, folder)["files"]
    return {**content, CHECKSUM_KEY: _json_checksum(content)}
