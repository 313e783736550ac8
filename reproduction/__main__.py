"""`python -m reproduction NAME`: tables and figures of the papers, computed here and shown beside the printed ones."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crowdwise.cli import distributed, options
from crowdwise.cli.interruption import exit_code, interruptible, resume_hint
from crowdwise.cli.screen import as_json, console, note, notes, say, table
from crowdwise.errors import CrowdwiseError

if TYPE_CHECKING:
    from reproduction.experiments import Experiment, Line
    from reproduction.runner import Progress, Told
    from reproduction.store import Store

EXAMPLE = "Example: python -m reproduction digits --quick"
RECENT = 12  # lines of the live table
RESULTS = Path("reproduction/results")


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments, or all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One seed, a fifth of the epochs: a trial.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Compute nothing: show what is finished.")] = False,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Seeds of each method on each data set.")] = 5,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes; one a core unless given.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the results.")] = RESULTS,
    json: options.Json = False,
) -> None:
    """Compute a paper's table or figure, and show it beside what the paper says.

    Without a name it lists what there is. Finished cells are kept in the folder and never computed again: a run that
    was stopped goes on, and one that is complete only prints. Only with another number of seeds, methods that train all
    their seeds at once start anew. Data sets are looked for in CROWDWISE_DATA.

    Test accuracy is that of the last epoch. `held out` is that of the epoch chosen by a tenth of the answers, hidden;
    `oracle` that of the best epoch on test, which is no result but what some papers print.
    """
    from reproduction import EXPERIMENTS, Store, find
    from reproduction.catalogue import FAMILIES
    from reproduction.experiments import lines
    from reproduction.formatting import clock
    from reproduction.outputs import core_seconds, save
    from reproduction.runner import ready, run

    if quick:
        seeds = 1
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
    cells = [] if show else [cell for each in chosen for cell in each.cells(seeds, quick=quick)]
    ready(cells, FAMILIES, store)
    start = time.perf_counter()
    how = f"What is finished is kept in {out}, and the same command goes on from there."
    with resume_hint(lambda: how), live(chosen, store, seeds, quick=quick) as told:
        progress = run(cells, FAMILIES, store, jobs=jobs, told=told)
    results, remarks = [], []
    for each in chosen:
        found = lines(each, store, seeds, quick=quick)
        with resume_hint(lambda: how):
            saved = save(each, found, store, out, seeds, quick=quick)
        remarks.append(saved.note)
        seconds = core_seconds(each, store, seeds, quick=quick)
        results.append({"name": each.name, "title": each.title, "core_seconds": seconds, "lines": found})
        if not json:
            print_table(each, found)
            where = f"; saved in {saved.table}" if saved.table else ""
            say(f"{each.name}: {clock(seconds)} on one core{where}", "dim")
            say()
    for remark in dict.fromkeys(filter(None, remarks)):
        note(remark)
    if json:
        as_json({"experiments": results, "failed": {cell.key: text for cell, text in progress.failed.items()}})
    elif progress.total:
        say(f"{progress.total - len(progress.failed)} cells computed in {clock(time.perf_counter() - start)}.", "dim")
    if progress.failed:
        shown = "; ".join(f"{cell.family}: {cell.key}: {text}" for cell, text in list(progress.failed.items())[:5])
        message = f"{len(progress.failed)} cells failed, the rest is kept: {shown}"
        raise CrowdwiseError(message)


def print_table(experiment: Experiment, found: list[Line]) -> None:
    """Print an experiment: a table for each data set, its name above."""
    from reproduction.formatting import plain

    say(experiment.title, "bold")
    print_one = print_figure if experiment.curve or experiment.axis else print_methods
    for data in dict.fromkeys(plain(line["data"]) for line in found):
        print_one(experiment, data, [line for line in found if plain(line["data"]) == data])


def print_methods(experiment: Experiment, data: str, found: list[Line]) -> None:
    """Print the lines of a data set, a row for each method; columns with nothing in them are left out."""
    from reproduction.formatting import number, spread

    headline, *others = experiment.measures
    beside = {(line["method"], line["measure"]): line["mean"] for line in found}
    shown = [line for line in found if line["measure"] == headline]
    rows = [
        (
            line["method"], spread(line["mean"], line["deviation"]), number(line["held_out"]), number(line["oracle"]),
            spread(line["paper"], line["paper_deviation"]), number(line["difference"], "+.1f"),
            *(number(beside.get((line["method"], measure)), ".3g") for measure in others), number(line["seconds"]),
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
    """Print the curves of a data set, a table for each measure: what lies along the axis lies along the row."""
    from reproduction.formatting import along, number, series

    for measure in dict.fromkeys(line["measure"] for line in found):
        of = [line for line in found if line["measure"] == measure]
        grid, rows = along(of, lambda line: series(experiment, line))
        say()
        say(f"{data}: {measure}")
        titles = (experiment.axis_title or "iteration", *(f"{x:g}" for x in grid))
        table(titles, [(name, *(number(row.get(x), ".3g") for x in grid)) for name, row in rows.items()])


@contextmanager
def live(chosen: list[Experiment], store: Store, seeds: int, *, quick: bool) -> Iterator[Told]:
    """What is finished so far with the time left, on stderr: a live table, or a line for each cell in a pipe."""
    from reproduction.experiments import lines
    from reproduction.formatting import clock, number, spread

    screen = console(stderr=True)

    def status(progress: Progress) -> str:
        left = "" if progress.left is None else f", {clock(progress.left)} left"
        return f"{progress.done}/{progress.total} cells{left}"

    if not screen.is_terminal:

        def told_a_pipe(progress: Progress) -> None:
            cell = progress.last
            say(status(progress) if cell is None else f"{status(progress)}: {cell.key}", stderr=True)

        yield told_a_pipe
        return
    from rich.live import Live
    from rich.table import Table

    with Live(console=screen, transient=True, auto_refresh=False) as view:

        def told(progress: Progress) -> None:
            cell = progress.last
            at = next((each for each in chosen if cell in each.cells(seeds, quick=quick)), chosen[0])
            titles = ("method", "data", "mean", "held out", "paper", "ceiling")
            grid = Table(*titles, title=at.title, caption=status(progress))
            for line in lines(at, store, seeds, quick=quick)[-RECENT:]:
                others = [number(line.get(name)) for name in ("held_out", "paper", "ceiling")]
                grid.add_row(line["method"], line["data"], spread(line["mean"], line["deviation"]), *others)
            view.update(grid, refresh=True)

        yield told


app = typer.Typer(name="reproduction", pretty_exceptions_enable=False)
app.command(epilog=EXAMPLE)(bench)


def main() -> None:
    """Run the command; a user's mistake ends in a message, not in a traceback."""
    with interruptible(), notes():
        try:
            app(prog_name="python -m reproduction")
        except (CrowdwiseError, OSError, KeyboardInterrupt) as error:
            distributed.report_error(error)
            raise SystemExit(exit_code(error) if isinstance(error, KeyboardInterrupt) else 1) from None


if __name__ == "__main__":
    main()
