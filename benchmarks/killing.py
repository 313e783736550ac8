"""Commands killed at random moments, rerun, and compared with commands that were never killed.

    python -m benchmarks kill                           100 kills of each command
    python -m benchmarks kill fit aggregate --kills 20  some of them

tests/helpers/kills.py does the killing and the comparison. The first kill that damages a file or changes a result ends
the run with an error that names it. `run` is killed half of the times without features, in one process, and half with
features, in a pool. Results of commands that are not named are kept.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.files import RESULTS, read_results, write_results
from tests.helpers import kills as crash

TARGET = RESULTS / "killing.json"
HALVED = ("run", "run-pool")  # the same command, half of the kills each


def main() -> None:
    """Kill the named commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", help="aggregate, fit, run, run-pool, reproduction, spark (default: all)")
    parser.add_argument("--kills", type=int, default=100, help="kills per command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=TARGET)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        crash.make_inputs(Path(home))
        jobs = crash.jobs(Path(home))
        for name in options.jobs or jobs:
            report = partial(store, options.json, jobs[name], options.seed)
            count = options.kills // 2 if name in HALVED else options.kills
            crash.kill_many(jobs[name], Path(home) / name, count, options.seed, report=report)


def store(path: Path, job: crash.Job, seed: int, kills: crash.Kills) -> None:
    """Store and print the outcome of the kills so far."""
    words = [Path(word).name if os.sep in word else word for word in job.words]
    rows = read_results(path, {})
    rows[job.name] = {
        "command": " ".join([job.program, *words]), "when": time.strftime("%Y-%m-%d"), "seed": seed, "kills": kills.n,
        "with_all_processes": kills.whole, "alone": kills.alone, "moments": dict(sorted(kills.phases.items())),
        "chains": kills.finished, "files_compared": kills.files, "half_written": 0, "different": 0,
        "seconds": round(kills.seconds, 1),
    }  # fmt: skip
    write_results(path, dict(sorted(rows.items())))
    print(job.name, rows[job.name], flush=True)


if __name__ == "__main__":
    main()
