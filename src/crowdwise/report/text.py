"""How the page writes numbers, names and one recurring caveat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from crowdwise._core.display import NOTHING

FEW_DISSENTERS = 20  # below as many answers that differ from the others, shared mistakes cannot be told from chance

# Names that every JavaScript object already has.
OBJECT_KEYS = {
    "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "constructor",
    "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
}  # fmt: skip


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


def short(text: Any, most: int = 80) -> str:
    """Return the text on one line, cut to at most this many characters.

    >>> short("  a  long text ", 6), short("cat")
    ('a lon…', 'cat')
    """
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def distinct(names: Iterable[Any], most: int = 60) -> list[str]:
    """Return short, distinct names for charts; duplicates get a number.

    Vega uses names as keys of JavaScript objects. Names that every object already has get an invisible prefix.

    >>> distinct(["abcdef", "abcdeg", 3, "__proto__"], 4)
    ['abc…', 'abc… (2)', '3', '__p…']
    >>> len(*distinct(["constructor"])) - len("constructor")
    1
    """
    unique: dict[str, None] = {}
    for name in names:
        plain = text = short(name, most)
        number = 1
        while text in unique:
            number += 1
            text = f"{plain} ({number})"
        unique[text] = None
    return [f"\u2060{text}" if text in OBJECT_KEYS else text for text in unique]


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
