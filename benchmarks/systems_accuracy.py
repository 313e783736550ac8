"""The five systems on LabelMe and Music, each beside the learner it builds on: `make bench-systems`.

    python benchmarks/systems_accuracy.py [--jobs 2] [--seeds 5] [--data labelme] [row ...]

Test accuracy in per cent, mean and deviation over seeds, last epoch; this script chooses nothing on the test set. A
finished cell (row, data set, seed) is kept in results/systems_accuracy.json and not computed again: a run that was
killed goes on. Difficulty EM takes two classes and is measured in difficulty.py.

    LabelMe    FC128, dropout .5, features as they are, Adam 1e-3, batch 51, 25 epochs (the steps of DASC's 25 epochs
               on 10,000 augmented images in batches of 512), weight decay 5e-4; M a tenth of the paper's
    Music      FC128 with batch normalisation, Adam 1e-3 (DoctorNet 1e-2), batch 128, 100 epochs; M as in the paper
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two processes of two threads each would stall one another

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import balanced_accuracy_score

import crowdwise as cw
from crowdwise.errors import CrowdwiseWarning
from crowdwise.evaluate.calibration import reliability
from learn_accuracy import load

HERE = Path(__file__).parent
TARGET = HERE / "results" / "systems_accuracy.json"
SETS = ("labelme", "music")
ITERATIONS = {"labelme": 5, "music": 10}
PER_ITERATION = {
    "labelme": {"crowdlayer": 1000, "annoreg": 2000, "doctornet": 1000},
    "music": {"crowdlayer": 1000, "annoreg": 700, "doctornet": 1000},
}


def training(data: str, seed: int) -> dict[str, Any]:
    """How a network is trained on a data set."""
    if data == "labelme":
        network, own = cw.MLP(standardise=False), {"epochs": 25, "batch_size": 51, "weight_decay": 5e-4}
    else:
        network, own = cw.MLP(batchnorm=True), {"epochs": 100, "batch_size": 128}
    return {"network": network, "random_state": seed, **own}


def learner(name: str, **options: Any) -> Callable[[str, int], Any]:
    """A learner trained as the data set asks for."""

    def make(data: str, seed: int) -> Any:
        given = training(data, seed)
        if name == "doctornet" and data == "music":
            given["lr"] = 1e-2
        if name == "iced":  # whose epochs are those of one of five rounds: as many steps in all as the others take
            given["epochs"] //= 5
        if name == "crowding" and data == "music":  # as in the paper
            given["graph"] = False
        return cw.make(name, **{**given, **options})

    return make


def aggregated(truth: Any, **options: Any) -> Callable[[str, int], Any]:
    """A network on the labels of a truth method."""
    return lambda data, seed: cw.Aggregated(truth, **training(data, seed), **options)


def dasc(base: str, select: str = "distribution", loss: str = "ce", **options: Any) -> Callable[[str, int], Any]:
    """Self-training over a learner."""

    def make(data: str, seed: int) -> Any:
        return cw.DASC(
            learner(base, loss=loss)(data, seed), select=select, per_iteration=PER_ITERATION[data][base],
            iterations=ITERATIONS[data], random_state=seed, **{"hidden": 0.0, **options},
        )  # fmt: skip

    return make


def waum(base: Callable[[str, int], Any], alpha: float, **options: Any) -> Callable[[str, int], Any]:
    """A learner without the most ambiguous tasks."""
    return lambda data, seed: cw.Pruned(base(data, seed), alpha=alpha, random_state=seed, **options)


def completed(fill: Any) -> Callable[[str, int], Any]:
    """CrowdLayer on answers that were filled in."""
    return lambda data, seed: cw.Completed(learner("crowdlayer")(data, seed), fill=fill, random_state=seed)


BASES = {"CrowdLayer": "crowdlayer", "AnnoReg": "annoreg", "DoctorNet": "doctornet"}
CONAL = learner("conal", lam=1e-4)
ROWS: dict[str, Callable[[str, int], Any]] = {
    "ceiling (truth)": aggregated("majority-vote"),
    "MV-DL": aggregated("majority-vote", soft=False),
    "DS-DL": aggregated("dawid-skene", soft=False),
    "D&S hard, no prior": aggregated(cw.DawidSkene(hard=True, prior=None), soft=False),
    **{name: learner(base) for name, base in BASES.items()},
    "CoNAL(1e-4)": CONAL,
    **{
        f"{name} + {label}": dasc(base, select)
        for name, base in BASES.items()
        for label, select in {"Confidence": "confidence", "Random": "random", "DASC": "distribution"}.items()
    },
    "CrowdLayer focal + Self-C": dasc("crowdlayer", "confidence", "focal"),
    "CrowdLayer CB-focal + Self-C": dasc("crowdlayer", "confidence", "cb_focal"),
    "CrowdLayer + DASC redistribute": dasc("crowdlayer", redistribute=True),
    "CrowdLayer + DASC pool, redistribute": dasc("crowdlayer", balance="pool", redistribute=True),
    "CrowdLayer + DASC soft": dasc("crowdlayer", soft=True),
    "ICED": learner("iced"),
    "ICED delta=printed": learner("iced", delta="printed"),
    "ICED delta=uniform (SMOTE)": learner("iced", delta="uniform"),
    "ICED without warm-up": learner("iced", warmup=None),
    "CrowdInG": learner("crowding"),
    "CrowdG": learner("crowding", information=0.0),
    "CrowdInG-U": learner("crowding", use_task=False),
    "CrowdInG-I": learner("crowding", use_worker=False),
    "CrowdInG-R": learner("crowding", select_pairs="random"),
    "CrowdInG one step": learner("crowding", two_step=False),
    "CrowdLayer + Self": completed("self"),
    "CrowdLayer + GCN": completed("gcn"),
    "CrowdLayer + GAN": completed("gan"),
    "CrowdLayer + InG": completed("crowding"),
    "WAUM(.01) + WDS": waum(aggregated("wds"), 0.01),
    "WDS": aggregated("wds"),
    **{f"WAUM({alpha:g}) + CoNAL(1e-4)": waum(CONAL, alpha) for alpha in (0.01, 0.1)},
    **{f"random({alpha:g}) + CoNAL(1e-4)": waum(CONAL, alpha, random=True) for alpha in (0.01, 0.1)},
    "WAUM soft + CoNAL(1e-4)": waum(CONAL, 0.1, soft=True),
    "WAUM(.1) + DS-DL": waum(aggregated("dawid-skene", soft=False), 0.1),
    "random(.1) + DS-DL": waum(aggregated("dawid-skene", soft=False), 0.1, random=True),
}


def cell(row: str, data: str, seed: int) -> dict[str, Any]:
    """Fit one model, and score it."""
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore", CrowdwiseWarning)
    X, y, X_test, y_test, answers = load(data)
    if row.startswith("ceiling"):  # one worker who is always right
        answers = cw.Answers.from_arrays(answers.tasks, np.zeros(len(y), int), y)
    start = time.perf_counter()
    model = ROWS[row](data, seed).fit(X, answers)
    seconds = time.perf_counter() - start
    proba = model.predict_proba(X_test)
    said = model.classes_[proba.argmax(axis=1)]
    out = {
        "test": 100 * float((said == y_test).mean()),
        "balanced": 100 * float(balanced_accuracy_score(y_test, said)),
        "labels": 100 * float((model.labels_ == y).mean()),
        "ece": float(reliability(proba.max(axis=1), said == y_test).ece),
        "seconds": seconds,
    }
    last = model.history_[-1] if model.history_ else {}
    return out | {name: last[name] for name in ("imbalance",) if name in last}


def show(results: dict[str, Any], rows: list[str]) -> None:
    """Mean and deviation of each row."""
    columns = [f"{data} {what}" for data in SETS for what in ("test", "balanced", "labels", "ECE", "R", "s", "seeds")]
    table = Table("method", *columns)
    for row in rows:
        texts = []
        for data in SETS:
            found = list(results.get(row, {}).get(data, {}).values())
            if not found:
                texts += ["-"] * 7
                continue
            mean = {name: np.mean([one[name] for one in found]) for name in found[0]}
            spread = np.std([one["test"] for one in found], ddof=1) if len(found) > 1 else 0.0
            ratio = f"{mean['imbalance']:.1f}" if "imbalance" in mean else "-"
            texts += [f"{mean['test']:.1f} ± {spread:.1f}", f"{mean['balanced']:.1f}", f"{mean['labels']:.1f}",
                      f"{mean['ece']:.3f}", ratio, f"{mean['seconds']:.1f}", str(len(found))]  # fmt: skip
        table.add_row(row, *texts)
    Console(width=220).print(table)


def main() -> None:
    """Compute what is not there yet, and print it all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", choices=SETS, action="append")
    parser.add_argument("rows", nargs="*", help="rows to run; all unless given")
    arguments = parser.parse_args()
    rows = arguments.rows or list(ROWS)
    results: dict[str, Any] = json.loads(TARGET.read_text()) if TARGET.exists() else {}
    wanted = [
        (row, data, seed)
        for seed in range(arguments.seeds)
        for row in rows
        for data in arguments.data or SETS
        if str(seed) not in results.get(row, {}).get(data, {})
    ]
    with ProcessPoolExecutor(arguments.jobs) as pool:
        jobs = {pool.submit(cell, *each): each for each in wanted}
        for done, job in enumerate(as_completed(jobs), 1):
            row, data, seed = jobs[job]
            results.setdefault(row, {}).setdefault(data, {})[str(seed)] = job.result()
            partial = TARGET.with_suffix(".partial")
            partial.write_text(json.dumps(results, indent=1, sort_keys=True))
            partial.replace(TARGET)
            print(f"{done}/{len(wanted)} {row}, {data}, seed {seed}: {job.result()['test']:.1f}", flush=True)
    show(results, rows)


if __name__ == "__main__":
    main()
