"""Five commands killed at 100 random moments each: whether they come to the results of commands never killed.

`make bench-kill`, or `python benchmarks/killing.py fit aggregate --kills 20`. The killing itself, and what is compared,
is in tests/crash/kills.py; the first kill that spoils a file or a result ends all with an error that names it.
`run` is killed half of the times without features, in one process, and half with features, in a pool. Results go to
benchmarks/results/killing.json, a row for each command that was asked for; other rows stay.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "crash"))
from tests.helpers import kills as crash

RESULTS = Path(__file__).parent / "results" / "killing.json"
HALVED = ("run", "run-pool")  # the same command: half of the kills each


def main() -> None:
    """Kill what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("jobs", nargs="*", help="of aggregate, fit, run, run-pool, bench, spark; all if none is named")
    parser.add_argument("--kills", type=int, default=100, help="of each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        crash.make_inputs(Path(home))
        jobs = crash.jobs(Path(home))
        for name in options.jobs or jobs:
            told = partial(keep, options.json, jobs[name], options.seed)
            count = options.kills // 2 if name in HALVED else options.kills
            crash.kill_many(jobs[name], Path(home) / name, count, options.seed, told=told)


def keep(path: Path, job: crash.Job, seed: int, kills: crash.Kills) -> None:
    """Put what came of the kills so far among the rows that are there, and print it."""
    words = [Path(word).name if os.sep in word else word for word in job.words]
    rows = json.loads(path.read_text()) if path.exists() else {}
    rows[job.name] = {
        "command": " ".join(["crowdwise", *words]), "when": time.strftime("%Y-%m-%d"), "seed": seed, "kills": kills.n,
        "with_all_processes": kills.whole, "alone": kills.alone, "moments": dict(sorted(kills.phases.items())),
        "chains": kills.finished, "files_compared": kills.files, "half_written": 0, "different": 0,
        "seconds": round(kills.seconds, 1),
    }  # fmt: skip
    path.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")
    print(job.name, rows[job.name], flush=True)


if __name__ == "__main__":
    main()
