"""How the gold tasks were drawn: uniformly, uniformly within strata, or with known inclusion probabilities.

    pi[t]   probability that task t was drawn as gold: n / N, or n[h] / N[h] in stratum h, or as stated
    w[i]    weight of gold task i, proportional to 1 / pi[i]; the weights sum to 1

Estimates hold for all tasks only if every task could have been drawn. Each stratum therefore needs gold (two, for a
variance), and no inclusion probability may be 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import GoldError, ParameterError, UnknownIdError

Array = np.ndarray[Any, np.dtype[Any]]


class GoldSample(NamedTuple):
    """How the gold tasks of one figure were drawn."""

    weight: Array  # (gold,), sums to 1
    inclusion: Array  # (gold,), inclusion probabilities
    stratum: Array  # (gold,), codes 0, 1, ...
    n_tasks: int
    uniform: bool  # whether all tasks had the same probability, without strata


def uniform_sample(n_gold: int, n_tasks: int) -> GoldSample:
    """Return the design in which all subsets of `n_gold` tasks were equally probable."""
    weight, inclusion = np.full(n_gold, 1 / n_gold), np.full(n_gold, n_gold / n_tasks)
    return GoldSample(weight, inclusion, np.zeros(n_gold, np.int64), n_tasks, True)


def weighted_sample(inclusion: Array, n_tasks: int, stratum: Array | None = None) -> GoldSample:
    """Return the design in which gold task i was drawn with probability `inclusion[i]`, within strata if given."""
    weight = 1 / inclusion
    codes = np.zeros(len(inclusion), np.int64) if stratum is None else stratum
    return GoldSample(weight / weight.sum(), inclusion, codes, n_tasks, False)


def task_sample(answers: Answers, rows: Array, strata: Any, inclusion: Any) -> tuple[GoldSample, Array | None]:
    """Return how the gold tasks `rows` were drawn, and each task's inclusion probability (None if all are equal)."""
    if strata is not None and inclusion is not None:
        message = "pass strata or inclusion, not both: strata imply the probabilities."
        raise ParameterError(message)
    if strata is not None:
        names, stratum = np.unique(values_per_task(answers, strata, "strata"), return_inverse=True)  # (tasks,)
        size = np.bincount(stratum)
        drawn = np.bincount(stratum[rows], minlength=len(names))
        poor = np.flatnonzero(drawn < np.minimum(2, size))
        if len(poor):
            message = (
                f"stratum {names[poor[0]]!r} has {drawn[poor[0]]} gold labels for {size[poor[0]]} tasks; each stratum "
                f"needs two. Label more of its tasks, or merge strata that were drawn at the same rate."
            )
            raise GoldError(message)
        chance = (drawn / size)[stratum]
        return weighted_sample(chance[rows], answers.n_tasks, stratum[rows]), chance
    if inclusion is not None:
        chance = np.asarray(values_per_task(answers, inclusion, "inclusion"), dtype=float)
        if not ((chance > 0) & (chance <= 1)).all():
            message = (
                "inclusion has probabilities outside 0 to 1, or zeros. Every task needs a chance to be drawn as gold; "
                "remove the tasks that had none."
            )
            raise ParameterError(message)
        return weighted_sample(chance[rows], answers.n_tasks), chance
    return uniform_sample(len(rows), answers.n_tasks), None


def values_per_task(answers: Answers, values: Any, name: str) -> Array:
    """Return one value per task from a mapping of task ids or a sequence in task order."""
    if isinstance(values, Mapping):
        tasks = answers.task_ids.to_pylist()
        missing = next((task for task in tasks if task not in values), None)
        if missing is not None:
            message = f"{name} has no entry for task {missing!r}; every task needs one, gold or not."
            raise UnknownIdError(message)
        return np.array([values[task] for task in tasks])
    array = np.asarray(values)
    require(array.shape == (answers.n_tasks,), name, array.shape, f"a mapping, or {answers.n_tasks} values")
    return array
