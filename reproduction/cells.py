"""A cell of a table: one method on one problem, for one seed or for some that are trained together.

A family is the methods of a paper with the way a cell of theirs is computed. Cells are looked up by name in the process
that computes them, so nothing but names and numbers travels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# Versions of families and of problems that have changed in what no setting shows: how a figure is measured, what is
# drawn. Raise one (2, 3, ...) and its finished cells are computed again. A test says when a problem has changed.
VERSIONS: dict[str, int] = {}
Figures = dict[str, Any]  # what is measured of one seed: numbers, and curves as lists of numbers


class Cell(NamedTuple):
    """What is computed in one go."""

    family: str
    method: str
    problem: str
    seeds: tuple[int, ...]
    hide: bool = False  # whether a tenth of the answers is hidden, to choose an epoch by
    quick: bool = False

    @property
    def key(self) -> str:
        """Its name in the store.

        >>> Cell("dasc", "CE", "music", (0, 1, 2), hide=True).key
        'CE | music | 0-2 | held out'
        """
        first, last = self.seeds[0], self.seeds[-1]
        seeds = str(first) if len(self.seeds) == 1 else f"{first}-{last}"
        return " | ".join([self.method, self.problem, seeds, *["held out"] * self.hide])


@dataclass(frozen=True)
class Setting:
    """What a method is made for."""

    problem: str
    seed: int = 0
    n_models: int = 1
    quick: bool = False

    @property
    def data(self) -> str:
        """The data set of the problem, without how much was removed of it.

        >>> Setting("labelme@40").data
        'labelme'
        """
        return self.problem.partition("@")[0]

    def epochs(self, number: int) -> int:
        """As many epochs, or a fifth of them when it has to be quick."""
        return max(2, number // 5) if self.quick else number

    def rounds(self, number: int) -> int:
        """As many iterations, or two at most when it has to be quick."""
        return min(2, number) if self.quick else number


@dataclass(frozen=True)
class Method:
    """A row of a table.

    make
        The model for a setting.
    together
        Whether seeds are trained at once, as `n_models` networks; otherwise each on its own. Another number of seeds
        is another cell then, and computed from the start.
    truth
        Whether it is trained on the truth: the ceiling.
    """

    make: Callable[[Setting], Any]
    together: bool = False
    truth: bool = False


class Family(NamedTuple):
    """Methods that are measured in the same way."""

    name: str
    run: Callable[[Cell], list[Figures]]  # the figures of each seed
    stamp: Callable[[Cell], str]  # of all settings: a finished cell of another stamp is computed again
    together: Callable[[str], bool] = lambda method: False


def cells_of(
    family: Family, method: str, problem: str, seeds: int, *, hide: bool = False, quick: bool = False
) -> list[Cell]:
    """The cells that give a method's figures on a problem for this many seeds."""
    every = tuple(range(seeds))
    groups = [every] if family.together(method) else [(seed,) for seed in every]
    return [Cell(family.name, method, problem, group, hide, quick) for group in groups]


def stamp_of(settings: Mapping[str, Any], cell: Cell) -> str:
    """A short name of settings, from what they print as, and of the versions of what is computed."""
    versions = {name: VERSIONS[name] for name in (cell.family, cell.problem.partition("@")[0]) if name in VERSIONS}
    text = repr(sorted((name, str(value)) for name, value in {**settings, **versions}.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
