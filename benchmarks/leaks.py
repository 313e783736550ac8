"""Does a process grow when it repeats an operation? `python -m benchmarks leaks [--calls 1000] [NAME ...]`.

Each operation (a fit of every method, reading, writing, saving and loading, checking against majority vote, choosing,
proposing answers, a complete run, its report) is repeated in a process of its own. After each fifth of the calls the
process is inspected: resident memory (/proc/self/statm), blocks of Python's allocator, bytes of Arrow's, open files
(/proc/self/fd) and threads. The first fifth does not count, because caches fill and code is compiled.

Python objects and Arrow bytes are exact after garbage collection and after clearing Python's attribute cache (up to
4,096 names). They leak if there is more than one new block per ten calls, or a single new byte. Resident memory is
taken by allocators in large pieces and kept: it leaks if it grew by more than `MOST_MB`, and in most of the fifths. A
leak of 1.5 kB per call is found. Before measuring, the benchmark checks that it finds planted leaks.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from tests.helpers import every_method as every

MOST_MB = 1.0
MOST_BLOCKS = 0.1  # per call
INSPECTION_BLOCKS = 30  # `inspect_process` itself leaves 13 to 16 blocks
SLOW = {
    "run": 30,
    "report": 60,
    "choose": 300,
    "propose": 300,
    "check against vote": 300,
}  # at most this many calls, because these are slow
OPERATIONS = [
    *every.TRUTH, *every.LEARNERS, "read csv", "read parquet", "read jsonl", "write csv", "write parquet",
    "save and load dawid-skene", "save and load crowdlayer", "check against vote", "choose", "propose", "run", "report",
]  # fmt: skip


def inspect_process() -> dict[str, float]:
    """Return the resources that the process holds now, without Python's internal caches."""
    gc.collect()
    (getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache)()  # named so since Python 3.13
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "blocks": sys.getallocatedblocks(),
        "arrow": pa.total_allocated_bytes(),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": threading.active_count(),
        "tasks": sum(1 for _ in Path("/proc/self/task").iterdir()),  # includes threads of libraries
    }


def growth(work: Callable[[], Any], calls: int) -> dict[str, float]:
    """Return the growth of a process between a fifth of the calls and all of them.

    For memory, also four times the median growth of a fifth, which ignores a single piece taken by an allocator.
    """
    marks: dict[int, dict[str, float]] = {calls * fifth // 5: {} for fifth in range(1, 6)}
    for call in range(1, calls + 1):
        work()
        if call in marks:
            marks[call] = inspect_process()
    first, *_, last = marks.values()
    out: dict[str, float] = {f"{name}_more": last[name] - first[name] for name in first}
    usual = 4 * statistics.median(after["mb"] - before["mb"] for before, after in pairwise(marks.values()))
    return out | {"mb_more_as_usual": usual, "mb": last["mb"], "calls": calls}


def leaks(found: dict[str, float]) -> bool:
    """Whether the process leaks."""
    memory = min(found["mb_more"], found["mb_more_as_usual"]) > MOST_MB
    blocks = found["blocks_more"] > max(MOST_BLOCKS * found["calls"], INSPECTION_BLOCKS)
    return memory or blocks or any(found[f"{name}_more"] > 0 for name in ("arrow", "files", "tasks"))


def operation(name: str, folder: Path) -> Callable[[], Any]:
    """Return the function to repeat under this name; only what it needs is prepared."""
    X, answers = every.crowd()
    if name in every.TRUTH + every.LEARNERS:
        return lambda: every.fitted(name, X, answers, every.FEWEST)
    first, _, kind = name.rpartition(" ")
    if first in ("read", "write"):
        file = folder / f"answers.{kind}"
        cw.write(answers, file)
        return (lambda: cw.read(file)) if first == "read" else (lambda: cw.write(answers, file))
    if first == "save and load":
        model = every.fitted(kind, X, answers, every.FEWEST)

        def save_and_load() -> Any:
            model.save(folder / "model.safetensors")
            return cw.load(folder / "model.safetensors")

        return save_and_load
    if name == "check against vote":
        return lambda: cw.DawidSkene().check_against_vote(answers)
    if name == "choose":
        return lambda: cw.choose.choose(answers, None, ["majority-vote", "one-coin"], folds=2)
    if name == "propose":
        model = cw.DawidSkene().fit(answers)
        return lambda: cw.acquire.propose(model, 5)
    number = count()

    def run() -> Any:
        return cw.run(answers, folder / f"run{next(number)}", method=["majority-vote", "one-coin"], folds=2)

    if name == "run":
        return run
    finished = run()
    return lambda: finished.report(folder / "report.html")


@contextmanager
def small_pools() -> Iterator[None]:
    """Give Arrow one thread per pool; otherwise any call may start another, up to the limit."""
    sizes = pa.cpu_count(), pa.io_thread_count()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    yield
    pa.set_cpu_count(sizes[0])
    pa.set_io_thread_count(sizes[1])


def measure(name: str, calls: int) -> dict[str, float]:
    """Measure one operation in this process."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, small_pools():
        found = growth(operation(name, Path(folder)), min(calls, SLOW.get(name, calls)))
    return {key: round(value, 3) for key, value in found.items()} | {"seconds": round(time.perf_counter() - start, 1)}


def check_planted_leaks() -> None:
    """Fail unless leaks of memory, of a file and of an object are found, and memory that is freed is not."""
    held: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        file.touch()
        planted = {
            "40 MB per call": (lambda: np.ones(5_000_000), 5),  # more than the process can have freed before
            "an open file per call": (file.open, 5),
            "an object per call": (object, 100),
            "Arrow memory per call": (lambda: pa.nulls(200, pa.int8()), 5),
        }
        for name, (leak, calls) in planted.items():
            if not leaks(growth(lambda leak=leak: held.append(leak()), calls)):
                sys.exit(f"error: the planted leak was not found: {name}. The figures cannot be trusted.")
        for each in held:
            if hasattr(each, "close"):
                each.close()
    if leaks(growth(lambda: np.ones(5_000_000), 5)):
        sys.exit("error: memory that was freed was reported as a leak. The figures cannot be trusted.")


def main() -> None:
    """Measure all operations, or those named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="operations (default: all)")
    parser.add_argument("--calls", type=int, default=1000, help="calls per operation")
    parser.add_argument("--json", type=Path, default=RESULTS / "leaks.json")
    options = parser.parse_args()
    check_planted_leaks()
    rows = read_results(options.json, {"works": {}})["works"] if options.names else {}
    for name in options.names or OPERATIONS:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            rows[name] = found = alone.apply(measure, (name, options.calls))
        rows[name]["grows"] = leaks(found)
        print(f"{name:28} {found}", flush=True)
        write_results(options.json, {"calls": options.calls, "most_mb": MOST_MB, "works": rows})
    grow = [name for name, row in rows.items() if row["grows"]]
    print(f"{len(rows)} operations, {len(grow)} leak: {grow}")
    sys.exit(bool(grow))


if __name__ == "__main__":
    main()
