"""`crowdwise compare`: the differences between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdwise.cli import options
from crowdwise.cli.run import MAX_SHOWN
from crowdwise.cli.screen import as_json, fields, say, table

if TYPE_CHECKING:
    from crowdwise.run import Comparison

COMPARE = "Example: crowdwise compare runs/monday runs/today --out changed.csv"


def compare(
    before: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the earlier run.")],
    after: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of the later run.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="File for the tasks whose label changed: .csv or .parquet."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show what changed between two runs: labels, verdicts, workers and scores."""
    from crowdwise.io import check_target, write
    from crowdwise.run import Run
    from crowdwise.run import compare as compare_runs

    if out is not None:
        check_target(out)
    comparison = compare_runs(Run(before), Run(after))
    if out is not None:
        write(comparison.changed, out)
    if json:
        as_json({**comparison.as_dict(), "written": {} if out is None else {"changed": str(out)}})
    else:
        show(comparison, out)


def show(comparison: Comparison, out: Path | None) -> None:
    """Print what changed."""
    from crowdwise.run.comparison import WHEN

    for sentence in comparison.words:
        say(sentence)
    say()
    table(["", *WHEN], comparison.figures())
    if comparison.changed.num_rows:
        say()
        rows = [
            [str(row["task"]), *(f"{row[f'label_{when}']} ({row[f'confidence_{when}']:.0%})" for when in WHEN)]
            for row in comparison.changed.slice(0, MAX_SHOWN).to_pylist()
        ]
        table(["task", *WHEN], rows, left=3)
    if out is not None:
        say()
        fields([("changed in", str(out))])
