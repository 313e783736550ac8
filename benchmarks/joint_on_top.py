"""The other systems on top of `JointEM`, each compared with plain `JointEM` on the same seeds.

    python -m benchmarks joint-top [--groups weights made ensemble dasc] [--seeds 5] [problem ...]

The rule, written before the first run:

    figure      accuracy on the test tasks of labelme, music and cifar10h (balanced test sets); F1 of the matches on
                product (five folds, one per seed); balanced accuracy on digits, usps and gas_drift. A consensus does
                not label other tasks: CROWDLAB is measured by the same figure of the training labels.
    helps       on a problem: the mean over seeds of its figure minus that of plain JointEM exceeds its standard error
    hurts       the mean is below minus its standard error
    kept        helps on three data sets or more (usps and usps@80 count as one, helped if one of them is and neither
                is hurt; gas_drift likewise), hurts on fewer than it helps, and, if there is a control, is ahead of it
                in the mean over the data sets that it helps. Everything else is dropped.

With five seeds, a row that does nothing passes on a problem about once in five by chance. Seeds change the folds of
JointEM and the networks, not the test tasks (usps and gas_drift are redrawn), so one in eight of such rows would be
kept. Rows that are kept are run once more on new seeds (`--first 10`).

    weights     soft WAUM weights as `sample_weight`; the same weights shuffled (control); WAUM's ranks as weights
    made        artificial tasks of rare classes, interpolated between tasks that JointEM labels with that class
                (ICED's (2.3), in the features), with gold labels and no answers; ICED's own tasks with its
                simulated answers; rare classes weighted up instead (control)
    ensemble    logs of CrowdLayer's and JointEM's f averaged, evenly or by weights under which the answers are most
                likely (both cross-fitted in three folds); two of JointEM averaged (control); CROWDLAB over
                cross-fitted f of JointEM, and of both
    dasc        two iterations of self-training, soft, and with pseudo-answers chosen at random (control)
    stopped     `dasc(joint-em)` with default settings: five iterations, or until hidden answers become less likely

Where every worker answered every task (usps, gas_drift) self-training has nothing to add: `@80` have 80 % of the
answers removed.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.files import RESULTS, read_results, write_results

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import rankdata

import crowdwise as cw
from crowdwise.answers import Answers
from crowdwise.augment.iced.neighbours import balancing_counts, certainty, interpolate_tasks
from crowdwise.errors import CrowdwiseWarning
from crowdwise.evaluate import metrics
from crowdwise.learn.joint_em import experts
from crowdwise.learn.joint_em.classifiers import draw_folds
from crowdwise.learn.joint_em.pooling import pool, pool_weights
from crowdwise.learn.joint_em.views import fit_view
from crowdwise.learn.methods.crowdlab import crowdlab
from reproduction.problems import Problem, load_problem

TARGET = RESULTS / "joint_on_top.json"
NOTE = Path(__file__).parent / "notes" / "joint_on_top.md"
PROBLEMS = {  # in the order they are run, with their seeds and their figure
    "digits": (5, "balanced"), "music": (5, "accuracy"), "usps@80": (5, "balanced"), "labelme": (5, "accuracy"),
    "usps": (5, "balanced"), "product": (5, "f1"), "cifar10h": (3, "accuracy"), "gas_drift@80": (3, "balanced"),
    "gas_drift": (3, "balanced"),
}  # fmt: skip
PLAIN = "JointEM"
CONTROLS = {
    "soft WAUM weights": "WAUM weights dealt at random", "WAUM ranks as weights": "WAUM weights dealt at random",
    "made tasks with gold labels": "rare classes weighed up",
    "ICED's made tasks and answers": "rare classes weighed up",
    "with CrowdLayer, evenly": "two of JointEM", "with CrowdLayer, by the answers": "two of JointEM",
    "DASC": "pseudo-answers at random", "soft DASC": "pseudo-answers at random",
}  # fmt: skip
INTRO = """The other systems on top of JointEM: differences to plain JointEM on the same seeds, in points, with their
standard error over seeds. Bold: helps, †: hurts (the mean exceeds its standard error). In brackets: the seeds of a
cell that has fewer than its column. "helps" and "hurts" count data sets. Rows in which something is random, weighted up
or doubled are controls. The rule for what is kept is in benchmarks/joint_on_top.py and was written before the run. The
standard error covers folds and networks (usps and gas_drift: also tasks and crowds), not test tasks."""
CONSENSUS = ("CROWDLAB over JointEM", "CROWDLAB over both")  # labels training tasks only
FOLDS = 3
ROUNDING = 1e-9  # tolerance when a mean is compared with its standard error
Array = np.ndarray[Any, np.dtype[Any]]
Predictions = tuple[Array | None, Array]  # class probabilities of the test tasks, and of the training tasks
_FITTED: dict[
    Any, cw.JointEM
] = {}  # of the current problem and seed, so that a fit to the same answers is not repeated
_VIEWS: dict[Any, Any] = {}  # views of the same features, for the same reason


def _cached_view(name: str, x: Array) -> Any:
    key = (name, x.shape, hash(x.tobytes()))
    if key not in _VIEWS:
        _VIEWS[key] = fit_view(name, x)
    return _VIEWS[key]


class Joint(cw.JointEM):
    """`JointEM` that caches fits without further options."""

    def fit(self, X: Any, answers: Answers, **options: Any) -> Any:
        """Fit as `JointEM` does, or return the cached fit."""
        if any(value is not None for value in options.values()):
            return super().fit(X, answers, **options)
        key = (self.random_state, *(hash(column.tobytes()) for column in (answers.task, answers.worker, answers.label)))
        key = (*key, answers.n_tasks, None if answers.weight is None else hash(answers.weight.tobytes()))
        if key in _FITTED:
            self.__dict__.update(_FITTED[key].__dict__)
            return self
        _FITTED[key] = super().fit(X, answers)
        return _FITTED[key]


def weights(p: Problem, seed: int) -> Iterator[tuple[str, Predictions]]:
    """Weight tasks by how ambiguous they are."""
    waum = cw.WAUM(random_state=seed).fit(p.X, p.answers)
    ranked = np.isfinite(waum.scores_)
    rank = np.where(ranked, rankdata(np.where(ranked, waum.scores_, -np.inf)) / len(ranked), 1.0)
    for name, weight in {
        "soft WAUM weights": waum.weights(), "WAUM weights dealt at random": waum.weights(random=True),
        "WAUM ranks as weights": rank,
    }.items():  # fmt: skip
        yield name, predictions(Joint(random_state=seed).fit(p.X, p.answers, sample_weight=weight), p)


def made(p: Problem, seed: int) -> Iterator[tuple[str, Predictions]]:
    """Add artificial tasks of rare classes."""
    plain = Joint(random_state=seed).fit(p.X, p.answers)
    n_classes, rng = p.answers.n_classes, np.random.default_rng([seed, 9])
    points = interpolate_tasks(
        p.X, plain.codes_, certainty(plain.proba_, 0.05), balancing_counts(plain.codes_, n_classes),
        k=5, delta="intended", noise=0.05, rng=rng,
    )  # fmt: skip
    n = len(p.X) + len(points.first)
    more = Answers.from_codes(
        p.answers.task, p.answers.worker, p.answers.label, tasks=n, workers=p.answers.worker_ids,
        classes=p.answers.class_ids,
    )  # fmt: skip
    gold = np.append(np.full(len(p.X), -1), plain.codes_[points.first])
    model = Joint(random_state=seed).fit(np.concatenate([p.X, points.of(p.X)]), more, gold=gold)
    yield "made tasks with gold labels", predictions(model, p)
    X, answers = cw.ICED(epochs=20, epochs_per_round=10, random_state=seed).fit_resample(p.X, p.answers)
    yield "ICED's made tasks and answers", predictions(Joint(random_state=seed).fit(X, answers), p)
    count = np.bincount(plain.codes_, minlength=n_classes)
    yield (
        "rare classes weighed up",
        predictions(Joint(random_state=seed).fit(p.X, p.answers, sample_weight=1 / count[plain.codes_]), p),
    )


def ensemble(p: Problem, seed: int) -> Iterator[tuple[str, Predictions]]:
    """Combine JointEM and CrowdLayer."""
    pair = (lambda: Joint(random_state=seed), lambda: cw.CrowdLayer(random_state=seed))
    joint, layer = (make().fit(p.X, p.answers) for make in pair)
    yield "CrowdLayer", predictions(layer, p)
    folds, f = draw_folds(len(p.X), FOLDS, seed), np.empty((2, len(p.X), p.answers.n_classes))
    for k in range(FOLDS):
        rows, held = np.flatnonzero(folds != k), np.flatnonzero(folds == k)
        for i, make in enumerate(pair):
            f[i, held] = make().fit(p.X[rows], p.answers[rows]).predict_proba(p.X[held])
    log_f, a = np.log(np.maximum(f, 1e-12)), p.answers
    each = np.log(joint.confusion_[a.worker, :, a.label])  # (answers, classes)
    likely = np.stack([np.bincount(a.task, column, minlength=a.n_tasks) for column in each.T], axis=1)
    new = np.stack([model.predict_proba(p.X_test) for model in (joint, layer)])
    for name, w in (("evenly", np.full(2, 0.5)), ("by the answers", pool_weights(log_f, likely))):
        labels = np.log(pool(f, w)) + likely
        yield f"with CrowdLayer, {name}", (pool(new, w), np.exp(labels - labels.max(axis=1, keepdims=True)))
    yield CONSENSUS[0], (None, crowdlab(a, f[0]).proba)
    yield CONSENSUS[1], (None, crowdlab(a, f.mean(axis=0)).proba)
    twin = Joint(random_state=seed + 1000).fit(p.X, a)
    both = (np.stack([one, two]) for one, two in zip(predictions(joint, p), predictions(twin, p), strict=True))
    new_mean, train_mean = (pool(pair, np.full(2, 0.5)) for pair in both)
    yield "two of JointEM", (new_mean, train_mean)


def dasc(p: Problem, seed: int) -> Iterator[tuple[str, Predictions]]:
    """Run two iterations of self-training."""
    for name, how in {
        "DASC": {}, "soft DASC": {"soft": True}, "pseudo-answers at random": {"select": "random"},
    }.items():  # fmt: skip
        model = cw.DASC(Joint(random_state=seed), iterations=2, hidden=0.0, random_state=seed, **how)  # type: ignore[arg-type]
        yield name, predictions(model.fit(p.X, p.answers), p)


def stopped(p: Problem, seed: int) -> Iterator[tuple[str, Predictions]]:
    """Run self-training with default settings."""
    yield "DASC, stopped", predictions(cw.DASC(Joint(random_state=seed), random_state=seed).fit(p.X, p.answers), p)


GROUPS: dict[str, Callable[[Problem, int], Iterator[tuple[str, Predictions]]]] = {
    "weights": weights, "made": made, "ensemble": ensemble, "dasc": dasc, "stopped": stopped,
}  # fmt: skip


def predictions(model: Any, p: Problem) -> Predictions:
    """Return the class probabilities of test and training tasks."""
    return model.predict_proba(p.X_test), model.proba_[: len(p.X)]


def problem(name: str, seed: int) -> Problem:
    """Return the problem of this name; for product, the fold of this seed."""
    if name != "product":
        return load_problem(name, seed)
    data = cw.datasets.load(name)
    assert data.X is not None
    assert data.answers is not None
    assert data.answers.truth is not None
    held = draw_folds(len(data.X), 5, 0) == seed % 5
    rows, test = np.flatnonzero(~held), np.flatnonzero(held)
    return Problem(data.X[rows], data.answers[rows], data.X[test], data.answers.truth[test])


def measure(out: Predictions, p: Problem, figure: str) -> dict[str, Any]:
    """Return this figure and the calibration error, of test tasks and training tasks."""
    new, train = out
    parts = {} if new is None else {"test": figures(p.y_test, new)}
    parts["train"] = figures(p.answers.truth, train)
    return {part: {name: values[name] for name in (figure, "ece")} for part, values in parts.items()}


def figures(truth: Any, proba: Array) -> dict[str, Any]:
    """Return accuracy, balanced accuracy and F1 (of class 1 of two, otherwise the mean) in per cent, and ECE."""
    proba = proba / proba.sum(axis=1, keepdims=True)
    label = proba.argmax(axis=1)
    two = proba.shape[1] == 2
    f1 = metrics.per_class(truth, label)[1].f1 if two else metrics.macro_f1(truth, label)
    values = {
        "accuracy": metrics.accuracy(truth, label), "balanced": metrics.balanced_accuracy(truth, label), "f1": f1,
    }  # fmt: skip
    shown = {name: round(100 * float(value or 0), 3) for name, value in values.items()}
    return {**shown, "ece": round(float(metrics.ece(truth, proba) or 0), 5)}


def run(names: list[str], groups: list[str], first: int, seeds: int | None, target: Path) -> dict[str, Any]:
    """Measure what is missing in the file, and write it after each group."""
    results: dict[str, Any] = read_results(target, {})
    warnings.simplefilter("ignore", CrowdwiseWarning)
    for name in names:
        for seed in range(first, first + (seeds or PROBLEMS[name][0])):
            stored = results.setdefault(name, {}).setdefault(str(seed), {"rows": {}, "groups": []})
            missing = [group for group in groups if group not in stored["groups"]]
            if not missing:
                continue
            p, figure = problem(name, seed), PROBLEMS[name][1]
            _FITTED.clear()
            _VIEWS.clear()
            began = time.perf_counter()
            with patch.object(experts, "fit_view", _cached_view):
                stored["rows"][PLAIN] = measure(predictions(Joint(random_state=seed).fit(p.X, p.answers), p), p, figure)
                for group in missing:
                    for row, out in GROUPS[group](p, seed):
                        stored["rows"][row] = measure(out, p, figure)
                    stored["groups"].append(group)
                    write_results(target, results)
            print(f"{name} {seed}: {', '.join(missing)} in {time.perf_counter() - began:.0f} s", flush=True)
    return results


def gains(results: dict[str, Any], name: str, row: str, other: str = PLAIN, part: str = "test") -> Array:
    """Return the differences between the figures of two rows, over the seeds that have both."""
    figure = PROBLEMS[name][1]
    rows = [found["rows"] for found in results.get(name, {}).values()]
    both = [r for r in rows if part in r.get(row, {}) and part in r.get(other, {})]
    return np.array([r[row][part][figure] - r[other][part][figure] for r in both])


def verdict(gain: Array) -> int:
    """Return 1 if it helps, -1 if it hurts, otherwise 0: the mean compared with its standard error."""
    if len(gain) < 2:
        return 0
    mean, error = gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain))
    return int(mean > error + ROUNDING) - int(mean < -error - ROUNDING)


def apply_rule(results: dict[str, Any], row: str) -> tuple[list[str], list[str], bool]:
    """Return the data sets that a row helps, those that it hurts, and whether it is kept."""
    part = "train" if row in CONSENSUS else "test"
    by_set: dict[str, list[int]] = {}
    for name in PROBLEMS:
        by_set.setdefault(name.partition("@")[0], []).append(verdict(gains(results, name, row, part=part)))
    helped = [name for name, verdicts in by_set.items() if max(verdicts) > 0 and min(verdicts) >= 0]
    hurt = [name for name, verdicts in by_set.items() if min(verdicts) < 0]
    ahead = [
        float(gain.mean())
        for name in PROBLEMS
        if name.partition("@")[0] in helped and row in CONTROLS
        and len(gain := gains(results, name, row, CONTROLS[row], part))
    ]  # fmt: skip
    kept = len(helped) >= 3 and len(hurt) < len(helped) and (not ahead or float(np.mean(ahead)) > 0)
    return helped, hurt, kept


def format_gain(gain: Array, most: int) -> str:
    """Format mean and standard error: bold if it helps, a dagger if it hurts, the seeds if other cells have more."""
    if not len(gain):
        return "-"
    error = gain.std(ddof=1) / np.sqrt(len(gain)) if len(gain) > 1 else np.nan
    text = f"{gain.mean():+.2f} ± {error:.2f}" + (f" ({len(gain)})" if len(gain) < most else "")
    return {1: f"**{text}**", 0: text, -1: f"{text} †"}[verdict(gain)]


def table(results: dict[str, Any], part: str) -> list[list[str]]:
    """Return rows of text: the figure of plain JointEM, the differences of the others to it, and the counts."""
    names = [name for name in PROBLEMS if name in results]
    columns = [f"{n}, {PROBLEMS[n][1]}, {len(results[n])} seeds" for n in names]
    head = ["test tasks" if part == "test" else "training labels", *columns, "helps", "hurts"]
    plain = [
        f"{np.mean([found['rows'][PLAIN][part][PROBLEMS[n][1]] for found in results[n].values()]):.2f}" for n in names
    ]
    rows = dict.fromkeys(row for n in names for found in results[n].values() for row in found["rows"])
    out = [head, [PLAIN, *plain, "", ""]]
    for row in rows:
        if row == PLAIN or (part == "test" and row in CONSENSUS):
            continue
        judged = (part == "train") == (row in CONSENSUS)
        helped, hurt, kept = apply_rule(results, row)
        counts = [f"{len(helped)}{', kept' if kept else ''}", str(len(hurt))] if judged else ["", ""]
        out.append([row, *(format_gain(gains(results, n, row, part=part), len(results[n])) for n in names), *counts])
    return out


def calibration(results: dict[str, Any]) -> list[list[str]]:
    """Return rows of text: mean ECE on the test tasks."""
    names = [name for name in PROBLEMS if name in results]
    rows = dict.fromkeys(row for n in names for found in results[n].values() for row in found["rows"])
    out = [["ECE on test tasks", *names]]
    for row in rows:
        if row in CONSENSUS:
            continue
        cells = [[f["rows"][row]["test"]["ece"] for f in results[n].values() if row in f["rows"]] for n in names]
        out.append([row, *(f"{np.mean(cell):.3f}" if cell else "-" for cell in cells)])
    return out


def markdown(rows: list[list[str]]) -> str:
    """Return the rows as a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "| " + " | ".join(["---"] * len(rows[0])) + " |", *lines[1:]])


def main() -> None:
    """Measure, print, and write the note."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS))
    parser.add_argument(
        "--first", type=int, default=0, help="first seed (default: 0); other values write to a separate file"
    )
    parser.add_argument("--seeds", type=int, help="number of seeds (default: five, or three on large sets)")
    parser.add_argument("problems", nargs="*", choices=[*PROBLEMS, []], help="problems to run (default: all)")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    target = TARGET if arguments.first == 0 else TARGET.with_stem(f"{TARGET.stem}_from_{arguments.first}")
    results = run(arguments.problems or list(PROBLEMS), arguments.groups, arguments.first, arguments.seeds, target)
    tables = [table(results, "test"), table(results, "train"), calibration(results)]
    screen = Console(width=220)
    for head, *rows in tables:
        printed = Table(*head)
        for row in rows:
            printed.add_row(*row)
        screen.print(printed)
    if arguments.first == 0:
        NOTE.write_text("\n\n".join([INTRO, *(markdown(rows) for rows in tables)]) + "\n")


if __name__ == "__main__":
    main()
