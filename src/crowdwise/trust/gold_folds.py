"""Predictions of gold labels by fits that did not know them: to choose a method, and to check its confidence.

    fold f:  fit on all answers and the gold labels outside f; predict the gold tasks of f

If gold is less than `FEW_GOLD` of the tasks, one fit without any gold replaces the folds: so few labels hardly change
a fit, and each prediction still comes from a fit that did not know the label.

A method is scored by the log-likelihood of the gold labels under its out-of-fold probabilities, raised to the power
that maximises it: a method that is too confident is not punished for that, since confidence is calibrated afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from crowdwise.truth.base import Array

FEW_GOLD = 0.05  # of all tasks
FOLDS = 5
MIN_GOLD = 20  # fewer labels choose no method
STANDARD_ERRORS = 2.0  # lead that a method needs to replace the default: several are compared
MIN_PROBABILITY = 1e-6


def out_of_fold(fit: Callable[[Array | None], Any], gold: Array, *, seed: int = 0) -> Any:
    """Return what fits that did not know them say about the gold tasks.

    Parameters
    ----------
    fit : callable
        Takes gold as codes (tasks,), -1 unknown, or None; returns a tuple of arrays with one row per task.
    gold : (tasks,) int array
        Codes, -1 unknown.
    seed : int
        Seed of the folds.

    Returns
    -------
    tuple of arrays
        Those that `fit` returns, with one row per gold task, in the order of the tasks.

    Examples
    --------
    >>> gold = np.array([0, -1, 1, 1])
    >>> known, = out_of_fold(lambda part: (part >= 0,), gold)
    >>> known.tolist()  # no fit knew the label it predicts
    [False, False, False]
    """
    rows = np.flatnonzero(gold >= 0)
    if len(rows) < max(FEW_GOLD * len(gold), 2):
        return tuple(each[rows] for each in fit(None))
    n_folds = min(FOLDS, len(rows))
    fold = np.random.default_rng(seed).permutation(len(rows)) % n_folds  # (gold tasks,)
    parts: list[Any] = []
    for number in range(n_folds):
        hidden = rows[fold == number]
        part = gold.copy()
        part[hidden] = -1
        parts.append(tuple(each[hidden] for each in fit(part)))
    order = np.argsort(np.concatenate([np.flatnonzero(fold == number) for number in range(n_folds)]))
    return tuple(np.concatenate(each)[order] for each in zip(*parts, strict=True))


class GoldScore(NamedTuple):
    """How well a method predicts gold labels it does not know."""

    accuracy: float
    log_likelihood: float  # mean over the gold tasks, after the best power
    lead: float  # over the default
    lead_error: float  # standard error, paired


def compare_on_gold(
    proba: Mapping[str, Array], gold: Array, default: str, weight: Array | None = None
) -> tuple[str, dict[str, GoldScore]]:
    """Return the method to use and the scores of all.

    Parameters
    ----------
    proba : mapping of method to (gold tasks, classes) array
        Out-of-fold probabilities.
    gold : (gold tasks,) int array
        Codes of the gold labels.
    default : str
        The method that is kept unless another leads it by two standard errors, and names as many gold labels.
    weight : (gold tasks,) array, optional
        Weights of the tasks, which sum to 1, if they were not drawn uniformly: `trust.gold_sample`.

    Examples
    --------
    >>> gold = np.arange(60) % 2
    >>> good, bad = np.eye(2)[gold] * 0.8 + 0.1, np.full((60, 2), 0.5)
    >>> best, scores = compare_on_gold({"bad": bad, "good": good}, gold, "bad")
    >>> best, scores["good"].accuracy
    ('good', 1.0)
    """
    n = len(gold)
    w = np.full(n, 1 / n) if weight is None else weight
    logs = {name: best_power(each, gold, w) for name, each in proba.items()}  # (gold tasks,) each
    scores = {}
    for name, each in logs.items():
        difference = each - logs[default]
        lead = float(w @ difference)
        error = float(np.sqrt(w**2 @ (difference - lead) ** 2 * n / (n - 1))) if n > 1 else np.inf
        accuracy = float(np.average(proba[name].argmax(axis=1) == gold, weights=w))
        scores[name] = GoldScore(accuracy, float(w @ each), lead, error)
    best = default
    if n >= MIN_GOLD:
        leaders = [
            name
            for name, score in scores.items()
            if score.lead > STANDARD_ERRORS * score.lead_error and score.accuracy >= scores[default].accuracy
        ]
        best = max(leaders, key=lambda name: scores[name].log_likelihood, default=default)
    return best, scores


def best_power(proba: Array, gold: Array, weight: Array | None = None) -> Array:
    """Return the log-likelihood (gold tasks,) of gold under probabilities raised to the power that maximises it."""
    logs = np.log(np.maximum(proba, MIN_PROBABILITY))  # (gold tasks, classes)
    rows = np.arange(len(gold))

    def score(log_power: float) -> Array:
        powered = np.exp(log_power) * logs
        return powered[rows, gold] - np.logaddexp.reduce(powered, axis=1)

    found = minimize_scalar(
        lambda x: -float(np.average(score(x), weights=weight)), bounds=(-4.0, 2.0), method="bounded"
    )
    return score(float(found.x))
