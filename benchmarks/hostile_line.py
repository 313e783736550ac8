"""Files with a single line of a gigabyte: seconds and memory until a reader rejects them.

    python -m benchmarks hostile-line [--bytes 1e9]

Each file is read in a process of its own. tests/io/test_hostile.py does the same with 80 MB.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.files import RESULTS, write_results

TARGET = RESULTS / "hostile_line.json"
FILES = {  # name -> how the file begins, and what it repeats without a line break
    "cell.csv": ("task,worker,label\n1,w,", "x"),
    "header.csv": ("", "x"),
    "quote.csv": ('task,worker,label\n1,w,"', "x"),
    "cell.tsv": ("task\tworker\tlabel\n1\tw\t", "x"),
    "string.jsonl": ('{"task": 1, "worker": 1, "label": 1}\n{"task": "', "x"),
    "depth.jsonl": ("", "["),
    "numbers.txt": ("0 1\n", "0 "),
    "string.json": ('[{"id": "', "x"),
}
PROGRAM = """
import resource, sys, time, crowdwise
from crowdwise.io import read
before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
try:
    read(sys.argv[1])
    outcome = "read"
except crowdwise.errors.CrowdwiseError as error:
    outcome = f"{type(error).__name__}: {str(error).removeprefix(sys.argv[1])[2:90]}"
print(outcome)
print(time.perf_counter() - start)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def main() -> None:
    """Write each file, read it, and store what happened."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=float, default=1e9, help="size of each file")
    parser.add_argument("--out", type=Path, default=TARGET)
    options = parser.parse_args()
    rows = []
    for name, (start, more) in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / name
            with file.open("w") as stream:
                stream.write(start)
                for _ in range(int(options.bytes) >> 20):
                    stream.write(more * ((1 << 20) // len(more)))
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, str(file)], capture_output=True, text=True, check=True
            )
            outcome, seconds, kilobytes = done.stdout.rsplit("\n", 3)[:3]
            size = file.stat().st_size
            rows.append({"file": name, "bytes": size, "said": outcome, "seconds": round(float(seconds), 2),
                         "memory_bytes": int(kilobytes) << 10})  # fmt: skip
            print(
                f"{name}: {outcome}  [{float(seconds):.2f} s, {int(kilobytes) >> 10} MB for {size >> 20} MB]",
                flush=True,
            )
    write_results(options.out, rows)


if __name__ == "__main__":
    main()
