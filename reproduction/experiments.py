"""A table or a figure of a paper: methods x problems, and what the paper says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reproduction.cells import Cell, Family, Figures, cells_of
from reproduction.store import Store

Line = dict[str, Any]
Published = dict[tuple[str, ...], tuple[float, float | None]]
COLUMNS = ("method", "data", "x", "measure", "mean", "deviation", "seeds", "held_out", "oracle", "paper",
           "paper_deviation", "difference", "ceiling", "seconds")  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    """What is computed and shown under one name.

    name, title, shows
        The name on the command line, the paper's table or figure, and what to see in it, in a sentence.
    family
        Whose methods they are.
    methods, problems
        Rows and columns.
    ceiling
        The method trained on the truth, where there is one.
    measures
        What is shown, the headline first; of several each has lines of its own.
    curve, grid
        Whether measures are lists; where their numbers stand on the axis, by iteration unless given.
    axis
        Where a problem or a method stands on a figure's axis; empty: there is none.
    axis_title
        What the axis shows.
    published
        (method, problem) to the paper's mean and deviation of the headline; (method, problem, measure) of another.
    hide, never_hide
        Whether the held-out choice of an epoch is computed too, and the problems where it would take too long.
    except_for
        Pairs (method, problem) that are left out.
    most_seeds
        Seeds beyond which no more are computed, where many settings are tried.
    fewer
        The same of a pair (method, problem) that takes long, or has no chance in it.
    stage
        Of a pair: those of a lower one are computed first, where a run may be stopped before its end.
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
    most_seeds: int = 100
    fewer: Mapping[tuple[str, str], int] = field(default_factory=dict)
    stage: Callable[[str, str], int] = lambda method, problem: 0

    def cells(self, seeds: int, *, quick: bool = False) -> list[Cell]:
        """What has to be computed for it; nothing is hidden when it has to be quick."""
        rows = dict.fromkeys([*self.methods, *([self.ceiling] if self.ceiling else [])])
        pairs = [(m, p) for p in self.problems for m in rows if (m, p) not in self.except_for]
        pairs.sort(key=lambda pair: self.stage(*pair))
        hide = [False, True] if self.hide and not quick else [False]
        return [
            cell
            for hidden in hide
            for method, problem in pairs
            if not (hidden and (method == self.ceiling or problem in self.never_hide))  # the truth leaves no choice
            for most in [min(seeds, self.most_seeds, self.fewer.get((method, problem), seeds))]
            for cell in cells_of(self.family, method, problem, most, hide=hidden, quick=quick)
        ]


def lines(experiment: Experiment, store: Store, seeds: int, *, quick: bool = False) -> list[Line]:
    """The lines of the table, from the cells that are finished; those that are not have no line."""
    done: dict[tuple[str, str, bool], list[Figures]] = {}
    for cell in experiment.cells(seeds, quick=quick):
        found = store.get(cell, experiment.family.stamp(cell))
        done.setdefault((cell.method, cell.problem, cell.hide), []).extend(found or [])
    out = []
    for method in experiment.methods:
        for problem in experiment.problems:
            figures, held = done.get((method, problem, False), []), done.get((method, problem, True), [])
            ceiling = mean_of(done.get((str(experiment.ceiling), problem, False), []), "last")
            for measure in experiment.measures:
                out += _lines(experiment, method, problem, measure, figures, held, ceiling)
    return out


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
    if headline:  # what stands beside it is test accuracy, and stands beside nothing else
        beside = {"held_out": mean_of(held, "held_out"), "oracle": mean_of(figures, "oracle"), "ceiling": ceiling}
        line |= beside if measure == "last" else dict.fromkeys(beside)
    return [line]


def published(rows: Mapping[str, str], places: Callable[[str], Iterable[tuple[str, str]]]) -> Published:
    """What a paper prints, from rows of "mean deviation mean deviation ..." for the places (method, problem) of each.

    >>> published({"DASC": "87.6 .4  68.5 .5"}, lambda row: [(row, "labelme"), (row, "music")])
    {('DASC', 'labelme'): (87.6, 0.4), ('DASC', 'music'): (68.5, 0.5)}
    """
    out: Published = {}
    for row, text in rows.items():
        numbers = [float(word) for word in text.split()]
        out |= dict(zip(places(row), zip(numbers[::2], numbers[1::2], strict=True), strict=True))
    return out


def mean_of(figures: Sequence[Figures], name: str) -> float | None:
    """Mean of a figure over seeds; None where it was not measured.

    >>> mean_of([{"last": 80.0}, {"last": 82.0}], "last"), mean_of([], "last")
    (81.0, None)
    """
    values = [each[name] for each in figures if each.get(name) is not None]
    return float(np.mean(values)) if values else None


def deviation(values: Any) -> float | None:
    """Standard deviation of a sample; None of a single value.

    >>> deviation([80.0, 82.0, 84.0]), deviation([80.0])
    (2.0, None)
    """
    return float(np.std(values, ddof=1)) if len(values) > 1 else None
