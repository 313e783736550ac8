"""Calibration of the labels before and after calibration: `python -m benchmarks calibration [SET ...]`.

Expected calibration error (ECE, 15 bins) of the labels of each method against the known truth: with the probabilities
of the method, and at the temperature that `crowdwise.choose` finds from held-out answers, without truth (five folds;
for majority vote, its shares before, its votes as odds after). `confidence` is the mean confidence at that temperature,
which is the accuracy a user would expect.

The way to find the temperature was chosen among some fifteen by the mean ECE over the sets of TRIED and simulated
crowds (with other seeds than here). The sets of UNSEEN took no part in that choice. They were looked at twice: the
first choice, the higher of workers and coin, had failed on the simulated crowd "class-dependent" here.

Two rules were added later, with all sets here seen, because the votes of LabelMe and `s_rel` came out overconfident: a
limit on what one vote may add (`vote_limit`), and that a probability rises only as far as all estimates agree. The
temperature of the vote is the one found; the limit applies where it is lower than the inverse temperature.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.evaluate import ece

METHODS = ["majority-vote", "dawid-skene", "one-coin", "glad", "ibcc", "mace"]
TRIED = ["bluebird", "dog", "fej2013", "rte", "weather_cf", "zencrowd_us"]
UNSEEN = ["d_possent", "face", "leaves", "s_rel", "web", "labelme", "music", "product"]
SIMULATED: dict[str, dict[str, Any]] = {
    "mixed": {"n_classes": 4, "answers_per_task": 4},
    "one-coin": {"n_classes": 3, "answers_per_task": 5, "workers": "one-coin"},
    "class-dependent": {"n_classes": 3, "answers_per_task": 3, "workers": "class-dependent", "class_balance": 5.0},
    "hard tasks": {"n_classes": 3, "answers_per_task": 6, "accuracy": (0.6, 0.95), "difficulty": 0.4},
    "err together": {"n_classes": 3, "answers_per_task": 5, "accuracy": (0.6, 0.95), "together": 0.2},
}
LEARNERS = {"labelme features": ("labelme", "crowdlayer"), "music features": ("music", "raykar")}


def crowd(name: str) -> tuple[Any, cw.Answers]:
    """Return features (None if they are not used) and answers with truth."""
    if name in SIMULATED:
        return None, cw.simulate.simulate(1000, n_workers=30, seed=7, **SIMULATED[name])
    if name in LEARNERS:
        data = cw.datasets.load(LEARNERS[name][0])
        return data.X, data.answers
    return None, cw.datasets.load(f"truth/{name}" if name in TRIED + UNSEEN[:5] else name).answers


def measure(name: str) -> dict[str, Any]:
    """Return the ECE of each method on one set, before and after calibration."""
    X, answers = crowd(name)
    methods = [LEARNERS[name][1]] if X is not None else METHODS
    choice = cw.choose.choose(answers, X, methods, folds=3 if X is not None else 5)
    known, out = answers.truth >= 0, {}
    for method in methods:
        model = cw.make(method)
        model = model.fit(answers) if X is None else model.fit(X, answers)
        labels = model.codes_ if X is None else model.proba_.argmax(axis=1)
        after = choice.calibrated(method, model)
        rows = np.flatnonzero(known)
        out[method] = {
            "temperature": choice.temperatures[method],
            "accuracy": float((labels == answers.truth)[known].mean()),
            "before": ece(answers.truth, model.proba_, labels),
            "after": ece(answers.truth, after, labels),
            "confidence_before": float(model.proba_[rows, labels[rows]].mean()),
            "confidence": float(after[rows, labels[rows]].mean()),
        }
    return out


def main() -> None:
    """Measure, print a table and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", help="sets to run (default: all)")
    warnings.simplefilter("ignore")
    target = RESULTS / "calibration.json"
    results = read_results(target, {})
    for name in parser.parse_args().sets or [*TRIED, *UNSEEN, *SIMULATED, *LEARNERS]:
        results[name] = measure(name)
        write_results(target, results)
    table = Table("set", *METHODS, "learner", title="ECE before > after, temperature")
    for name, row in results.items():
        cells = [row.get(method) for method in METHODS]
        cells.append(row.get(LEARNERS[name][1]) if name in LEARNERS else None)
        table.add_row(name, *("" if c is None else _cell(c) for c in cells))
    for title, names in (("mean, tried", TRIED), ("mean, unseen", UNSEEN), ("mean, simulated", [*SIMULATED])):
        rows = [results[name] for name in names if name in results]
        if rows:
            means = [[np.mean([row[m][key] for row in rows]) for key in ("before", "after")] for m in METHODS]
            table.add_row(title, *(f"{before:.3f} > {after:.3f}" for before, after in means), "")
    Console(width=160).print(table)


def _cell(figures: dict[str, float]) -> str:
    return f"{figures['before']:.3f} > {figures['after']:.3f}, {figures['temperature']:.2f}"


if __name__ == "__main__":
    main()
