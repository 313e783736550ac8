"""Class shares that a user declares.

    after each E-step:    target  proportional to  declared^strength * (mean over t of T[t])^(1 - strength)
    then, five times:     T[t, c]  proportional to  T[t, c] * target[c] / mean over t of T[t, c]

Votes are a poor estimate of how frequent the classes are: a class that is often mistaken for another one looks rare. A
user who knows how the tasks were collected (so many of each class, say) knows more. A wrong declaration does harm.
Therefore the fit compares the evidence for the answers with and without it, each task judged by classifiers that never
saw its answers, and gives a `ClassPriorWarning` if the declaration makes the answers much less likely.

Tasks to predict may have other class shares than the answered ones, for example if a class was rare when labels were
collected and is common where the classifier is used. Users can declare those too: see `replace_shares`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from crowdwise._core.validation import is_number, require
from crowdwise.errors import ClassPriorWarning
from crowdwise.learn.base import Array
from crowdwise.truth.base import fix_gold
from crowdwise.truth.kernels.shared import FLOOR

ClassPrior = Literal["balanced"] | Mapping[object, float] | None
PULLS = 5  # scaling steps per round
# Answers contradict a prior if the loss exceeds this many standard errors and this part of the features' gain.
MAX_ERRORS, MAX_PART = 2.0, 0.02
LEAST = 1e-6  # share of a class that was declared never to occur: no posterior becomes impossible


def check_class_prior(prior: ClassPrior, strength: float = 1.0, name: str = "class_prior") -> None:
    """Raise unless `prior` and `strength` are valid; class names are checked later, when there are answers."""
    known = prior is None or isinstance(prior, Mapping) or (isinstance(prior, str) and prior == "balanced")
    require(known, name, prior, "None, 'balanced', or a mapping of every class to its share")
    valid = is_number(strength) and 0 <= strength <= 1
    require(valid, f"{name}_strength", strength, "a number from 0 (ignore the prior) to 1 (match it)")


def parse_class_prior(
    prior: ClassPrior, strength: float, classes: Array, possible: Array | None = None
) -> tuple[Array, float] | None:
    """Return the declared shares (classes,), read by `parse_shares`, and the strength; None if none are declared."""
    if prior is None or strength == 0:
        return None
    return parse_shares(prior, classes, possible), strength


def parse_shares(
    prior: Literal["balanced"] | Mapping[object, float],
    classes: Array,
    possible: Array | None = None,
    *,
    name: str = "class_prior",
    least: float = LEAST,
) -> Array:
    """Return declared shares as an array (classes,) that sums to one.

    Parameters
    ----------
    prior : "balanced" or mapping of class to share
        Keys may be written as text, as in JSON.
    classes : (classes,) array
    possible : (classes,) bool array, optional
        Classes that can be true. The others get a share of 0, since nothing is known about them.
    name : str
        The parameter to name in errors.
    least : float
        Share of a class that is declared never to occur.

    Examples
    --------
    >>> parse_shares({"cat": 1, "dog": 3}, np.array(["cat", "dog"])).tolist()
    [0.25, 0.75]
    """
    check_class_prior(prior, name=name)
    allowed = np.ones(len(classes), bool) if possible is None else possible
    if isinstance(prior, str):
        return np.asarray(allowed / allowed.sum())
    names = classes.tolist()
    as_text = {str(each): each for each in names}
    if all(isinstance(key, str) for key in prior) and not any(key in names for key in prior):
        prior = {as_text.get(str(key), key): value for key, value in prior.items()}
    unmatched = [each for each in prior if each not in names] + [each for each in names if each not in prior]
    require(not unmatched, name, prior, f"a share for each class of {names}; missing or unknown: {unmatched[:3]}")
    values = [prior[each] for each in names]
    valid = all(is_number(value) and value >= 0 for value in values) and sum(values) > 0
    require(valid, name, prior, "shares of 0 or more, at least one of them above 0")
    shares = np.where(allowed, np.maximum(np.array(values, float) / sum(values), least), 0.0)
    require(bool(shares.any()), name, prior, "a share above 0 for at least one class in the answers or gold labels")
    return np.asarray(shares / shares.sum())


def remove_shares(proba: Array, old: Array) -> Array:
    """Return probabilities (..., classes) under equal class shares, given those under the shares `old` (classes,)."""
    out = proba / np.maximum(old, LEAST)
    return np.asarray(out / out.sum(axis=-1, keepdims=True))


def replace_shares(proba: Array, old: Array, new: Array) -> Array:
    """Return probabilities (..., classes) under the class shares `new`, given those under the shares `old`.

    The correction of Saerens, Latinne and Decaestecker (2002): the distribution of features within a class stays.

    >>> replace_shares(np.array([0.8, 0.2]), np.array([0.8, 0.2]), np.array([0.5, 0.5])).round(2).tolist()
    [0.5, 0.5]
    """
    out = np.maximum(remove_shares(proba, old), FLOOR) * new
    return np.asarray(out / out.sum(axis=-1, keepdims=True))


def pull_to_shares(proba: Array, shares: Array, strength: float, gold: Array | None, weight: Array | None) -> Array:
    """Scale posteriors (tasks, classes) so that their mean approaches the declared shares; gold labels stay.

    >>> skewed = np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> pull_to_shares(skewed, np.array([0.5, 0.5]), 1.0, None, None).mean(axis=0).round(2).tolist()
    [0.5, 0.5]
    """
    target = shares**strength * _mean(proba, weight) ** (1 - strength)
    target = target / target.sum()
    for _ in range(PULLS):
        proba = proba * (target / _mean(proba, weight))
        proba = fix_gold(proba / proba.sum(axis=1, keepdims=True), gold)
    return proba


def _mean(proba: Array, weight: Array | None) -> Array:
    """Return the class shares (classes,) of posteriors, none of them zero."""
    return np.asarray(np.maximum(np.average(proba, axis=0, weights=weight), FLOOR))


class PriorEvidence(NamedTuple):
    """How class shares change the log-likelihood of the answers, per task."""

    loss: float  # log-likelihood without the shares minus that with them
    standard_error: float  # of the loss
    feature_gain: float  # log-likelihood that the features add

    @property
    def contradicts(self) -> bool:
        """Whether the loss is larger than chance, and than a small part of what the features add."""
        return self.loss > max(MAX_ERRORS * self.standard_error, MAX_PART * self.feature_gain)


def compare_evidence(without: Array, with_shares: Array, without_features: Array) -> PriorEvidence:
    """Compare log-likelihoods (tasks,) of the answers: without the shares, with them, and without features.

    Each task is judged by classifiers that have not seen its answers, and each answer by its worker's other answers.
    """
    loss = without - with_shares
    error = loss.std(ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else np.inf
    return PriorEvidence(float(loss.mean()), float(error), max(float((without - without_features).mean()), 0.0))


def warn_if_contradicted(evidence: PriorEvidence, *, stacklevel: int) -> None:
    """Give a `ClassPriorWarning` if the answers contradict the declared shares.

    `stacklevel` is the distance to the caller of `fit`.
    """
    if evidence.contradicts:
        message = (
            f"the answers contradict the declared class_prior: it lowers their log-likelihood by {evidence.loss:.3f} "
            f"per task (standard error {evidence.standard_error:.3f}; the features raise it by "
            f"{evidence.feature_gain:.3f}). "
            "Declare the class shares of the answered tasks, or leave class_prior out."
        )
        warnings.warn(ClassPriorWarning(message), stacklevel=stacklevel)
