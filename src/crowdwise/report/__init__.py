"""Turn a run into one HTML file that a project lead understands in two minutes.

The file is self-contained: it needs no server, no network and no other file. Tables of a large run are cut short, and
the page says so; the complete tables are in the run folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from crowdwise._core.atomic_io import atomic_write
from crowdwise.errors import FormatError, MissingDependencyError, ParameterError
from crowdwise.report.source import REPORT_FILE, RunSource

__all__ = ["write_report"]

DEPENDENCIES = ("altair", "jinja2", "vl_convert")


def write_report(run: RunSource, out: str | os.PathLike[str] | None = None) -> Path:
    """Write the report of a run and return its path. `Run.report` is a shorthand for this.

    The same run always gives the same bytes. The file is written atomically.

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
    try:
        from crowdwise.report.page import render
    except ImportError as error:
        if error.name not in DEPENDENCIES:
            raise
        message = f"The report needs {error.name}: pip install 'crowdwise[report]'."
        raise MissingDependencyError(message) from None
    target = run.path / REPORT_FILE if out is None else Path(out)
    if target.is_dir():
        message = f"Cannot write {target}: it is a folder. Name a file in it."
        raise FormatError(message)
    if not target.parent.is_dir():
        message = f"Cannot write {target}: the folder {str(target.parent)!r} does not exist. Create it first."
        raise FormatError(message)
    page = render(run)
    with atomic_write(target) as partial:
        partial.write_text(page, "utf-8", newline="\n")
    return target
