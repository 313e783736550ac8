"""Figures and names as the page writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NOTHING = "–"  # where there is no figure
OWNED = {
    "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "constructor",
    "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
}  # fmt: skip


def percent(share: float | None, places: int = 1) -> str:
    """A share of one, as people say it; only a whole is called one.

    >>> percent(0.9412), percent(1), percent(0.9999), percent(0.0001), percent(None)
    ('94.1%', '100%', '99.9%', '0.1%', '–')
    """
    if share is None:
        return NOTHING
    if share in (0, 1):
        return f"{share:.0%}"
    least = 10.0**-places  # what is nearly all is not all, what is hardly any is not none
    return f"{min(max(100 * share, least), 100 - least):.{places}f}%"


def count(number: float | None) -> str:
    """A whole number with its thousands apart.

    >>> count(12345), count(None)
    ('12,345', '–')
    """
    return NOTHING if number is None else f"{round(number):,}"


def figure(number: float | None, places: int = 2) -> str:
    """Any other number.

    >>> figure(0.1234), figure(-0.5, 1), figure(None)
    ('0.12', '-0.5', '–')
    """
    return NOTHING if number is None else f"{number:.{places}f}"


def several(number: int, one: str, many: str | None = None) -> str:
    """How many of what.

    >>> several(1, "task"), several(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def short(text: Any, most: int = 80) -> str:
    """At most so many characters, on one line.

    >>> short("  a  long text ", 6), short("cat")
    ('a lon…', 'cat')
    """
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def distinct(names: Iterable[Any], most: int = 60) -> list[str]:
    """Short names that differ, for figures: a number follows where two would be the same.

    Vega keeps names as keys of JavaScript objects; those that every object has already get an invisible sign before.

    >>> distinct(["abcdef", "abcdeg", 3, "__proto__"], 4)
    ['abc…', 'abc… (2)', '3', '__p…']
    >>> len(*distinct(["constructor"])) - len("constructor")
    1
    """
    found: dict[str, None] = {}
    for name in names:
        plain = text = short(name, most)
        number = 1
        while text in found:
            number += 1
            text = f"{plain} ({number})"
        found[text] = None
    return [f"\u2060{text}" if text in OWNED else text for text in found]
