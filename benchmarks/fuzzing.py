"""Valid, damaged and random files through every reader: correct answers or a clear error, never anything else.

    python -m benchmarks fuzz                          all targets, 500,000 cases
    python -m benchmarks fuzz --cases 5000 --only csv  some of them

The documents and the expected results are those of the tests (tests/helpers/fuzz_*.py), with other seeds. Targets:

    <format>, whole      a file made from known answers: the answers read must equal them
    <format>, damaged    a file with bytes or values changed, or random content; for CSV, TSV and JSON lines a second
                         reader, based on Python's csv and json, must find the same answers
    ..., by Hypothesis   the same documents, drawn by Hypothesis with its own ids

A case fails if it raises anything but a CrowdwiseError, if answers are wrong, if it takes more than SECONDS, or if it
raises the peak memory of its process by more than ALLOWED plus FACTOR times the size of its file. `fuzz-guided` applies
the same checks to files generated from coverage; its counts are added to the results if they exist.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.files import RESULTS, read_results, write_results

TARGET, GUIDED = RESULTS / "fuzzing.json", RESULTS / "fuzzing_guided.json"
BLOCK = 1000  # cases per block; each block has a seed of its own
ALLOWED, FACTOR = 64 << 20, 100  # bytes of memory a case may take, plus this many per byte of its file
LIMIT = 6 << 30  # bytes of memory a process may take


def targets() -> dict[str, Any]:
    """Return functions of (random, folder) by name; each returns the outcome of a case."""
    from tests.helpers import fuzz_documents as documents
    from tests.helpers import fuzz_others as others
    from tests.helpers import fuzz_targets as judges

    def whole(form, draw, folder):
        return judges.judge(documents.document(form, documents.random_answers(draw), draw), folder)

    def damaged(judge, form, draw, folder):
        return judge(judges.damaged(form, draw), folder)

    out = {f"{form}, whole": partial(whole, form) for form in documents.WRITERS}
    out |= {f"{form}, damaged": partial(damaged, judges.judge, form) for form in documents.WRITERS}
    out |= {f"beside {form}, damaged": partial(damaged, judges.judge_side_columns, form) for form in documents.WRITERS}
    for form in ("csv", "tsv", "jsonl", "parquet"):
        out[f"known labels {form}, damaged"] = partial(damaged, judges.judge_truth, form)
    out["tables of Python, numpy, pandas, polars, whole"] = others.frame_intact
    out["tables of Python and numpy, odd"] = others.frame_odd
    out["features, whole"], out["features, damaged"] = others.features_intact, others.features_damaged
    out["run folders, damaged"], out["run folders, forged"] = others.run_damaged, others.run_forged
    return out


SHARES = {  # of all cases, by kind; a forged run is rendered, which is slow
    "whole": 1.0, "damaged": 4.0, "forged": 0.2, "odd": 8.0, "beside": 0.7, "by Hypothesis": 0.4,
}  # fmt: skip


def plan(cases: int, only: list[str]) -> dict[str, int]:
    """Return the number of blocks of each target."""
    names = [*targets(), *(f"{form}, by Hypothesis" for form in _formats())]
    names = [name for name in names if not only or any(part in name for part in only)]
    share = {
        name: next((s for k, s in SHARES.items() if name.startswith(k)), SHARES[name.rpartition(", ")[2]])
        for name in names
    }
    total = sum(share.values())
    return {name: max(1, round(cases * part / total / BLOCK)) for name, part in share.items()}


def _formats():
    from tests.helpers import fuzz_documents as documents

    return documents.WRITERS


def prepare() -> None:
    """Set up a process before its first block."""
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    with tempfile.TemporaryDirectory() as folder:  # compilation on first use must not count as a hang
        for run in targets().values():
            for seed in range(5):
                with suppress(Exception):
                    run(Random(seed), Path(folder))


def block(name: str, seed: int, folder: str) -> dict[str, Any]:
    """Run one block of cases and return outcomes and failures. Case i has the seed `seed * BLOCK + i`."""
    from tests.helpers.fuzz_targets import SECONDS, alarm

    place = Path(folder) / str(os.getpid())
    place.mkdir(exist_ok=True)
    if name.endswith("by Hypothesis"):
        return by_hypothesis(name.partition(",")[0], seed, place)
    run, outcomes, failures, slowest = targets()[name], Counter(), [], 0.0
    for number in range(seed * BLOCK, (seed + 1) * BLOCK):
        start, peak = time.perf_counter(), memory()
        try:
            with alarm(SECONDS):
                outcomes[run(Random(number), place)] += 1
        except BaseException as error:
            outcomes["FAILED"] += 1
            failures.append({"target": name, "seed": number, "error": f"{type(error).__name__}: {error}"[:500]})
        size = max((file.stat().st_size for file in place.iterdir()), default=0)
        if memory() - peak > ALLOWED + FACTOR * size:
            outcomes["FAILED"] += 1
            failures.append({"target": name, "seed": number, "error": f"{(memory() - peak) >> 20} MB for {size} bytes"})
        slowest = max(slowest, time.perf_counter() - start)
    return {"outcomes": outcomes, "failures": failures, "slowest": slowest, "peak": memory()}


def by_hypothesis(form: str, seed: int, place: Path) -> dict[str, Any]:
    """Run a block drawn by Hypothesis."""
    from hypothesis import given
    from hypothesis import seed as seeded

    from tests.helpers.fuzz_strategies import documents, fixed_settings
    from tests.helpers.fuzz_targets import SECONDS, alarm, judge

    outcomes, failures = Counter(), []

    @seeded(seed)
    @fixed_settings(BLOCK)
    @given(documents(form))
    def check(case):
        with alarm(SECONDS):
            outcomes[judge(case, place)] += 1

    try:
        check()
    except BaseException as error:
        outcomes["FAILED"] += 1
        failures.append(
            {"target": f"{form}, by Hypothesis", "seed": seed, "error": f"{type(error).__name__}: {error}"[:500]}
        )
    return {"outcomes": outcomes, "failures": failures, "slowest": 0.0, "peak": memory()}


def memory() -> int:
    """Return the peak memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main() -> None:
    """Run the blocks of all targets in parallel, and store the counts as they come."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=float, default=5e5, help="total number of cases")
    parser.add_argument("--only", default="", help="run targets with one of these words (separated by commas)")
    parser.add_argument("--seed", type=int, default=1000, help="seed of the first block of each target")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument(
        "--folder", default="/dev/shm" if Path("/dev/shm").is_dir() else None, help="folder for files, best in memory"
    )
    arguments = parser.parse_args()
    only = [part for part in arguments.only.split(",") if part]
    blocks = plan(int(arguments.cases), only)
    start = time.time()
    readers: dict[str, Counter[str]] = {name: Counter() for name in blocks}
    failures, slowest, peak = [], 0.0, 0
    work = [(name, arguments.seed + i) for i in range(max(blocks.values())) for name in blocks if i < blocks[name]]
    with (
        tempfile.TemporaryDirectory(dir=arguments.folder) as folder,
        ProcessPoolExecutor(arguments.jobs, get_context("spawn"), prepare) as pool,
    ):
        under_way = {pool.submit(block, name, seed, folder): name for name, seed in work}
        for done, future in enumerate(as_completed(under_way), start=1):
            result = future.result()
            readers[under_way[future]] += result["outcomes"]
            failures += result["failures"]
            slowest, peak = max(slowest, result["slowest"]), max(peak, result["peak"])
            for failure in result["failures"][:3]:
                print("FAILED", failure, flush=True)
            if done % 10 == 0 or done == len(work):
                save(arguments, readers, failures, slowest, peak, time.time() - start)
                print(f"{done}/{len(work)} blocks, {sum(c.total() for c in readers.values()):,} cases, "
                      f"{len(failures)} failures, {time.time() - start:.0f} s", flush=True)  # fmt: skip


def save(arguments, readers, failures, slowest, peak, seconds) -> None:
    """Store the counts."""
    import pyarrow

    guided = read_results(GUIDED, {}) if arguments.out == TARGET else {}
    cases = sum(counts.total() for counts in readers.values())
    result = {
        "cases": cases + sum(sum(counts["outcomes"].values()) for counts in guided.values()),
        "failures": failures,
        "seconds": round(seconds),
        "first_seed": arguments.seed * BLOCK,
        "slowest_case_seconds": round(slowest, 3),
        "most_memory_of_a_process_bytes": peak,
        "versions": {"python": sys.version.split()[0], "pyarrow": pyarrow.__version__},
        "readers": {name: dict(sorted(counts.items())) for name, counts in readers.items() if counts},
    }
    write_results(arguments.out, result)


if __name__ == "__main__":
    main()
