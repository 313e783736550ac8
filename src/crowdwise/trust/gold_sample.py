"""How the gold tasks were drawn: uniformly, uniformly within strata, with known probabilities, or in several rounds.

    pi[i]   probability that gold task i was drawn in its round: n / N, or n[h] / N[h] in stratum h, or as stated
    w[i]    weight of gold task i in estimates, sums to 1; proportional to 1 / pi[i] if there is one round
    v[i]    the part of w[i] that varies with the draw; the same as w[i] if there is one round

A later round draws from the tasks that are not yet gold, with probabilities that may depend on all that is known by
then. Round r, with n[r] gold tasks from N[r], gives an estimate of the total that is unbiased given the past:

    total[r]    = sum of y over the gold of earlier rounds + sum of y[i] / pi[i] over the gold of round r
    estimate    = sum_r lambda[r] total[r] / N                    lambda[r] proportional to n[r] / (1 - n[r] / N[r])
    v[i]        = lambda[r] / (N pi[i])                           i in round r
    w[i]        = v[i] + sum of lambda[s] / N over later rounds s

The errors of the rounds are uncorrelated, so that their variances add up. Estimates hold for all tasks only if every
task could have been drawn. Each stratum therefore needs gold (two, for a variance), and no probability may be 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Answers
from crowdwise.errors import GoldError, ParameterError, UnknownIdError

Array = np.ndarray[Any, np.dtype[Any]]


class GoldSample(NamedTuple):
    """How the gold tasks of one figure were drawn."""

    weight: Array  # (gold,), sums to 1
    spread: Array  # (gold,), the part of the weight that varies with the draw
    inclusion: Array  # (gold,), inclusion probabilities
    stratum: Array  # (gold,), codes 0, 1, ...
    n_tasks: int
    uniform: bool  # whether all tasks had the same probability, without strata

    def part(self, at: Array, n_tasks: int) -> GoldSample:
        """Return the design for the gold tasks `at`, those of a part with `n_tasks` tasks.

        Strata only set the weights, as a part may have no gold in some. Intervals are usually a little wider for it.
        """
        if self.uniform:
            return uniform_sample(len(at), n_tasks)
        total = self.weight[at].sum()
        one = np.zeros(len(at), np.int64)
        return GoldSample(
            self.weight[at] / total, self.spread[at] / total, self.inclusion[at], one, n_tasks, uniform=False
        )

    @property
    def effective_size(self) -> float:
        """Number of gold tasks drawn uniformly that would be worth as much, if values do not depend on the weights."""
        return float(1 / np.sum(self.weight**2))


class Round(NamedTuple):
    """One draw of gold tasks from those that were not gold before."""

    rows: Array  # positions among the gold tasks
    inclusion: Array  # of each of them
    stratum: Array  # of each of them
    n_tasks: float  # that it was drawn from


def uniform_sample(n_gold: int, n_tasks: int) -> GoldSample:
    """Return the design in which all subsets of `n_gold` tasks were equally probable."""
    weight, inclusion = np.full(n_gold, 1 / n_gold), np.full(n_gold, n_gold / n_tasks)
    return GoldSample(weight, weight, inclusion, np.zeros(n_gold, np.int64), n_tasks, uniform=True)


def weighted_sample(inclusion: Array, n_tasks: int, stratum: Array | None = None) -> GoldSample:
    """Return the design in which gold task i was drawn with probability `inclusion[i]`, within strata if given."""
    weight = 1 / inclusion
    weight = weight / weight.sum()
    codes = np.zeros(len(inclusion), np.int64) if stratum is None else stratum
    return GoldSample(weight, weight, inclusion, codes, n_tasks, uniform=False)


def sample_of_rounds(rounds: Sequence[Round], n_tasks: int) -> GoldSample:
    """Return the design of gold tasks drawn in several rounds, the first first.

    Examples
    --------
    >>> first = Round(np.arange(2), np.full(2, 0.2), np.zeros(2, int), 10)  # 2 of 10 tasks, then 4 of the other 8
    >>> sample = sample_of_rounds([first, Round(np.arange(2, 6), np.full(4, 0.5), np.zeros(4, int), 8)], 10)
    >>> sample.weight.round(3).tolist(), round(float(sample.weight.sum()), 6)
    ([0.195, 0.195, 0.152, 0.152, 0.152, 0.152], 1.0)
    """
    n_gold = sum(len(each.rows) for each in rounds)
    weight, spread, inclusion = np.zeros(n_gold), np.zeros(n_gold), np.ones(n_gold)
    stratum = np.zeros(n_gold, np.int64)
    left = np.array([max(1 - len(each.rows) / each.n_tasks, 1e-9) for each in rounds])  # share not drawn
    share = np.array([len(each.rows) for each in rounds]) / left
    share /= share.sum()  # lambda
    before, n_strata = np.zeros(0, np.int64), 0
    for part, each in zip(share, rounds, strict=True):
        size = 1 / each.inclusion  # tasks that each gold task stands for
        total = size.sum() + len(before)
        weight[before] += part / total
        spread[each.rows] = part * size / total
        weight[each.rows] += spread[each.rows]
        inclusion[each.rows] = each.inclusion
        stratum[each.rows] = each.stratum + n_strata
        before, n_strata = np.concatenate([before, each.rows]), n_strata + int(each.stratum.max(initial=-1)) + 1
    return GoldSample(weight, spread, inclusion, stratum, n_tasks, uniform=False)


def task_sample(answers: Answers, rows: Array, strata: Any, inclusion: Any) -> GoldSample:
    """Return how the gold tasks `rows` were drawn."""
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
        return weighted_sample((drawn / size)[stratum[rows]], answers.n_tasks, stratum[rows])
    if inclusion is not None:
        chance = np.asarray(values_per_task(answers, inclusion, "inclusion"), dtype=float)
        if not ((chance > 0) & (chance <= 1)).all():
            message = (
                "inclusion has probabilities outside 0 to 1, or zeros. Every task needs a chance to be drawn as gold; "
                "remove the tasks that had none."
            )
            raise ParameterError(message)
        return weighted_sample(chance[rows], answers.n_tasks)
    return uniform_sample(len(rows), answers.n_tasks)


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
