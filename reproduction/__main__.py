"""`python -m reproduction NAME`: compute a table or a figure of a paper and show it next to the published numbers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from crowdwise.cli import distributed, options
from crowdwise.cli.interruption import exit_code, interruptible, resume_hint
from crowdwise.cli.screen import as_json, console, note, notes, say, table
from crowdwise.errors import CrowdwiseError

if TYPE_CHECKING:
    from reproduction.experiments import Experiment, Line
    from reproduction.runner import Progress, Report
    from reproduction.store import Store

EXAMPLE = "Example: python -m reproduction digits --quick"
RECENT = 12  # lines of the live table
RESULTS = Path("reproduction/results")


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments, or `all`.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Trial run: one seed, a fifth of the epochs.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Show stored results without computing anything.")] = False,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Seeds per method and data set (default: the experiment's).")
    ] = None,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes (default: one per core).")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the stored results.")] = RESULTS,
    figures: Annotated[Path | None, typer.Option(help="Also draw each experiment as SVG into this folder.")] = None,
    json: options.Json = False,
) -> None:
    """Compute a table or a figure of a paper, and show it next to the published numbers.

    Without a name, list the experiments. Finished cells (one method on one data set) are stored in the --out folder and
    not computed again, so a stopped run resumes and a complete one only prints. Methods that train all their seeds at
    once start over when the number of seeds changes. Data sets are read from the folder CROWDWISE_DATA.

    Test accuracy is that of the last epoch. `held out` is the test accuracy of the epoch that best predicts a hidden
    tenth of the answers. `oracle` is that of the best epoch on the test set: not a result, but what some papers print.
    """
    from reproduction import EXPERIMENTS, Store, find
    from reproduction.catalogue import FAMILIES
    from reproduction.experiments import core_seconds, lines
    from reproduction.figures import draw
    from reproduction.formatting import clock
    from reproduction.runner import check_ready, missing, run

    if not names:
        every = [(each.name, each.title, len(each.cells(seeds, quick=quick))) for each in EXPERIMENTS.values()]
        if json:
            as_json({"experiments": [{"name": name, "title": title, "cells": n} for name, title, n in every]})
        else:
            table(("name", "what", "cells"), [(name, title, str(n)) for name, title, n in every], left=2)
        return
    chosen = find(names)
    jobs = jobs or os.cpu_count() or 1
    store = Store(out)
    wanted = [cell for each in chosen for cell in each.cells(seeds, quick=quick)]
    cells = [] if show else wanted
    check_ready(cells, FAMILIES, store)
    start = time.perf_counter()
    remedy = f"Finished cells are stored in {out}. Rerun the command to resume."
    with resume_hint(lambda: remedy), live(chosen, store, seeds, quick=quick) as report:
        progress = run(cells, FAMILIES, store, jobs=jobs, report=report)
    results = []
    for each in chosen:
        found = lines(each, store, seeds, quick=quick, any_settings=show)
        seconds = core_seconds(each, store, seeds, quick=quick)
        results.append({"name": each.name, "title": each.title, "core_seconds": seconds, "lines": found})
        if not found:
            note(f"{each.name}: no results in {out} yet.")
            continue
        if figures is not None:
            figures.mkdir(parents=True, exist_ok=True)
            draw(each, found, figures / f"{each.name}.svg")
        if not json:
            print_table(each, found)
            say(f"{each.name}: {clock(seconds)} on one core", "dim")
            say()
    if show and (older := sum(store.get(cell) is not None for cell in missing(wanted, FAMILIES, store))):
        note(f"{older} of {len(set(wanted))} cells have other settings than today's. A run computes them again.")
    if json:
        as_json({"experiments": results, "failed": {cell.key: text for cell, text in progress.failed.items()}})
    elif progress.total:
        say(f"{progress.total - len(progress.failed)} cells computed in {clock(time.perf_counter() - start)}.", "dim")
    if progress.failed:
        shown = "; ".join(f"{cell.family}: {cell.key}: {text}" for cell, text in list(progress.failed.items())[:5])
        message = f"{len(progress.failed)} cells failed, the others are stored: {shown}"
        raise CrowdwiseError(message)


def print_table(experiment: Experiment, found: list[Line]) -> None:
    """Print one table per data set, under its name."""
    from reproduction.formatting import plain

    say(experiment.title, "bold")
    print_one = print_figure if experiment.curve or experiment.axis else print_methods
    for data in dict.fromkeys(plain(line["data"]) for line in found):
        print_one(experiment, data, [line for line in found if plain(line["data"]) == data])


def print_methods(experiment: Experiment, data: str, found: list[Line]) -> None:
    """Print the lines of a data set, one row per method, without empty columns."""
    from reproduction.formatting import number, spread

    headline, *others = experiment.measures
    means = {(line["method"], line["measure"]): line["mean"] for line in found}
    shown = [line for line in found if line["measure"] == headline]
    rows = [
        (
            line["method"], spread(line["mean"], line["deviation"]), number(line["held_out"]), number(line["oracle"]),
            spread(line["paper"], line["paper_deviation"]), number(line["difference"], "+.1f"),
            *(number(means.get((line["method"], measure)), ".3g") for measure in others), number(line["seconds"]),
        )
        for line in shown
    ]  # fmt: skip
    titles = ("method", headline, "held out", "oracle", "paper", "diff", *others, "s")
    used = [i for i in range(len(titles)) if any(row[i] != "-" for row in rows)]
    ceiling = next((line["ceiling"] for line in shown), None)
    say()
    say(data if ceiling is None else f"{data}: ceiling {number(ceiling)}")
    table([titles[i] for i in used], [[row[i] for i in used] for row in rows])


def print_figure(experiment: Experiment, data: str, found: list[Line]) -> None:
    """Print the curves of a data set, one table per measure with the axis along the columns."""
    from reproduction.formatting import along, number, series

    for measure in dict.fromkeys(line["measure"] for line in found):
        of_measure = [line for line in found if line["measure"] == measure]
        grid, rows = along(of_measure, lambda line: series(experiment, line))
        say()
        say(f"{data}: {measure}")
        titles = (experiment.axis_title or "iteration", *(f"{x:g}" for x in grid))
        table(titles, [(name, *(number(row.get(x), ".3g") for x in grid)) for name, row in rows.items()])


@contextmanager
def live(chosen: list[Experiment], store: Store, seeds: int | None, *, quick: bool) -> Iterator[Report]:
    """Show finished cells and the time left on stderr: a live table, or one line per cell in a pipe."""
    from reproduction.experiments import lines
    from reproduction.formatting import clock, number, spread

    screen = console(stderr=True)

    def status(progress: Progress) -> str:
        left = "" if progress.left is None else f", {clock(progress.left)} left"
        return f"{progress.done}/{progress.total} cells{left}"

    if not screen.is_terminal:

        def report_in_pipe(progress: Progress) -> None:
            cell = progress.last
            say(status(progress) if cell is None else f"{status(progress)}: {cell.key}", stderr=True)

        yield report_in_pipe
        return
    from rich.live import Live
    from rich.table import Table

    with Live(console=screen, transient=True, auto_refresh=False) as view:

        def report(progress: Progress) -> None:
            cell = progress.last
            at = next((each for each in chosen if cell in each.cells(seeds, quick=quick)), chosen[0])
            titles = ("method", "data", "mean", "held out", "paper", "ceiling")
            grid = Table(*titles, title=at.title, caption=status(progress))
            for line in lines(at, store, seeds, quick=quick)[-RECENT:]:
                others = [number(line.get(name)) for name in ("held_out", "paper", "ceiling")]
                grid.add_row(line["method"], line["data"], spread(line["mean"], line["deviation"]), *others)
            view.update(grid, refresh=True)

        yield report


class _Command(TyperCommand):
    """The command: an error of the user ends in a message, not in a traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with notes():
                return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our output has closed it
            raise
        except (CrowdwiseError, OSError, KeyboardInterrupt) as error:
            distributed.report_error(error)
            raise typer.Exit(exit_code(error) if isinstance(error, KeyboardInterrupt) else 1) from None


app = typer.Typer(name="reproduction", pretty_exceptions_enable=False, add_completion=False)
app.command(cls=_Command, epilog=EXAMPLE)(reproduce)


def main() -> None:
    """Run the command line."""
    with interruptible():
        app(prog_name="python -m reproduction")


if __name__ == "__main__":
    main()
