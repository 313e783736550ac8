"""What the commands share on the screen: results on stdout, everything else on stderr, and no bars in pipes."""

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

# What a terminal would obey rather than show: control characters, marks that turn the direction of what follows or have
# no width, and halves of characters, which it cannot be sent.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
PIPE_WIDTH = 100  # columns of a table when nobody looks at it on a terminal
Step = Callable[..., None]


@cache
def console(*, stderr: bool = False) -> Console:
    """The console of a stream; a pipe gets plain text of fixed width."""
    screen = Console(stderr=stderr, highlight=False)
    if not screen.is_terminal:
        screen.width = PIPE_WIDTH
    return screen


def shown(text: str) -> str:
    r"""Text with everything in it to be seen: ids and names of files are not ours.

    >>> print(shown("\x1b[2Ja\u202eb"))
    \x1b[2Ja\u202eb
    """
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def say(text: str = "", style: str = "", *, stderr: bool = False) -> None:
    """Print a line as it is: wrapped at words on a terminal, left whole in a pipe."""
    screen = console(stderr=stderr)
    screen.print(shown(text), style=style, markup=False, soft_wrap=not screen.is_terminal)


def note(text: str) -> None:
    """Say something beside the result, on stderr."""
    say(f"note: {text}", "yellow", stderr=True)


def fields(rows: Sequence[tuple[str, str]]) -> None:
    """Print `name  value` lines, the values in one column and, on a terminal, wrapped in it."""
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
        grid.add_row(Text(shown(name)), Text(shown(value)))
    screen.print(grid)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1) -> None:
    """Print a table; the first `left` columns are text, the rest numbers."""
    from rich import box

    screen = console()
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for i, header in enumerate(headers):
        grid.add_column(Text(shown(header)), justify="left" if i < left else "right", no_wrap=i == 0)
    for row in rows:
        grid.add_row(*(Text(shown(cell)) for cell in row))  # as text: brackets in an id are no markup
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
    """One JSON object; what is not a number becomes null."""
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
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)  # the same to a reader of JSON


@contextmanager
def progress(what: str) -> Iterator[Step]:
    """A bar on stderr while the work lasts, gone afterwards; nothing when stderr is not a terminal.

    Yields a function to call with the text to show beside the bar, and with how much is done of how much when known.
    """
    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda *_, **__: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(bar_width=24), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=screen, transient=True) as bar:
        job = bar.add_task(shown(what), total=None)

        def step(text: str, done: int | None = None, total: int | None = None) -> None:
            bar.update(job, description=shown(text), completed=done, total=total)

        yield step


@contextmanager
def notes() -> Iterator[None]:
    """Show the library's warnings as notes on stderr."""
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
    """A share as a percentage.

    >>> percent(0.98712)
    '98.7%'
    """
    return f"{share:.1%}"
