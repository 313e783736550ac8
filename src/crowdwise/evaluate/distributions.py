"""Distributions that charts and reports show: the classes, and shares between 0 and 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.evaluate.metrics import Array

NEVER_ANSWERED = "(never answered)"  # classes that only the known truth has, counted together
BINS = 20


def class_balance(answers: Answers, codes: Array | None = None, truth: Array | None = None) -> dict[str, Any]:
    """Return the shares of the classes among the answers, the labels and the known truth.

    Parameters
    ----------
    answers : Answers
    codes, truth : (tasks,) int arrays, optional
        Codes of the labels and of the known classes; negative is unknown. Classes that only the truth has, with codes
        from `n_classes`, are counted together, last.

    Returns
    -------
    dict
        `classes`, their names; `answered`, `inferred` and `truth`, their shares, None without codes.

    Examples
    --------
    >>> answers = Answers.from_arrays([1, 1, 2], ["a", "b", "a"], ["cat", "dog", "dog"])
    >>> class_balance(answers, codes=np.array([1, 1]))["inferred"]
    [0.0, 1.0]
    """
    k = answers.n_classes
    names = [str(name) for name in answers.classes.tolist()]
    if truth is not None and (truth >= k).any():
        names.append(NEVER_ANSWERED)

    def shares(values: Array | None) -> list[float] | None:
        if values is None:
            return None
        count = np.bincount(np.minimum(values[values >= 0], k), minlength=len(names))
        return (count / max(count.sum(), 1)).tolist()

    return {"classes": names, "answered": shares(answers.label), "inferred": shares(codes), "truth": shares(truth)}


def histogram(values: Array) -> dict[str, list[float]]:
    """Return counts of shares in equal bins from 0 to 1; unknown values are left out.

    >>> sum(histogram(np.array([0.1, 0.12, np.nan]))["counts"])
    2
    """
    counts, edges = np.histogram(values[np.isfinite(values)], BINS, (0.0, 1.0))
    return {"edges": edges.round(6).tolist(), "counts": counts.tolist()}
