"""Speed and memory of truth inference, compared with crowd-kit, peerannot and cleanlab: `python -m benchmarks truth`.

    python -m benchmarks truth            everything up to 10^7 answers, about 25 minutes (mostly crowd-kit)
    python -m benchmarks truth --quick    up to 10^6
    python -m benchmarks truth --huge     10^8 answers as well (ours only)

Crowds are drawn from the Dawid-Skene model: 5 answers per task, classes imbalanced as 1, 1/2, 1/3, ..., one worker per
500 answers. Every figure is a process of its own, ours and the peer's one after the other on the same machine; ours is
the best of three runs, the peer's a single one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.files import RESULTS, ROOT, write_results

PYTHON = {"ours": sys.executable, "peer": str(ROOT / ".venv-peers/bin/python")}
LIMIT = 1800  # seconds per measurement
console = Console(width=None if sys.stdout.isatty() else 140)


def draw_crowd(folder: Path, n_answers: int, n_classes: int, *, strings: bool = True) -> Path:
    """Write a crowd as Parquet: integer codes, and the same as string ids."""
    path = folder / f"{n_answers}-{n_classes}.parquet"
    if path.exists():
        return path
    rng = np.random.default_rng(n_answers + n_classes)
    n_tasks, n_workers = n_answers // 5, max(50, n_answers // 500)
    share = 1 / np.arange(1, n_classes + 1)
    truth = rng.choice(n_classes, n_tasks, p=share / share.sum()).astype(np.int32)
    task = np.repeat(np.arange(n_tasks, dtype=np.int32), 5)
    # Steps of at least one and at most a fifth of the crowd, so that no worker answers a task twice.
    step = rng.integers(1, n_workers // 5, (n_tasks, 5), dtype=np.int32)
    step[:, 0] = rng.integers(0, n_workers, n_tasks)
    worker = (step.cumsum(axis=1, dtype=np.int32) % n_workers).ravel()
    skill = rng.uniform(0.4, 0.95, n_workers)
    right = rng.random(n_answers) < skill[worker]
    label = np.where(right, truth[task], rng.integers(0, n_classes, n_answers, dtype=np.int32)).astype(np.int32)
    columns = {"task": task, "worker": worker, "label": label}
    if strings:
        order = rng.permutation(n_answers)
        columns["task_id"] = pa.array(np.char.add("task_", task[order].astype(str)))
        columns["worker_id"] = pa.array(np.char.add("w", worker[order].astype(str)))
        columns["label_id"] = pa.array(np.char.add("class ", label[order].astype(str)))
    pq.write_table(pa.table(columns), path)
    return path


def measure(
    case: str, data: Path, iterations: int = 0, *, repeats: int = 1, out: Path | None = None, limit: float = LIMIT
) -> dict | None:
    """Run one case in its own process; None if it fails, runs out of memory or takes too long.

    If several cases share a process, those that finished in time count.
    """
    side = "ours" if case.startswith("ours") else "peer"
    command = [PYTHON[side], "-m", "benchmarks.measure", case, str(data), "--iterations", str(iterations)]
    command += ["--repeats", str(repeats)] + (["--out", str(out)] if out else [])
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, cwd=ROOT)
    except subprocess.TimeoutExpired as late:
        lines = (late.stdout or b"").decode().splitlines()
        return json.loads(lines[-1]) if lines else None
    if done.returncode:
        console.print(f"[red]{case} failed: {(done.stderr or 'killed').strip().splitlines()[-1][:150]}")
        return None
    return json.loads(done.stdout.splitlines()[-1])


def size(n: int) -> str:
    """Format a number of answers as a power of ten."""
    return f"10^{round(np.log10(n))}"


class Report:
    """Prints rows as they are measured, and collects them for the file of results."""

    def __init__(self) -> None:
        self.rows: list[dict] = []

    def compare(
        self, what: str, data: Path, n: int, ours: str, peer: str | None, *, goal: float | None = None,
        iterations: int = 0, peer_iterations: tuple[int, int] | None = None, repeats: int = 3,
    ) -> None:  # fmt: skip
        """Measure ours and the peer's, and print the ratio.

        A peer that is too slow for all iterations runs two smaller numbers of them. The time of all is extrapolated
        linearly, which counts work that is done once only once.
        """
        mine = measure(ours, data, iterations, repeats=repeats)
        theirs = None
        if peer and peer_iterations:
            few, more = (measure(peer, data, k) for k in peer_iterations)
            if few and more:
                pace = (more["seconds"] - few["seconds"]) / (peer_iterations[1] - peer_iterations[0])
                theirs = {**more, "seconds": more["seconds"] + pace * (iterations - peer_iterations[1])}
        elif peer:
            theirs = measure(peer, data, iterations)
        row: dict = {"what": what, "answers": n, "ours": mine, "peer": theirs, "peer_name": peer, "goal": goal,
                     "peer_iterations": peer_iterations}  # fmt: skip
        text = f"{what:26s} {size(n):>5}  ours "
        text += "failed" if mine is None else f"{mine['seconds']:7.3f} s {mine['peak_mb'] / 1024:5.2f} GB"
        if peer and theirs is None:
            text += f"   {peer}: no result"
        elif mine and theirs:
            row["ratio"] = theirs["seconds"] / mine["seconds"]
            per = f" (from {peer_iterations[0]} and {peer_iterations[1]} iterations)" if peer_iterations else ""
            text += f"   {peer.split()[0]} {theirs['seconds']:7.2f} s {theirs['peak_mb'] / 1024:5.2f} GB{per}"
            text += f" {row['ratio']:7,.0f} x" + (f" (goal {goal:,.0f})" if goal else "")
        self.rows.append(row)
        console.print(text, highlight=False)


def equal_posteriors(folder: Path, report: Report) -> None:
    """Print the largest difference to crowd-kit's posteriors after 20 iterations, same start and smoothing."""
    for n in (10**4, 10**5):
        data = draw_crowd(folder, n, 8)
        files = folder / "ours.npy", folder / "peer.npy"
        measure("ours dawid-skene", data, 20, out=files[0])
        measure("crowd-kit dawid-skene", data, 20, out=files[1])
        gap = float(np.abs(np.load(files[0]) - np.load(files[1])).max())
        report.rows.append({"what": "largest difference to crowd-kit's posteriors", "answers": n, "gap": gap})
        console.print(
            f"largest difference to crowd-kit's posteriors at {size(n)}: {gap:.1e} (goal 1e-9)", highlight=False
        )


def compile_time(folder: Path, report: Report) -> None:
    """Time the first call on a new machine, and in a new process with kernels cached on disk."""
    data = draw_crowd(folder, 10**4, 8)
    with tempfile.TemporaryDirectory() as cache:
        code = (
            "import time; import crowdwise as cw; from benchmarks.measure import our_answers\n"
            f"start = time.perf_counter(); cw.DawidSkene().fit(our_answers({str(data)!r}))\n"
            "print(time.perf_counter() - start)"
        )
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
        command = [PYTHON["ours"], "-c", code]
        runs = [subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)]
        seconds = [float(run.stdout) for run in runs]
    report.rows.append({"what": "first call", "compiling": seconds[0], "cached": seconds[1]})
    console.print(
        f"first fit of 10^4 answers: {seconds[0]:.2f} s compiling, {seconds[1]:.2f} s from the cache on disk",
        highlight=False,
    )


def main() -> None:
    """Run the benchmark and store its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="up to 10^6 answers")
    parser.add_argument("--huge", action="store_true", help="10^8 answers as well")
    parser.add_argument("--out", type=Path, default=RESULTS / "truth_speed.json")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sizes = [10**4, 10**5, 10**6] + ([] if options.quick else [10**7])
        console.rule("Dawid-Skene, EM alone: integer codes, 8 classes, 20 iterations, float64")
        for n in sizes:
            goal = {10**6: 80, 10**7: 100}.get(n)
            report.compare("Dawid-Skene EM, K = 8", draw_crowd(folder, n, 8), n, "ours dawid-skene",
                           "crowd-kit dawid-skene", goal=goal, iterations=20)  # fmt: skip
        for k, some in ((2, None), (100, (1, 3))):
            report.compare(f"Dawid-Skene EM, K = {k}", draw_crowd(folder, 10**6, k), 10**6, "ours dawid-skene",
                           "crowd-kit dawid-skene", iterations=20, peer_iterations=some)  # fmt: skip
        if not options.quick:
            for k in (2, 100):
                data = draw_crowd(folder, 10**7, k, strings=False)
                report.compare(f"Dawid-Skene EM, K = {k}", data, 10**7, "ours dawid-skene", None, iterations=20)
        if options.huge:
            data = draw_crowd(folder, 10**8, 8, strings=False)
            report.compare("Dawid-Skene EM, K = 8", data, 10**8, "ours dawid-skene", None, iterations=20, repeats=1)
            data.unlink()
        pace = {r["answers"]: r["ours"]["seconds"] / r["answers"] / 20 * 1e9 for r in report.rows
                if r["what"].endswith("K = 8") and r["ours"]}  # fmt: skip
        console.print(
            "per answer and iteration: " + ", ".join(f"{size(n)} {ns:.1f} ns" for n, ns in pace.items()),
            highlight=False,
        )
        report.rows.append({"what": "ns per answer and iteration", "pace": pace})
        equal_posteriors(folder, report)
        compile_time(folder, report)
        console.rule("End to end: from a data frame of string ids, 20 iterations")
        for n in sizes[2:]:
            report.compare("data frame to posteriors", draw_crowd(folder, n, 8), n, "ours end-to-end",
                           "crowd-kit end-to-end", goal={10**6: 25, 10**7: 40}.get(n), iterations=20)  # fmt: skip
        console.rule("Other methods and tables")
        small, middle, large = (draw_crowd(folder, n, 8) for n in (10**4, 10**5, 10**6))
        report.compare("Dawid-Skene", middle, 10**5, "ours dawid-skene", "peerannot dawid-skene", goal=1000,
                       iterations=20, peer_iterations=(1, 3))  # fmt: skip
        report.compare(
            "GLAD", small, 10**4, "ours glad", "crowd-kit glad", goal=500, iterations=20, peer_iterations=(3, 10)
        )
        report.compare(
            "OneCoin",
            large,
            10**6,
            "ours one-coin",
            "crowd-kit one-coin",
            goal=200,
            iterations=20,
            peer_iterations=(2, 6),
        )
        report.compare(
            "MACE", large, 10**6, "ours mace", "crowd-kit mace", goal=50, iterations=20, peer_iterations=(2, 6)
        )
        report.compare("quality tables", middle, 10**5, "ours quality", "cleanlab quality", goal=50)
        for what, case in (("GLAD, to convergence", "glad"), ("MMSR", "mmsr"), ("IBCC, to convergence", "ibcc"),
                           ("Krippendorff's alpha", "alpha")):  # fmt: skip
            report.compare(what, large, 10**6, f"ours {case}", None, repeats=1)
    write_results(options.out, report.rows)
    console.print(f"figures saved in {options.out}")
    table = Table("what", "answers", "ours", "peer", "ratio", "goal")
    for row in report.rows:
        if row.get("ratio"):
            ours, peer = f"{row['ours']['seconds']:.3f} s", f"{row['peer']['seconds']:.2f} s"
            goal = f"{row['goal']:,} x" if row["goal"] else "-"
            table.add_row(row["what"], size(row["answers"]), ours, peer, f"{row['ratio']:,.0f} x", goal)
    console.print(table)


if __name__ == "__main__":
    main()
