"""crowd-kit's metrics of answers: alpha_krippendorff, consistency, uncertainty."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Literal

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import Aggregator, Table, read
from crowdwise.compat.crowdkit.aggregation.classification import MajorityVote
from crowdwise.evaluate import agreement
from crowdwise.truth.base import Array

__all__ = ["alpha_krippendorff", "consistency", "uncertainty"]


class MissingSkillError(errors.ParameterError, AssertionError):
    """A worker has no skill. Also an AssertionError, which crowd-kit raises."""


class ComputeByError(errors.ParameterError, KeyError):
    """An unknown value of `compute_by`. Also a KeyError, which crowd-kit raises."""

    __str__ = Exception.__str__


def alpha_krippendorff(answers: pd.DataFrame, distance: Callable[[Hashable, Hashable], float] | None = None) -> float:
    """Return Krippendorff's alpha: agreement beyond chance, 1 if perfect and 0 if by chance.

    `distance` of two labels defaults to 0 if they are equal and 1 otherwise.

    >>> frame = pd.DataFrame({"task": list("xxyyzz"), "worker": list("ababab"), "label": [1, 1, 0, 0, 1, 0]})
    >>> round(alpha_krippendorff(frame), 4)
    0.4444
    """
    table = read(answers)
    alpha = agreement.krippendorff_alpha(table.answers) if distance is None else _alpha(table, distance)
    if alpha is None:
        message = "no task has two answers, so alpha is undefined."
        raise errors.EmptyError(message)
    return alpha


def consistency(
    answers: pd.DataFrame,
    workers_skills: pd.Series | None = None,
    aggregator: Aggregator | None = None,
    by_task: bool = False,
) -> float | pd.Series:
    """Return the posterior probability of the aggregated labels given the workers' skills, per task or on average.

    The aggregator (default `MajorityVote()`) infers the labels, and the skills unless they are passed.

    >>> frame = pd.DataFrame({"task": list("xxyy"), "worker": list("abab"), "label": [1, 1, 0, 1]})
    >>> round(consistency(frame, pd.Series({"a": 0.9, "b": 0.6})), 4)
    0.8941
    """
    table = read(answers)
    aggregator = MajorityVote() if aggregator is None else aggregator
    labels = aggregator.fit_predict(answers)
    skill = _skills(table, aggregator.skills_ if workers_skills is None else workers_skills)
    codes = table.classes.get_indexer(labels.reindex(table.tasks))
    values = pd.Series(agreement.consistency(table.answers, codes, skill), index=table.tasks)
    return values if by_task else float(values.mean())


def uncertainty(
    answers: pd.DataFrame,
    workers_skills: pd.Series | None = None,
    aggregator: Aggregator | None = None,
    compute_by: Literal["task", "worker"] = "task",
    aggregate: bool = True,
) -> float | pd.Series:
    """Return the entropy (in nats) of the labels of each task or worker, or its mean.

    Skills are those passed, or the aggregator's, or 1.

    >>> frame = pd.DataFrame({"task": list("xxyy"), "worker": list("abab"), "label": ["yes", "no", "yes", "yes"]})
    >>> uncertainty(frame, aggregate=False).round(3).tolist()
    [0.693, 0.0]
    """
    if compute_by not in ("task", "worker"):
        message = f"compute_by={compute_by!r}: use 'task' or 'worker'."
        raise ComputeByError(message)
    table = read(answers)
    if workers_skills is None and aggregator is not None:
        aggregator.fit_predict(answers)
        workers_skills = aggregator.skills_
    skill = None if workers_skills is None else _skills(table, workers_skills)
    index = table.tasks if compute_by == "task" else table.workers
    values = pd.Series(agreement.uncertainty(table.answers, skill, by=compute_by), index=index)
    return float(values.mean()) if aggregate else values


def _skills(table: Table, skills: pd.Series) -> Array:
    """Return the skill of each worker; a missing skill is an error."""
    skill = skills.reindex(table.workers).to_numpy(dtype=float, na_value=np.nan)
    if np.isnan(skill).any():
        message = f"no skill for worker {preview(table.workers[np.isnan(skill)].tolist())}; pass one for every worker."
        raise MissingSkillError(message)
    return skill


def _alpha(table: Table, distance: Callable[[Hashable, Hashable], float]) -> float | None:
    """Return alpha for any distance, 1 - observed / expected, from tasks with two answers or more."""
    labels = table.classes.tolist()
    distances = np.array([[distance(a, b) for b in labels] for a in labels], dtype=float)  # (classes, classes)
    votes: Any = table.answers.counts()  # (tasks, classes), sparse
    votes = votes[np.diff(table.answers.task_starts) > 1]
    if not votes.nnz:
        return None
    per_task, per_class = votes.sum(axis=1), votes.sum(axis=0)  # (tasks,), (classes,)
    n = per_class.sum()
    observed = (votes.multiply(votes @ distances).sum(axis=1) / (per_task - 1)).sum() / n
    expected = per_class @ distances @ per_class / (n * (n - 1))
    return float(1 - observed / expected) if expected else 1.0
