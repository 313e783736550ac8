"""Convert crowd-kit's pandas frames: pandas keeps the ids, of any type, and `Answers` uses their codes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise.answers import Answers
from crowdwise.answers.encoding import preview
from crowdwise.truth.base import Array

COLUMNS = ["task", "worker", "label"]


class MissingColumnError(errors.MissingColumnError, KeyError):
    """One of the three columns is missing. Also a KeyError, which crowd-kit raises."""

    __str__ = Exception.__str__


class Aggregator:
    """Base class of crowd-kit's aggregators. `fit` takes a frame `task, worker, label`, one row per answer."""

    labels_: pd.Series
    skills_: pd.Series
    loss_history_: list[float]

    @abstractmethod
    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the truth."""

    def fit_predict(self, data: pd.DataFrame) -> pd.Series:
        """Fit and return `labels_`."""
        return self.fit(data).labels_

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            message = (
                f"this {type(self).__name__} has no {name}: call fit_predict(data) first, or it does not provide it."
            )
            raise errors.NotFittedError(message)
        message = f"{type(self).__name__!r} has no attribute {name!r}"
        raise AttributeError(message)


class ProbaAggregator(Aggregator):
    """Base class of aggregators with probabilities."""

    probas_: pd.DataFrame

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit and return `probas_`."""
        return self.fit(data).probas_


class Ids(NamedTuple):
    """The distinct ids of a column."""

    sorted: pd.Index  # in the order of the codes
    seen: Array  # codes in order of first appearance


@dataclass(frozen=True)
class Table:
    """Answers and their frame. Results of crowd-kit list ids either sorted or in order of first appearance."""

    data: pd.DataFrame
    answers: Answers
    task_ids: Ids
    worker_ids: Ids
    class_ids: Ids

    @property
    def tasks(self) -> pd.Index:
        """The tasks, sorted."""
        return self.task_ids.sorted

    @property
    def workers(self) -> pd.Index:
        """The workers, sorted."""
        return self.worker_ids.sorted

    @property
    def classes(self) -> pd.Index:
        """The classes, sorted."""
        return self.class_ids.sorted

    def probas(self, proba: Array, rows: Any = slice(None)) -> pd.DataFrame:
        """Return values (tasks, classes) as a frame."""
        return pd.DataFrame(proba[rows], index=self.tasks[rows], columns=self.classes)

    def labels(self, proba: Array, rows: Any = slice(None)) -> pd.Series:
        """Return the most probable class of each task; ties go to the first class, as in crowd-kit."""
        return pd.Series(self.classes[proba[rows].argmax(axis=1)], index=self.tasks[rows], name="agg_label")

    def by_worker(self, values: Array, name: str, rows: Any = slice(None)) -> pd.Series:
        """Return one value per worker as a series."""
        return pd.Series(values[rows], index=self.workers[rows], name=name)

    def known(self, true_labels: pd.Series) -> tuple[Array, Array]:
        """Return the codes of tasks of known truth and of their classes; tasks without answers are ignored."""
        true_labels = true_labels.dropna()
        task = self.tasks.get_indexer(true_labels.index)
        if len(task) and not (task >= 0).any():
            message = (
                f"true_labels is indexed by {preview(true_labels.index.tolist())}, none of which is a task of the "
                f"answers ({preview(self.tasks.tolist())}). Index it by task."
            )
            raise errors.GoldError(message)
        return task[task >= 0], self.classes.get_indexer(true_labels)[task >= 0]

    def gold(self, true_labels: pd.Series | None) -> Array | None:
        """Return the known class of each task, -1 where unknown."""
        if true_labels is None:
            return None
        task, label = self.known(true_labels)
        gold = np.full(len(self.tasks), -1, np.int32)
        gold[task] = label
        clash = task[gold[task] != label]
        if len(clash):
            message = (
                f"true_labels gives task {preview(self.tasks[clash].tolist())} two true labels; a task has only one."
            )
            raise errors.GoldError(message)
        return gold


def read(data: pd.DataFrame, true_labels: pd.Series | None = None, more_classes: Any = ()) -> Table:
    """Read crowd-kit's long frame. True labels and `more_classes` may add classes that nobody chose.

    >>> read(pd.DataFrame({"task": [1, 1], "worker": ["x", "y"], "label": [True, False]})).classes
    Index([False, True], dtype='bool', name='label')
    """
    if is_empty(data):
        message = "the frame has no rows; pass at least one answer."
        raise errors.EmptyError(message)
    data = data[COLUMNS]
    if true_labels is not None:
        more_classes = [*more_classes, *true_labels[true_labels.index.isin(data["task"])].dropna()]
    encoded = [encode(data["task"]), encode(data["worker"]), encode(data["label"], more_classes)]
    codes, ids = [code for code, _ in encoded], [table for _, table in encoded]
    gaps = np.flatnonzero((codes[0] < 0) | (codes[1] < 0) | (codes[2] < 0))
    if len(gaps):
        message = (
            f"{len(gaps)} rows lack a task, worker or label (rows {preview(gaps)}, counted from 0). crowd-kit accepts "
            f"them silently; drop them with data.dropna(subset={COLUMNS})."
        )
        raise errors.NullError(message)
    n_tasks, n_workers, n_classes = (len(table.sorted) for table in ids)
    try:
        answers = Answers.from_codes(*codes, tasks=n_tasks, workers=n_workers, classes=n_classes)
    except errors.DuplicateError:
        rows = np.flatnonzero(data.duplicated(["task", "worker"]))
        task, worker, _ = data.iloc[rows[0]]
        message = (
            f"{len(rows)} answers are repeated (worker {worker!r} on task {task!r}; rows {preview(rows)}, counted "
            f"from 0). crowd-kit counts both; keep one with data.drop_duplicates(['task', 'worker'])."
        )
        raise errors.DuplicateError(message) from None
    return Table(data, answers, *ids)


def is_empty(data: pd.DataFrame) -> bool:
    """Return whether a frame has no answers, once it has the three columns."""
    missing = [name for name in COLUMNS if name not in data.columns]
    if missing:
        message = f"no column {preview(missing)}; the frame has {', '.join(map(repr, data.columns))}. Rename them."
        raise MissingColumnError(message)
    return not len(data)


def no_labels(dtype: str = "object") -> pd.Series:
    """Return the labels of an empty frame."""
    return pd.Series([], dtype=dtype, name="agg_label")


def no_skills() -> pd.Series:
    """Return the skills of the workers of an empty frame."""
    return pd.Series([], index=pd.Index([], dtype=object, name="worker"), dtype=float, name="skill")


def encode(column: pd.Series, more_ids: Any = ()) -> tuple[Array, Ids]:
    """Return the code of each row (-1 for a missing id), and the ids, including `more_ids`.

    >>> codes, ids = encode(pd.Series(["b", "a", "b"], name="label"))
    >>> codes.tolist(), ids.sorted.tolist(), ids.seen.tolist()
    ([1, 0, 1], ['a', 'b'], [1, 0])
    """
    position, ids = pd.factorize(column)  # positions in order of first appearance
    ids = pd.Index(ids, name=column.name)
    if len(more_ids):
        ids = ids.append(pd.Index(more_ids).unique().difference(ids, sort=False)).rename(column.name)
    try:
        order = ids.argsort()
    except TypeError:  # ids that cannot be compared stay in order of first appearance
        order = np.arange(len(ids))
    seen = np.empty(len(ids), np.int32)
    seen[order] = np.arange(len(ids), dtype=np.int32)
    return np.where(position >= 0, seen[position], -1), Ids(ids[order], seen)
