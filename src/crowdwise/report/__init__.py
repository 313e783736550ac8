"""Turn a run into one HTML file that a project lead understands in two minutes.

The file is self-contained: it needs no server, no network and no other file. Tables of a large run are cut short, and
the page says so; the complete tables are in the run folder.
"""

from __future__ import annotations

import os
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from crowdwise._core.atomic_io import atomic_write
from crowdwise._core.installation import install_command
from crowdwise.errors import FormatError, ParameterError
from crowdwise.report.source import REPORT_FILE, RunSource

__all__ = ["write_report"]

CHARTS = "vl_convert"  # holds Vega, which draws the charts; 84 MB, so the report does without it
HEIGHT = 800  # pixels of a report in a notebook

if TYPE_CHECKING:
    _Path = Path
else:
    _Path = type(Path())  # Path itself has no subclasses before Python 3.12


class ReportFile(_Path):
    """The path of a report. A notebook shows the page."""

    def _repr_html_(self) -> str:
        page = escape(self.read_text("utf-8"))
        return f'<iframe srcdoc="{page}" width="100%" height="{HEIGHT}" style="border: 0"></iframe>'


def without_charts() -> str | None:
    """Return why reports are written without charts, and how to get them; None if they have charts."""
    return None if find_spec(CHARTS) else f"as {CHARTS} is not installed: {install_command('report')}."


def write_report(run: RunSource, out: str | os.PathLike[str] | None = None) -> ReportFile:
    """Write the report of a run and return its path. `Run.report` is a shorthand for this.

    The same run always gives the same bytes. The file is written atomically. A notebook shows the page. Without
    vl-convert, which brings the chart library, the page has no charts.

    Parameters
    ----------
    run : Run
        A finished run; `crowdwise.run.Run(path)` opens a run folder.
    out : path, optional
        The file to write. The default is `report.html` in the run folder.
    """
    if isinstance(run, (str, os.PathLike)):
        message = f"write_report takes a Run, not a path: use crowdwise.run.Run({os.fspath(run)!r}).report()."
        raise ParameterError(message)
    from crowdwise.report.page import render

    target = ReportFile(run.path / REPORT_FILE if out is None else out)
    if target.is_dir():
        message = f"Cannot write {target}: it is a folder. Name a file in it."
        raise FormatError(message)
    if not target.parent.is_dir():
        message = f"Cannot write {target}: the folder {str(target.parent)!r} does not exist. Create it first."
        raise FormatError(message)
    page = render(run, without_charts())
    with atomic_write(target) as partial:
        partial.write_text(page, "utf-8", newline="\n")
    return target
