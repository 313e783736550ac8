"""A table or a figure of a paper: methods x problems, with the published numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reproduction.cells import Cell, Family, Figures, cells_of
from reproduction.store import Store

Line = dict[str, Any]
Published = dict[tuple[str, ...], tuple[float, float | None]]


@dataclass(frozen=True)
class Experiment:
    """What is computed and shown under one name.

    name, title, shows
        The name on the command line, the table or figure of the paper, and the pattern to look for in it.
    family
        The family of the methods.
    methods, problems
        Rows and columns.
    ceiling
        The method trained on the truth, if there is one.
    measures
        The measures to show, the headline first. Each has lines of its own.
    curve, grid
        Whether measures are lists, and their places on the axis (default: the iteration).
    axis
        The place of a problem or a method on the axis of a figure; empty for tables.
    axis_title
        What the axis shows.
    published
        (method, problem) to the mean and deviation of the headline in the paper; (method, problem, measure) for others.
    hide, never_hide
        Whether to compute the held-out choice of an epoch too, and the problems on which that takes too long.
    except_for
        Pairs (method, problem) that are left out.
    seeds
        Seeds of each method on each problem, unless the command line names another number.
    most_seeds
        Upper limit of the number of seeds, for experiments that try many settings.
    fewer
        The same limit for a pair (method, problem) that takes long or is deterministic.
    stage
        Order of computation: pairs of a lower stage come first, for runs that may be stopped before the end.
    """

    name: str
    title: str
    shows: str
    family: Family
    methods: tuple[str, ...]
    problems: tuple[str, ...]
    ceiling: str | None = None
    measures: tuple[str, ...] = ("last",)
    curve: bool = False
    grid: tuple[float, ...] = ()
    axis: Mapping[str, float] = field(default_factory=dict)
    axis_title: str = ""
    published: Published = field(default_factory=dict)
    hide: bool = False
    never_hide: tuple[str, ...] = ()
    except_for: frozenset[tuple[str, str]] = frozenset()
    seeds: int = 5
    most_seeds: int = 100
    fewer: Mapping[tuple[str, str], int] = field(default_factory=dict)
    stage: Callable[[str, str], int] = lambda method, problem: 0

    def cells(self, seeds: int | None = None, *, quick: bool = False) -> list[Cell]:
        """Return the cells to compute. A quick run has one seed unless `seeds` is given, and hides no answers."""
        seeds = seeds or (1 if quick else self.seeds)
        rows = dict.fromkeys([*self.methods, *([self.ceiling] if self.ceiling else [])])
        pairs = [(m, p) for p in self.problems for m in rows if (m, p) not in self.except_for]
        pairs.sort(key=lambda pair: self.stage(*pair))
        hide = [False, True] if self.hide and not quick else [False]
        return [
            cell
            for hidden in hide
            for method, problem in pairs
            if not (hidden and (method == self.ceiling or problem in self.never_hide))  # the ceiling has no choice
            for most in [min(seeds, self.most_seeds, self.fewer.get((method, problem), seeds))]
            for cell in cells_of(self.family, method, problem, most, hide=hidden, quick=quick)
        ]

    def figures_shown(self) -> set[str]:
        """Return the names of the figures that its lines are made of."""
        others = {"oracle", "held_out"} if self.measures[0] == "last" and not self.curve else set()
        return {*self.measures, *others, *(["last"] if self.ceiling else [])}


def lines(
    experiment: Experiment, store: Store, seeds: int | None = None, *, quick: bool = False, any_settings: bool = False
) -> list[Line]:
    """Return the lines of the table, from finished cells; an unfinished cell has no line.

    With `any_settings`, cells that were computed with other settings than today's count too.
    """
    done: dict[tuple[str, str, bool], list[Figures]] = {}
    for cell in experiment.cells(seeds, quick=quick):
        figures = store.get(cell, None if any_settings else experiment.family.stamp(cell))
        done.setdefault((cell.method, cell.problem, cell.hide), []).extend(figures or [])
    out = []
    for method in experiment.methods:
        for problem in experiment.problems:
            figures, held = done.get((method, problem, False), []), done.get((method, problem, True), [])
            ceiling = mean_of(done.get((str(experiment.ceiling), problem, False), []), "last")
            for measure in experiment.measures:
                out += _lines(experiment, method, problem, measure, figures, held, ceiling)
    return out


def core_seconds(experiment: Experiment, store: Store, seeds: int | None = None, *, quick: bool = False) -> float:
    """Return the seconds on one core that its finished cells took, including cells that other experiments share."""
    cells = experiment.cells(seeds, quick=quick)
    return sum(float(seed["seconds"]) for cell in cells for seed in store.get(cell) or [])


def _lines(
    experiment: Experiment, method: str, problem: str, measure: str, figures: Sequence[Figures],
    held: Sequence[Figures], ceiling: float | None,
) -> list[Line]:  # fmt: skip
    values = [each[measure] for each in figures if each.get(measure) is not None]
    if not values:
        return []
    base = {
        "method": method, "data": problem, "measure": measure, "seeds": len(values),
        "seconds": sum(each["seconds"] for each in figures) / len(figures),
    }  # fmt: skip
    if experiment.curve:
        length = min(len(each) for each in values)
        table = np.array([each[:length] for each in values], dtype=float)  # (seeds, iterations), nan where unknown
        known = [i for i in range(length) if not np.isnan(table[:, i]).any()]
        x = experiment.grid or range(length)
        return [
            {**base, "x": x[i], "mean": float(table[:, i].mean()), "deviation": deviation(table[:, i])} for i in known
        ]
    line = {
        **base, "x": experiment.axis.get(problem, experiment.axis.get(method)), "mean": float(np.mean(values)),
        "deviation": deviation(values), "by_seed": [float(each) for each in values],
    }  # fmt: skip
    headline = measure == experiment.measures[0]
    place = (method, problem) if headline else (method, problem, measure)
    paper, spread = experiment.published.get(place, (None, None))
    line |= {
        "paper": paper, "paper_deviation": spread, "difference": None if paper is None else line["mean"] - paper,
    }  # fmt: skip
    if headline:  # these are test accuracies, so they belong to that measure alone
        others = {"held_out": mean_of(held, "held_out"), "oracle": mean_of(figures, "oracle"), "ceiling": ceiling}
        line |= others if measure == "last" else dict.fromkeys(others)
    return [line]


def published(rows: Mapping[str, str], places: Callable[[str], Iterable[tuple[str, str]]]) -> Published:
    """Read published numbers from rows of "mean deviation mean deviation ...", one pair per (method, problem).

    >>> published({"DASC": "87.6 .4  68.5 .5"}, lambda row: [(row, "labelme"), (row, "music")])
    {('DASC', 'labelme'): (87.6, 0.4), ('DASC', 'music'): (68.5, 0.5)}
    """
    out: Published = {}
    for row, text in rows.items():
        numbers = [float(word) for word in text.split()]
        out |= dict(zip(places(row), zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    return out


def mean_of(figures: Sequence[Figures], name: str) -> float | None:
    """Return the mean of a figure over seeds, or None if it was not measured.

    >>> mean_of([{"last": 80.0}, {"last": 82.0}], "last"), mean_of([], "last")
    (81.0, None)
    """
    values = [each[name] for each in figures if each.get(name) is not None]
    return float(np.mean(values)) if values else None


def deviation(values: Any) -> float | None:
    """Return the standard deviation of a sample, or None for a single value.

    >>> deviation([80.0, 82.0, 84.0]), deviation([80.0])
    (2.0, None)
    """
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
