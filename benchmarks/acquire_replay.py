"""Replay real answers, bought by each acquisition strategy: `python -m benchmarks acquire [--seeds 10] [CASE ...]`.

Most answers are hidden and bought back, a twentieth of all at a time. After each round a truth method labels the tasks.
The table shows the mean accuracy of the labels over the curve minus that of buying at random, in points, with its
standard error over seeds. Truth is used for scoring only.
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import Any, NamedTuple

from benchmarks.files import RESULTS, read_results, write_results

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from crowdwise.acquire import STRATEGIES, replay
from crowdwise.errors import CrowdwiseWarning

TARGET = RESULTS / "acquire.json"


class Case(NamedTuple):
    """A data set, the method that labels it, and the share of answers known at first (None: one per task)."""

    data: str
    model: str
    start: float | None = None


CASES = {
    "bluebird": Case("bluebird", "dawid-skene"),
    "rte": Case("rte", "dawid-skene"),
    "dog": Case("dog", "dawid-skene"),
    "labelme": Case("labelme", "dawid-skene"),
    "labelme-70": Case("labelme", "dawid-skene", 0.7),
    "labelme-one-coin": Case("labelme", "one-coin"),
}


def measure(case: Case, seeds: int) -> dict[str, Any]:
    """Return the mean over the curve of each strategy minus that of buying at random."""
    answers = cw.datasets.load(case.data if case.data == "labelme" else f"truth/{case.data}").answers
    table = replay(answers, STRATEGIES, model=case.model, start=case.start, step=0.05, seeds=range(seeds))
    known, seed, strategy, accuracy = (
        table.column(name).to_numpy() for name in ("answers", "seed", "strategy", "accuracy")
    )
    inside = (known > known.min()) & (known < known.max())  # all strategies share the first and the last point
    area = {
        name: np.array([accuracy[inside & (strategy == name) & (seed == s)].mean() for s in range(seeds)])
        for name in STRATEGIES
    }
    gain = {name: 100 * (values - area["random"]) for name, values in area.items() if name != "random"}
    return {
        "random": 100 * float(area["random"].mean()),
        "seeds": seeds,
        **{
            name: [float(values.mean()), float(values.std(ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0]
            for name, values in gain.items()
        },
    }


def main() -> None:
    """Run the cases, print the table and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("cases", nargs="*", help=f"cases to run: {', '.join(CASES)} (default: all)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", CrowdwiseWarning)
    results: dict[str, Any] = read_results(TARGET, {})
    others = [name for name in STRATEGIES if name != "random"]
    shown = Table("case", "random", *others)
    for name in arguments.cases or CASES:
        results[name] = measure(CASES[name], arguments.seeds)
        write_results(TARGET, results)
        cells = [f"{results[name][other][0]:+.2f} ± {results[name][other][1]:.2f}" for other in others]
        shown.add_row(name, f"{results[name]['random']:.2f}", *cells)
    Console(width=160).print(shown)


if __name__ == "__main__":
    main()
