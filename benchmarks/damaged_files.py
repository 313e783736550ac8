"""Damage and forge models of every registered kind many times, and load them: `python -m benchmarks damage`.

    python -m benchmarks damage --damaged 3000 --forged 1000     (the defaults)

Damaged: bits flipped, the file cut, bytes lost, doubled or added. Loading must raise an error that names the file, or
give the same predictions. Forged: a value of the header or a tensor changed and the checksum adjusted. Loading may
succeed, but must raise no other exception. The functions are those of tests/helpers/damaged.py.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.files import RESULTS, write_results
from crowdwise._core.registry import methods
from tests.helpers.damaged import attack


def main() -> None:
    """Attack every kind of model, print a line for each, and store the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--damaged", type=int, default=3000, help="files per kind of model")
    parser.add_argument("--forged", type=int, default=1000, help="files per kind of model")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start, kinds = time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        for method in methods():
            kinds[method.name] = dict(attack(method.name, Path(folder), options.damaged, options.forged, options.seed))
            print(f"{method.name:<20} {kinds[method.name]}", flush=True)
    total: Counter[str] = sum((Counter(count) for count in kinds.values()), Counter())
    faults = sum(count for kind, count in total.items() if "FAULT" in kind)
    print(f"{len(kinds)} kinds of model, {total.total():,} files, {faults} faults: {dict(total)}")
    result = {**vars(options), "seconds": round(time.perf_counter() - start), "faults": faults, "total": total}
    write_results(RESULTS / "damaged_files.json", {**result, "kinds": kinds})


if __name__ == "__main__":
    main()
