"""How the page writes numbers, and one recurring caveat."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdwise._core.display import NOTHING

FEW_DISSENTERS = 20  # below as many answers that differ from the others, shared mistakes cannot be told from chance


def count(number: float | None) -> str:
    """Return an integer with thousands separators.

    >>> count(12345), count(None)
    ('12,345', '–')
    """
    return NOTHING if number is None else f"{round(number):,}"


def figure(number: float | None, places: int = 2) -> str:
    """Return a number with a fixed number of decimal places.

    >>> figure(0.1234), figure(-0.5, 1), figure(None)
    ('0.12', '-0.5', '–')
    """
    return NOTHING if number is None else f"{number:.{places}f}"


def unchecked_reason(summary: Mapping[str, Any], temperature: float | None, what: str = "this") -> str:
    """Return why the answers cannot check a confidence; an empty text if they can.

    They can if workers answered the same tasks and some of these answers could be held out.

    >>> unchecked_reason({"agreement": None}, None)
    'this cannot be checked: no task has answers from two workers'
    >>> unchecked_reason({"agreement": 0.8}, None), unchecked_reason({"agreement": 0.8}, 1.2)
    ('this could not be checked on held-out answers', '')
    """
    if summary["agreement"] is None:  # no task has two answers
        how = "cannot be checked" if temperature is None else "can be checked only against the features"
        return f"{what} {how}: no task has answers from two workers"
    return f"{what} could not be checked on held-out answers" if temperature is None else ""


def tell_dependence(summary: Mapping[str, Any]) -> bool:
    """Return whether enough answers differ from the others to the same task to tell shared mistakes from chance.

    >>> tell_dependence({"agreement": 0.5, "n_answers": 9}), tell_dependence({"agreement": 0.8, "n_answers": 1000})
    (False, True)
    """
    agreement = summary["agreement"]
    return agreement is not None and (1 - agreement) / 2 * summary["n_answers"] >= FEW_DISSENTERS
