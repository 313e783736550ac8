"""Models of every registered kind, damaged and forged many times, and what loading them comes to.

    python benchmarks/damaged_files.py --damaged 3000 --forged 1000     # writes results/damaged_files.json

Damaged: bits flipped, the file cut, bytes lost, doubled or added; nothing but a refusal that names the file, or the
same predictions, will do. Forged: a value of the header or a tensor changed and the checksum made to fit; loading may
succeed, but must end in no other exception. The functions are those of `tests/damaged.py`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from crowdwise._core.registry import methods  # noqa: E402
from tests.helpers.damaged import attack  # noqa: E402


def main() -> None:
    """Attack every kind of model, print a line for each, and keep the counts."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--damaged", type=int, default=3000, help="of each kind of model")
    parser.add_argument("--forged", type=int, default=1000, help="of each kind of model")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    start, kinds = time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        for method in methods():
            kinds[method.name] = dict(attack(method.name, Path(folder), given.damaged, given.forged, given.seed))
            print(f"{method.name:<20} {kinds[method.name]}", flush=True)
    total: Counter[str] = sum((Counter(count) for count in kinds.values()), Counter())
    faults = sum(count for kind, count in total.items() if "FAULT" in kind)
    print(f"{len(kinds)} kinds of model, {total.total():,} files, {faults} faults: {dict(total)}")
    result = {**vars(given), "seconds": round(time.perf_counter() - start), "faults": faults, "total": total}
    (ROOT / "benchmarks/results/damaged_files.json").write_text(json.dumps({**result, "kinds": kinds}, indent=1) + "\n")


if __name__ == "__main__":
    main()
