"""Every network learner with its defaults on small data, compared with majority vote.

    python -m benchmarks small-data [--seeds 5] [--data iris wine ...] [METHOD ...]

The data sets are scikit-learn's iris (150 tasks), wine (178) and digits (1,797), and blobs in two dimensions with three
centres (100, 300 and 1,200 tasks). 20 workers of `simulate`'s default kinds give 3 answers to each task. Shown per
learner and set, as means over seeds: the share of training tasks labelled correctly minus that of majority vote, in
points, with its standard error over seeds; the mean number of steps; and the number of seeds in which the labels are
more than 2 points below the vote without a warning. Nothing is chosen by these figures: each learner finds how long to
train on held-out answers.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.errors import CrowdwiseWarning

METHODS = (
    "crowdlayer", "annoreg", "conal", "mbem", "unionnet", "geocrowdnet", "maxmig", "aggnet", "doctornet", "aggregated",
    "crowding", "completed", "waum(crowdlayer)", "iced",
)  # fmt: skip
REAL = {"iris": load_iris, "wine": load_wine, "digits": load_digits}
BLOBS = {f"blobs-{n}": n for n in (100, 300, 1200)}
TOLERANCE = 0.02


def draw(data: str, seed: int) -> tuple[Any, cw.Answers]:
    """Return the features of a set, and answers drawn with this seed."""
    if data in REAL:
        X, truth = REAL[data](return_X_y=True)
    else:
        X, truth = make_blobs(BLOBS[data], n_features=2, centers=3, random_state=seed)
    answers = cw.simulate.simulate(truth=truth, n_workers=20, answers_per_task=3, seed=seed)
    return X.astype(np.float32), answers


def measure(method: str, data: str, seed: int) -> dict[str, Any]:
    """Fit a method; return the accuracy of its labels and of the vote, whether it warned, and its cost."""
    X, answers = draw(data, seed)
    assert answers.truth is not None
    model: Any = cw.make(method)
    if "random_state" in model.get_params():
        model.set_params(random_state=seed)
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, answers)
    network = getattr(model, "model_", model)
    return {
        "labels": float((model.codes_ == answers.truth).mean()),
        "vote": float((cw.MajorityVote().fit(answers).codes_ == answers.truth).mean()),
        "warned": any(issubclass(warning.category, CrowdwiseWarning) for warning in caught),
        "steps": getattr(network, "n_steps_", 0), "seconds": time.process_time() - start,
    }  # fmt: skip


def show(results: dict[str, Any]) -> None:
    """Print a row per method and a column per set."""
    sets = [data for data in (*REAL, *BLOBS) if any(key.split()[1] == data for key in results)]
    table = Table("labels - vote", *sets)
    for method in METHODS:
        cells = []
        for data in sets:
            runs = [run for key, run in results.items() if key.split()[:2] == [method, data]]
            if not runs:
                cells.append("")
                continue
            gain = 100 * np.array([run["labels"] - run["vote"] for run in runs])
            silent = sum(g < -100 * TOLERANCE and not run["warned"] for g, run in zip(gain, runs, strict=True))
            error = f" ± {gain.std(ddof=1) / np.sqrt(len(gain)):.1f}" if len(gain) > 1 else ""
            steps = np.mean([run["steps"] for run in runs])
            cells.append(f"{gain.mean():+.1f}{error} ({steps:.0f}){f', {silent} silent' if silent else ''}")
        if any(cells):
            table.add_row(method, *cells)
    Console(width=160).print(table)


def main() -> None:
    """Fit what is missing in the file of results, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks small-data", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("methods", nargs="*", default=METHODS, metavar="METHOD")
    parser.add_argument("--data", nargs="*", default=[*REAL, *BLOBS], choices=[*REAL, *BLOBS])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--again", action="store_true", help="repeat fits whose results are stored")
    options = parser.parse_args()
    file = RESULTS / "small_data.json"
    results: dict[str, Any] = {} if options.again else read_results(file, {})
    for seed in range(options.seeds):
        for data in options.data:
            for method in options.methods:
                key = f"{method} {data} {seed}"
                if key not in results:
                    results[key] = measure(method, data, seed)
                    write_results(file, results)
    show(results)


if __name__ == "__main__":
    main()
