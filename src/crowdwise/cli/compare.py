"""`crowdwise compare`: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdwise.cli import options
from crowdwise.cli.run import SHOWN, Folder
from crowdwise.cli.screen import as_json, fields, say, table

if TYPE_CHECKING:
    from crowdwise.run import Comparison

COMPARE = "Example: crowdwise compare runs/monday runs/today --out changed.csv"


def compare(
    before: Folder,
    after: Folder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where the tasks whose label changed go: .csv or .parquet.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what changed between two runs: labels, verdicts, workers, figures."""
    from crowdwise.io import check_target, write
    from crowdwise.run import Run
    from crowdwise.run import compare as compared

    if out is not None:
        check_target(out)
    found = compared(Run(before), Run(after))
    if out is not None:
        write(found.changed, out)
    if json:
        as_json({**found.as_dict(), "written": {} if out is None else {"changed": str(out)}})
    else:
        show(found, out)


def show(found: Comparison, out: Path | None) -> None:
    """What changed, on the screen."""
    from crowdwise.run.comparison import WHEN

    for sentence in found.words:
        say(sentence)
    say()
    table(["", *WHEN], found.figures())
    if found.changed.num_rows:
        say()
        rows = [
            [str(row["task"]), *(f"{row[f'label_{when}']} ({row[f'confidence_{when}']:.0%})" for when in WHEN)]
            for row in found.changed.slice(0, SHOWN).to_pylist()
        ]
        table(["task", *WHEN], rows, left=3)
    if out is not None:
        say()
        fields([("changed in", str(out))])
