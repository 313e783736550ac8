"""What else a user may hand over: tables of Python, numpy, pandas and polars, features in files, and folders of runs.

As in `fuzz_targets`, each judge says how it went ("right" or the name of one of our errors), or fails.
"""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise import Answers
from crowdwise.errors import CrowdwiseError
from crowdwise.learn.features.sources import open_features
from crowdwise.run.folder import Run
from tests.helpers.fuzz_documents import INTEGERS, TEXTS, answers_of
from tests.helpers.fuzz_targets import ODD, check_whole, hurt, rows_of

ANSWERS = Answers.from_arrays(["a", "b", "c"], ["w", "w", "v"], ["x", "y", "x"])
NUMBERS = (0.0, 1.0, -2.5, 3e38, 1e-40, 7.0, 0.1)


def frame_whole(draw: Random, folder: Path) -> str:
    """Answers as a table of any library are the answers they were."""
    rows = answers_of(draw)
    task, worker, label = map(list, zip(*rows, strict=True))
    columns = {"task": task, "worker": worker, "label": label}
    kind = draw.choice(("dict", "arrow", "pandas", "polars", "numpy", "arrays"))
    if kind == "arrays":
        answers = Answers.from_arrays(task, worker, label)
    else:
        answers = Answers.from_frame(_as_frame(columns, kind))
    check_whole(answers)
    assert rows_of(answers) == sorted(rows, key=repr)
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
    """Tables that hold anything are answers or refused."""
    size = draw.randint(0, 4)
    pools = [draw.choice((TEXTS, INTEGERS, ODD, (1.0, float("nan"), 2.0**63, 2.5), (b"x", b"\xff"))) for _ in range(3)]
    columns = {
        n: [draw.choice(pool) for _ in range(size)] for n, pool in zip(("task", "worker", "label"), pools, strict=True)
    }
    for name in ("weight", "truth", "pseudo"):
        if draw.random() < 0.3:
            columns[name] = [draw.choice(draw.choice((ODD, (0, 1, 0.5), TEXTS))) for _ in range(size)]
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
    check_whole(answers)
    return "right"


def features_whole(draw: Random, folder: Path) -> str:
    """Features of a file come back, in the order of the tasks."""
    width, order = draw.randint(1, 4), draw.sample(range(4), 4)
    wanted = np.array(
        [[draw.choice(NUMBERS) for _ in range(width)] for _ in range(4)], np.float32
    )  # (tasks and one, width)
    file = folder / draw.choice(("X.csv", "X.tsv", "X.csv.gz", "X.parquet", "X.npy", "X.npz"))
    file.write_bytes(_features(file.name, wanted, order, draw))
    found = open_features(file, ANSWERS).matrix()
    assert np.array_equal(found, wanted[:3]), f"{found} read where {wanted[:3]} was written"
    return "right"


def features_damaged(draw: Random, folder: Path) -> str:
    """Damaged ones are refused, or are numbers of the shape they should have."""
    wanted = np.array([[draw.choice(NUMBERS) for _ in range(2)] for _ in range(4)], np.float32)
    file = folder / draw.choice(("X.csv", "X.tsv", "X.csv.gz", "X.parquet", "X.npy", "X.npz"))
    file.write_bytes(bytes(hurt(bytearray(_features(file.name, wanted, list(range(4)), draw)), draw)))
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

    out, ids = io.BytesIO(), ["a", "b", "c", "nobody's"]
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
def a_run() -> dict[str, bytes]:
    """The files of a finished run of a few answers, made once."""
    from crowdwise import simulate
    from crowdwise.run import run

    with tempfile.TemporaryDirectory() as folder:
        answers = simulate.simulate(n_tasks=12, n_workers=4, n_classes=2, seed=0)
        done = run(answers, Path(folder) / "run", method="majority-vote")
        return {file.name: file.read_bytes() for file in sorted(done.path.iterdir()) if file.is_file()}


def run_damaged(draw: Random, folder: Path) -> str:
    """A run folder of which one file was damaged says so, or is read."""
    whole, where = a_run(), folder / "run"
    where.mkdir(exist_ok=True)
    hit = draw.choice([name for name in whole if name.endswith((".json", ".csv", ".parquet", ".safetensors"))])
    for name, data in whole.items():
        (where / name).write_bytes(bytes(hurt(bytearray(data), draw)) if name == hit else data)
    try:
        run = Run(where)
        for part in ("config", "metrics", "answers", "labels", "workers", "tasks", "next", "model", "proba"):
            getattr(run, part)
        run.feedback(run.answers.workers[0])
    except CrowdwiseError as error:
        return type(error).__name__
    return "right"
