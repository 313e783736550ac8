"""The table of tasks by ambiguity, with their answers, texts and thumbnails."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise._core.atomic_io import atomic_write
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.learn.features.pictures import Pictures
from crowdwise.run.stored_files import IMAGES
from crowdwise.run.tables.labels import TINY, Labelling

Array = np.ndarray[Any, np.dtype[Any]]

MAX_THUMBNAILS = 60
SIDE = 192  # pixels of the longer side of a thumbnail
MIN_SIDE = 64  # smaller images are enlarged by an integer factor


class Disagreement(TaskRanker):
    """Rank tasks by how much their workers contradict each other, weighted by trust.

    The score of a task is one minus the normalised entropy of its weighted vote: 1 if all answers agree, 0 if every
    class has the same weight. A task with one answer is not ranked.

    Parameters
    ----------
    labelling : Labelling
    trust : (workers,) array
        How far each worker is trusted, 0 to 1.
    """

    aum_: Array
    scores_: Array
    trust_: Array

    def __init__(self, labelling: Labelling, trust: Array) -> None:
        answers = self.answers_ = labelling.answers
        self.random_state = 0
        self.trust_ = trust[answers.worker]  # (answers,)
        self.aum_ = np.zeros(answers.n_answers)
        cell, inverse = np.unique(
            answers.task.astype(np.int64) * answers.n_classes + answers.label, return_inverse=True
        )
        weight = np.bincount(inverse, np.maximum(self.trust_, TINY))  # (cells,): pairs of a task and an answered class
        task = cell // answers.n_classes
        share = weight / np.bincount(task, weight, minlength=answers.n_tasks)[task]
        entropy = np.bincount(task, -share * np.log(share), minlength=answers.n_tasks)
        ranked = np.diff(answers.task_starts) > 1
        self.scores_ = np.where(ranked, 1 - entropy / np.log(max(answers.n_classes, 2)), np.inf)


def task_table(ranking: TaskRanker, texts: Sequence[str | None] | Array | None, images: Mapping[int, str]) -> pa.Table:
    """Return all tasks, the most ambiguous first; workers, labels and trust of the answers are JSON lists.

    Parameters
    ----------
    ranking : fitted WAUM, or another ranking
    texts : sequence of str, optional
        Texts of the tasks, in their order.
    images : mapping of task codes to files
    """
    table = ranking.ranking()
    order = np.argsort(ranking.scores_, kind="stable").tolist()
    columns = {name: table.column(name) for name in ("task", "rank", "score", "answers")}
    for name in ("workers", "labels"):
        columns[name] = pa.array([json.dumps(row, ensure_ascii=False) for row in table.column(name).to_pylist()])
    trust = ([round(value, 4) for value in row] for row in table.column("trust").to_pylist())
    columns["trust"] = pa.array([json.dumps(row) for row in trust], pa.string())
    columns["text"] = pa.array([None if texts is None else texts[task] for task in order], pa.string())
    columns["image"] = pa.array([images.get(task) for task in order], pa.string())
    return pa.table(columns)


def write_thumbnails(images: Any, order: Sequence[int], folder: Path) -> dict[int, str]:
    """Write thumbnails of the first tasks in this order; return their paths below the folder, by task code."""
    from PIL import Image

    (folder / IMAGES).mkdir(exist_ok=True)
    paths = {}
    for task in order[:MAX_THUMBNAILS]:
        picture = Image.fromarray(pixels(images, task))
        side = max(picture.size)
        if side > SIDE:
            picture.thumbnail((SIDE, SIDE))
        elif side < MIN_SIDE:
            factor = SIDE // side
            picture = picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)
        name = f"{IMAGES}/{task}.png"
        with atomic_write(folder / name, sync=False) as partial:
            picture.save(partial, "PNG", optimize=True)
        paths[int(task)] = name
    return paths


def pixels(images: Any, task: int) -> Array:
    """Return one image as bytes, (height, width) or (height, width, 3)."""
    if isinstance(images, np.ndarray):
        image = images[task]
        if image.dtype != np.uint8:
            low, high = float(np.min(image)), float(np.max(image))
            image = ((image - low) * (255 / max(high - low, 1e-12))).astype(np.uint8)
        if image.ndim == 2:
            return image
    else:
        image = images.picture(task) if isinstance(images, Pictures) else images.rows(np.array([task]))[0]
        image = (np.clip(image, 0, 1) * 255).astype(np.uint8).transpose(1, 2, 0)
    return image[..., 0] if image.shape[2] == 1 else image[..., :3]
