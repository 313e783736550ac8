"""Where JointEM fails: simulated crowds over small data sets, compared with Raykar and majority vote.

    python -m benchmarks joint-crowds [--seeds 4] [--json FILE]

Features are those of scikit-learn's iris, wine and breast_cancer and of three sets of `make_classification` (two
classes; five; ten classes with 300 features and 800 tasks). Three fifths of the tasks are answered, the others are test
tasks. Crowds are those of `simulate` with default settings, except:

    one, three, five    1, 2.5 and 5 answers per task
    good, two good      one answer per task, and two, by workers who are right on 97 to 99.9 %
    ... uneven          15 % of the tasks of the last class are left for training; test tasks stay
    together            2.5 answers; tasks are hard, and half of the errors on a hard task are the same for all
    by mistake          the crowd of the digits without tasks of classes 5 to 9: any answer with these classes is wrong

`together` is so hard that most answers are wrong, which no method can know. Shown per crowd: labels that are right, new
tasks that are classified correctly, and the weight JointEM gives an answer; means over sets and seeds. The start of
JointEM was chosen by seeds 0 to 3 of the first three kinds; seeds from 10 on are new.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_classification

import crowdwise as cw
from benchmarks.files import RESULTS, write_results
from crowdwise.errors import CrowdwiseWarning

FIRST = 10  # first seed
SYNTHETIC = {"two": (1500, 20, 5, 2), "five": (1500, 40, 10, 5), "wide": (800, 300, 15, 10)}
REAL = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}
CROWDS: dict[str, dict[str, Any]] = {
    "one": {"answers_per_task": 1.0}, "three": {"answers_per_task": 2.5}, "five": {"answers_per_task": 5.0},
    "good": {"answers_per_task": 1.0, "workers": "one-coin", "accuracy": (0.97, 0.999)},
    "two good": {"answers_per_task": 2.0, "workers": "one-coin", "accuracy": (0.97, 0.999)},
    "together": {"answers_per_task": 2.5, "difficulty": 0.3, "together": 0.5},
}  # fmt: skip


class Problem(NamedTuple):
    """Training tasks with answers, and test tasks."""

    X: Any
    answers: cw.Answers
    truth: Any
    X_new: Any
    new: Any


def features(name: str) -> tuple[Any, Any]:
    """Return features and classes of a set."""
    if name in REAL:
        return REAL[name](return_X_y=True)
    n_tasks, n_features, n_informative, n_classes = SYNTHETIC[name]
    return make_classification(
        n_tasks, n_features, n_informative=n_informative, n_redundant=2, n_classes=n_classes, n_clusters_per_class=2,
        class_sep=1.5, random_state=0,
    )  # fmt: skip


def draw_problem(name: str, crowd: str, uneven: bool, seed: int) -> Problem:
    """Return a simulated crowd on some tasks of a set."""
    X, truth = features(name)
    order = np.random.default_rng([seed, 3]).permutation(len(truth))
    n_train = len(truth) * 6 // 10
    train, test = order[:n_train], order[n_train:]
    if uneven:
        rare = np.flatnonzero(truth[train] == truth.max())
        train = np.delete(train, rare[max(6, int(0.15 * len(rare))) :])
    answers = cw.simulate.simulate(truth=truth[train], seed=seed, **CROWDS[crowd])
    return Problem(X[train], answers, truth[train], X[test], truth[test])


def by_mistake(seed: int) -> Problem:
    """Return the digits below 5, answered by a crowd that may answer with ten classes."""
    X, every = cw.simulate.digits_crowd(seed=seed)
    assert every.truth is not None
    rows = np.flatnonzero(every.truth < 5)
    part = every[rows]
    answers = cw.Answers.from_codes(
        part.task, part.worker, part.label, tasks=len(rows), workers=part.worker_ids, classes=every.class_ids
    )
    images, digit = load_digits(return_X_y=True)
    seen = {row.tobytes() for row in X}
    new = np.array([row.tobytes() not in seen for row in images]) & (digit < 5)
    return Problem(X[rows], answers, every.truth[rows], images[new], digit[new])


def problems(seeds: range) -> Iterator[tuple[str, Problem]]:
    """Yield all problems with the kind of their crowd."""
    for seed in seeds:
        for name in (*REAL, *SYNTHETIC):
            for crowd in CROWDS:
                yield crowd, draw_problem(name, crowd, False, seed)
                if crowd in ("one", "three", "five"):
                    yield f"{crowd}, uneven", draw_problem(name, crowd, True, seed)
        yield "by mistake", by_mistake(seed)


def measure(problem: Problem, seed: int) -> dict[str, float]:
    """Return the figures of one crowd."""
    votes = cw.MajorityVote().fit(problem.answers), cw.DawidSkene().fit(problem.answers)
    inferred = {"vote: labels": votes[0].codes_, "Dawid-Skene: labels": votes[1].codes_}
    out = {what: float((codes == problem.truth).mean()) for what, codes in inferred.items()}
    for name, model in (("Raykar", cw.Raykar()), ("JointEM", cw.JointEM(random_state=seed))):
        model.fit(problem.X, problem.answers)
        out[f"{name}: labels"] = float((model.codes_ == problem.truth).mean())
        out[f"{name}: new"] = float((model.predict_proba(problem.X_new).argmax(axis=1) == problem.new).mean())
    return {**{what: 100 * value for what, value in out.items()}, "counted": model.answer_weight_}


def main() -> None:
    """Measure, print a table and store the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--json", type=Path, default=RESULTS / "joint_crowds.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore", CrowdwiseWarning)
    each: dict[str, list[dict[str, float]]] = {}
    for crowd, problem in problems(range(FIRST, FIRST + options.seeds)):
        each.setdefault(crowd, []).append(measure(problem, 0))
    figures = list(next(iter(each.values()))[0])
    means = {
        crowd: {what: float(np.mean([one[what] for one in rows])) for what in figures} for crowd, rows in each.items()
    }
    table = Table("crowd", *figures, "JointEM - Raykar: labels", "new")
    for crowd, rows in each.items():
        cells = [f"{value:.{2 if what == 'counted' else 1}f}" for what, value in means[crowd].items()]
        for what in ("labels", "new"):
            gap = np.array([one[f"JointEM: {what}"] - one[f"Raykar: {what}"] for one in rows])
            cells.append(f"{gap.mean():+.1f} ± {gap.std(ddof=1) / np.sqrt(len(gap)):.1f}, worst {gap.min():+.1f}")
        table.add_row(crowd, *cells)
    Console(width=200).print(table)
    write_results(options.json, means)


if __name__ == "__main__":
    main()
