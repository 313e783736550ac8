"""Crowds whose truth is known, from which the calibrator of `crowdwise.trust` learns and by which it is scored.

real        the 11 sets of truth/, the panel of LLM judges trec_dl23, product, LabelMe, Music, CIFAR-10H, 5,000 images
            of CIFAR-10N, and two relations of the medical set (did the worker name it, yes or no)
thinned     a real crowd with fewer answers per task, or a panel with fewer judges: the same mistakes, less evidence
simulated   independent workers; tasks that suggest a wrong class (shared); trick tasks that nearly all get wrong;
            families of workers who copy one another; hard tasks guessed to one class

`Crowd.source` names the set a crowd comes from; whoever leaves a set out leaves out all crowds of that source.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.csv

import crowdwise as cw
from crowdwise.io import read_truth

TRUTH_SETS = (
    "bluebird", "d_possent", "dog", "face", "fej2013", "leaves", "rte", "s_rel", "weather_cf", "web", "zencrowd_us",
)  # fmt: skip
PANEL = "trec_dl23"
OTHERS = ("product", "labelme", "music", "cifar10h", "cifar10n", "medical_treats", "medical_causes")
KINDS = ("independent", "shared", "trick", "families", "guessed")
IMAGES_10N = 5000


class Crowd(NamedTuple):
    """Answers with known truth, and the set they come from."""

    name: str
    source: str
    answers: cw.Answers


def real(name: str) -> Crowd:
    """One of the real crowds."""
    source = name
    if name == PANEL:
        folder = _data() / "panels" / name
        known = read_truth(folder / "truth.csv.gz")
        answers = cw.read(folder / "answers.csv.gz", duplicates="last").with_truth((known["task"], known["label"]))
    elif name.startswith("medical"):
        source, answers = "medical", _relation(name.removeprefix("medical_").upper())
    elif name == "cifar10n":
        whole = cw.datasets.load(name).answers
        first = whole.take(np.flatnonzero(whole.task < IMAGES_10N))
        answers = cw.Answers.from_codes(
            first.task, first.worker, first.label, tasks=IMAGES_10N, workers=first.workers, classes=first.classes,
            truth=whole.truth[:IMAGES_10N],
        )  # fmt: skip
    else:
        answers = cw.datasets.load(f"truth/{name}" if name in TRUTH_SETS else name).answers
    return Crowd(name, source, answers)


def thinned(crowd: Crowd, share: float, seed: int) -> Crowd:
    """A random share of the answers of each task, at least one; of a panel, a share of the judges."""
    answers, rng = crowd.answers, np.random.default_rng(seed)
    if crowd.source == PANEL:
        keep = np.isin(answers.worker, rng.permutation(answers.n_workers)[: max(3, round(share * answers.n_workers))])
    else:
        order = np.lexsort((rng.random(answers.n_answers), answers.task))  # random order within each task
        place = np.empty(answers.n_answers, np.int64)
        place[order] = np.arange(answers.n_answers) - answers.task_starts[answers.task[order]]
        keep = place < np.maximum(1, np.round(share * np.diff(answers.task_starts)))[answers.task]
    return Crowd(f"{crowd.name}/{share}/{seed}", crowd.source, answers.take(np.flatnonzero(keep)))


def simulated(kind: str, seed: int) -> Crowd:
    """A crowd of one kind with settings drawn from the seed."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    k, n_workers = int(rng.integers(2, 6)), int(rng.integers(10, 60))
    low = rng.uniform(1 / k, 0.7)
    answers = cw.simulate.simulate(
        int(rng.integers(200, 800)), n_workers=n_workers, n_classes=k, answers_per_task=float(rng.uniform(2, 10)),
        accuracy=(low, rng.uniform(low + 0.15, 0.97)), class_balance=float(rng.choice([1, 2, 6])),
        difficulty=float(rng.choice([0, 0.1, 0.3])) if kind != "independent" else 0.0,
        together=rng.uniform(0.1, 0.6) if kind == "shared" else 0.0, seed=rng,
    )  # fmt: skip
    task, label, truth = answers.task, answers.label.copy(), answers.truth
    if kind in ("trick", "guessed"):
        share, strength = rng.uniform(0.05, 0.35), rng.uniform(0.5, 0.9)
        lure = (truth + rng.integers(1, k, answers.n_tasks)) % k if kind == "trick" else np.full(len(truth), k - 1)
        lured = (rng.random(answers.n_tasks) < share)[task] & (rng.random(len(task)) < strength)
        label[lured] = lure[task[lured]]
    if kind == "families":
        n_families, copying = int(rng.integers(2, 6)), rng.uniform(0.3, 0.9)
        family = rng.integers(n_families, size=n_workers)[answers.worker]  # (answers,)
        accuracy = rng.uniform(1 / k, 0.9, n_families)
        right = rng.random((answers.n_tasks, n_families)) < accuracy
        wrong = (truth[:, None] + rng.integers(1, k, right.shape)) % k
        said = np.where(right, truth[:, None], wrong)  # (tasks, families): what each family says
        copies = rng.random(len(task)) < copying
        label[copies] = said[task[copies], family[copies]]
    answers = cw.Answers.from_codes(
        task, answers.worker, label, tasks=answers.n_tasks, workers=n_workers, classes=k, truth=truth
    )
    return Crowd(f"{kind}/{seed}", kind, answers)


def _relation(relation: str) -> cw.Answers:
    """Whether workers named one relation of medical sentences; truth from experts."""
    folder = _data() / "kinds" / "sets" / "medical_relations"
    rows = pyarrow.csv.read_csv(folder / "answers.csv.gz").to_pydict()
    known = pyarrow.csv.read_csv(folder / "truth.csv.gz").to_pydict()
    named = ["yes" if relation in json.loads(labels) else "no" for labels in rows["labels"]]
    answers = cw.Answers.from_arrays(rows["task"], rows["worker"], named, duplicates="last")
    present = set(rows["task"])
    truth = {
        task: "yes" if int(value) else "no"
        for task, label, value in zip(known["task"], known["label"], known["truth"], strict=True)
        if label == relation and task in present
    }
    return answers.with_truth(truth)


def _data() -> Path:
    return Path(os.environ["CROWDWISE_DATA"])
