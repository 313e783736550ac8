"""`crowdwise compare-methods`: a benchmark of methods on your own data."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from crowdwise.cli import known_labels, method_options, options
from crowdwise.cli.fit import FEATURES, match
from crowdwise.cli.options import read_answers, refuse_same_file, sizes
from crowdwise.cli.screen import as_json, fields, progress, say, table
from crowdwise.errors import ParameterError

EXAMPLE = "Example: crowdwise compare-methods answers.csv --truth truth.csv --method dawid-skene --method glad"
CHARTS = (".html", ".svg", ".png", ".json")


@options.with_reading_options
def compare_methods(
    files: options.Files,
    features: Annotated[
        Path | None, typer.Option("--features", "-x", metavar="X", help=f"Features of the tasks: {FEATURES}.")
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            autocompletion=method_options.method_names,
            metavar="METHOD",
            help="Method to compare; repeat the option for each. Default: with --features, DASC, ICED, CrowdInG, WAUM "
            "and Difficulty EM beside their baselines; otherwise the common methods that need no features.",
        ),
    ] = None,
    truth: options.Truth = None,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Number of random seeds.")] = 5,
    held_out: Annotated[
        bool,
        typer.Option(
            "--held-out", metavar="", help="Score held-out answers, too, if the truth is known. Doubles the time."
        ),
    ] = False,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Number of parallel fits.")] = 1,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File for the table: .csv or .parquet.")
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File for a chart of the leads: .html, .svg, .png or .json (Vega-Lite)."),
    ] = None,
    pseudonymise: options.Pseudonymise = None,
    json: options.Json = False,
    *,
    reading: options.Reading,
) -> None:
    """Compare methods on your own answers, with several seeds, and majority vote beside them.

    With --truth, methods are compared by the accuracy of their labels. Without, they are compared by how well they
    predict answers that were hidden from them. All methods have the same seeds and the same hidden answers, and ± is
    one standard error of the difference to majority vote.
    """
    from crowdwise.choose import bench
    from crowdwise.io import check_target, write

    refuse_same_file([*files, features, truth], [out, chart], pseudonymise)
    if out is not None:
        check_target(out)
    if chart is not None and chart.suffix.lower() not in CHARTS:
        message = f"--chart {chart}: the name must end in {', '.join(CHARTS)}."
        raise ParameterError(message)
    draw = None if chart is None else _drawing()
    answers = read_answers(
        files, **reading, pseudonymise=pseudonymise,
    )  # fmt: skip
    answers, known, _ = known_labels.known_labels(answers, truth, known_labels.NO_GOLD)
    X = None if features is None else match(features, answers)
    with progress("Comparing methods") as step:

        def show(record: Mapping[str, Any]) -> None:
            step(f"{record['method']}, seed {record['seed']}", record["done"], record["total"])

        result = bench(
            method, X, answers, known, seeds, held_out=True if held_out else None, n_jobs=jobs, callback=show
        )
    written = {}
    if out is not None:
        write(result.to_arrow(), out)
        written["table"] = str(out)
    if chart is not None and draw is not None:
        draw(result).save(str(chart))
        written["chart"] = str(chart)
    if json:
        rows, words = result.to_arrow().to_pylist(), result.words
        as_json({"files": [str(file) for file in files], **sizes(answers), "removed": dict(answers.removed),
                 "known": result.n_known, "seeds": list(result.seeds), "held_out": result.held_out,
                 "methods": rows, "words": words, "written": written})  # fmt: skip
        return
    header, *rows = result.cells()
    table(header, rows)
    say()
    for sentence in result.notes():
        say(sentence)
    if written:
        say()
        fields([(f"{what} in", path) for what, path in written.items()])


def _drawing() -> Any:
    """Return the function that draws; raise before anything is fitted if it cannot."""
    from crowdwise import plots

    return plots.methods
