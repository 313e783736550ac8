"""Does a process that fits again and again grow?: `make bench-leaks`.

    python benchmarks/leaks.py [--calls 1000] [name ...]           names: only these; the other rows stay as they are

Each work (a fit of every registered method on a small crowd; reading, saving and loading, checking against the vote,
choosing, proposing answers, a whole run, its report) is done so many times in a process of its own. After each fifth
of the calls the process is looked at: resident memory (/proc/self/statm), blocks that Python's allocator handed out,
bytes that Arrow did, open files (/proc/self/fd) and threads. What happens in the first fifth does not count, when
caches fill and compilers work.

Objects of Python and Arrow's bytes can be counted exactly, once garbage is collected and Python's cache of attributes
is emptied, which keeps up to 4,096 names that getattr was asked for: they grow where there is one more block in ten
calls, or one more byte. Resident memory is what allocators hold, who take it in large pieces and keep it: it grows
where it did by more than `MOST_MB`, and does so in most of the fifths. A leak of 1.5 kB a call would.
"""

from __future__ import annotations

import argparse
import gc
import json
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

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import pyarrow as pa  # noqa: E402

import crowdwise as cw  # noqa: E402
from tests.helpers import every_method as every  # noqa: E402

MOST_MB = 1.0
MOST_BLOCKS = 0.1  # a call
BLOCKS_OF_LOOKING = 30  # what `look` itself leaves behind is 13 to 16
SLOW = {"run": 30, "report": 60, "choose": 300, "propose": 300, "check against vote": 300}  # calls at most: slower
WORKS = [
    *every.TRUTH, *every.LEARNERS, "read csv", "read parquet", "read jsonl", "write csv", "write parquet",
    "save and load dawid-skene", "save and load crowdlayer", "check against vote", "choose", "propose", "run", "report",
]  # fmt: skip


def look() -> dict[str, float]:
    """What the process holds now, without what Python keeps for speed."""
    gc.collect()
    (getattr(sys, "_clear_internal_caches", None) or sys._clear_type_cache)()  # the name since Python 3.13, and before
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "blocks": sys.getallocatedblocks(),
        "arrow": pa.total_allocated_bytes(),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": threading.active_count(),
        "tasks": sum(1 for _ in Path("/proc/self/task").iterdir()),  # threads of libraries too
    }


def grown(work: Callable[[], Any], calls: int) -> dict[str, float]:
    """What a process holds more after `calls` of a work than after a fifth of them; of memory, also by the usual fifth.

    That is, four times the median of the four: one piece that an allocator took at some time does not show there.
    """
    marks: dict[int, dict[str, float]] = {calls * fifth // 5: {} for fifth in range(1, 6)}
    for call in range(1, calls + 1):
        work()
        if call in marks:
            marks[call] = look()
    first, *_, last = marks.values()
    out: dict[str, float] = {f"{name}_more": last[name] - first[name] for name in first}
    usual = 4 * statistics.median(after["mb"] - before["mb"] for before, after in pairwise(marks.values()))
    return out | {"mb_more_as_usual": usual, "mb": last["mb"], "calls": calls}


def leaks(found: dict[str, float]) -> bool:
    """Whether that is growth."""
    memory = min(found["mb_more"], found["mb_more_as_usual"]) > MOST_MB
    blocks = found["blocks_more"] > max(MOST_BLOCKS * found["calls"], BLOCKS_OF_LOOKING)
    return memory or blocks or any(found[f"{name}_more"] > 0 for name in ("arrow", "files", "tasks"))


def work(name: str, folder: Path) -> Callable[[], Any]:
    """What is repeated under this name; no more is made ready than it needs."""
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
        return cw.run.run(answers, folder / f"run{next(number)}", method=["majority-vote", "one-coin"], folds=2)

    if name == "run":
        return run
    made = run()
    return lambda: made.report(folder / "report.html")


@contextmanager
def small_pools() -> Iterator[None]:
    """Arrow with one thread of a kind: else any call may start one more, until there are as many as it may have."""
    sizes = pa.cpu_count(), pa.io_thread_count()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    yield
    pa.set_cpu_count(sizes[0])
    pa.set_io_thread_count(sizes[1])


def measure(name: str, calls: int) -> dict[str, float]:
    """One work in this process."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, small_pools():
        found = grown(work(name, Path(folder)), min(calls, SLOW.get(name, calls)))
    return {key: round(value, 3) for key, value in found.items()} | {"seconds": round(time.perf_counter() - start, 1)}


def main() -> None:
    """Measure all works, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--json", type=Path, default=HERE / "results" / "leaks.json")
    options = parser.parse_args()
    rows = json.loads(options.json.read_text())["works"] if options.names and options.json.is_file() else {}
    for name in options.names or WORKS:
        with multiprocessing.get_context("spawn").Pool(1) as alone:
            rows[name] = found = alone.apply(measure, (name, options.calls))
        rows[name]["grows"] = leaks(found)
        print(f"{name:28} {found}", flush=True)
        options.json.write_text(
            json.dumps({"calls": options.calls, "most_mb": MOST_MB, "works": rows}, indent=1) + "\n"
        )
    grow = [name for name, row in rows.items() if row["grows"]]
    print(f"{len(rows)} works, {len(grow)} grow: {grow}")


if __name__ == "__main__":
    main()
