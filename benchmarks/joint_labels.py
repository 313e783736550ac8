"""Labels of JointEM and of Dawid-Skene: real sets, and simulated crowds with good, weak and useless features.

    python -m benchmarks joint-labels [--seeds 4] [--only real|votes|simulated] [--show]

The rule for the labels and the bar were written before the run: benchmarks/notes/joint_labels_protocol.md.

    real        LabelMe, Music, leaves, product, cifar10h and cifar10n, as in `reproduction/problems.py`
    votes       1,000 pictures of CIFAR-10H; each answer is drawn from the picture's votes, with shares raised to 1/2,
                so that errors are on the same pictures; its own features, or six directions of them with noise
    simulated   600 tasks, crowds of `simulate`, N answers per task
                even, rare      four equally frequent classes; two at 10 to 1
                apart, shared   workers err independently; or 15 % of the tasks are hard, and half of the errors on
                                them the same for all
                good, weak, useless     20 features, normal with distance 4, 1.4 and 0 between classes

Shown: labels that are right, in per cent, by majority vote, Dawid-Skene, JointEM with `answer_weight=1`, and JointEM;
the difference of the last to Dawid-Skene, paired over tasks, with its standard error, marked where it is below it; the
calibration error of Dawid-Skene and of JointEM; accuracy on new tasks, where there are some; the weights of features
and answers. Means over seeds; seeds from 10 on.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import crowdwise as cw
from benchmarks.files import RESULTS, read_results, write_results
from crowdwise.datasets import load
from crowdwise.errors import CrowdwiseWarning
from crowdwise.evaluate.calibration import reliability
from crowdwise.simulate import simulate
from reproduction.problems import load_problem

Array = np.ndarray[Any, np.dtype[Any]]
FIRST = 10  # first seed of the simulated crowds
DISTANCE = {"good": 4.0, "weak": 1.4, "useless": 0.0}
SHARED = {"difficulty": 0.15, "together": 0.5, "accuracy": (0.5, 0.95)}
NUMBERS = (1, 3, 6, 15)  # answers per task
REAL = ("labelme", "music", "leaves", "product", "cifar10h", "cifar10n")
Problem = tuple[Array, cw.Answers, tuple[Array, Array] | None]  # features, answers with the truth, new tasks


def real(name: str) -> Problem:
    """Return a real set."""
    if name == "leaves":
        data = load("truth/leaves")
        return data.X, data.answers, None
    problem = load_problem(name)
    return problem.X, problem.answers, (problem.X_test, problem.y_test)


def votes(n_answers: int, weak: bool) -> Problem:
    """Return pictures with answers drawn from their votes."""
    data, rng = load("cifar10h"), np.random.default_rng(3)
    order = np.argsort(data.classes)
    truth = order[np.searchsorted(data.classes, data.extra["truth_all"], sorter=order)]
    rows = rng.choice(len(truth), 1000, replace=False)
    share = np.sqrt(data.extra["counts"][rows] + 0.05)  # (pictures, classes)
    label = [rng.choice(10, n_answers, p=each / each.sum()) for each in share]
    worker = [rng.choice(60, n_answers, replace=False) for _ in rows]
    answers = cw.Answers.from_codes(
        np.repeat(np.arange(len(rows)), n_answers), np.concatenate(worker), np.concatenate(label), tasks=len(rows),
        workers=60, classes=10, truth=truth[rows],
    )  # fmt: skip
    X = data.extra["X_all"][rows]
    if weak:
        X = (X - X.mean(axis=0)) @ rng.normal(size=(X.shape[1], 6))
        X = X / X.std(axis=0) + rng.normal(size=X.shape)
    return X, answers, None


def simulated(n_answers: int, shared: bool, rare: bool, kind: str, seed: int) -> Problem:
    """Return a simulated crowd with features."""
    rng = np.random.default_rng([seed, 9])
    truth = (rng.random(600) < 1 / 11).astype(int) if rare else rng.integers(0, 4, 600)
    crowd: dict[str, Any] = SHARED if shared else {}
    answers = simulate(truth=truth, n_workers=30, answers_per_task=float(n_answers), seed=seed, **crowd)
    rng = np.random.default_rng([seed, 77])
    centre = rng.normal(size=(truth.max() + 1, 20))
    centre *= DISTANCE[kind] / np.linalg.norm(centre, axis=1, keepdims=True)
    return centre[truth] + rng.normal(size=(600, 20)), answers, None


def problems(seeds: range, only: str | None) -> Iterator[tuple[str, Callable[[], Problem]]]:
    """Yield the name of each problem and a function that makes it; the name of a simulated one ends with its seed."""
    if only in (None, "votes"):
        for n in NUMBERS[1:]:
            for weak in (False, True):
                yield f"votes, {n} answers, {'weak' if weak else 'own'} features", lambda n=n, weak=weak: votes(n, weak)
    if only in (None, "real"):
        for name in REAL:
            yield name, lambda name=name: real(name)
    if only in (None, "simulated"):
        for seed in seeds:
            for n in NUMBERS:
                for shared in (False, True):
                    for rare in (False, True):
                        for kind in DISTANCE:
                            words = (
                                f"{n} answers, {'rare' if rare else 'even'}, {'shared' if shared else 'apart'}, {kind}"
                            )
                            yield f"{words}, {seed}", lambda a=(n, shared, rare, kind, seed): simulated(*a)


def measure(problem: Problem) -> dict[str, Any]:
    """Return the figures of one problem, in per cent, and the sums that the paired error needs."""
    X, answers, new = problem
    truth = answers.truth
    assert truth is not None
    known = truth >= 0
    start = time.process_time()
    models = {"vote": cw.MajorityVote(), "Dawid-Skene": cw.DawidSkene()}
    fitted: dict[str, Any] = {name: model.fit(answers) for name, model in models.items()}
    fitted["weight 1"] = cw.JointEM(answer_weight=1.0).fit(X, answers)
    fitted["JointEM"] = joint = cw.JointEM().fit(X, answers)
    right = {name: (model.codes_ == truth)[known].astype(float) for name, model in fitted.items()}
    gap = 100 * (right["JointEM"] - right["Dawid-Skene"])
    out = {name: 100 * float(each.mean()) for name, each in right.items()}
    out |= {"gap": float(gap.mean()), "square": float(np.square(gap).mean()), "tasks": int(known.sum())}
    for name in ("Dawid-Skene", "JointEM"):
        out[f"ECE {name}"] = float(reliability(fitted[name].proba_[known].max(axis=1), right[name] == 1).ece)
    if new is not None:
        out["new"] = 100 * float((joint.predict_proba(new[0]).argmax(axis=1) == new[1]).mean())
    out |= {"features": joint.feature_weight_, "answers": joint.answer_weight_, "used": joint.features_used_}
    return out | {"seconds": time.process_time() - start}


def show(results: dict[str, Any]) -> None:
    """Print one row per problem, means over seeds."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for key, run in results.items():
        name, _, seed = key.rpartition(", ")
        rows.setdefault(name if seed.isdecimal() else key, []).append(run)
    columns = ("vote", "Dawid-Skene", "weight 1", "JointEM")
    table = Table(
        "problem", *columns, "JointEM - Dawid-Skene", "ECE", "ECE of JointEM", "new tasks", "features", "answers"
    )
    below = []
    for name, runs in rows.items():
        mean = {what: float(np.mean([run[what] for run in runs])) for what in runs[0] if what != "new"}
        error = np.sqrt((mean["square"] - mean["gap"] ** 2) / sum(run["tasks"] for run in runs))
        low = mean["gap"] < -error
        if low:
            below.append(name)
        table.add_row(
            name, *[f"{mean[what]:.1f}" for what in columns],
            f"{mean['gap']:+.1f} ± {error:.1f}{' below' if low else ''}",
            f"{mean['ECE Dawid-Skene']:.3f}", f"{mean['ECE JointEM']:.3f}",
            f"{runs[0]['new']:.1f}" if "new" in runs[0] else "", f"{mean['features']:.2f}", f"{mean['answers']:.2f}",
        )  # fmt: skip
    console = Console(width=170)
    console.print(table)
    console.print(f"{len(rows) - len(below)} of {len(rows)} problems not below Dawid-Skene by more than the error.")


def main() -> None:
    """Measure what is not stored yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--only", choices=("real", "votes", "simulated"))
    parser.add_argument("--show", action="store_true", help="print stored figures without measuring")
    parser.add_argument("--json", type=Path, default=RESULTS / "joint_labels.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore", CrowdwiseWarning)
    results: dict[str, Any] = read_results(options.json, {})
    if not options.show:
        for name, make in problems(range(FIRST, FIRST + options.seeds), options.only):
            if name not in results:
                run = measure(make())
                results = {**read_results(options.json, {}), name: run}
                write_results(options.json, results)
                print(name, run, flush=True)
    show(results)


if __name__ == "__main__":
    main()
