"""The answers of cleanlab's wide table as sparse arrays, its checks, and its majority vote."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise.answers.encoding import preview
from crowdwise.truth.base import Array
from crowdwise.truth.kernels.threads import compiled


class Votes(NamedTuple):
    """The answers, sorted by task, and what every step uses of them."""

    task: Array  # (answers,)
    worker: Array  # (answers,)
    label: Array  # (answers,)
    n_answers: Array  # (tasks,)
    n_workers: int
    task_ids: pd.Index | None  # names of the tasks
    worker_ids: pd.Index | None  # names of the workers

    @property
    def shared(self) -> Array:
        """Whether each task has several answers, (tasks,)."""
        return self.n_answers != 1

    def per_worker(self, values: Array | None = None) -> Array:
        """Return the sum over each worker's answers of the values (answers,), by default 1; (workers,)."""
        return np.bincount(self.worker, values, self.n_workers)

    def counts(self, n_classes: int) -> Array:
        """Return the votes for each class, (tasks, classes)."""
        cell = self.task * n_classes + self.label
        n_tasks = len(self.n_answers)
        return np.bincount(cell, minlength=n_tasks * n_classes).reshape(n_tasks, n_classes)

    def shares(self, n_classes: int, correct: bool) -> Array:
        """Return the shares of the votes, (tasks, classes), correct or as cleanlab computes them.

        cleanlab's counts of labels that are floats skip classes without votes: two votes for class 1 and none for
        class 0 are counted for class 0.
        """
        count = self.counts(n_classes)
        if not correct:
            count = np.take_along_axis(count, np.argsort(count == 0, axis=1, kind="stable"), axis=1)
        return count / self.n_answers[:, None]


def read_votes(labels: pd.DataFrame | Array) -> Votes:
    """Read a wide table of labels 0, 1, ..., with NaN for no answer.

    >>> votes = read_votes(np.array([[0, np.nan, 1], [np.nan, 1, 1]]))
    >>> votes.task.tolist(), votes.worker.tolist(), votes.label.tolist()
    ([0, 0, 1, 1], [0, 2, 1, 2], [0, 1, 1, 1])
    """
    index = columns = None
    if isinstance(labels, pd.DataFrame):
        index, columns = labels.index, labels.columns
    elif not isinstance(labels, np.ndarray):
        message = f"labels_multiannotator is of type {type(labels).__name__}; pass a DataFrame or a NumPy array."
        raise errors.FormatError(message)
    if labels.ndim != 2:
        message = (
            f"labels_multiannotator has {labels.ndim} dimensions; pass a table with one row per example and one column "
            f"per annotator."
        )
        raise errors.FormatError(message)
    wide = to_floats(labels)
    n_answers = np.empty(len(wide), np.int64)
    per_worker = np.zeros(wide.shape[1], np.int64)
    count_answers(wide, n_answers, per_worker)
    if not n_answers.all() or not len(n_answers):
        message = f"examples {preview(np.flatnonzero(n_answers == 0))} have no label; leave them out."
        raise errors.EmptyError(message)
    if not per_worker.all():
        missing = np.flatnonzero(per_worker == 0)
        names = missing if columns is None else columns[missing].tolist()
        message = f"annotators {preview(names)} did not label any example; leave their columns out."
        raise errors.EmptyError(message)
    task, worker = np.empty((2, n_answers.sum()), np.int64)
    values = np.empty(len(task))
    collect_answers(wide, task, worker, values)
    valid = (values >= 0) & (values < 2**31) & (np.floor(values) == values)
    invalid = np.flatnonzero(~valid)
    if len(invalid):
        row, column = int(task[invalid[0]]), int(worker[invalid[0]])
        message = (
            f"label {values[invalid[0]]:g} in row {row}, column {column} (counted from 0) is not a class. Labels are "
            f"integers 0, 1, ..., or NaN for no label."
        )
        raise errors.FormatError(message)
    return Votes(task, worker, values.astype(np.int64), n_answers, wide.shape[1], index, columns)


def to_floats(labels: pd.DataFrame | Array) -> Array:
    """Return the table as an array of floats."""
    try:
        if isinstance(labels, pd.DataFrame):
            if any(dtype.kind == "O" for dtype in labels.dtypes):
                labels = labels.where(labels.notna(), np.nan).astype(float)
            if all(dtype == np.float64 for dtype in labels.dtypes):
                return labels.to_numpy()  # without a copy
            return labels.to_numpy(float, na_value=np.nan)
        return np.asarray(labels, float)
    except (TypeError, ValueError):
        message = "labels_multiannotator contains labels that are not numbers; encode the classes as 0, 1, ..."
        raise errors.FormatError(message) from None


def check_probabilities(pred_probs: Any, name: str, votes: Votes | None = None) -> Array:
    """Return class probabilities (examples, classes) as an array, or raise an error."""
    try:
        proba = np.asarray(pred_probs, float)
    except (TypeError, ValueError):
        message = f"{name} is not an array of numbers."
        raise errors.FormatError(message) from None
    if proba.ndim != 2:
        message = f"{name} has {proba.ndim} dimensions; pass one row per example and one column per class."
        raise errors.ParameterError(message)
    if votes is not None and len(proba) != len(votes.n_answers):
        message = f"{name} has {len(proba)} rows, but labels_multiannotator has {len(votes.n_answers)}."
        raise errors.ParameterError(message)
    least = 2 if votes is None else max(int(votes.label.max()) + 1, 2)
    if proba.shape[1] < least:
        message = f"{name} has {proba.shape[1]} columns; pass one for each of the {least} classes or more."
        raise errors.ParameterError(message)
    valid = (proba >= -1e-6) & (proba <= 1 + 1e-6)  # False for NaN
    if not valid.all():
        message = f"{name} has values outside 0 to 1 in rows {preview(np.flatnonzero(~valid.all(axis=1)))}."
        raise errors.ParameterError(message)
    return proba


def check_several_annotators(votes: Votes) -> None:
    """Raise an error unless annotators can be compared, and warn if none ever agree."""
    if votes.n_workers <= 1:
        message = "labels_multiannotator has one column; pass the labels of several annotators."
        raise errors.ParameterError(message)
    if not votes.shared.any():
        message = "each example has only one label, so annotators cannot be compared."
        raise errors.ParameterError(message)
    if votes.counts(int(votes.label.max()) + 1).max() < 2:
        warn("Annotators do not agree on any example. Check the labels.")


def majority_vote(votes: Votes, proba: Array) -> Array:
    """Return the class with the most votes of each task.

    Ties go to the most probable class of those, then to the class with the fewest answers, then to the one whose
    annotators agree most with the majorities of other tasks, then to the first.
    """
    count = votes.counts(proba.shape[1])  # (tasks, classes)
    best = count == count.max(axis=1, keepdims=True)  # classes still in the race
    chosen = best.argmax(axis=1)
    decided = best.sum(axis=1) == 1
    tied = np.flatnonzero(~decided)

    def keep_highest(score: Array) -> None:
        """Keep the classes with the highest score (tied tasks, classes)."""
        nonlocal tied
        score = np.where(best[tied], score, -np.inf)
        best[tied] = score == score.max(axis=1, keepdims=True)
        chosen[tied] = best[tied].argmax(axis=1)
        tied = tied[best[tied].sum(axis=1) > 1]

    if len(tied):
        keep_highest(proba[tied])
    if len(tied):
        keep_highest(-np.broadcast_to(count.sum(axis=0).astype(float), (len(tied), count.shape[1])))
    if len(tied):
        used = decided[votes.task]
        agreed = votes.per_worker(used & (votes.label == chosen[votes.task]))
        n_used = votes.per_worker(used)
        rate = np.divide(agreed, n_used, out=np.zeros(votes.n_workers), where=n_used > 0)
        rate[n_used == 0] = rate[n_used > 0].mean() if n_used.any() else 0.0
        cell = votes.task * count.shape[1] + votes.label
        total = np.bincount(cell, rate[votes.worker], count.size).reshape(count.shape)[tied]
        keep_highest(total / np.maximum(count[tied], 1))
    if len(tied):
        warn(f"Examples {preview(tied)} have equally good labels; the first class is chosen.")
    return chosen


def warn(message: str) -> None:
    """Issue a warning that points at the caller of the public function."""
    warnings.warn(message, errors.CrowdwiseWarning, stacklevel=4)


@compiled
def count_answers(wide: Array, per_task: Array, per_worker: Array) -> None:
    """Count the answers of each row and column; `per_worker` must be zeros."""
    for t in range(wide.shape[0]):
        n = 0
        for w in range(wide.shape[1]):
            if not np.isnan(wide[t, w]):
                n += 1
                per_worker[w] += 1
        per_task[t] = n


@compiled
def collect_answers(wide: Array, task: Array, worker: Array, value: Array) -> None:
    """Fill the arrays (answers,) with the cells that are not NaN, row by row."""
    n = 0
    for t in range(wide.shape[0]):
        for w in range(wide.shape[1]):
            if not np.isnan(wide[t, w]):
                task[n], worker[n], value[n] = t, w, wide[t, w]
                n += 1
