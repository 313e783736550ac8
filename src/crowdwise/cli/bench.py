"""`crowdwise bench`: the papers' tables and figures, computed here and shown beside what the papers say."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crowdwise.cli import options
from crowdwise.cli.screen import as_json, console, note, say, table
from crowdwise.errors import CrowdwiseError, MissingDependencyError

if TYPE_CHECKING:
    from crowdwise.bench.experiments import Experiment, Line
    from crowdwise.bench.running import Progress, Told
    from crowdwise.bench.store import Store

BENCH = "Example: crowdwise bench dasc-table2 --quick"
RECENT = 12  # lines of the live table


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Experiments, or all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One seed, a fifth of the epochs: a trial.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Compute nothing: show what is finished.")] = False,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Seeds of each cell.")] = 5,
    jobs: Annotated[int | None, typer.Option(metavar="N", min=1, help="Processes; one a core unless given.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the results.")] = Path("crowdwise-bench"),
    json: options.Json = False,
) -> None:
    """Compute a paper's table or figure, and show it beside what the paper says.

    Without a name it lists what there is. Finished cells are kept in the folder and never computed again: a run that
    was stopped goes on, and one that is complete only prints. Data sets are looked for in CROWDWISE_DATA.

    Test accuracy is that of the last epoch. `held out` is that of the epoch chosen by a tenth of the answers, hidden;
    `oracle` that of the best epoch on test, which is no result but what some papers print.
    """
    from crowdwise.bench import EXPERIMENTS, Store, find
    from crowdwise.bench.catalogue import FAMILIES
    from crowdwise.bench.experiments import lines
    from crowdwise.bench.running import run
    from crowdwise.bench.saving import core_seconds, save

    if not names:
        rows = [(each.name, each.title, str(len(each.cells(seeds, quick=quick)))) for each in EXPERIMENTS.values()]
        table(("name", "what", "cells"), rows, left=2)
        return
    chosen = find(names)
    if quick:
        seeds = 1
    jobs = jobs or os.cpu_count() or 1
    store = Store(out)
    cells = [] if show else [cell for each in chosen for cell in each.cells(seeds, quick=quick)]
    start = time.perf_counter()
    with live(chosen, store, seeds, quick=quick) as told:
        try:
            progress = run(cells, FAMILIES, store, jobs=jobs, told=told)
        except KeyboardInterrupt:
            message = f"stopped; what is finished is kept in {out}, and the same command goes on from there."
            raise CrowdwiseError(message) from None
    results = []
    for each in chosen:
        found = lines(each, store, seeds, quick=quick)
        try:
            target = save(each, found, store, out, seeds, quick=quick)
        except MissingDependencyError as error:
            note(str(error))
        seconds = core_seconds(each, store, seeds, quick=quick)
        results.append({"name": each.name, "title": each.title, "core_seconds": seconds, "lines": found})
        if not json:
            print_table(each, found)
            say(f"{each.name}: {_clock(seconds)} on one core; saved in {target}", "dim")
            say()
    if json:
        as_json({"experiments": results, "failed": {cell.key: text for cell, text in progress.failed.items()}})
    elif progress.total:
        say(f"{progress.total - len(progress.failed)} cells computed in {_clock(time.perf_counter() - start)}.", "dim")
    if progress.failed:
        shown = "; ".join(f"{cell.family}: {cell.key}: {text}" for cell, text in list(progress.failed.items())[:5])
        message = f"{len(progress.failed)} cells failed, the rest is kept: {shown}"
        raise CrowdwiseError(message)


def print_table(experiment: Experiment, found: list[Line]) -> None:
    """Print the table of an experiment."""
    say(experiment.title, "bold")
    if experiment.curve or experiment.axis:
        along(experiment, found)
        return
    headline = experiment.measures[0]
    beside = {(line["method"], line["data"], line["measure"]): line["mean"] for line in found}
    others = experiment.measures[1:]
    rows = [
        (
            line["method"], line["data"], spread(line["mean"], line["deviation"]), number(line["held_out"]),
            number(line["oracle"]), spread(line["paper"], line["paper_deviation"]), number(line["difference"], "+.1f"),
            number(line["ceiling"]), *(number(beside.get((line["method"], line["data"], m)), ".3g") for m in others),
            number(line["seconds"]),
        )
        for line in found
        if line["measure"] == headline
    ]  # fmt: skip
    titles = ("method", "data", headline, "held out", "oracle", "paper", "diff", "ceiling", *others, "s")
    used = [i for i in range(len(titles)) if any(row[i] != "-" for row in rows)]
    table([titles[i] for i in used], [[row[i] for i in used] for row in rows], left=2)


def along(experiment: Experiment, found: list[Line]) -> None:
    """Print a figure as a table: what lies along its axis lies along the row."""
    from crowdwise.bench.drawing import series

    grid = sorted({line["x"] for line in found})
    if len(grid) > 9:  # ends and some between
        grid = [grid[round(i * (len(grid) - 1) / 8)] for i in range(9)]
    rows: dict[tuple[str, str, str], dict[Any, str]] = {}
    for line in found:
        key = (series(experiment, line), str(line["data"]).partition("@")[0], line["measure"])
        rows.setdefault(key, {})[line["x"]] = number(line["mean"], ".3g")
    titles = ("method", "data", "measure", *(f"{x:g}" for x in grid))
    table(titles, [(*key, *(values.get(x, "-") for x in grid)) for key, values in rows.items()], left=3)


@contextmanager
def live(chosen: list[Experiment], store: Store, seeds: int, *, quick: bool) -> Iterator[Told]:
    """What is finished so far with the time left, on stderr: a live table, or a line for each cell in a pipe."""
    from crowdwise.bench.experiments import lines

    screen = console(stderr=True)

    def status(progress: Progress) -> str:
        left = "" if progress.left is None else f", {_clock(progress.left)} left"
        return f"{progress.done}/{progress.total} cells{left}"

    if not screen.is_terminal:
        yield lambda progress: say(f"{status(progress)}: {progress.last.key if progress.last else ''}", stderr=True)
        return
    from rich.live import Live
    from rich.table import Table

    with Live(console=screen, transient=True, auto_refresh=False) as view:

        def told(progress: Progress) -> None:
            cell = progress.last
            at = next((each for each in chosen if cell in each.cells(seeds, quick=quick)), chosen[0])
            grid = Table("method", "data", "mean", "paper", title=at.title, caption=status(progress))
            for line in lines(at, store, seeds, quick=quick)[-RECENT:]:
                grid.add_row(line["method"], line["data"], spread(line["mean"], line["deviation"]),
                             number(line.get("paper")))  # fmt: skip
            view.update(grid, refresh=True)

        yield told


def spread(mean: float | None, deviation: float | None) -> str:
    """Mean and deviation.

    >>> spread(87.62, 0.41), spread(87.62, None), spread(None, None)
    ('87.6 ± 0.4', '87.6', '-')
    """
    return number(mean) if mean is None or deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def number(value: float | None, format: str = ".1f") -> str:
    """A number, or a dash where there is none."""
    return "-" if value is None else f"{value:{format}}"


def _clock(seconds: float) -> str:
    """Seconds as people say them.

    >>> _clock(42.4), _clock(200), _clock(7300)
    ('42 s', '3 min 20 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"
