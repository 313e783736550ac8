"""Numbers, times, and figures as tables, for the screen and the pages of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reproduction.experiments import Experiment, Line

PLACES = 9  # columns of a figure shown as a table


def number(value: float | None, format: str = ".1f") -> str:
    """Format a number, or a dash for None.

    >>> number(87.62), number(-0.4, "+.1f"), number(None)
    ('87.6', '-0.4', '-')
    """
    return "-" if value is None else f"{value:{format}}"


def spread(mean: float | None, deviation: float | None) -> str:
    """Format mean and deviation.

    >>> spread(87.62, 0.41), spread(87.62, None), spread(None, None)
    ('87.6 ± 0.4', '87.6', '-')
    """
    return number(mean) if mean is None or deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def clock(seconds: float) -> str:
    """Format seconds for people.

    >>> clock(42.4), clock(200), clock(7300)
    ('42 s', '3 min 20 s', '2 h 2 min')
    """
    total, minutes = round(seconds), round(seconds / 60)
    if total < 60:
        return f"{total} s"
    return f"{total // 60} min {total % 60} s" if total < 3600 else f"{minutes // 60} h {minutes % 60} min"


def plain(data: str) -> str:
    """Return the data set of a problem, without the share of answers removed.

    >>> plain("labelme@40, one left")
    'labelme'
    """
    return data.partition("@")[0]


def series(experiment: Experiment, line: Line) -> str:
    """Return the row or curve of a line: a method along problems, or a problem along methods."""
    return plain(line["data"]) if line["method"] in experiment.axis else str(line["method"])


def along(lines: Sequence[Line], row: Callable[[Line], str]) -> tuple[list[float], dict[str, dict[float, float]]]:
    """Return the places on the axis of a figure (at most PLACES) and the means of each row at them.

    >>> along([{"method": "DASC", "x": 0, "mean": 2.5}, {"method": "DASC", "x": 1, "mean": 1.1}], lambda e: e["method"])
    ([0, 1], {'DASC': {0: 2.5, 1: 1.1}})
    """
    grid = sorted({line["x"] for line in lines})
    if len(grid) > PLACES:  # both ends and some between
        grid = [grid[round(i * (len(grid) - 1) / (PLACES - 1))] for i in range(PLACES)]
    rows: dict[str, dict[float, float]] = {}
    for line in lines:
        rows.setdefault(row(line), {})[line["x"]] = line["mean"]
    return grid, rows
