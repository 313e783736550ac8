"""Figures and names as the page writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crowdwise._core.display import NOTHING

OWNED = {
    "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "constructor",
    "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
}  # fmt: skip


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
