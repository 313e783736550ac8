"""crowd-kit's pandas frames in and out: pandas keeps the ids, of whatever type; `Answers` gets their codes."""

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
    """A column of the three is missing. Also a KeyError, which is what crowd-kit raises."""

    __str__ = Exception.__str__


class Aggregator:
    """What crowd-kit's aggregators share. `fit` takes a frame `task, worker, label`, one row an answer."""

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
            message = f"this {type(self).__name__} has no {name}, or not yet: call fit_predict(data) first."
            raise errors.NotFittedError(message)
        message = f"{type(self).__name__!r} has no attribute {name!r}"
        raise AttributeError(message)


class ProbaAggregator(Aggregator):
    """An aggregator that gives probabilities."""

    probas_: pd.DataFrame

    def fit_predict_proba(self, data: pd.DataFrame) -> pd.DataFrame:
        """Fit and return `probas_`."""
        return self.fit(data).probas_


class Ids(NamedTuple):
    """The distinct ids of a column."""

    sorted: pd.Index  # as codes count them
    seen: Array  # codes in the order in which the column first names them


@dataclass(frozen=True)
class Table:
    """Answers and the frame they came from. Theirs lists ids either sorted or as they first appear."""

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
        """Frame of (tasks, classes) values."""
        return pd.DataFrame(proba[rows], index=self.tasks[rows], columns=self.classes)

    def labels(self, proba: Array, rows: Any = slice(None)) -> pd.Series:
        """Most probable class of each task; of equals the first, as in crowd-kit."""
        return pd.Series(self.classes[proba[rows].argmax(axis=1)], index=self.tasks[rows], name="agg_label")

    def by_worker(self, values: Array, name: str, rows: Any = slice(None)) -> pd.Series:
        """Series of one value a worker."""
        return pd.Series(values[rows], index=self.workers[rows], name=name)

    def known(self, true_labels: pd.Series) -> tuple[Array, Array]:
        """Codes of the tasks of known truth, and of their classes; tasks that nobody answered are left out."""
        true_labels = true_labels.dropna()
        task = self.tasks.get_indexer(true_labels.index)
        if len(task) and not (task >= 0).any():
            message = (
                f"true_labels is indexed by {preview(true_labels.index.tolist())}, none of which is a task of "
                f"the answers "
                f"({preview(self.tasks.tolist())}). Index it by task."
            )
            raise errors.GoldError(message)
        return task[task >= 0], self.classes.get_indexer(true_labels)[task >= 0]

    def gold(self, true_labels: pd.Series | None) -> Array | None:
        """Known class of each task, -1 where unknown."""
        if true_labels is None:
            return None
        task, label = self.known(true_labels)
        gold = np.full(len(self.tasks), -1, np.int32)
        gold[task] = label
        clash = task[gold[task] != label]
        if len(clash):
            message = f"true_labels gives task {preview(self.tasks[clash].tolist())} two true labels; a task has one."
            raise errors.GoldError(message)
        return gold


def read(data: pd.DataFrame, true_labels: pd.Series | None = None, more: Any = ()) -> Table:
    """Take crowd-kit's long frame. True labels, and `more`, may name classes that nobody chose.

    >>> read(pd.DataFrame({"task": [1, 1], "worker": ["x", "y"], "label": [True, False]})).classes
    Index([False, True], dtype='bool', name='label')
    """
    missing = [name for name in COLUMNS if name not in data.columns]
    if missing:
        message = f"no column {preview(missing)}; the frame has {', '.join(map(repr, data.columns))}. Rename them."
        raise MissingColumnError(message)
    if not len(data):
        message = "the frame has no rows, so there is nothing to aggregate."
        raise errors.EmptyError(message)
    data = data[COLUMNS]
    if true_labels is not None:
        more = [*more, *true_labels[true_labels.index.isin(data["task"])].dropna()]
    encoded = [encode(data["task"]), encode(data["worker"]), encode(data["label"], more)]
    codes, ids = [code for code, _ in encoded], [table for _, table in encoded]
    gaps = np.flatnonzero((codes[0] < 0) | (codes[1] < 0) | (codes[2] < 0))
    if len(gaps):
        message = (
            f"{len(gaps)} rows lack a task, worker or label (rows {preview(gaps)}, counted from 0). crowd-kit "
            f"takes them "
            f"in silently; leave them out with data.dropna(subset={COLUMNS})."
        )
        raise errors.NullError(message)
    n_tasks, n_workers, n_classes = (len(table.sorted) for table in ids)
    try:
        answers = Answers.from_codes(*codes, tasks=n_tasks, workers=n_workers, classes=n_classes)
    except errors.DuplicateError:
        rows = np.flatnonzero(data.duplicated(["task", "worker"]))
        task, worker, _ = data.iloc[rows[0]]
        message = (
            f"{len(rows)} answers stand twice (worker {worker!r} on task {task!r}; rows {preview(rows)}, "
            f"counted from 0). "
            f"crowd-kit counts both; keep one with data.drop_duplicates(['task', 'worker'])."
        )
        raise errors.DuplicateError(message) from None
    return Table(data, answers, *ids)


def encode(column: pd.Series, more: Any = ()) -> tuple[Array, Ids]:
    """Code of each row (-1 for a missing id), and the ids, more of which may be given.

    >>> codes, ids = encode(pd.Series(["b", "a", "b"], name="label"))
    >>> codes.tolist(), ids.sorted.tolist(), ids.seen.tolist()
    ([1, 0, 1], ['a', 'b'], [1, 0])
    """
    position, ids = pd.factorize(column)  # positions in order of first appearance
    ids = pd.Index(ids, name=column.name)
    if len(more):
        ids = ids.append(pd.Index(more).unique().difference(ids, sort=False)).rename(column.name)
    try:
        order = ids.argsort()
    except TypeError:  # ids that cannot be compared keep the order in which they came
        order = np.arange(len(ids))
    seen = np.empty(len(ids), np.int32)
    seen[order] = np.arange(len(ids), dtype=np.int32)
    return np.where(position >= 0, seen[position], -1), Ids(ids[order], seen)
