"""How well flags find bad workers: 20 settings of bad workers, 10 crowds each.

    kinds of bad workers   always the same class; random; against the truth; copies of one worker
    their share            20 to 60 % of the workers
    crowds                 20 workers, 400 tasks, 3 classes, 6 answers per task; good workers are right in 60 to 95 %

Labels are those of `pool` with the confidence of `crowdwise run`. A copy is bad; the worker who is copied is not.
"""

from __future__ import annotations

import argparse
import csv
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from benchmarks.files import RESULTS
from crowdwise.run.confidence import find_copies
from crowdwise.run.tables.workers import rate_workers
from crowdwise.trust import calibrated, dependence

KINDS = ("constant", "random", "against", "copying")
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6)
N_WORKERS, N_TASKS, N_CLASSES, PER_TASK = 20, 400, 3, 6
FILE = RESULTS / "worker_flags.csv"


def crowd(kind: str, share: float, seed: int) -> tuple[cw.Answers, np.ndarray]:
    """Return the answers and which workers are bad, (workers,) bools."""
    rng = np.random.default_rng([KINDS.index(kind), round(100 * share), seed])
    n_bad, k = round(share * N_WORKERS), N_CLASSES
    truth = rng.integers(0, k, N_TASKS)
    bad = np.arange(N_WORKERS) < n_bad
    right = rng.uniform(0.6, 0.95, N_WORKERS)
    task, worker, label = [], [], []
    own = np.where(rng.random(N_TASKS) < right[-1], truth, rng.integers(0, k, N_TASKS))  # of the worker who is copied
    for t in range(N_TASKS):
        for w in rng.permutation(N_WORKERS)[:PER_TASK]:
            z = truth[t] if rng.random() < right[w] else (truth[t] + rng.integers(1, k)) % k
            if w == N_WORKERS - 1:
                z = own[t]
            if bad[w]:
                z = {"constant": 0, "random": rng.integers(0, k), "copying": own[t]}.get(kind, (truth[t] + 1) % k)
            task.append(t)
            worker.append(w)
            label.append(z)
    return cw.Answers.from_arrays(task, worker, label), bad


def score(kind: str, share: float, seed: int) -> dict[str, Any]:
    """Return how many workers are flagged rightly and wrongly in one crowd."""
    answers, bad = crowd(kind, share, seed)
    found = calibrated(answers)
    copies = find_copies(dependence(answers))
    table = rate_workers(answers, found.proba, found.codes, copies=copies, calibrated=True)
    flagged = np.array([bool(flag) for flag in table.column("flag").to_pylist()])
    return {"kind": kind, "share": share, "seed": seed, "hits": int((flagged & bad).sum()),
            "false": int((flagged & ~bad).sum()), "missed": int((bad & ~flagged).sum())}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Run the settings, print precision and recall, and keep the counts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks worker-flags", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="crowds per setting")
    seeds = parser.parse_args(arguments).seeds
    rows = [score(kind, share, seed) for kind in KINDS for share in SHARES for seed in range(seeds)]
    table = Table("bad workers", *(f"{share:.0%}" for share in SHARES), title="precision / recall of flags")
    for kind in KINDS:
        cells = []
        for share in SHARES:
            part = [row for row in rows if row["kind"] == kind and row["share"] == share]
            hits, false, missed = (sum(row[name] for row in part) for name in ("hits", "false", "missed"))
            cells.append(f"{hits / max(hits + false, 1):.2f} / {hits / max(hits + missed, 1):.2f}")
        table.add_row(kind, *cells)
    Console().print(table)
    if seeds == 10:
        with FILE.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
