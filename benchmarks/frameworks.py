"""Frameworks with the settings a user gets by typing their name, each compared with its base.

    python -m benchmarks frameworks [--seeds 10] [--data labelme music ...] [PAIR ...]

    dasc(crowdlayer), dasc(annoreg), dasc(doctornet)      against the base alone
    waum(conal)                                           against conal, and against `random`: as many tasks removed at
                                                          random
    crowding                                              against crowdlayer, which its game starts from

The sets are those of `reproduction`, with its training and test tasks; long-tailed ones are drawn with the seed. Shown
per pair and set: the test accuracy of the base, the mean gain in points with its paired standard error over
seeds, the same for the labels of the training tasks, and the number of seeds with a gain in test accuracy. Nothing is
chosen by these figures: how long to train is found on held-out answers.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.learn.wrapper import resolve_base
from reproduction.problems import load_problem

PAIRS = {
    "dasc(crowdlayer)": "crowdlayer", "dasc(annoreg)": "annoreg", "dasc(doctornet)": "doctornet",
    "waum(conal)": "conal", "waum(conal), random": "conal", "crowding": "crowdlayer",
}  # fmt: skip
SETS = ("labelme", "music", "product", "cifar10h", "cifar10h-103", "digits-tail", "usps-tail")


def build(name: str, seed: int) -> Any:
    """Return a method by name, with this seed in every part of it."""
    method, _, control = name.partition(", ")
    model = resolve_base(cw.make(method))
    if control:
        model.set_params(random=True)
    seeds = [parameter for parameter in model.get_params() if parameter.rpartition("__")[2] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds, seed))


def measure(name: str, data: str, seed: int) -> dict[str, Any]:
    """Fit a method; return the accuracy on test tasks and of the labels of training tasks, and the cost."""
    problem = load_problem(data, seed)
    truth = problem.answers.truth
    assert truth is not None
    start = time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = build(name, seed).fit(problem.X, problem.answers)
    network = getattr(model, "model_", model)
    return {
        "test": float((model.predict_proba(problem.X_test).argmax(axis=1) == problem.y_test).mean()),
        "labels": float((model.codes_ == truth)[truth >= 0].mean()),
        "steps": network.n_steps_, "seconds": time.process_time() - start,
        "warnings": [str(warning.message) for warning in caught],
    }  # fmt: skip


def paired(gains: list[float]) -> str:
    """Return the mean and standard error of gains, in points."""
    gain = 100 * np.array(gains)
    return f"{gain.mean():+.1f}" + (f" ± {gain.std(ddof=1) / np.sqrt(len(gain)):.1f}" if len(gain) > 1 else "")


def show(results: dict[str, Any]) -> None:
    """Print a row per pair and set."""
    table = Table("framework", "set", "seeds", "base", "gain in test accuracy", "in labels", "seeds with a gain")
    for name, base in PAIRS.items():
        for data in SETS:
            seeds = [
                s for s in range(100) if f"{name} | {data} | {s}" in results and f"{base} | {data} | {s}" in results
            ]
            if not seeds:
                continue
            with_it, alone = ([results[f"{which} | {data} | {s}"] for s in seeds] for which in (name, base))
            gains = {
                measure: [ours[measure] - theirs[measure] for ours, theirs in zip(with_it, alone, strict=True)]
                for measure in ("test", "labels")
            }
            table.add_row(
                name, data, str(len(seeds)), f"{100 * np.mean([run['test'] for run in alone]):.1f}",
                paired(gains["test"]), paired(gains["labels"]), str(sum(gain > 0 for gain in gains["test"])),
            )  # fmt: skip
    Console(width=140).print(table)


def main() -> None:
    """Fit what is missing in the file of results, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks frameworks", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("pairs", nargs="*", default=[*PAIRS], metavar="PAIR")
    parser.add_argument("--data", nargs="*", default=SETS, choices=SETS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--again", action="store_true", help="repeat fits whose results are stored")
    options = parser.parse_args()
    file = RESULTS / "frameworks.json"
    results: dict[str, Any] = {} if options.again else read_results(file, {})
    for seed in range(options.seeds):
        for data in options.data:
            for name in dict.fromkeys(method for pair in options.pairs for method in (PAIRS[pair], pair)):
                key = f"{name} | {data} | {seed}"
                if key not in results:
                    results[key] = measure(name, data, seed)
                    write_results(file, results)
    show(results)


if __name__ == "__main__":
    main()
