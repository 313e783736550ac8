"""What a tiny job costs, nearly all of it start-up: `python -m benchmarks first-second [--repeats 7]`.

    aggregate          `crowdwise aggregate` on a CSV file of nine answers
    import and fit     a process that imports the library and fits Dawid-Skene to them; crowd-kit beside ours

Warm is the best of several processes. Cold is one process without compiled code of any kind: neither Python's nor
numba's, as after an installation. Files stay in the cache of the operating system. Seconds of the clock grow with what
else the machine does; processor seconds hardly do, so ratios are given of both. Memory is the peak of the process.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.__main__ import PEERS, ROOT
from benchmarks.files import RESULTS, write_results

ANSWERS = [(task, worker, "yn"[(task * worker) % 3 == 1]) for task in range(3) for worker in range(3)]
OURS = f"""
import crowdwise as cw
answers = {ANSWERS}
model = cw.DawidSkene().fit(cw.Answers.from_arrays(*map(list, zip(*answers))))
"""
CROWD_KIT = f"""
import pandas as pd
from crowdkit.aggregation import DawidSkene
answers = {ANSWERS}
model = DawidSkene(n_iter=100).fit(pd.DataFrame(answers, columns=["task", "worker", "label"]))
"""
Figures = dict[str, float]


def measure(command: list[str], folder: Path, variables: dict[str, str]) -> Figures:
    """Run a command; return its seconds, processor seconds and peak memory."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=folder, env=os.environ | variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        sys.exit(f"error: this command failed: {' '.join(command)[:300]}")
    return {"seconds": seconds, "cpu_seconds": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1e3}


def warm_and_cold(command: list[str], repeats: int) -> dict[str, Figures]:
    """Measure a command without compiled code, and then with what that run has stored."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = "".join(f"{task},{worker},{label}\n" for task, worker, label in ANSWERS)
        (folder / "small.csv").write_text("task,worker,label\n" + rows)
        caches = {
            "NUMBA_CACHE_DIR": str(folder / "numba"), "PYTHONPYCACHEPREFIX": str(folder / "python"),
            "PYTHONDONTWRITEBYTECODE": "",
        }  # fmt: skip
        cold = measure(command, folder, caches)
        runs = [measure(command, folder, caches) for _ in range(repeats)]
    return {"cold": cold, "warm": {key: min(run[key] for run in runs) for key in cold}}


def main() -> None:
    """Measure all of them, print ratios, and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7, help="warm runs of each")
    parser.add_argument("--out", type=Path, default=RESULTS / "first_second.json")
    options = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    commands = {
        "aggregate": [sys.executable, "-m", "crowdwise", "aggregate", "small.csv"],
        "import and fit": [sys.executable, "-c", OURS],
        "crowd-kit, import and fit": [str(PEERS.python), "-c", CROWD_KIT],
    }
    rows = {}
    for name, command in commands.items():
        rows[name] = warm_and_cold(command, options.repeats)
        for kind, row in rows[name].items():
            cpu = f"{row['cpu_seconds']:5.2f} s of processor"
            print(f"{name:26} {kind}  {row['seconds']:5.2f} s, {cpu}, {row['mb']:4.0f} MB")
    ours, theirs = rows["import and fit"], rows["crowd-kit, import and fit"]
    for kind in ("warm", "cold"):
        ratios = {key: ours[kind][key] / theirs[kind][key] for key in ours[kind]}
        shown = ", ".join(f"{key} {ratio:.2f}" for key, ratio in ratios.items())
        print(f"import and fit, {kind}, ours / crowd-kit: {shown}")
    write_results(options.out, rows)


if __name__ == "__main__":
    main()
