"""Speed of our drop-in for cleanlab, compared with cleanlab: `python -m benchmarks compat`.

Both sides get the same wide frame (20,000 examples, 200 annotators, 10^5 answers, 8 classes) and the same class
probabilities, and return all their default tables. Every figure is a process of its own on the same machine, one after
the other; ours is the best of five calls, cleanlab's a single one. The largest difference of the results is printed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.files import RESULTS, write_results
from benchmarks.truth_speed import Report, console, draw_crowd, measure

GOAL = 50


def main() -> None:
    """Run the benchmark and store its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=10**5, help="number of answers")
    parser.add_argument("--out", type=Path, default=RESULTS / "compat_speed.json")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        data = draw_crowd(folder, options.answers, 8, strings=False)
        for what in ("quality", "active"):
            ours, theirs = f"ours multiannotator {what}", f"cleanlab multiannotator {what}"
            report.compare(what, data, options.answers, ours, theirs, goal=GOAL, repeats=5)
            row = report.rows[-1]
            if row["ours"] and row["peer"]:  # less dependent on what else the machine does
                row["cpu_ratio"] = row["peer"]["cpu_seconds"] / row["ours"]["cpu_seconds"]
                seconds = f"{row['ours']['cpu_seconds']:.3f} and {row['peer']['cpu_seconds']:.2f}"
                console.print(f"  processor seconds {seconds}: {row['cpu_ratio']:,.0f} x", highlight=False)
            files = folder / "ours.npy", folder / "theirs.npy"
            for case, file in zip((ours, theirs), files, strict=True):
                measure(case, data, out=file)
            gap = float(np.nanmax(np.abs(np.load(files[0]) - np.load(files[1]))))
            row["gap"] = gap
            console.print(f"  largest difference {gap:.1e} (goal 1e-6)", highlight=False)
    write_results(options.out, {"rows": report.rows})


if __name__ == "__main__":
    main()
