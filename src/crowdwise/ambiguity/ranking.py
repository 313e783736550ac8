"""Uses of ambiguity scores per task, lowest the most ambiguous: a table to read, pruning, weights.

    prune     remove tasks with a score <= the alpha-quantile                   Lefort et al.: alpha 0.01, 0.05 or 0.1
    weights   odds w / (1 - w) = r^2 / (1 - r^2) over alpha^2 / (1 - alpha^2)   ours: r = share of tasks ranked below
              so w is 0 at r = 0, 1/2 at alpha, 1 at 1; then scaled to mean one

A task without answers in training is not ranked: its score is +infinity, and it is never removed.
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

ALPHA, SOFT_ALPHA = 0.01, 0.1  # defaults of `prune` and `weights`
CONTROL = 104729  # separates the random numbers of the control from others of the same seed
BLOCK = 4096  # tasks at a time


class PrunedTasks(NamedTuple):
    """The tasks left after the most ambiguous ones are removed."""

    rows: Array  # (kept,) codes of the kept tasks, increasing: X[kept.rows]
    answers: Answers  # to the kept tasks, with all workers and classes
    removed: Array  # (removed,) codes of the removed tasks, the most ambiguous first
    threshold: float  # the quantile; tasks that score this or less are removed


class TaskRanker:
    """Tasks with ambiguity scores: a table of them, and learning without the most ambiguous.

    Attributes
    ----------
    scores_ : (tasks,) array
        Lower is more ambiguous; +infinity if unknown.
    aum_, trust_ : (answers,) arrays
        The components of a score: the area under the margin of each answer, and its weight.
    """

    answers_: Answers
    scores_: Array
    aum_: Array
    trust_: Array
    random_state: int

    def ranking(self, n: int | None = None) -> pa.Table:
        """Return the `n` most ambiguous tasks, or all, most ambiguous first, with the components of their scores.

        Returns
        -------
        pyarrow.Table
            `task`; `rank`, from 1, and `score` (empty if unknown); `answers`, their number; and lists with an entry per
            answer: `workers`, `labels`, `aum` and `trust`.
        """
        require(n is None or is_integer(n, 0), "n", n, "an integer of 0 or more, or None for all")
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

    def prune(self, alpha: float = ALPHA, *, random: bool = False, strict: bool = False) -> PrunedTasks:
        """Remove the most ambiguous tasks.

        Parameters
        ----------
        alpha : float
            Share of the tasks to remove: those that score at or below this quantile. 0 removes none.
        random : bool
            Control experiment: remove equally many tasks at random.
        strict : bool
            Remove only tasks below the quantile, as in the paper. Its code also removes tasks at the quantile.

        Returns
        -------
        PrunedTasks
            `rows` and `answers` of the kept tasks, for `fit(X[kept.rows], kept.answers)`; `removed`; `threshold`. If
            all tasks score the same, none is removed.
        """
        require(isinstance(strict, (bool, np.bool_)), "strict", strict, "True or False")
        is_share = is_number(alpha) and 0 <= alpha < 1
        require(is_share, "alpha", alpha, "the share of tasks to remove, at least 0 and below 1")
        scores = self._permuted_scores(random)
        out, threshold = most_ambiguous(scores, alpha, strict=strict)
        rows, removed = np.flatnonzero(~out), np.flatnonzero(out)
        removed = removed[np.argsort(scores[removed], kind="stable")]
        return PrunedTasks(rows, self.answers_[rows], removed, threshold)

    def weights(self, alpha: float = SOFT_ALPHA, *, random: bool = False) -> Array:
        """Return task weights for `sample_weight`: lower for more ambiguous tasks, but never zero.

        Parameters
        ----------
        alpha : float
            The task at this quantile has half the weight of the clearest; the most ambiguous ones have nearly none.
        random : bool
            Control experiment: the same weights, assigned at random.

        Returns
        -------
        (tasks,) array
            Mean one over ranked tasks, and one for the others.
        """
        require(is_number(alpha) and 0 < alpha < 1, "alpha", alpha, "a quantile, above 0 and below 1")
        scores = self._permuted_scores(random)
        ranked = np.isfinite(scores)
        place = (rankdata(scores[ranked]) - 0.5) / max(ranked.sum(), 1)  # in (0, 1); ties share a rank
        soft = place**2 / (place**2 + alpha**2 / (1 - alpha**2) * (1 - place**2))
        weights = np.ones(len(scores))
        weights[ranked] = soft / soft.mean() if len(soft) else soft
        return weights

    @property
    def worker_trust_(self) -> Array:
        """Mean trust in the answers of each worker, (workers,); the overall mean for a worker without answers."""
        answers, trust = self.answers_, self.trust_
        count = np.bincount(answers.worker, minlength=answers.n_workers)
        total = np.bincount(answers.worker, trust, minlength=answers.n_workers)
        return np.where(count > 0, total / np.maximum(count, 1), trust.mean())

    def _permuted_scores(self, random: bool) -> Array:
        """Return the scores; as a control, permuted at random among the ranked tasks."""
        require(isinstance(random, (bool, np.bool_)), "random", random, "True or False")
        scores = self.scores_.copy()
        if random:
            ranked = np.flatnonzero(np.isfinite(scores))
            scores[ranked] = np.random.default_rng([self.random_state, CONTROL]).permutation(scores[ranked])
        return scores


def most_ambiguous(scores: Array, alpha: float, *, strict: bool = False) -> tuple[Array, float]:
    """Return which tasks score at or below the alpha-quantile (below, if `strict`), (tasks,); and that quantile.

    Scores that are not finite are unknown and are ignored. If all tasks score the same, none is ambiguous.

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
    """Return the weighted mean of values (answers,) per task; unweighted if weights sum to zero, +inf without answers.

    >>> weighted_means(np.array([1.0, 0.0, 3.0]), np.array([3.0, 1.0, 0.0]), np.array([0, 0, 1]), 3).tolist()
    [0.75, 3.0, inf]
    """
    by_task = np.bincount(task, weight, minlength=n_tasks)
    weight = np.where(by_task[task] > 0, weight, 1.0)
    by_task = np.bincount(task, weight, minlength=n_tasks)
    sums = np.bincount(task, weight * values, minlength=n_tasks)
    return np.where(by_task > 0, sums / np.where(by_task > 0, by_task, 1.0), np.inf)


def predict_in_blocks(predict: Callable[[Array], Array], features: Features, tasks: Array, n_classes: int) -> Array:
    """Return a classifier's prediction for these tasks, (rows, classes), computed block by block."""
    out, size = np.empty((len(tasks), n_classes)), features.block_size(BLOCK)
    for first in range(0, len(tasks), size):
        out[first : first + size] = predict(features.rows(tasks[first : first + size]))
    return out
