"""Shares of the classes that a user declares: a statement about the data, which posteriors are drawn towards.

    after each E-step:        target  proportional to  declared^strength * (mean over t of T[t])^(1 - strength)
    and then, five times:     T[t, c]  proportional to  T[t, c] * target[c] / mean over t of T[t, c]

Votes know little of how frequent the classes are: a class that workers often mistake for another one looks rare. Who
knows how the tasks were gathered (so many of each class, say) knows more. Declared wrongly, it does harm: where the
answers of tasks, judged by classifiers that never saw them, become much less likely by it, there is a warning.

Tasks to come may have other shares than those that were answered: a class that was rare when labels were gathered, and
is not where the classifier is used. Of them, too, a user may know: see `moved`.
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
PULLS = 5  # in each round
ERRORS, PART = 2.0, 0.02  # standard errors, and part of what features are worth, from which answers speak against it
AGAINST = "the answers speak against the declared class_prior"  # so begins the warning
LEAST = 1e-6  # share of a class that was declared never to occur: no posterior is made impossible


def check_class_prior(prior: ClassPrior, strength: float = 1.0, name: str = "class_prior") -> None:
    """Refuse what is no statement about shares; classes are looked at when there are answers."""
    known = prior is None or isinstance(prior, Mapping) or (isinstance(prior, str) and prior == "balanced")
    require(known, name, prior, "None, 'balanced', or a mapping of every class to its share")
    fits = is_number(strength) and 0 <= strength <= 1
    require(fits, f"{name}_strength", strength, "a number from 0, not at all, to 1, all the way")


def declared_shares(
    prior: ClassPrior, strength: float, classes: Array, named: Array | None = None
) -> tuple[Array, float] | None:
    """Declared shares (classes,), as `shares_of` reads them, and the strength; None where nothing is declared."""
    if prior is None or strength == 0:
        return None
    return shares_of(prior, classes, named), strength


def shares_of(
    prior: Literal["balanced"] | Mapping[object, float],
    classes: Array,
    named: Array | None = None,
    *,
    name: str = "class_prior",
    least: float = LEAST,
) -> Array:
    """Declared shares (classes,), which sum to one; `name` is the parameter that declares them.

    Classes that nobody `named`, (classes,) bool, get none: there is nothing to know them by. One that is declared never
    to occur gets `least`. Keys of a mapping may be written as text, as in JSON.

    >>> shares_of({"cat": 1, "dog": 3}, np.array(["cat", "dog"])).tolist()
    [0.25, 0.75]
    """
    check_class_prior(prior, name=name)
    kept = np.ones(len(classes), bool) if named is None else named
    if isinstance(prior, str):
        return np.asarray(kept / kept.sum())
    names = classes.tolist()
    as_text = {str(each): each for each in names}
    if all(isinstance(key, str) for key in prior) and not any(key in names for key in prior):
        prior = {as_text.get(str(key), key): value for key, value in prior.items()}
    odd = [each for each in prior if each not in names] + [each for each in names if each not in prior]
    require(not odd, name, prior, f"a share for each class and no other: see {odd[:3]}; classes: {names}")
    values = [prior[each] for each in names]
    good = all(is_number(value) and value >= 0 for value in values) and sum(values) > 0
    require(good, name, prior, "shares of 0 or more, some of them above 0")
    shares = np.where(kept, np.maximum(np.array(values, float) / sum(values), least), 0.0)
    require(bool(shares.any()), name, prior, "a share above 0 for some class that was named")
    return np.asarray(shares / shares.sum())


def freed(proba: Array, taught: Array) -> Array:
    """Beliefs (..., classes) as they would be if all classes were equally likely, and not as `taught`, (classes,)."""
    out = proba / np.maximum(taught, LEAST)
    return np.asarray(out / out.sum(axis=-1, keepdims=True))


def moved(proba: Array, taught: Array, shares: Array) -> Array:
    """Beliefs (..., classes) as they would be if the classes had these `shares`, and not those `taught`.

    As Saerens, Latinne and Decaestecker (2002) have it: the features of a class stay what they are.

    >>> moved(np.array([0.8, 0.2]), np.array([0.8, 0.2]), np.array([0.5, 0.5])).round(2).tolist()
    [0.5, 0.5]
    """
    out = np.maximum(freed(proba, taught), FLOOR) * shares
    return np.asarray(out / out.sum(axis=-1, keepdims=True))


def pulled(proba: Array, shares: Array, strength: float, gold: Array | None, weight: Array | None) -> Array:
    """Posteriors (tasks, classes) whose mean comes nearer to declared shares; known labels stay.

    >>> skewed = np.array([[0.9, 0.1], [0.6, 0.4]])
    >>> pulled(skewed, np.array([0.5, 0.5]), 1.0, None, None).mean(axis=0).round(2).tolist()
    [0.5, 0.5]
    """
    target = shares**strength * _mean(proba, weight) ** (1 - strength)
    target = target / target.sum()
    for _ in range(PULLS):
        proba = proba * (target / _mean(proba, weight))
        proba = fix_gold(proba / proba.sum(axis=1, keepdims=True), gold)
    return proba


def _mean(proba: Array, weight: Array | None) -> Array:
    """Shares of the classes (classes,) among posteriors, none of them zero."""
    return np.asarray(np.maximum(np.average(proba, axis=0, weights=weight), FLOOR))


class Judged(NamedTuple):
    """How the answers judge shares of the classes, in log-likelihood a task."""

    loss: float  # by the shares
    error: float  # standard error of that
    worth: float  # of all that features say

    @property
    def against(self) -> bool:
        """Whether they speak against them: beyond what may be chance, and what matters little."""
        return self.loss > max(ERRORS * self.error, PART * self.worth)


def judged(without: Array, told: Array, blind: Array) -> Judged:
    """What answers say of shares, from their log-likelihood (tasks,): without these shares, with them, and blind.

    Blind is without features. Classifiers have not seen the answers that they judge, and workers are judged by others.
    """
    loss = without - told
    error = loss.std(ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else np.inf
    return Judged(float(loss.mean()), float(error), max(float((without - blind).mean()), 0.0))


def warn_against(found: Judged, *, stacklevel: int) -> None:
    """Warn where answers speak against declared shares; the caller of `fit` is `stacklevel` away."""
    if found.against:
        message = (
            f"{AGAINST}: with it their log-likelihood is lower by "
            f"{found.loss:.3f} a task (standard error {found.error:.3f}; all that the features are worth is "
            f"{found.worth:.3f}). Declare what is known of the tasks that were answered, or leave class_prior out."
        )
        warnings.warn(message, ClassPriorWarning, stacklevel=stacklevel)
