"""Shares of the classes that a user declares: a statement about the data, which posteriors are drawn towards.

    after each E-step:        target  proportional to  declared^strength * (mean over t of T[t])^(1 - strength)
    and then, five times:     T[t, c]  proportional to  T[t, c] * target[c] / mean over t of T[t, c]

Votes know little of how frequent the classes are: a class that workers often mistake for another one looks rare. Who
knows how the tasks were gathered (so many of each class, say) knows more. Declared wrongly, it does harm: where the
answers of tasks, judged by classifiers that never saw them, become much less likely by it, there is a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal

import numpy as np

from crowdwise.errors import ClassPriorWarning
from crowdwise.learn.base import Array
from crowdwise.truth.base import fix_gold, is_number, require
from crowdwise.truth.kernels import FLOOR

ClassPrior = Literal["balanced"] | Mapping[object, float] | None
PULLS = 5  # in each round
ERRORS, PART = 2.0, 0.02  # standard errors, and part of what features are worth, from which answers speak against it
AGAINST = "the answers speak against the declared class_prior"  # so begins the warning
LEAST = 1e-6  # share of a class that was declared never to occur: no posterior is made impossible


def check_class_prior(prior: ClassPrior, strength: float) -> None:
    """Refuse what is no statement about shares; classes are looked at when there are answers."""
    known = prior is None or isinstance(prior, Mapping) or (isinstance(prior, str) and prior == "balanced")
    require(known, "class_prior", prior, "None, 'balanced', or a mapping of every class to its share")
    fits = is_number(strength) and 0 <= strength <= 1
    require(fits, "class_prior_strength", strength, "a number from 0, not at all, to 1, all the way")


def declared_shares(
    prior: ClassPrior, strength: float, classes: Array, named: Array | None = None
) -> tuple[Array, float] | None:
    """Declared shares (classes,), which sum to one, and the strength; None where nothing is declared.

    Classes that nobody `named`, (classes,) bool, get none: there is nothing to know them by. Keys of a mapping may be
    written as text, as in JSON.

    >>> declared_shares({"cat": 1, "dog": 3}, 1.0, np.array(["cat", "dog"]))[0].tolist()
    [0.25, 0.75]
    """
    if prior is None or strength == 0:
        return None
    kept = np.ones(len(classes), bool) if named is None else named
    if isinstance(prior, str):
        return kept / kept.sum(), strength
    names = classes.tolist()
    as_text = {str(name): name for name in names}
    if all(isinstance(key, str) for key in prior) and not any(key in names for key in prior):
        prior = {as_text.get(str(key), key): value for key, value in prior.items()}
    odd = [name for name in prior if name not in names] + [name for name in names if name not in prior]
    require(not odd, "class_prior", prior, f"a share for each class and no other: see {odd[:3]}; classes: {names}")
    values = [prior[name] for name in names]
    good = all(is_number(value) and value >= 0 for value in values) and sum(values) > 0
    require(good, "class_prior", prior, "shares of 0 or more, some of them above 0")
    shares = np.where(kept, np.maximum(np.array(values, float) / sum(values), LEAST), 0.0)
    return shares / shares.sum(), strength


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


def warn_against(without: Array, declared: Array, blind: Array, *, stacklevel: int) -> None:
    """Warn where answers speak against declared shares.

    Parameters
    ----------
    without, declared, blind : (tasks,) arrays
        Log-likelihood of the answers to each task: fitted without the declaration, with it, and without features.
    stacklevel : int
        How far away the caller of `fit` is.
    """
    loss = without - declared
    error = loss.std(ddof=1) / np.sqrt(len(loss)) if len(loss) > 1 else np.inf
    worth = max(float((without - blind).mean()), 0.0)
    if loss.mean() > max(ERRORS * error, PART * worth):
        message = (
            f"{AGAINST}: with it their log-likelihood is lower by "
            f"{loss.mean():.3f} a task (standard error {error:.3f}; all that the features are worth is {worth:.3f}). "
            f"Declare what is known of the tasks that were answered, or leave class_prior out."
        )
        warnings.warn(message, ClassPriorWarning, stacklevel=stacklevel)
