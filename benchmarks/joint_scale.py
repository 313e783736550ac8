"""Time and memory of JointEM with many tasks and many features: `python -m benchmarks joint-scale`.

    python -m benchmarks joint-scale [--tasks 10000 30000 100000] [--features 512] [--json FILE]

Ten classes, the rarest with a tenth of the tasks of the most common. Features are drawn around a centre per class, in
32 informative directions with as much noise in the rest; three answers per task by 1,000 workers of uneven skill. Each
size runs in a process of its own, on all cores. Reported are wall-clock and processor seconds, the load of the machine,
and the peak memory including the features, which take 4 bytes per number.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import crowdwise as cw
from benchmarks.files import RESULTS, write_results
from crowdwise.errors import CrowdwiseWarning

CLASSES, WORKERS, INFORMATIVE, TEST_TASKS = 10, 1_000, 32, 5_000


def measure(n_tasks: int, n_features: int) -> dict[str, Any]:
    """Measure one fit, and its accuracy on training and test tasks."""
    rng = np.random.default_rng(0)
    truth = cw.simulate.draw_truth(n_tasks + TEST_TASKS, CLASSES, 10, seed=0)
    truth = rng.permutation(truth)
    X = rng.standard_normal((len(truth), n_features), dtype=np.float32)
    X[:, :INFORMATIVE] += rng.normal(0, 0.6, (CLASSES, INFORMATIVE)).astype(np.float32)[truth]
    train, test = slice(n_tasks), slice(n_tasks, None)
    answers = cw.simulate.simulate(truth=truth[train], n_workers=WORKERS, answers_per_task=3, seed=0)
    load = os.getloadavg()[0]
    clock, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CrowdwiseWarning)
        model = cw.JointEM().fit(X[train], answers)
    clock, used = time.perf_counter() - clock, time.process_time() - used
    vote = cw.MajorityVote().fit(answers)
    return {
        "tasks": n_tasks, "features": n_features, "answers": answers.n_answers, "seconds": round(clock, 1),
        "processor": round(used, 1), "load": round(load, 1), "rounds": len(model.history_),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "experts": [f"{expert['view']} {expert['kind']} {expert['weight']:.2f}" for expert in model.experts_],
        "labels": round(100 * float((model.codes_ == truth[train]).mean()), 1),
        "vote": round(100 * float((vote.codes_ == truth[train]).mean()), 1),
        "test": round(100 * float((model.predict(X[test]) == answers.classes[truth[test]]).mean()), 1),
    }  # fmt: skip


def main() -> None:
    """Measure each size, print and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--features", type=int, default=512)
    parser.add_argument("--json", type=Path, default=RESULTS / "joint_scale.json")
    options = parser.parse_args()
    records = []
    for n_tasks in options.tasks:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as alone:
            records.append(alone.submit(measure, n_tasks, options.features).result())
        print(json.dumps(records[-1]), flush=True)
    write_results(options.json, records)


if __name__ == "__main__":
    main()
