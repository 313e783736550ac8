"""Data difficulty specified crowdsourcing, tables 2 and 3 with the paper's network: four convolutions on pixels.

    pixels-structural       pictures of cats and dogs, answered by the five workers of `difficulty`; p comes from the
    pixels-unstructured     same network, trained on the truth of other pictures

As in the paper: 3 x 3 convolutions with 32, 32, 64 and 64 channels, each with ReLU and pooling; batch normalisation,
128 hidden units with dropout; Adam at 1e-4, batches of 16, 30 epochs, an E-step after each.

What differs: pictures of 64 x 64 pixels (the paper's code: 150 x 150); 3,000 to train on, 3,000 to test on and 4,000
for the network of p (the paper: 12,500 and 12,500, and pictures for p that it does not name); the last epoch instead of
the best one on the test set; lambda stays at its start. Raykar is `AggNet`, the same EM with a network. The split of a
seed is drawn from the same 10,000 pictures, and the pictures for p are the same for all seeds.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from crowdwise.datasets import load
from crowdwise.learn.features.sources import open_source
from crowdwise.learn.methods.aggnet import AggNet
from crowdwise.learn.methods.aggregated import Aggregated
from crowdwise.learn.methods.difficulty.models import AdaptiveDifficultyEM, FixedDifficultyEM
from crowdwise.learn.network.architectures import CNN
from reproduction.cells import Cell, Family, Figures, stamp_of
from reproduction.crowds.difficulty import SKILL
from reproduction.experiments import Experiment, published
from reproduction.papers.difficulty import TABLES, Drawn, crowd, figures_of
from reproduction.problems import Array, Problem

TRAINING: dict[str, Any] = {"network": CNN(), "epochs": 30, "batch_size": 16, "lr": 1e-4}
MODELS: dict[str, Any] = {
    "MV": Aggregated("majority-vote", soft=False, **TRAINING),
    "Raykar": AggNet(**TRAINING),
    "Adaptive": AdaptiveDifficultyEM(**TRAINING),
    "Fixed": FixedDifficultyEM(**TRAINING),
    "Fixed prior=votes": FixedDifficultyEM(prior="votes", **TRAINING),
}
TRAIN, TEST, OTHER = 3000, 3000, 4000  # pictures


@lru_cache(maxsize=1)
def pictures() -> tuple[Array, Array]:
    """Return all pictures, (pictures, 3, height, width) uint8, and the class of each."""
    data = load("dogs_vs_cats")
    assert data.images is not None
    assert data.truth is not None
    source = open_source(data.images["train"])
    truth = np.searchsorted(data.classes, data.truth)
    x = np.concatenate([np.uint8(255 * source.rows(part) + 0.5) for part in np.array_split(np.arange(len(truth)), 20)])
    return x, truth


@lru_cache(maxsize=1)
def reference(quick: bool) -> tuple[Array, Array]:
    """Return the pictures that train the network of p, and p of every picture, (pictures, classes)."""
    x, truth = pictures()
    rows = np.random.default_rng(0).permutation(len(truth))[: len(truth) * OTHER // (TRAIN + TEST + OTHER)]
    answers = Problem(x[rows], crowd("unstructured", truth[rows], truth, np.random.default_rng(0)), x, truth)
    true = answers.with_true_answers()
    return rows, fitted("MV", true, 0, quick=quick).predict_proba(x)


def draw(name: str, seed: int, *, quick: bool = False) -> Drawn:
    """Return the data set of a problem."""
    kind = name.partition("-")[2]
    x, truth = pictures()
    other, p = reference(quick)
    rows = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(len(truth)), other))
    train, test = np.split(rows, [len(rows) * TRAIN // (TRAIN + TEST)])
    answers = crowd(kind, truth[train], p[train], np.random.default_rng([seed, 1]))
    return Drawn(Problem(x[train], answers, x[test], truth[test]), SKILL if kind == "structural" else None)


def fitted(method: str, problem: Problem, seed: int, *, quick: bool) -> Any:
    """Return the model of a method, fitted."""
    options = MODELS[method].get_params(deep=False) | {"random_state": seed}
    if quick:
        options["epochs"] = 3
    return type(MODELS[method])(**options).fit(problem.X, problem.answers)


def run(cell: Cell) -> list[Figures]:
    """Return the figures of each seed of a cell."""
    found = []
    for seed in cell.seeds:
        drawn = draw(cell.problem, seed, quick=cell.quick)
        found.append(figures_of(fitted(cell.method, drawn.problem, seed, quick=cell.quick), drawn))
    return found


def stamp(cell: Cell) -> str:
    """Return a hash of the settings of the method and the data."""
    options = MODELS[cell.method].get_params(deep=True)
    return stamp_of({**options, "pictures": (TRAIN, TEST, OTHER)}, cell)


PROBLEMS = ("pixels-structural", "pixels-unstructured")
EXPERIMENTS = (
    Experiment(
        "difficulty-cnn", "Data difficulty, tables 2 and 3 with the paper's network on pixels",
        "Fixed above Adaptive above Raykar; MV's 50.0 is a network that did not train",
        Family("difficulty-cnn", run, stamp), tuple(MODELS), PROBLEMS, measures=("last", "labels", "auc", "skill"),
        published=published(
            {f"pixels-{kind}": TABLES[f"dogs-{kind}"] for kind in ("structural", "unstructured")},
            lambda problem: [(row, problem) for row in ("MV", "Raykar", "Adaptive", "Fixed")],
        ),
        seeds=3, stage=lambda method, problem: PROBLEMS.index(problem),
    ),
)  # fmt: skip
