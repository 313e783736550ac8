"""Formatting of numbers in messages, and HTML tables for notebooks. All text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

NOTHING = "–"  # shown in place of an undefined value


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
