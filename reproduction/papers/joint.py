"""JointEM, our own method, compared with every other learner. Rules: reproduction/notes/joint_protocol.md.

    JointEM             with default settings
    ..., balanced       with class_prior="balanced", if classes are known to be about equally frequent
    ..., even new tasks with new_class_prior="balanced", if classes are uneven in training and balanced in the test
    without: ...        an ablation, with one of its changes turned off: Gaussian classes (replaced by a network or
                        logistic regression), the view of waves, the crowd's prior of the confusion matrices, leaving
                        out a worker's own answer, the weight of answers
    one expert          only LDA on standardised features, because the next two rows allow a single expert; then without
                        calibration (also of answers), then without cross-fitting as well
    MV-DL, DS-DL        the network on hard labels of majority vote, or of Dawid-Skene
    the others          learners by their names, trained as `settings` says
    ceiling             trained on the truth: JointEM, and the network

    score      test accuracy; F1 of the matches on product; balanced accuracy on the long-tailed sets
    ece        calibration error of the test probabilities
    labels     training tasks labelled right: by `proba_`, or by the network where seeds are trained at once

Networks of several seeds are trained at once where all seeds have the same data; else each on its own draw or fold.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from crowdwise._core.registry import make as make_method
from crowdwise.augment.dasc.dasc import DASC
from reproduction.cells import Cell, Figures, Method, Setting
from reproduction.experiments import Experiment
from reproduction.measurement import learners, measure
from reproduction.papers import dasc
from reproduction.papers.crowding import crowding, max_mig
from reproduction.papers.iced import iced
from reproduction.papers.waum import pruned
from reproduction.settings import CEILING, Make, aggregated, learner, prepare
from reproduction.standings import Target

SMALL = ("labelme", "music", "digits-tail", "leaves-folds", "gas_drift-tail", "usps-tail", "product-folds")
LARGE = "cifar10n"
SETS = (*SMALL, LARGE)
EVEN = ("labelme", "music", LARGE)  # classes are about equally frequent
FRESH = ("cifar10h", "cifar10h-103", "heavy-1", "heavy-2", "heavy-3")  # no setting was chosen on these
TAILS = ("digits-tail", "usps-tail", "gas_drift-tail")  # uneven classes in training, balanced in the test
SCORES = {"product-folds": "positive", **dict.fromkeys(TAILS, "balanced")}
REMOVED = (0, 20, 40, 60, 80)  # per cent of the answers


def plain(name: str, **options: Any) -> Make:
    """Return a maker of a method without epochs."""
    return lambda setting: make_method(name, random_state=setting.seed, **options)


def self_training(setting: Setting) -> Any:
    """Return DASC over CrowdLayer: with the settings of its paper if that uses the data set, else the defaults."""
    data = setting.data.partition("-")[0]
    if data in dasc.ADDED:
        return dasc.self_training("crowdlayer", "distribution")(replace(setting, problem=data))
    base = learner("crowdlayer")(setting)
    return DASC(base, iterations=setting.rounds(5), hidden=0.0, apart=True, random_state=setting.seed)


JOINT = partial(plain, "joint-em")
ONE = partial(JOINT, classifier="lda", features="standard")
OURS: dict[str, Make] = {
    "JointEM": JOINT(),
    "JointEM, balanced": JOINT(class_prior="balanced"),
    "JointEM, even new tasks": JOINT(new_class_prior="balanced"),
}
WITHOUT: dict[str, Make] = {
    "without: Gaussians, mlp": JOINT(classifier="mlp"),
    "without: Gaussians, logistic": JOINT(classifier="logistic"),
    "without: waves": JOINT(features=("plain", "root", "standard", "rank")),
    "without: the crowd's prior": JOINT(prior="diagonal"),
    "without: leaving out": JOINT(leave_one_out=False),
    "without: doubt of answers": JOINT(answer_weight=1.0),
    "one expert": ONE(),
    "one expert, without: calibration": ONE(calibrate=False),
    "one expert, without: calibration, cross-fitting": ONE(calibrate=False, cross_fit=None),
}
TOGETHER: dict[str, Make] = {
    "MV-DL": aggregated("majority-vote", soft=False), "DS-DL": aggregated("dawid-skene", soft=False),
    **{name: learner(name) for name in ("crowdlayer", "aggnet", "annoreg", "conal", "doctornet", "mbem", "unionnet",
                                        "geocrowdnet")},
    "maxmig": max_mig, "dasc(crowdlayer)": self_training,
}  # fmt: skip
ALONE: dict[str, Make] = {
    **{name: plain(name) for name in ("raykar", "crowdlab", "adaptive-difficulty", "fixed-difficulty", "cpc")},
    "waum(crowdlayer)": pruned(learner("crowdlayer")), "iced": iced(), "crowding": crowding(),
}  # fmt: skip
CEILINGS = {
    "ceiling, JointEM": Method(JOINT(), truth=True),
    "ceiling, network": CEILING,
}
METHODS = {
    **{name: Method(make) for name, make in {**OURS, **WITHOUT, **ALONE}.items()},
    **{name: Method(make, together=True) for name, make in TOGETHER.items()},
    **CEILINGS,
}
# Sorted by importance, so that a stopped run has the first of them.
PAPERS = (
    "MV-DL", "DS-DL", "crowdlayer", "aggnet", "annoreg", "dasc(crowdlayer)", "waum(crowdlayer)", "raykar", "crowdlab",
    "conal", "fixed-difficulty", "adaptive-difficulty", "iced", "crowding", "doctornet", "maxmig", "mbem", "unionnet",
    "geocrowdnet", "cpc",
)  # fmt: skip
ROWS = (*OURS, *WITHOUT, *PAPERS, *CEILINGS)


def stage(method: str, problem: str) -> int:
    """Return the order of computation: ours, MV-DL and its ceiling, well-known methods, ablations, the rest."""
    ours = method in (*OURS, "MV-DL", "ceiling, network")
    known = method in PAPERS[: PAPERS.index("crowding")]
    if problem == LARGE:
        return 3 if method in ("JointEM", "MV-DL", "ceiling, network") else 5 if ours or known else 6
    return 0 if ours else 1 if known else 2 if method in (*WITHOUT, *CEILINGS) else 4


def seeds_of(method: str, problem: str) -> int:
    """Return the maximum number of seeds of a method on a problem."""
    fixed = ("raykar", "adaptive-difficulty", "fixed-difficulty", "one expert, without: calibration, cross-fitting")
    if method in fixed and problem in (*EVEN, *FRESH):  # the same data, and a method without randomness
        return 1
    if problem == LARGE:
        return 10 if method == "JointEM" else 5 if METHODS[method].together else 3 if method in OURS else 1
    slow = method in ("iced", "crowding") or problem in FRESH
    return 5 if slow or (method in WITHOUT and problem in ("gas_drift-tail", "usps-tail", "product-folds")) else 10


def run(cell: Cell) -> list[Figures]:
    """Return the figures of each seed; seeds with their own data are fitted one by one."""
    shared = cell.problem in (*EVEN, *FRESH, "labelme-valid")
    out: list[Figures] = []
    for seeds in [cell.seeds] if shared else [(seed,) for seed in cell.seeds]:
        model, problem = prepare(METHODS, cell._replace(seeds=seeds))
        out += measure(model, problem, looks=0)
    return [{**each, "score": each[SCORES.get(cell.problem, "last")]} for each in out]


FAMILY = learners("joint", METHODS)._replace(run=run)
SPARSE = {f"labelme@{share}" if share else "labelme": float(share) for share in REMOVED}
COMPARED = ("JointEM", "MV-DL", "crowdlayer", "raykar")
ON_FRESH = (
    "JointEM", "JointEM, even new tasks", "MV-DL", "DS-DL", "crowdlayer", "aggnet", "annoreg", "conal", "geocrowdnet",
    "maxmig", "dasc(crowdlayer)", "waum(crowdlayer)", "raykar", *CEILINGS,
)  # fmt: skip
ON_VALID = ("JointEM", "JointEM, balanced", "MV-DL", *CEILINGS)
TARGETS = (
    Target("JointEM", "labelme", "score", 91.0), Target("JointEM, balanced", "labelme", "score", 92.5, 93.3),
    Target("JointEM", "music", "score", 73.0), Target("JointEM, balanced", "music", "score", 76.5, 79.0),
    Target("JointEM", "product-folds", "score", 84.0, 86.0), Target("JointEM", LARGE, "score", 68.0, 70.0),
    Target("JointEM", "labelme", "ece", 0.03), Target("JointEM", "music", "ece", 0.08),
    Target("JointEM", "product-folds", "ece", 0.015), Target("JointEM", LARGE, "ece", 0.03),
)  # fmt: skip
UNTRUE = frozenset(
    (method, problem)
    for method, true in (("JointEM, balanced", EVEN), ("JointEM, even new tasks", (*TAILS, *FRESH[2:])))
    for problem in (*SETS, *FRESH)
    if problem not in true
)

EXPERIMENTS = (
    Experiment(
        "joint", "JointEM compared with all other learners",
        "JointEM first in mean rank, and not below the best rival by more than the standard error on any set",
        FAMILY, ROWS, SETS, seeds=10, measures=("score", "ece", "labels"), except_for=UNTRUE, stage=stage,
        fewer={(method, problem): seeds_of(method, problem) for method in ROWS for problem in SETS},
    ),
    Experiment(
        "joint-sparsity", "JointEM with answers removed", "under 3 points lost on LabelMe without 60 % of the answers",
        FAMILY, COMPARED, tuple(SPARSE), seeds=10, axis=SPARSE, axis_title="answers removed, %", measures=("score",),
        fewer={(method, problem): seeds_of(method, problem) for method in COMPARED for problem in SPARSE},
    ),
    Experiment(
        "joint-fresh", "JointEM on data sets unseen during its design", "JointEM above the best rival",
        FAMILY, ON_FRESH, FRESH, seeds=10, measures=("score", "ece", "labels"), except_for=UNTRUE,
        fewer={(method, problem): seeds_of(method, problem) for method in ON_FRESH for problem in FRESH},
    ),
    Experiment(
        "joint-valid", "JointEM on the validation tasks of LabelMe",
        "the same order on tasks that were not used to choose settings",
        FAMILY, ON_VALID, ("labelme-valid",), seeds=10, measures=("score", "ece", "labels"),
        fewer={(method, "labelme-valid"): seeds_of(method, "labelme-valid") for method in ON_VALID},
    ),
)  # fmt: skip
