"""What is done with scores of tasks, the lowest the most ambiguous: a table to read, a set to keep, weights.

    prune     tasks with a score <= the alpha-quantile go                       Lefort et al.: alpha 0.01, 0.05 or 0.1
    weights   odds w / (1 - w) = r^2 / (1 - r^2) over alpha^2 / (1 - alpha^2)   ours: r = share of tasks ranked below
              so w is 0 at r = 0, 1/2 at alpha, 1 at 1; then scaled to mean one

A task without answers that were trained on is not ranked: its score is +infinity, and it is never removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.stats import rankdata

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.answers.encoding import runs
from crowdwise.learn.base import Array
from crowdwise.learn.features import Features

ALPHA, SOFT_ALPHA = 0.01, 0.1  # unless told: of `prune`, and of `weights`
CONTROL = 104729  # sets the draws of the control apart from others of the same seed
BLOCK = 4096  # tasks at a time


class KeptTasks(NamedTuple):
    """What is left when the most ambiguous tasks are removed."""

    rows: Array  # (kept,) codes of the tasks kept, increasing: X[kept.rows]
    answers: Answers  # to these; all workers and classes stay
    removed: Array  # (removed,) codes of the others, the most ambiguous first
    threshold: float  # the quantile; what scored that much or less is removed


class TaskRanker:
    """Tasks with scores: how to read them, and how to go on without the most ambiguous.

    Attributes
    ----------
    scores_ : (tasks,) array
        The lower the more ambiguous; +infinity where nothing is known.
    aum_, trust_ : (answers,) arrays
        What the score of a task is made of: the area under the margin of each answer, and how much it counts.
    """

    answers_: Answers
    scores_: Array
    aum_: Array
    trust_: Array
    random_state: int

    def ranking(self, n: int | None = None) -> pa.Table:
        """The `n` most ambiguous tasks, or all, the most ambiguous first, with what makes them so.

        Returns
        -------
        pyarrow.Table
            `task`; `rank`, from 1, and `score` (empty where nothing is known); `answers`, how many; and for each of
            them, as lists, `workers`, `labels`, `aum` and `trust`.
        """
        require(n is None or is_integer(n, 0), "n", n, "a whole number, 0 or more, or None for all")
        scores, answers = self.scores_, self.answers_
        order = np.argsort(scores, kind="stable")[:n]
        length = np.diff(answers.task_starts)[order]
        at, _ = runs(answers.task_starts, order)
        parts = {
            "workers": answers.worker_ids.take(pa.array(answers.worker[at])),
            "labels": answers.class_ids.take(pa.array(answers.label[at])),
            "aum": pa.array(self.aum_[at]),
            "trust": pa.array(self.trust_[at]),
        }
        offsets, unknown = pa.array(np.concatenate([[0], np.cumsum(length)])), np.isinf(scores[order])
        return pa.table(
            {
                "task": answers.task_ids.take(pa.array(order)),
                "rank": pa.array(np.arange(1, len(order) + 1), mask=unknown),
                "score": pa.array(scores[order], mask=unknown),
                "answers": length,
                **{name: pa.LargeListArray.from_arrays(offsets, values) for name, values in parts.items()},
            }
        )

    def prune(self, alpha: float = ALPHA, *, random: bool = False, strict: bool = False) -> KeptTasks:
        """Leave out the most ambiguous tasks.

        Parameters
        ----------
        alpha : float
            Share of the tasks to remove: those that score no more than this quantile of all scores. 0 removes none.
        random : bool
            The control: as many tasks, chosen at random.
        strict : bool
            Remove only what scores less than the quantile (as the paper prints it; its code removes what equals it).

        Returns
        -------
        Kept
            `rows` and `answers` of the tasks kept, so that `fit(X[kept.rows], kept.answers)` goes on; `removed`;
            `threshold`. Where all tasks score the same, none is removed.
        """
        require(isinstance(strict, (bool, np.bool_)), "strict", strict, "True or False")
        share = is_number(alpha) and 0 <= alpha < 1
        require(share, "alpha", alpha, "the share of tasks to remove, from 0 up to but not including 1")
        scores = self._dealt(random)
        out, threshold = most_ambiguous(scores, alpha, strict=strict)
        rows, removed = np.flatnonzero(~out), np.flatnonzero(out)
        removed = removed[np.argsort(scores[removed], kind="stable")]
        return KeptTasks(rows, self.answers_[rows], removed, threshold)

    def weights(self, alpha: float = SOFT_ALPHA, *, random: bool = False) -> Array:
        """Weights of the tasks to pass as `sample_weight`: the more ambiguous, the less, but none is left out.

        Parameters
        ----------
        alpha : float
            The task at this quantile has half the weight of the clearest; the first ones weigh next to nothing.
        random : bool
            The control: the same weights, dealt out at random.

        Returns
        -------
        (tasks,) array
            With mean one over the tasks that are ranked, and one for the others.
        """
        require(is_number(alpha) and 0 < alpha < 1, "alpha", alpha, "a quantile, above 0 and below 1")
        scores = self._dealt(random)
        ranked = np.isfinite(scores)
        place = (rankdata(scores[ranked]) - 0.5) / max(ranked.sum(), 1)  # in (0, 1); equals share a place
        soft = place**2 / (place**2 + alpha**2 / (1 - alpha**2) * (1 - place**2))
        weights = np.ones(len(scores))
        weights[ranked] = soft / soft.mean() if len(soft) else soft
        return weights

    @property
    def worker_trust_(self) -> Array:
        """Mean trust in the answers of each worker, (workers,); that in all answers for a worker without any."""
        answers, trust = self.answers_, self.trust_
        count = np.bincount(answers.worker, minlength=answers.n_workers)
        total = np.bincount(answers.worker, trust, minlength=answers.n_workers)
        return np.where(count > 0, total / np.maximum(count, 1), trust.mean())

    def _dealt(self, random: bool) -> Array:
        """The scores; as a control, dealt out at random among the tasks that are ranked."""
        require(isinstance(random, (bool, np.bool_)), "random", random, "True or False")
        scores = self.scores_.copy()
        if random:
            ranked = np.flatnonzero(np.isfinite(scores))
            scores[ranked] = np.random.default_rng([self.random_state, CONTROL]).permutation(scores[ranked])
        return scores


def most_ambiguous(scores: Array, alpha: float, *, strict: bool = False) -> tuple[Array, float]:
    """Which tasks score no more (less, if `strict`) than the alpha-quantile, (tasks,); and that quantile.

    Scores that are not finite are of tasks nothing is known of, and count for nothing. Where all tasks score the same,
    nothing tells one from another: none is ambiguous.

    >>> most_ambiguous(np.array([0.1, 0.9, np.inf, 0.8]), 0.0)[0].tolist()
    [False, False, False, False]
    >>> most_ambiguous(np.array([0.1, 0.9, np.inf, 0.8]), 0.2)[0].tolist()
    [True, False, False, False]
    """
    ranked = np.isfinite(scores)
    threshold = float(np.quantile(scores[ranked], alpha)) if alpha and ranked.any() else -np.inf
    out = ranked & (scores < threshold if strict else scores <= threshold)
    return (np.zeros_like(out) if out.sum() == ranked.sum() else out), threshold


def weighted_means(values: Array, weight: Array, task: Array, n_tasks: int) -> Array:
    """Mean of values (answers,) for each task by their weights; plain where these sum to zero, +inf without answers.

    >>> weighted_means(np.array([1.0, 0.0, 3.0]), np.array([3.0, 1.0, 0.0]), np.array([0, 0, 1]), 3).tolist()
    [0.75, 3.0, inf]
    """
    by_task = np.bincount(task, weight, minlength=n_tasks)
    weight = np.where(by_task[task] > 0, weight, 1.0)
    by_task = np.bincount(task, weight, minlength=n_tasks)
    sums = np.bincount(task, weight * values, minlength=n_tasks)
    return np.where(by_task > 0, sums / np.where(by_task > 0, by_task, 1.0), np.inf)


def in_blocks(predict: Callable[[Array], Array], features: Features, tasks: Array, n_classes: int) -> Array:
    """What a classifier says of some tasks, (rows, classes), a block of them at a time."""
    out, size = np.empty((len(tasks), n_classes)), features.block_size(BLOCK)
    for first in range(0, len(tasks), size):
        out[first : first + size] = predict(features.rows(tasks[first : first + size]))
    return out
