"""From a run folder to one HTML file that a project lead understands in two minutes.

The file needs nothing else: no server, no network, no folder beside it. What is shown of a large run is capped, and the
page says so; the whole stands in the tables of the folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise._core.atomic_io import atomic_write
from crowdwise.errors import FormatError, MissingDependencyError

if TYPE_CHECKING:
    from crowdwise.run.folder import Run

__all__ = ["report"]

NEEDED = ("altair", "jinja2", "vl_convert")


def report(run: Run | str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a run; returns where it is.

    The same run gives the same bytes; the file is written whole or not at all.

    Parameters
    ----------
    run : Run or path
        The run, or the folder that `crowdwise run` wrote.
    out : path, optional
        The file to write; `report.html` in the folder if not given.
    """
    from crowdwise.run.folder import REPORT, Run

    try:
        from crowdwise.report.page import render
    except ImportError as error:
        if error.name not in NEEDED:
            raise
        message = f"the report needs {error.name}: pip install 'crowdwise[report]'."
        raise MissingDependencyError(message) from None
    run = run if isinstance(run, Run) else Run(run)
    target = run.path / REPORT if out is None else Path(out)
    if target.is_dir():
        message = f"{target} cannot be written: it is a folder. Name a file in it."
        raise FormatError(message)
    if not target.parent.is_dir():
        message = f"{target} cannot be written: there is no folder {str(target.parent)!r}. Make it first."
        raise FormatError(message)
    page = render(run)
    with atomic_write(target) as beside:
        beside.write_text(page, "utf-8", newline="\n")
    return target
