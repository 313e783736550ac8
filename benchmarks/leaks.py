"""Does a process that fits again and again grow?: `make bench-leaks`.

    python benchmarks/leaks.py [--calls 1000] [name ...]           names: only these; the other rows stay as they are

Each work (a fit of every registered method on a small crowd; reading, saving and loading, checking against the vote,
choosing, proposing answers, a whole run, its report) is done so many times in a process of its own. After a fifth of
the calls, when caches are full and compilers are done, and after all of them, the process is looked at: resident
memory (/proc/self/statm, after a collection), blocks that Python's allocator handed out, open files (/proc/self/fd)
and threads. A leak of one small array a fit (1 kB) would show as 0.8 MB over 800 fits; `grows` says that memory grew by
more than `MOST_MB`, at the same pace in the second half, or that files or threads grew at all. Allocators keep what
they were given back, so a row that grows is to be looked at with more `--calls`: a leak goes on growing with them.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))

import crowdwise as cw  # noqa: E402
import every_method as every  # noqa: E402

MOST_MB = 1.0
SLOW = {"run": 30, "report": 60, "choose": 300, "propose": 300, "check against vote": 300}  # calls at most: slower
WORKS = [
    *every.TRUTH, *every.LEARNERS, "read csv", "read parquet", "read jsonl", "write csv", "write parquet",
    "save and load dawid-skene", "save and load crowdlayer", "check against vote", "choose", "propose", "run", "report",
]  # fmt: skip


def look() -> dict[str, float]:
    """What the process holds now."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "mb": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "blocks": sys.getallocatedblocks(),
        "files": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": threading.active_count(),
        "tasks": sum(1 for _ in Path("/proc/self/task").iterdir()),  # threads of libraries too
    }


def grown(work: Callable[[], Any], calls: int) -> dict[str, float]:
    """What a process holds more after `calls` of a work than after a fifth of them, and in the second half of those."""
    marks = {calls // 5: {}, calls * 3 // 5: {}, calls: {}}
    for call in range(1, calls + 1):
        work()
        if call in marks:
            marks[call] = look()
    first, half, last = marks.values()
    out: dict[str, float] = {f"{name}_more": last[name] - first[name] for name in first}
    return out | {"mb_more_in_second_half": last["mb"] - half["mb"], "mb": last["mb"], "calls": calls}


def leaks(found: dict[str, float]) -> bool:
    """Whether that is growth."""
    memory = min(found["mb_more"], 2 * found["mb_more_in_second_half"]) > MOST_MB
    return memory or found["files_more"] > 0 or found["tasks_more"] > 0


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


def measure(name: str, calls: int) -> dict[str, float]:
    """One work in this process."""
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
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
