"""How figures are written, and what objects show of themselves in a notebook: all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

NOTHING = "–"  # where there is no figure


def html_table(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), words: Iterable[str] = ()) -> str:
    """Sentences, then a table.

    >>> html_table([["<b>", 2]], ["what", "how many"])
    '<table><tr><th>what</th><th>how many</th></tr><tr><td>&lt;b&gt;</td><td>2</td></tr></table>'
    """
    said = "".join(f"<p>{escape(text)}</p>" for text in words)
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"{said}<table>{f'<tr>{head}</tr>' if head else ''}{''.join(body)}</table>"


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


def pluralise(number: int, one: str, many: str | None = None) -> str:
    """How many of what.

    >>> pluralise(1, "task"), several(1200, "task")
    ('1 task', '1,200 tasks')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"
