"""Does one process stay flat when it works for an hour? `python -m benchmarks soak [--minutes 60]`.

One process repeats cycles with new random data: simulate a crowd of random size, write it in a random format, read it
(it must equal what was written), fit a random method, save and load it (its probabilities must be the same), predict,
and read a damaged copy of the file, which may only raise a `CrowdwiseError`. Every `RUN_EVERY` cycles the process makes
a complete run with a report, opens it again and compares it with itself.

`leaks` repeats one call with the same data; here everything is mixed, and sizes change. Each minute the process is
inspected as there. The first third is a warm-up, in which caches fill and libraries are imported. After it

* `heap` (megabytes in use, as malloc counts them), `mb` (resident memory, after malloc has returned what is free) and
  `blocks` (Python objects) may not rise: each is a straight line over cycles plus noise, and the line grows if its
  rise is above `MOST` and above two standard errors;
* open files, threads, child processes, Arrow bytes and files left in the temporary folder may not rise: the median of
  the last third is at most the largest count of the second third.

Memory wanders, as a crowd that is a little larger than all before leaves a piece of an allocator behind for many
minutes. So neighbouring minutes are not independent, and the standard error allows for their correlation.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import gzip
import multiprocessing
import statistics
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

import crowdwise as cw
from benchmarks.files import RESULTS
from benchmarks.leaks import inspect_process, small_pools
from crowdwise.run.comparison import compare
from tests.helpers import every_method as every

TARGET = RESULTS / "soak.csv"
FORMATS = ("csv", "tsv", "jsonl", "parquet", "csv.gz")
RUN_EVERY = 20  # cycles
MOST = {"heap": 2.0, "mb": 8.0, "blocks": 2000.0}  # rise that is too little to matter, over two thirds of the time
Row = dict[str, float]


def random_crowd(rng: np.random.Generator, max_classes: int) -> tuple[np.ndarray, cw.Answers]:
    """Return features (tasks, 5) and answers of a crowd of random size, without truth."""
    n_tasks, n_classes = int(rng.integers(20, 400)), int(rng.integers(2, max_classes + 1))
    answers = cw.simulate.simulate(
        n_tasks, n_workers=int(rng.integers(5, 40)), n_classes=n_classes, answers_per_task=float(rng.uniform(1.5, 4)),
        classes=[f"class {i}" for i in range(n_classes)], seed=rng,
    )  # fmt: skip
    X = np.eye(n_classes, 5)[answers.truth] * 3 + rng.normal(size=(n_tasks, 5))
    return X.astype(np.float32), answers.with_truth(None)


def read_and_write(answers: cw.Answers, folder: Path, rng: np.random.Generator) -> None:
    """Write answers in a random format, read them, and read a damaged copy."""
    kind = str(rng.choice(FORMATS))
    file = folder / f"answers.{kind}"
    if kind.endswith(".gz"):
        cw.write(answers, folder / "answers.csv")
        file.write_bytes(gzip.compress((folder / "answers.csv").read_bytes()))
    else:
        cw.write(answers, file)
    found = cw.read(file)
    if (found.n_answers, found.n_tasks) != (answers.n_answers, answers.n_tasks):
        message = f"{kind}: {found} was read, {answers} was written"
        raise AssertionError(message)
    content = bytearray(file.read_bytes())
    for position in rng.integers(len(content), size=3):
        content[position] ^= 1 << int(rng.integers(8))
    file.write_bytes(content[: int(rng.integers(len(content) // 2, len(content) + 1))])
    with suppress(cw.errors.CrowdwiseError):
        cw.read(file)


def fit_and_predict(name: str, X: np.ndarray, answers: cw.Answers, folder: Path) -> None:
    """Fit a method, save and load it, and predict."""
    model = every.fitted(name, X, answers, every.FEWEST)
    model.save(folder / "model.safetensors")
    loaded = cw.load(folder / "model.safetensors")
    before, after = every.outcome(model, X), every.outcome(loaded, X)
    for part in before:
        np.testing.assert_array_equal(before[part], after[part], f"{name}: {part} differs after loading")


def run_and_report(answers: cw.Answers, folder: Path) -> None:
    """Make a run with a report, open it again and compare it with itself."""
    cw.run(answers, folder / "run", method=["majority-vote", "one-coin", "dawid-skene"], folds=2)
    opened = cw.run.Run(folder / "run")
    opened.report(folder / "report.html")
    if compare(opened, opened).changed.num_rows:
        message = "a run differs from itself"
        raise AssertionError(message)


def cycle(number: int, name: str, home: Path, seed: int) -> None:
    """One cycle; nothing of it may stay."""
    rng = np.random.default_rng([seed, number])
    with tempfile.TemporaryDirectory(dir=home) as folder:
        X, answers = random_crowd(rng, 2 if getattr(cw.make(name), "binary_only", False) else 5)
        read_and_write(answers, Path(folder), rng)
        fit_and_predict(name, X, answers, Path(folder))
        if number % RUN_EVERY == 0:
            run_and_report(answers, Path(folder))


def soak(minutes: float, seed: int, out: Path) -> list[Row]:
    """Work for so many minutes, and store a row per minute. All methods are fitted once before the first."""
    warnings.simplefilter("ignore")
    names = np.array(every.TRUTH * 2 + every.LEARNERS)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as home, small_pools():
        for number, name in enumerate([*every.TRUTH, *every.LEARNERS]):
            cycle(number, name, Path(home), seed)
        start, done = time.monotonic(), number + 1
        rng = np.random.default_rng(seed)
        n_rows = max(int(minutes), 3)
        for row in range(1, n_rows + 1):
            until = start + 60 * minutes * row / n_rows
            while time.monotonic() < until:
                cycle(done, str(rng.choice(names)), Path(home), seed)
                done += 1
            rows.append(_inspected(minutes * row / n_rows, done, Path(home)))
            _store(rows, out)
    return rows


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later."""

    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(10)]  # 4 is hblkhd (mapped), 7 is uordblks (in use)


def heap_megabytes() -> float:
    """Return the megabytes that malloc has given out, after it has returned what is free."""
    libc = ctypes.CDLL(None)
    libc.malloc_trim(0)
    libc.mallinfo2.restype = _Mallinfo
    found = libc.mallinfo2()
    return (found.field4 + found.field7) / 1e6


def _inspected(minute: float, cycles: int, home: Path) -> Row:
    gc.collect()
    heap = heap_megabytes()
    children = len(multiprocessing.active_children())
    left = sum(1 for _ in home.rglob("*"))
    return {"minute": minute, "cycles": cycles, "heap": heap, **inspect_process(), "children": children, "left": left}


def _store(rows: list[Row], out: Path) -> None:
    with out.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: round(value, 2) for key, value in row.items()} for row in rows)


def trend(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the rise of a straight line of y over the range of x, and its standard error.

    The residuals follow an AR(1) process, so that n of them are worth n (1 - r) / (1 + r) independent ones.

    >>> trend(np.arange(20.0), 3 + np.arange(20.0) / 19)
    (1.0, 0.0)
    """
    centred = x - x.mean()
    slope = centred @ y / (centred @ centred)
    rest = y - y.mean() - slope * centred
    variance = rest @ rest / max(len(y) - 2, 1)
    r = np.clip(rest[1:] @ rest[:-1] / (rest @ rest), 0, 0.95) if variance > 0 else 0.0
    error = np.sqrt(variance / (centred @ centred) * (1 + r) / (1 - r))
    return round(float(np.ptp(x) * slope), 3), round(float(np.ptp(x) * error), 3)


def verdict(rows: list[Row]) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """Return the rise of memory and objects with its standard error, and the names of what grew.

    >>> noise = np.random.default_rng(0).normal(0, 20, size=60)
    >>> flat = {"blocks": 5e5, "arrow": 0, "files": 9, "threads": 1, "tasks": 4, "children": 0, "left": 0}
    >>> rows = [{"cycles": 50.0 * m, "heap": 300.0, "mb": 400 + noise[m], **flat} for m in range(60)]
    >>> verdict(rows)[1]
    []
    >>> verdict([{**row, "heap": 300 + row["cycles"] * 0.002, "files": row["cycles"]} for row in rows])[1]
    ['heap', 'files']
    """
    third = len(rows) // 3
    second, last = rows[third : 2 * third], rows[2 * third :]
    steady = {key: np.array([row[key] for row in rows[third:]], float) for key in ("cycles", *MOST)}
    rises = {key: trend(steady["cycles"], steady[key]) for key in MOST}
    grew = [key for key, (rise, error) in rises.items() if rise > max(MOST[key], 2 * error)]
    grew += [
        key
        for key in ("arrow", "files", "threads", "tasks", "children", "left")
        if statistics.median(row[key] for row in last) > max(row[key] for row in second)
    ]
    return rises, grew


def main() -> None:
    """Soak, and store a row per minute."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        rows = alone.apply(soak, (options.minutes, options.seed, options.out))
    rises, grew = verdict(rows)
    for key, (rise, error) in rises.items():
        print(f"{key}: {rows[-1][key]:,.1f} at the end, rose by {rise:.2f} ± {error:.2f} over the last two thirds")
    print(f"{rows[-1]['cycles']:,} cycles in {options.minutes:g} minutes; grew: {', '.join(grew) or 'nothing'}")
    sys.exit(bool(grew))


if __name__ == "__main__":
    main()
