"""ICED with its defaults, compared with two-step methods and Crowd-Layer with theirs, on the same seeds.

    python -m benchmarks iced-defaults [--seeds 5] [--data usps ...] [--methods ICED ...] [--show]

The sets are those of `reproduction/problems.py`: on usps, gas_drift and gisette_like (10 to 1, every worker answers
every task) a seed draws tasks, crowd and network, on labelme and music the network alone. No setting differs from what
the name gives: every network finds how long to train on held-out answers (`epochs="auto"`).

    vote          labels of majority vote, as a reference
    MV+DNN        a network on majority-vote labels
    D&S+DNN       a network on Dawid-Skene's labels as ICED's paper states it: hard decisions, equal class shares
    Crowd-Layer   a network with a layer per worker
    ICED          as typed; ICED's labels are those of the real tasks

Shown per set: accuracy on the test tasks and of the training labels; the difference of ICED to each of the others, as
the mean over seeds with its standard error; and the number of collapsed seeds of ICED. A seed has collapsed if the
labels repeat one worker (`DominantWorkerWarning`), if they name one class only, or if the test accuracy is below 60 %.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.errors import CrowdwiseWarning, DominantWorkerWarning
from reproduction.problems import load_problem

SETS = ("usps", "gas_drift", "labelme", "music", "gisette_like")
TWO_CLASSES = ("usps", "gas_drift", "gisette_like")
METHODS: dict[str, Any] = {
    "ICED": lambda seed: cw.ICED(random_state=seed),
    "MV+DNN": lambda seed: cw.Aggregated("majority-vote", soft=False, random_state=seed),
    "D&S+DNN": lambda seed: cw.Aggregated(cw.DawidSkene(None, "uniform", hard=True), soft=False, random_state=seed),
    "Crowd-Layer": lambda seed: cw.CrowdLayer(random_state=seed),
}
FAILED = 60  # test accuracy of a collapsed seed, in per cent


def measure(method: str, data: str, seed: int) -> dict[str, Any]:
    """Return the figures of one fit, in per cent."""
    problem = load_problem(data, seed)
    truth = problem.answers.truth
    assert truth is not None
    known = truth >= 0
    model = METHODS[method](seed)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(problem.X, problem.answers)
    test = 100 * float((model.predict_proba(problem.X_test).argmax(axis=1) == problem.y_test).mean())
    vote = cw.MajorityVote(random_state=seed).fit(problem.answers).codes_
    dominant = any(issubclass(warning.category, DominantWorkerWarning) for warning in caught)
    one_class = len(np.unique(model.codes_)) == 1
    return {
        "test": test, "labels": 100 * float((model.codes_ == truth)[known].mean()),
        "vote": 100 * float((vote == truth)[known].mean()),
        "collapsed": dominant or one_class or (data in TWO_CLASSES and test < FAILED),
        "epochs": getattr(model, "n_epochs_", None), "seconds": time.process_time() - start,
        "warned": [str(w.message)[:60] for w in caught if issubclass(w.category, CrowdwiseWarning)],
    }  # fmt: skip


def paired(a: dict[int, dict[str, Any]], b: dict[int, dict[str, Any]], figure: str, other: str) -> str:
    """Return the mean difference over the seeds that both have, with its standard error and their number."""
    both = sorted(a.keys() & b.keys())
    if len(both) < 2:
        return ""
    gap = np.array([a[seed][figure] - b[seed][other] for seed in both])
    return f"{gap.mean():+.2f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.2f} ({len(gap)})"


def show(results: dict[str, Any]) -> None:
    """Print one table of means and one of paired differences."""
    runs: dict[str, dict[str, dict[int, dict[str, Any]]]] = {}
    for key, run in results.items():
        method, data, seed = key.rsplit(" ", 2)
        runs.setdefault(data, {}).setdefault(method, {})[int(seed)] = run
    means = Table("set", "method", "seeds", "test", "labels", "vote", "collapsed", "CPU s")
    gaps = Table("ICED minus", *[data for data in SETS if data in runs], title="paired over seeds, in points (seeds)")
    for data in (each for each in SETS if each in runs):
        for method in (each for each in METHODS if each in runs[data]):
            each = list(runs[data][method].values())
            test, labels, vote, seconds = (
                np.mean([run[name] for run in each]) for name in ("test", "labels", "vote", "seconds")
            )
            collapsed = sum(run["collapsed"] for run in each)
            cells = (f"{test:.1f}", f"{labels:.1f}", f"{vote:.1f}", str(collapsed), f"{seconds:.0f}")
            means.add_row(data, method, str(len(each)), *cells)
    for figure in ("test", "labels"):
        for method in list(METHODS)[1:]:
            row = [
                paired(own.get("ICED", {}), own.get(method, {}), figure, figure)
                for own in (runs[d] for d in SETS if d in runs)
            ]
            gaps.add_row(f"{method}: {figure}", *row)
    rows = (paired(runs[d].get("ICED", {}), runs[d].get("ICED", {}), "labels", "vote") for d in SETS if d in runs)
    gaps.add_row("vote: labels", *rows)
    console = Console(width=160)
    console.print(means)
    console.print(gaps)


def main() -> None:
    """Measure what is not stored yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--show", action="store_true", help="print stored figures without measuring")
    parser.add_argument("--json", type=Path, default=RESULTS / "iced_defaults.json")
    options = parser.parse_args()
    results: dict[str, Any] = read_results(options.json, {})
    if not options.show:
        for seed in range(options.seeds):
            for data in options.data:
                for method in options.methods:
                    key = f"{method} {data} {seed}"
                    if key not in results:
                        run = measure(method, data, seed)
                        results = {**read_results(options.json, {}), key: run}
                        write_results(options.json, results)
                        print(key, run, flush=True)
    show(results)


if __name__ == "__main__":
    main()
