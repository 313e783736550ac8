"""Choose a method for ratings by held-out ratings: the median or the mean, unless another is really better.

Ratings are split into folds, the ratings of a task into different ones. Each candidate is fitted without a fold and
scored on it, higher is better:

    scale    log sum_c proba[t, c] confusion[w, c, l]     confusion: one worker model for all candidates, estimated from
                                                          proba and the training ratings: five ratings of the average
                                                          worker, and the worker's own, as in `choose.scores`
    numbers  -(rating - value[t])^2 / variance of all ratings

Differences between candidates are paired by task. The first candidate, the simplest, is kept unless another leads it by
more than one standard error; then the first that no other leads by more than that.

Where workers make the same mistakes, as panels of language models do, held-out ratings reward imitating the crowd, and
the choice says little about the truth.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.registry import make
from crowdwise.answers import Ratings
from crowdwise.choose.scores import answer_folds
from crowdwise.errors import CrowdwiseError, CrowdwiseWarning
from crowdwise.kinds.ratings.methods.ordinal_pool import as_classes
from crowdwise.truth.base import Array

SCALE = ("median", "ordinal-pool", "ordinal-dawid-skene", "ordinal-glad")
NUMBERS = ("mean", "median", "trimmed-mean", "gtm", "gaussian-workers", "student-workers")
AVERAGE = 5.0  # ratings of the average worker in each worker's confusion matrix
MIN_RATINGS = 30  # held out


class RatingScore(NamedTuple):
    """A candidate: its mean score, and its lead over the first candidate with the standard error; None if it failed."""

    candidate: str
    score: float | None
    lead: float | None
    error: float | None
    failure: str | None = None


class RatingChoice(NamedTuple):
    """The chosen candidate, and all of them in order of simplicity."""

    best: str
    entries: list[RatingScore]
    words: str


def choose_for_ratings(
    ratings: Ratings, candidates: Sequence[str] | None = None, *, folds: int = 5, random_state: int = 0
) -> RatingChoice:
    """Choose a method for ratings by held-out ratings.

    Parameters
    ----------
    ratings : Ratings
        Their `truth` is not used.
    candidates : sequence of str, optional
        Names of methods, the simplest first. Default: `SCALE` or `NUMBERS`.
    folds : int
        Number of folds.
    random_state : int
        Seed of the folds.

    Examples
    --------
    >>> from crowdwise.simulate import rating_crowd
    >>> choose_for_ratings(rating_crowd(300, careless=0.3, seed=1), ["median", "ordinal-dawid-skene"]).best
    'ordinal-dawid-skene'
    """
    names = list(candidates or (NUMBERS if ratings.numeric else SCALE))
    fold = answer_folds(as_classes(ratings), folds, np.random.default_rng(random_state))
    held = fold >= 0
    if len(names) == 1 or held.sum() < MIN_RATINGS:
        why = "the only candidate" if len(names) == 1 else "too few ratings to compare methods"
        return RatingChoice(names[0], [RatingScore(names[0], None, None, None)], f"Used: {names[0]} ({why}).")
    scores: dict[str, Array] = {}
    failures: dict[str, str] = {}
    for name in names:
        total = np.zeros(ratings.n_answers)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CrowdwiseWarning)
                for k in range(folds):
                    kept, hidden = ratings.take(np.flatnonzero(fold != k)), ratings.take(np.flatnonzero(fold == k))
                    total[fold == k] = held_out_scores(make(name).fit(kept), kept, hidden)
        except CrowdwiseError as error:
            failures[name] = str(error)
            continue
        scores[name] = total
    if not scores:
        message = "no method could be fitted: " + "; ".join(f"{name}: {why}" for name, why in failures.items())
        raise CrowdwiseError(message)
    first = next(iter(scores))
    best = first
    while True:
        better = next((n for n in scores if n != best and _leads(scores[n], scores[best], ratings, held)), None)
        if better is None:
            break
        best = better
    entries = [
        RatingScore(name, float(scores[name][held].mean()), *_lead(scores[name], scores[first], ratings, held))
        if name in scores else RatingScore(name, None, None, None, failures[name])
        for name in names
    ]  # fmt: skip
    words = f"No method predicts held-out ratings better than {first} by more than one standard error: {first} is used."
    if best != first:
        by, spread = _lead(scores[best], scores[first], ratings, held)
        words = f"{best} predicts held-out ratings better than {first} (by {by:.3f} ± {spread:.3f}), so it is used."
    return RatingChoice(best, entries, words)


def held_out_scores(model: Any, kept: Ratings, hidden: Ratings) -> Array:
    """Return the score of each held-out rating, (hidden ratings,), under a model fitted to the others."""
    if kept.numeric:
        return np.asarray(-((hidden.value - model.value_[hidden.task]) ** 2) / max(float(kept.value.var()), 1e-300))
    k, proba = kept.n_classes, model.proba_
    cell = kept.worker.astype(np.int64) * k + kept.label  # (kept ratings,)
    flat = np.zeros((kept.n_workers * k, k))
    for c in range(k):
        flat[:, c] = np.bincount(cell, proba[kept.task, c], kept.n_workers * k)
    counts = flat.reshape(-1, k, k).transpose(0, 2, 1)  # (workers, truth, level)
    pooled = counts.sum(axis=0) + 0.1
    confusion = counts + AVERAGE * pooled / pooled.sum(axis=1, keepdims=True)
    confusion /= confusion.sum(axis=2, keepdims=True)
    chance = (proba[hidden.task] * confusion[hidden.worker, :, hidden.label]).sum(axis=1)
    return np.asarray(np.log(np.maximum(chance, 1e-12)))


def _lead(ours: Array, theirs: Array, ratings: Ratings, held: Array) -> tuple[float, float]:
    """Return the mean lead per held-out rating, and its standard error over tasks."""
    difference = (ours - theirs)[held]
    per_task = np.bincount(ratings.task[held], difference - difference.mean(), ratings.n_tasks)
    return float(difference.mean()), float(np.sqrt((per_task**2).sum()) / len(difference))


def _leads(ours: Array, theirs: Array, ratings: Ratings, held: Array) -> bool:
    lead, error = _lead(ours, theirs, ratings, held)
    return lead > max(error, 1e-9)
