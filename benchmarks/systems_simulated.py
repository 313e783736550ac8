"""Self-training, artificial tasks and ambiguity on simulated sparse, imbalanced crowds.

    python -m benchmarks simulated [--jobs 2] [--seeds 12] [CROWD ...]

Gaussian classes of uneven size, 20 features; workers are right on a class 50 to 95 times in 100, errors are spread
unevenly, and a few workers do most of the work. Balanced accuracy in per cent on new tasks, equally many of each class;
then paired differences over seeds with their standard error. R: imbalance of the pool after the last iteration of
self-training. `planted`: area under the ROC curve for tasks planted half-way between two classes, with answers split
between these. Settings were fixed before the first run of this script, but after similar trial runs.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

from benchmarks.files import RESULTS, read_results, write_results

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import roc_auc_score

import crowdwise as cw
from crowdwise.errors import CrowdwiseWarning

TARGET = RESULTS / "systems_simulated.json"


class Crowd(NamedTuple):
    """Settings of a simulated crowd."""

    n_classes: int
    imbalance: float
    n_tasks: int = 500
    n_workers: int = 20
    answers_per_task: float = 2.5
    distance: float = 2.5  # of the classes' centres from the origin


CROWDS = {
    "2 classes, 10:1": Crowd(2, 10),
    "2 classes, 20:1": Crowd(2, 20),
    "3 classes, 8:1": Crowd(3, 8),
    "4 classes, 10:1, 2 answers": Crowd(4, 10, answers_per_task=2.0),
    "5 classes, 10:1": Crowd(5, 10),
}


def draw(crowd: Crowd, seed: int) -> tuple[Any, ...]:
    """Return features and answers, then features and truth of new tasks."""
    rng = np.random.default_rng([seed, 7])
    c, w = crowd.n_classes, crowd.n_workers
    centre = rng.normal(size=(c, 20))
    centre *= crowd.distance / np.linalg.norm(centre, axis=1, keepdims=True)
    truth = cw.simulate.draw_truth(crowd.n_tasks, c, crowd.imbalance, seed=seed)
    confusion = rng.dirichlet(np.ones(c), size=(w, c))
    right, diagonal = rng.uniform(0.5, 0.95, size=(w, c)), np.arange(c)
    confusion[:, diagonal, diagonal] = 0
    confusion *= ((1 - right) / confusion.sum(axis=2))[:, :, None]
    confusion[:, diagonal, diagonal] = right
    activity = cw.simulate.shares(5.0, w)
    answers = cw.simulate.answer(truth, confusion, crowd.answers_per_task, activity=activity, seed=seed)
    new = np.repeat(np.arange(c), 200)
    both = [(centre[y] + rng.normal(size=(len(y), 20))).astype(np.float32) for y in (truth, new)]
    return both[0], answers, both[1], new


def options(seed: int, epochs: int = 25) -> dict[str, Any]:
    """Return the training options of every network."""
    return {"network": cw.MLP(32), "epochs": epochs, "batch_size": 64, "lr": 5e-3, "random_state": seed}


def self_training(base: type, **how: Any) -> Callable[[int], Any]:
    """Return a function that builds self-training over a learner."""
    return lambda seed: cw.DASC(base(**options(seed)), random_state=seed, **how)


HARD = cw.DawidSkene(None, "uniform", hard=True)  # the paper's D&S
METHODS: dict[str, Callable[[int], Any]] = {
    "MV+DNN": lambda seed: cw.Aggregated("majority-vote", soft=False, **options(seed)),
    "D&S+DNN": lambda seed: cw.Aggregated(HARD, soft=False, **options(seed)),
    "ICED": lambda seed: cw.ICED(warmup_epochs=2, decoder_epochs=5, **options(seed)),
    **{
        f"{base.__name__}{label}": (lambda seed, base=base: base(**options(seed)))
        if how is None
        else self_training(base, **how)
        for base in (cw.AnnoReg, cw.CrowdLayer)
        for label, how in {
            "": None,
            " + Confidence": {"select": "confidence", "hidden": 0.0},
            " + Random": {"select": "random", "hidden": 0.0},
            " + DASC": {"hidden": 0.0},
            " + DASC, stopped": {},
            " + DASC, redistribute": {"hidden": 0.0, "redistribute": True},
        }.items()
    },
}
COMPARED = {
    "ICED": ("MV+DNN", "D&S+DNN"),
    "AnnoReg + DASC": ("AnnoReg", "AnnoReg + Confidence", "AnnoReg + Random"),
    "CrowdLayer + DASC": ("CrowdLayer", "CrowdLayer + Confidence", "CrowdLayer + Random"),
    "AnnoReg + DASC, redistribute": ("AnnoReg", "AnnoReg + Random"),
    "CrowdLayer + DASC, redistribute": ("CrowdLayer", "CrowdLayer + Random"),
}


def cell(crowd: str, seed: int) -> dict[str, Any]:
    """Return accuracy and imbalance of every method on one draw."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore", CrowdwiseWarning)
    X, answers, X_new, new = draw(CROWDS[crowd], seed)
    out: dict[str, Any] = {}
    for name, make in METHODS.items():
        model = make(seed).fit(X, answers)
        out[name] = [100 * float((model.predict(X_new) == new).mean()), model.history_[-1].get("imbalance")]
    return out


def planted(seed: int, n_tasks: int = 400) -> dict[str, float]:
    """Return how well each ranking finds planted ambiguous tasks (area under the ROC curve)."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng([seed, 11])
    centre = 4 * np.eye(3, 6)
    truth = rng.integers(0, 3, n_tasks)
    other = (truth + rng.integers(1, 3, n_tasks)) % 3
    hard = rng.random(n_tasks) < 0.1
    X = np.where(hard[:, None], (centre[truth] + centre[other]) / 2, centre[truth]) + rng.normal(size=(n_tasks, 6))
    task, worker = np.repeat(np.arange(n_tasks), 4), np.argsort(rng.random((n_tasks, 12)), axis=1)[:, :4].ravel()
    skill = rng.uniform(0.7, 0.95, 12)[worker]
    single = np.where(rng.random(len(task)) < skill, truth[task], rng.integers(0, 3, len(task)))
    split = np.where(rng.random(len(task)) < 0.5, truth[task], other[task])
    label = np.where(hard[task], split, single)
    answers = cw.Answers.from_codes(task, worker, label, tasks=n_tasks, workers=12, classes=3)
    entropy = -np.log(np.square(answers.counts(dense=True) / 4).sum(axis=1))  # of the votes alone
    rankers = {"WAUM": cw.WAUM("mlp", random_state=seed), "AUM": cw.AUM("mlp", random_state=seed)}
    found = {name: -ranker.fit(X.astype(np.float32), answers).scores_ for name, ranker in rankers.items()}
    return {name: float(roc_auc_score(hard, scores)) for name, scores in {**found, "votes": entropy}.items()}


def difference(results: dict[str, Any], one: str, other: str) -> str:
    """Format the mean paired difference with its standard error."""
    gain = np.array([draws[one][0] - draws[other][0] for draws in results.values()])
    return f"{gain.mean():+.1f} ± {gain.std(ddof=1) / np.sqrt(len(gain)):.1f}"


def main() -> None:
    """Compute missing results and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("crowds", nargs="*", help="crowds (default: all)")
    arguments = parser.parse_args()
    results: dict[str, Any] = read_results(TARGET, {})
    screen = Console(width=150)
    with ProcessPoolExecutor(arguments.jobs, get_context("spawn")) as pool:
        for crowd in arguments.crowds or CROWDS:
            found = results.setdefault(crowd, {})
            seeds = [seed for seed in range(arguments.seeds) if str(seed) not in found]
            found |= zip(map(str, seeds), pool.map(cell, [crowd] * len(seeds), seeds), strict=True)
            write_results(TARGET, results)
            table = Table("method", "balanced accuracy", "R", title=f"{crowd}, {len(found)} seeds")
            for name in METHODS:
                ratio = [draws[name][1] for draws in found.values()]
                shown = "-" if None in ratio else f"{np.mean(ratio):.1f}"
                table.add_row(name, f"{np.mean([draws[name][0] for draws in found.values()]):.1f}", shown)
            screen.print(table)
            for one, others in COMPARED.items():
                screen.print(f"{one}: " + ", ".join(f"{difference(found, one, o)} over {o}" for o in others))
        found = results.setdefault("planted", {})
        seeds = [seed for seed in range(arguments.seeds) if str(seed) not in found]
        found |= zip(map(str, seeds), pool.map(planted, seeds), strict=True)
    write_results(TARGET, results)
    for name in ("WAUM", "AUM", "votes"):
        areas = [draws[name] for draws in found.values()]
        screen.print(f"planted, {name}: area {np.mean(areas):.3f}, least {min(areas):.3f}")


if __name__ == "__main__":
    main()
