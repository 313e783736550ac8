"""Which tasks a person should label so that the figures of a run become known soonest: `plan_gold`.

    p[t, c]     probability of class c, calibrated; label[t] is the label of task t
    a[t]        = p[t, label] (1 - p[t, label])   variance of "the label is right", if its confidence is right
    b[t]        = sum_c p[t, c] (1 - p[t, c])     the same for class shares
    s[t]        = sqrt(a[t] / mean a + b[t] / mean b)
    size[t]     = (1 - FLOOR) s[t] / mean s + FLOOR

Tasks are sorted by size and cut into strata of equal total size; the same number is drawn from each, uniformly. The
probability of a task is thus about proportional to its size: Neyman's allocation, which has the smallest variance if
the confidence is right, mixed with a uniform draw in case it is not. No task has less than `FLOOR` times the
probability of a uniform draw, so that mistakes which everybody believes are found too. Estimates remain unbiased,
whatever the confidence is worth: `trust.gold_design` describes the columns that make it so, and how rounds combine.

The expected intervals are those of `trust.ppi`, with the variance that the probabilities p imply: V = sum over strata
of (share of tasks)^2 (1 - n / N) / n times the mean of p (1 - p). If labels are less certain than p says, intervals are
wider. The gain over a uniform draw is small where all tasks are about equally uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.stats import norm, t

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers, as_answers
from crowdwise.errors import GoldError
from crowdwise.trust.gold_design import gold_table
from crowdwise.trust.gold_sample import Array
from crowdwise.trust.ppi import MIN_GOLD, Interval, share_interval

FLOOR = 0.5  # least probability of a task, relative to a uniform draw
PER_STRATUM = 10  # gold tasks drawn from each
MAX_STRATA = 10


class ExpectedInterval(NamedTuple):
    """Intervals to expect of one figure: now, after labelling, and if as many tasks were drawn uniformly instead."""

    before: Interval | None  # None with fewer than `ppi.MIN_GOLD` gold labels
    planned: Interval
    random: Interval


@dataclass(frozen=True)
class GoldPlan:
    """Tasks to label; made by `plan_gold`.

    Attributes
    ----------
    table : pyarrow.Table
        The gold file: known gold first, then the tasks to label, whose `label` is empty; with the design columns.
    n_new : int
        Number of tasks to label.
    accuracy : ExpectedInterval
        Of the share of labels that are right.
    shares : dict of class to ExpectedInterval
        Of the share of each class.
    """

    table: pa.Table
    n_new: int
    accuracy: ExpectedInterval
    shares: dict[Any, ExpectedInterval] = field(repr=False)


class _Part(NamedTuple):
    """Tasks that were or will be drawn from uniformly, and how many of them."""

    tasks: Array
    n_gold: int


def plan_gold(
    answers: Any, proba: Array, n_gold: int, *, codes: Array | None = None, gold: Any = None,
    design: pa.Table | None = None, seed: int = 0,
) -> GoldPlan:  # fmt: skip
    """Draw tasks for a person to label, those whose labels are uncertain more often, with known probabilities.

    Parameters
    ----------
    answers : Answers or data frame
    proba : (tasks, classes) array
        Calibrated probabilities, such as `Run.proba` or those of `calibrated`.
    n_gold : int
        Number of tasks to label.
    codes : (tasks,) int array, optional
        The labels to judge; by default the most probable classes.
    gold : mapping of task to class, or codes in task order (-1 unknown), optional
        Labels that are known already. These tasks are not drawn again.
    design : pyarrow.Table, optional
        How they were drawn, if not uniformly: the columns of `trust.gold_design`.
    seed : int
        Seed of the draw.

    Returns
    -------
    GoldPlan

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(1000, n_workers=12, n_classes=2, answers_per_task=4, seed=1)
    >>> plan = cw.trust.plan_gold(answers, cw.trust.calibrated(answers).proba, 100)
    >>> plan.table.column_names
    ['task', 'label', 'round', 'stratum', 'stratum_tasks', 'probability']
    >>> gold = {task: int(answers.truth[task]) for task in plan.table["task"].to_pylist()}  # somebody labels them
    >>> found = cw.trust.estimate(answers, gold, design=plan.table)
    >>> found.accuracy.low < (cw.MajorityVote().fit(answers).codes_ == answers.truth).mean() < found.accuracy.high
    np.True_
    """
    answers = as_answers(answers)
    require(is_integer(n_gold, 1), "n_gold", n_gold, "an integer of 1 or more")
    shape = (answers.n_tasks, answers.n_classes)
    proba = np.asarray(proba, dtype=float)
    require(proba.shape == shape and bool(np.isfinite(proba).all()), "proba", proba.shape, f"finite, shape {shape}")
    codes = proba.argmax(axis=1) if codes is None else np.asarray(codes)
    known = np.full(answers.n_tasks, -1) if gold is None else answers.codes_of_truth(gold)
    free = np.flatnonzero(known < 0)
    if not len(free):
        message = "all tasks have gold labels: there is nothing left to label."
        raise GoldError(message)
    n_new, n_known = min(n_gold, len(free)), answers.n_tasks - len(free)
    if n_new + n_known < MIN_GOLD:
        message = f"{n_new + n_known} gold labels are too few for an interval; ask for at least {MIN_GOLD - n_known}."
        raise GoldError(message)
    rng = np.random.default_rng(seed)
    error = 1 - proba[np.arange(len(codes)), codes]  # (tasks,)
    strata = draw_strata(size_of(error[free] * (1 - error[free]), (proba * (1 - proba)).sum(axis=1)[free]), n_new, rng)
    parts = [_Part(free[each], n) for each, n in strata]
    table = _table(answers, known, design, parts, rng)
    whole = [_Part(np.arange(answers.n_tasks), n_known)] if n_known else []  # as if drawn uniformly
    random = [_Part(free, n_new)]

    def expected(probability: Array) -> ExpectedInterval:
        variance = probability * (1 - probability)
        value = float(probability.mean())
        now = _expect(value, variance, whole, []) if n_known >= MIN_GOLD else None
        return ExpectedInterval(now, *(_expect(value, variance, whole, each) for each in (parts, random)))

    shares = {name: expected(proba[:, c]) for c, name in enumerate(answers.class_ids.to_pylist())}
    return GoldPlan(table, n_new, expected(1 - error), shares)


def size_of(accuracy_error: Array, share_error: Array) -> Array:
    """Return the relative probability of each task; see the top of the module. 1 for all if nothing is uncertain."""
    squares = [each / each.mean() for each in (accuracy_error, share_error) if each.mean() > 1e-12]
    if not squares:
        return np.ones(len(accuracy_error))
    s = np.sqrt(np.sum(squares, axis=0))
    return (1 - FLOOR) * s / s.mean() + FLOOR


def draw_strata(size: Array, n_gold: int, rng: np.random.Generator) -> list[tuple[Array, int]]:
    """Return the strata as positions in `size`, the smallest first, and how many tasks to draw from each.

    >>> strata = draw_strata(np.array([1.0] * 60 + [3.0] * 20), 20, np.random.default_rng(0))
    >>> [(len(each), n) for each, n in strata]
    [(60, 10), (20, 10)]
    """
    n_strata = int(np.clip(n_gold // PER_STRATUM, 1, MAX_STRATA))
    order = np.lexsort((rng.random(len(size)), size))  # ties in random order
    total = np.cumsum(size[order])
    at = np.minimum((total - size[order] / 2) / total[-1] * n_strata, n_strata - 1).astype(int)  # (tasks,)
    strata = [order[at == h] for h in range(n_strata)]
    strata = [each for each in strata if len(each)]
    tasks = np.array([len(each) for each in strata])
    n = np.zeros(len(strata), np.int64)
    while n.sum() < n_gold:  # one more for the stratum of the fewest, later strata first; at most all of its tasks
        open_ = np.flatnonzero(n < tasks)
        n[open_[n[open_] == n[open_].min()][-1]] += 1
    return [(each, int(count)) for each, count in zip(strata, n, strict=True) if count]


def _table(answers: Answers, known: Array, design: pa.Table | None, parts: list[_Part], rng: Any) -> pa.Table:
    """Return the gold file; new tasks in an order of which every beginning has its share of all strata."""
    old = gold_table(answers, known, design)
    number = 1 + (pc.max(old.column("round")).as_py() or 0)
    task, stratum, rank = [], [], []
    for h, part in enumerate(parts, 1):
        task.append(rng.choice(part.tasks, part.n_gold, replace=False))
        stratum.append(np.full(part.n_gold, h))
        rank.append((np.arange(part.n_gold) + rng.random(part.n_gold)) / part.n_gold)
    order = np.argsort(np.concatenate(rank), kind="stable")
    at = np.concatenate(stratum)[order] - 1  # (new,)
    tasks, n = (np.array([[len(part.tasks), part.n_gold] for part in parts]).T)[:, at]
    new = pa.table(
        {
            "task": answers.task_ids.take(pa.array(np.concatenate(task)[order])),
            "label": pa.nulls(len(at), answers.class_ids.type),
            "round": np.full(len(at), number),
            "stratum": at + 1,
            "stratum_tasks": tasks,
            "probability": n / tasks,
        }
    )
    return pa.concat_tables([old, new])


def _expect(value: float, variance: Array, before: list[_Part], parts: list[_Part]) -> Interval:
    """Return the interval to expect for a share, from the expected variance of each task, (tasks,)."""
    total, weight = 0.0, 0.0
    for draw in (before, parts):  # rounds, combined as in `trust.gold_sample`
        n, size = sum(part.n_gold for part in draw), sum(len(part.tasks) for part in draw)
        if n == 0:
            continue
        lead = n / max(1 - n / size, 1e-9)
        each = [
            (len(part.tasks) / size) ** 2 * (1 / part.n_gold - 1 / len(part.tasks)) * variance[part.tasks].mean()
            for part in draw
        ]
        total, weight = total + lead**2 * sum(each), weight + lead
    n = sum(part.n_gold for part in (*before, *parts))
    quantile = t.isf(0.025, max(n - 1 - len(parts), 1)) / norm.isf(0.025)
    alone = max(value * (1 - value), 1e-12)
    return Interval(value, *share_interval(value, quantile**2 * total / weight**2 / alone))
