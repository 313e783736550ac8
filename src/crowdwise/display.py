"""What objects show of themselves in a notebook: sentences and a small table, with all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


def as_html(rows: Iterable[Sequence[Any]], header: Sequence[str] = (), words: Iterable[str] = ()) -> str:
    """Sentences, then a table.

    >>> as_html([["<b>", 2]], ["what", "how many"])
    '<table><tr><th>what</th><th>how many</th></tr><tr><td>&lt;b&gt;</td><td>2</td></tr></table>'
    """
    said = "".join(f"<p>{escape(text)}</p>" for text in words)
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = ("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"{said}<table>{f'<tr>{head}</tr>' if head else ''}{''.join(body)}</table>"
