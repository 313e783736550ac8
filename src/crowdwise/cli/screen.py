"""Terminal output of all commands: results on stdout, everything else on stderr, no progress bars in pipes."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crowdwise.errors import CrowdwiseWarning

# Characters that a terminal interprets instead of showing: control characters, direction marks, characters without
# width, and lone surrogates, which cannot be encoded.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
PIPE_WIDTH = 100  # columns of a table that is not printed on a terminal
Step = Callable[..., None]


@cache
def console(*, stderr: bool = False) -> Console:
    """Return the console of a stream; a pipe gets plain text of fixed width."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = PIPE_WIDTH
    return screen


def visible(text: str) -> str:
    r"""Escape the characters that a terminal would interpret: ids and file names are not trusted.

    >>> print(visible("\x1b[2Ja\u202eb"))
    \x1b[2Ja\u202eb
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str = "", style: str = "", *, stderr: bool = False) -> None:
    """Print a line; it is wrapped at words on a terminal, and not wrapped in a pipe."""
    screen = console(stderr=stderr)
    screen.print(visible(text), style=style, markup=False, soft_wrap=not screen.is_terminal)


def note(text: str) -> None:
    """Print a remark on stderr."""
    say(f"note: {text}", "yellow", stderr=True)


def fields(rows: Sequence[tuple[str, str]]) -> None:
    """Print `name  value` lines with aligned values; on a terminal, values are wrapped."""
    screen = console()
    if not screen.is_terminal:
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            say(f"{name:<{width}}  {value}")
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in rows:
        grid.add_row(Text(visible(name)), Text(visible(value)))
    screen.print(grid)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
    """Print a table; the first `left` columns are text, the others numbers."""
    from rich import box

    screen = console()
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for i, header in enumerate(headers):
        grid.add_column(Text(visible(header)), justify="left" if i < left else "right", no_wrap=i == 0)
    for row in rows:
        grid.add_row(*(Text(visible(cell)) for cell in row))  # as Text, so that brackets in an id are not markup
    if screen.is_terminal:
        screen.print(grid)
    else:
        with screen.capture() as plain:
            screen.print(grid)
        say("\n".join(line.rstrip() for line in plain.get().splitlines()))


def as_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object and nothing else."""
    typer.echo(to_json(result))


def to_json(result: Mapping[str, Any]) -> str:
    """Return one JSON object as text; NaN and infinities become null."""
    import numpy as np

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {str(key): plain(part) for key, part in value.items()}
        if isinstance(value, (list, tuple, np.ndarray)):
            return [plain(part) for part in value]
        if isinstance(value, np.generic):
            return plain(value.item())
        if isinstance(value, float) and not np.isfinite(value):
            return None
        return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)

    text = json.dumps(plain(result), indent=2, ensure_ascii=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # equal for a JSON parser


@contextmanager
def progress(what: str) -> Iterator[Step]:
    """Show a progress bar on stderr; nothing if stderr is not a terminal.

    Yields a function that takes the text beside the bar and, if known, the steps done and their total.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda *_, **__: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=screen, transient=True) as bar:
        job = bar.add_task(visible(what), total=None)

        def step(text: str, done: int | None = None, total: int | None = None) -> None:
            bar.update(job, description=visible(text), completed=done, total=total)

        yield step


@contextmanager
def notes() -> Iterator[None]:
    """Print warnings of the library as notes on stderr."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", CrowdwiseWarning)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if issubclass(category, CrowdwiseWarning):
                note(str(message))
            else:
                usual(message, category, *where)

        warnings.showwarning = show  # type: ignore[assignment]
        yield


def percent(share: float) -> str:
    """Format a share as a percentage.

    >>> percent(0.98712)
    '98.7%'
    """
    return f"{share:.1%}"
