"""Matching the rows of a source of features to the tasks of answers, by name or by row number."""

from __future__ import annotations

import warnings

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.answers.encoding import preview, short_repr
from crowdwise.errors import FeaturesError, TaskOrderWarning
from crowdwise.learn.features.base import Array, Features


def match_by_name(answers: Answers, names: pa.Array, other_names: pa.Array | None = None) -> Array:
    """Return the position of each task among the names of a source, (tasks,).

    Parameters
    ----------
    answers : Answers
        The tasks to look up.
    names : arrow array of str
        Name of each row or file.
    other_names : arrow array of str, optional
        A second name of each, for tasks that are not among `names`: a file name without its suffix.
    """
    tasks = answers.task_ids.cast(pa.large_string())
    position = pc.index_in(tasks, value_set=names)
    if other_names is not None:
        counts = pc.value_counts(other_names)
        repeated = counts.field(0).filter(pc.greater(counts.field(1), 1))
        ambiguous = tasks.filter(pc.and_(position.is_null(), pc.is_in(tasks, value_set=repeated)))
        if len(ambiguous):
            message = f"several files match task {preview(ambiguous.to_pylist())}. Remove all but one."
            raise FeaturesError(message)
        position = pc.coalesce(position, pc.index_in(tasks, value_set=other_names))
    if position.null_count:
        missing = tasks.filter(position.is_null()).to_pylist()
        message = (
            f"{len(missing)} of {answers.n_tasks} tasks have no features: {preview(missing)}. The source has "
            f"{preview(names.to_pylist())}. Add the missing ones, or remove their answers."
        )
        raise FeaturesError(message)
    return position.to_numpy(zero_copy_only=False).astype(np.int64)


def warn_of_order(answers: Answers) -> None:
    """Warn that rows without task ids must follow the sorted tasks if these first appear in another order."""
    if not answers.tasks_reordered:
        return
    first = ", ".join(short_repr(task) for task in answers.tasks[:3].tolist())
    message = (
        f"X has no task ids, so its rows are taken in the order of answers.tasks, which is sorted: {first}, ... The "
        "answers name the tasks in another order. If the rows of X follow that other order, results are wrong. Pass X "
        "as a data frame with a column 'task', or declare the order of the rows: Answers.from_frame(..., tasks=[...])."
    )
    warnings.warn(message, TaskOrderWarning, stacklevel=2)


def match_by_row(features: Features, answers: Answers, source: str) -> Features:
    """Match the rows of a file without ids to the tasks, and note how where it is not obvious.

    As many rows as tasks: rows follow the order of `answers.tasks`. More rows than tasks, and ids that are row
    numbers: the id of a task is its row, counted from 0, and the other rows are ignored.

    Parameters
    ----------
    features : Features
        All rows of the file.
    answers : Answers
        The tasks to match.
    source : str
        Name of the file, for messages.
    """
    tasks, n_tasks, n_rows = answers.tasks, answers.n_tasks, features.n_rows
    integers = tasks.dtype.kind in "iu"
    if n_rows == n_tasks:
        if not (integers and np.array_equal(tasks, np.arange(n_tasks))):
            shown = ", ".join(map(repr, tasks[:3].tolist()))
            features.match_note = (
                f"{source} has no task ids: its rows are matched to the tasks in order ({shown}, ..., "
                f"{tasks.tolist()[-1]!r})."
            )
        return features
    if n_rows > n_tasks and integers and tasks.min() >= 0 and tasks.max() < n_rows:
        chosen = features.select(tasks)
        chosen.n_ignored = n_rows - n_tasks
        chosen.match_note = (
            f"{source} has {n_rows:,} rows for {n_tasks:,} tasks: task ids are used as row numbers, counted from 0."
        )
        return chosen
    message = (
        f"{source} has {n_rows:,} rows; the answers have {n_tasks:,} tasks. Pass one row per task in the order of the "
        f"task ids, use row numbers from 0 as task ids, or use a .csv or .parquet table with a column `task`."
    )
    raise FeaturesError(message)
