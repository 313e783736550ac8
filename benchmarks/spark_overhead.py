"""What Spark costs per iteration, compared with the kernels it runs: `python -m benchmarks spark [--sizes 1e6]`.

    local    the local model, all cores
    spark    the same iterations on `local[cores]`: parameters out, the same kernels in Python workers, sums back
    empty    a Spark job of as many Python tasks that do nothing: a lower limit for any engine on Spark
    joined   the matrices stay in the cluster, in blocks of workers, as for crowds too large for a broadcast

Dawid-Skene, five answers per task. Intake is reading, checking, numbering, packing and the first statistics. Times are
the median (least) of an iteration; their difference shows other work on the machine, and `load` how busy it was. CPU
seconds (this process, Java and the Python workers together; Linux only) vary less.
"""

from __future__ import annotations

import argparse
import os
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import crowdwise as cw
from benchmarks.files import RESULTS, write_results
from crowdwise.engines import spark as engine
from crowdwise.engines.spark.session import session

PER_TASK = 5


def crowd(n_answers: int, n_workers: int, n_classes: int) -> dict[str, np.ndarray]:
    """Return answers of workers who are right seven times in ten; no worker answers a task twice."""
    rng = np.random.default_rng(0)
    n_tasks = n_answers // PER_TASK
    first = rng.integers(n_workers, size=n_tasks)
    worker = (first[:, None] + np.arange(PER_TASK) * (n_workers // PER_TASK)) % n_workers  # (tasks, per task)
    truth = np.repeat(rng.integers(n_classes, size=n_tasks), PER_TASK)
    label = np.where(rng.random(len(truth)) < 0.7, truth, rng.integers(n_classes, size=len(truth)))
    return {"task": np.repeat(np.arange(n_tasks), PER_TASK), "worker": worker.ravel(), "label": label}


def cpu() -> float:
    """Return the CPU seconds used so far by this process and all its descendants."""
    parent, used = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            values = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parent[int(process.name)], used[int(process.name)] = int(values[1]), int(values[11]) + int(values[12])
    ours = {os.getpid()}
    while more := {process for process, above in parent.items() if above in ours} - ours:
        ours |= more
    return sum(used.get(process, 0) for process in ours) / os.sysconf("SC_CLK_TCK")


class Clock:
    """A callback that records when each iteration ends."""

    def __init__(self) -> None:
        self.start, self.ends, self.used = time.perf_counter(), [], []

    def __call__(self, iteration: int, bound: float) -> None:
        """Record the time."""
        self.ends.append(time.perf_counter())
        self.used.append(cpu())

    def figures(self) -> dict[str, float]:
        """Return seconds per iteration, and the time until the end of the first."""
        each = np.diff(self.ends)
        used = (self.used[-1] - self.used[0]) / len(each)
        return {
            "seconds": float(np.median(each)), "least": float(each.min()), "cpu": used,
            "before": self.ends[0] - self.start,
        }  # fmt: skip


def time_fit(fit: Any, *arguments: Any, **options: Any) -> dict[str, float]:
    """Fit with a clock as the callback, and return its figures."""
    clock = Clock()
    fit(*arguments, callback=clock, **options)
    return clock.figures()


def nothing(part: int) -> int:
    """Do nothing: the work of an empty task."""
    return part


def measure(
    spark: Any, n_answers: int, n_workers: int, n_classes: int, parts: int, n_iter: int, *, join: bool
) -> dict[str, Any]:
    """Return all figures at one size."""
    columns = crowd(n_answers, n_workers, n_classes)
    answers = cw.Answers.from_arrays(columns["task"], columns["worker"], columns["label"])
    settings = {"max_iter": n_iter, "tol": 0}
    local = time_fit(cw.DawidSkene(**settings).fit, answers)
    pairs = len(answers.pairs.label)
    del answers
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table(columns), f"{folder}/answers.parquet", row_group_size=500_000)
        del columns
        frame = spark.read.parquet(f"{folder}/answers.parquet")
        model = engine.DawidSkene(**settings)
        on_spark = time_fit(model.fit, frame, parts=parts)
        model.release()
        empty, used = [], cpu()
        for _ in range(n_iter):
            start = time.perf_counter()
            spark.sparkContext.parallelize(range(parts), parts).map(nothing).collect()
            empty.append(time.perf_counter() - start)
        used = (cpu() - used) / n_iter
        limit = n_workers * n_classes**2 // 4
        joined = dict.fromkeys(("seconds", "least", "cpu"), float("nan"))
        if join:
            model = engine.DawidSkene(**{**settings, "max_iter": max(4, n_iter // 3)})
            joined = time_fit(model.fit, frame, parts=parts, broadcast_limit=limit, checkpoint=f"{folder}/blocks")
            model.release()
    return {
        "answers": n_answers, "workers": n_workers, "classes": n_classes, "pairs": pairs, "parts": parts,
        "local": local["seconds"], "local_least": local["least"],
        "spark": on_spark["seconds"], "spark_least": on_spark["least"],
        "empty": float(np.median(empty)), "empty_least": min(empty),
        "joined": joined["seconds"], "joined_least": joined["least"],
        "local_cpu": local["cpu"], "spark_cpu": on_spark["cpu"], "empty_cpu": used, "joined_cpu": joined["cpu"],
        "intake": on_spark["before"] - on_spark["seconds"],
        "bytes_out": len(pickle.dumps(np.zeros((pairs, n_classes)))),  # to each executor
        "bytes_back": len(pickle.dumps((np.zeros(pairs, np.int64), np.zeros((pairs, n_classes))))),  # of each part
        "load": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    """Print a table and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 1e7])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--classes", type=int, default=8)
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--memory", default="6g", help="memory of Java")
    parser.add_argument("--no-joined", action="store_true", help="leave the joined path out")
    parser.add_argument("--json", type=Path, default=RESULTS / "spark.json")
    arguments = parser.parse_args()
    rows = []
    settings = {"spark.driver.memory": arguments.memory, "spark.sql.shuffle.partitions": str(arguments.parts)}
    with session(f"local[{arguments.parts}]", settings) as spark:
        print("answers    | local | spark | empty | joined: median (least; CPU) seconds | intake | load")
        for size in arguments.sizes:
            row = measure(
                spark,
                int(size),
                arguments.workers,
                arguments.classes,
                arguments.parts,
                arguments.iterations,
                join=not arguments.no_joined,
            )
            cells = [
                f"{row[name]:.3f} ({row[f'{name}_least']:.3f}; {row[f'{name}_cpu']:.3f})"
                for name in ("local", "spark", "empty", "joined")
            ]
            print(f"{int(size):<10} | {' | '.join(cells)} | {row['intake']:5.1f}  | {row['load']:.1f}", flush=True)
            rows.append(row)
    write_results(arguments.json, rows)


if __name__ == "__main__":
    main()
