"""WAUM: pruning ambiguous tasks. Table 1, and what moves our numbers towards the paper's.

    MV, NS, DS, GLAD, WDS           a network on the labels of a truth method: hard for MV, soft for the others
    CrowdLayer, CoNAL(lambda)       learners trained on the answers
    WAUM + ...                      the same without the most ambiguous hundredth of the tasks; WAUM(.1) a tenth
    random(.1) + ...                the control: as many tasks, left out at random

The paper fine-tunes VGG16-bn on augmented pictures for 1000 epochs at a rate of .005, and ranks tasks by a ResNet50;
here one small network on fixed features does both. `waum-gaps` changes its training, one thing at a time.

    labels    MV to WDS: accuracy of the aggregated labels over the kept tasks (the paper's Acc_train)
              others: accuracy of the inferred truth over the same tasks
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from crowdwise.ambiguity.pruned import Pruned
from crowdwise.evaluate.calibration import reliability
from crowdwise.learn.base import Array
from crowdwise.learn.network.architectures import MLP
from crowdwise.learn.network.modules import initialise
from crowdwise.learn.network.torch_support import nn
from reproduction.cells import Cell, Figures, Method, Setting
from reproduction.experiments import Experiment, Published
from reproduction.measurement import learners, measure, members
from reproduction.problems import Problem
from reproduction.settings import CEILING, Make, aggregated, learner, prepare

SETS = ("labelme", "music")
ALPHA = 0.01  # as in the paper; larger values for CoNAL, with random tasks as a control
MORE = (0.05, 0.1)

DS = partial(aggregated, "dawid-skene")
CONAL = partial(learner, "conal", lam=1e-4)
BASES: dict[str, Make] = {
    "MV": aggregated("majority-vote", soft=False), "NS": aggregated("naive-soft"), "DS": DS(),
    "GLAD": aggregated("glad"), "WDS": aggregated("wds"), "CrowdLayer": learner("crowdlayer"),
    "CoNAL(0)": learner("conal", lam=0.0), "CoNAL(1e-4)": CONAL(),
}  # fmt: skip


def pruned(base: Make, alpha: float = ALPHA, *, random: bool = False) -> Make:
    """Return a maker of a learner without the most ambiguous tasks, ranked by the learner's own network."""
    return lambda setting: Pruned(base(setting), alpha=alpha, random=random, random_state=setting.seed)


def _short(alpha: float) -> str:
    return f"{alpha:g}".removeprefix("0")


def varied(make: Callable[..., Make], **options: Any) -> Make:
    """Return a maker of a learner with other training settings; fewer epochs in a quick run."""

    def build(setting: Setting) -> Any:
        given = {**options, **({"epochs": setting.epochs(options["epochs"])} if "epochs" in options else {})}
        return make(**given)(setting)

    return build


def twice(make: Callable[..., Make]) -> Make:
    """Return a maker of a learner whose network ends in a softmax used as logits, as in the authors' code."""

    def build(setting: Setting) -> Any:
        layers = [nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 8), nn.Softmax(dim=-1)]
        network = nn.Sequential(*layers)
        initialise(network, [setting.seed])
        return make(network=network)(setting)

    return build


ROOTS, TWICE = "square roots", "softmax twice"
LONG = {"epochs": 500, "lr": 0.005}
WAYS: dict[str, dict[str, Any]] = {
    "100 epochs": {"epochs": 100},
    "500 epochs at .005": LONG,
    "standardised": {"network": MLP()},
    ROOTS: {},  # of the features, see `run`
}
CHANGED = {"DS": DS, "CoNAL(1e-4)": CONAL}
GAPS = {
    **{
        f"{row}, {way}": Method(varied(make, **options), together=True)
        for row, make in CHANGED.items()
        for way, options in WAYS.items()
    },
    **{f"{row}, {TWICE}": Method(twice(make)) for row, make in CHANGED.items()},
    "WAUM + CoNAL(1e-4), 500 epochs at .005": Method(pruned(varied(CONAL, **LONG))),
    f"WAUM + CoNAL(1e-4), {TWICE}": Method(pruned(twice(CONAL))),
}
TABLE = {
    **{row: Method(make, together=True) for row, make in BASES.items()},
    **{f"WAUM + {row}": Method(pruned(make)) for row, make in BASES.items()},
    **{f"WAUM({_short(alpha)}) + CoNAL(1e-4)": Method(pruned(CONAL(), alpha)) for alpha in MORE},
    **{
        f"random({_short(alpha)}) + CoNAL(1e-4)": Method(pruned(CONAL(), alpha, random=True))
        for alpha in (ALPHA, *MORE)
    },
}
METHODS = {"ceiling": CEILING, **TABLE, **GAPS}


def run(cell: Cell) -> list[Figures]:
    """Return the figures of a cell, with the accuracy of labels over the kept tasks."""
    model, problem = prepare(METHODS, cell)
    if cell.method.endswith(ROOTS):
        problem = rooted(problem)
    figures = measure(model, problem, hide=cell.hide, seed=cell.seeds[0])
    if cell.hide:
        return figures
    if cell.method.endswith(TWICE):  # calibration of the network's own output, as the authors measure it
        output = before_softmax(members(model, problem.X_test)[0])
        right = output.argmax(axis=1) == problem.y_test
        figures[0]["ece"] = float(reliability(output.max(axis=1), right).ece or 0.0)
    own = labels_of(model, problem.answers.truth)
    return [{**each, **({} if own is None else {"labels": own})} for each in figures]


def rooted(problem: Problem) -> Problem:
    """Return the problem with the square roots of its features, which are never negative."""
    valid = None if problem.valid is None else (np.sqrt(problem.valid[0]), problem.valid[1])
    return problem._replace(X=np.sqrt(problem.X), X_test=np.sqrt(problem.X_test), valid=valid)


def before_softmax(proba: Array) -> Array:
    """Return the probabilities (rows, classes) whose softmax these are.

    >>> p = np.array([[0.7, 0.2, 0.1]])
    >>> before_softmax(np.exp(p) / np.exp(p).sum()).round(6).tolist()
    [[0.7, 0.2, 0.1]]
    """
    log = np.log(proba)
    return np.clip(log - log.mean(axis=1, keepdims=True) + 1 / log.shape[1], 0, 1)


def labels_of(model: Any, truth: Array | None) -> float | None:
    """Return the accuracy of labels inferred for the kept training tasks; None if each network infers its own."""
    base, kept = getattr(model, "model_", model), getattr(model, "kept_", slice(None))
    if hasattr(base, "truth_"):
        inferred = base.truth_.codes_
    elif base is not model:
        inferred = model.proba_.argmax(axis=1)
    else:
        return None
    return 100 * float((inferred == truth)[kept].mean())


FAMILY = learners("waum", METHODS)._replace(run=run)

# The paper's Table 1, LabelMe: test accuracy and its deviation, calibration error, accuracy of the labels.
TABLE1: dict[str, tuple[float, ...]] = {
    "MV": (85.4, 1.0, 0.136, 76.1), "NS": (86.1, 1.0, 0.138, 76.9), "DS": (86.8, 0.5, 0.123, 79.7),
    "GLAD": (87.1, 0.9, 0.119, 77.6), "CrowdLayer": (85.4, 4.2, 0.142), "CoNAL(0)": (88.1, 1.0, 0.119),
    "CoNAL(1e-4)": (86.2, 6.4, 0.135), "WAUM + WDS": (87.1, 0.8, 0.129, 74.4), "WAUM + CoNAL(0)": (89.2, 1.0, 0.108),
    "WAUM + CoNAL(1e-4)": (90.0, 0.8, 0.099),
}  # fmt: skip
PUBLISHED: Published = {
    **{(row, "labelme"): numbers[:2] for row, numbers in TABLE1.items()},  # type: ignore[misc]
    **{(row, "labelme", "ece"): (numbers[2], None) for row, numbers in TABLE1.items()},
    **{(row, "labelme", "labels"): (numbers[3], None) for row, numbers in TABLE1.items() if len(numbers) > 3},
}

EXPERIMENTS = (
    Experiment(
        "waum-table1", "WAUM, table 1: test accuracy, calibration, accuracy of the labels",
        "WAUM + CoNAL above CoNAL, and pruning by WAUM above pruning at random",
        FAMILY, tuple(TABLE), SETS, "ceiling", measures=("last", "ece", "labels"), published=PUBLISHED,
        hide=True,
    ),
    Experiment(
        "waum-gaps", "WAUM, table 1: what moves test accuracy and calibration towards the paper's",
        "how much of the gap is the training, and how much the fixed features",
        FAMILY, ("DS", "CoNAL(1e-4)", "WAUM + CoNAL(1e-4)", *GAPS), ("labelme",), "ceiling",
        measures=("last", "validation", "ece"),
        published={
            (row, data): PUBLISHED[name, data]
            for row in ("DS", "CoNAL(1e-4)", "WAUM + CoNAL(1e-4)", *GAPS)
            for name, data in [(row.partition(", ")[0], "labelme")]
        },
    ),
)  # fmt: skip
