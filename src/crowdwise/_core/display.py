"""Formatting of numbers and names in messages and charts, and HTML tables for notebooks. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

NOTHING = "–"  # shown in place of an undefined value

# Names that every JavaScript object already has.
OBJECT_KEYS = {
    "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__", "constructor",
    "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
}  # fmt: skip


def html_table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), paragraphs: Iterable[str] = ()) -> str:
    """Return HTML of paragraphs of text followed by a table.

    >>> html_table([["<b>", 2]], ["name", "count"])
    '<table><tr><th>name</th><th>count</th></tr><tr><td>&lt;b&gt;</td><td>2</td></tr></table>'
    """
    text = "".join(f"<p>{escape(paragraph)}</p>" for paragraph in paragraphs)
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"{text}<table>{f'<tr>{head}</tr>' if head else ''}{''.join(body)}</table>"


def percent(share: float | None, places: int = 1) -> str:
    """Format a share as a percentage. Only an exact 0 or 1 is shown as 0% or 100%.

    >>> percent(0.9412), percent(1), percent(0.9999), percent(0.0001), percent(None)
    ('94.1%', '100%', '99.9%', '0.1%', '–')
    """
    if share is None:
        return NOTHING
    if share in (0, 1):
        return f"{share:.0%}"
    smallest = 10.0**-places  # rounding must not turn "nearly all" into "all", or "hardly any" into "none"
    return f"{min(max(100 * share, smallest), 100 - smallest):.{places}f}%"


def pluralise(number: int, singular: str, plural: str | None = None) -> str:
    """Format a count with its noun.

    >>> pluralise(1, "task"), pluralise(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


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
