"""Truth methods on real data sets with known truth: `python -m benchmarks truth-accuracy [METHOD ...]`.

Accuracy in per cent on the tasks with known truth, with default settings; methods that draw at random are averaged over
five seeds. `vote check` is the comparison of the default Dawid-Skene with majority vote on held-out answers.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from benchmarks.files import RESULTS, write_results
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning

SEEDS = range(5)


def data_sets() -> dict[str, cw.Answers]:
    """Return the eleven sets of answers with truth, then LabelMe and Music."""
    names = [name for name in cw.datasets.names() if name.startswith("truth/")]
    return {
        name.removeprefix("truth/"): cw.datasets.load(name).answers for name in [*sorted(names), "labelme", "music"]
    }


def accuracy(name: str, answers: cw.Answers) -> float | None:
    """Return the accuracy of a method on tasks with known truth, in per cent; None if it does not apply."""
    known = answers.truth >= 0
    seeds = SEEDS if "random_state" in cw.make(name).get_params() else (0,)
    scores = []
    for seed in seeds:
        model = cw.make(name, **({"random_state": seed} if len(seeds) > 1 else {}))
        try:
            codes = model.fit(answers).codes_
        except CrowdwiseError:
            return None
        scores.append((codes[known] == answers.truth[known]).mean())
    return 100 * float(np.mean(scores))


def main() -> None:
    """Print the table and store it."""
    warnings.simplefilter("ignore", CrowdwiseWarning)
    console = Console(width=None if sys.stdout.isatty() else 200)
    sets = data_sets()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("methods", nargs="*", help="methods (default: all)")
    names = parser.parse_args().methods or [
        m.name for m in cw.methods("classes") if not m.needs_features and not cw.make(m.name).needs_gold
    ]
    results: dict[str, dict[str, float | None]] = {}
    truth_sets = list(sets)[:11]
    table = Table("method", *sets, "mean of 11", "worst against vote", "seconds")
    for name in names:
        start = time.perf_counter()
        results[name] = row = {data: accuracy(name, answers) for data, answers in sets.items()}
        seconds = time.perf_counter() - start
        vote = results.setdefault("majority-vote", {d: accuracy("majority-vote", a) for d, a in sets.items()})
        complete = all(row[d] is not None for d in truth_sets)
        mean = f"{np.mean([row[d] for d in truth_sets]):.2f}" if complete else "-"
        worst = f"{min(row[d] - vote[d] for d in truth_sets if row[d] is not None):+.1f}"
        table.add_row(name, *("-" if v is None else f"{v:.1f}" for v in row.values()), mean, worst, f"{seconds:.1f}")
    console.print(table)
    check = Table(
        "data", "vote check of dawid-skene (log-likelihood per answer)", "verdict", "accuracy minus the vote's"
    )
    for data, answers in sets.items():
        verdict = cw.DawidSkene().check_against_vote(answers)
        gain = (accuracy("dawid-skene", answers) or 0) - (results["majority-vote"][data] or 0)
        figure = f"{verdict.difference:+.3f} +- {verdict.standard_error:.3f}"
        check.add_row(data, figure, "supports it" if verdict.supported else "prefers the vote", f"{gain:+.1f}")
    console.print(check)
    out = RESULTS / "truth_accuracy.json"
    write_results(out, results)
    console.print(f"saved in {out}")


if __name__ == "__main__":
    main()
