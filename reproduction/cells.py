"""A cell of a table: one method on one problem, for one seed or for several seeds that are trained together.

A family is the methods of a paper and the function that computes a cell of them. A cell holds names and numbers only;
the process that computes it looks the method up by name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

# Versions of families and problems. Raise one (2, 3, ...) after a change that no setting shows, such as how a figure is
# measured or what is drawn, and its finished cells are computed again. A test notices when a problem has changed.
VERSIONS: dict[str, int] = {}
Figures = dict[str, Any]  # what is measured for one seed: numbers, and curves as lists of numbers


class Cell(NamedTuple):
    """The unit that is computed and stored."""

    family: str
    method: str
    problem: str
    seeds: tuple[int, ...]
    hide: bool = False  # whether a tenth of the answers is hidden, to choose an epoch
    quick: bool = False

    @property
    def seed_range(self) -> str:
        """The seeds as text.

        >>> Cell("dasc", "CE", "music", (0, 1, 2)).seed_range, Cell("dasc", "CE", "music", (3,)).seed_range
        ('0-2', '3')
        """
        first, last = self.seeds[0], self.seeds[-1]
        return str(first) if len(self.seeds) == 1 else f"{first}-{last}"

    @property
    def key(self) -> str:
        """The name of the cell in messages.

        >>> Cell("dasc", "CE", "music", (0, 1, 2), hide=True).key
        'CE | music | 0-2 | held out'
        """
        return " | ".join([self.method, self.problem, self.seed_range, *["held out"] * self.hide])


@dataclass(frozen=True)
class Setting:
    """What a method needs to know to build its model."""

    problem: str
    seed: int = 0
    n_models: int = 1
    quick: bool = False

    @property
    def data(self) -> str:
        """The data set of the problem, without the share of answers removed.

        >>> Setting("labelme@40").data
        'labelme'
        """
        return self.problem.partition("@")[0]

    def epochs(self, number: int) -> int:
        """Return this number of epochs, or a fifth of it in a quick run."""
        return max(2, number // 5) if self.quick else number

    def rounds(self, number: int) -> int:
        """Return this number of iterations, or at most two in a quick run."""
        return min(2, number) if self.quick else number


@dataclass(frozen=True)
class Method:
    """A row of a table.

    make
        Builds the model for a setting.
    together
        Whether all seeds are trained at once, as `n_models` networks. If so, another number of seeds is another cell
        and is computed from the start.
    truth
        Whether the model is trained on the truth, as the ceiling is.
    """

    make: Callable[[Setting], Any]
    together: bool = False
    truth: bool = False


class Family(NamedTuple):
    """Methods that are measured in the same way."""

    name: str
    run: Callable[[Cell], list[Figures]]  # the figures of each seed
    stamp: Callable[[Cell], str]  # a hash of all settings; a finished cell with another stamp is computed again
    together: Callable[[str], bool] = lambda method: False


def cells_of(
    family: Family, method: str, problem: str, seeds: int, *, hide: bool = False, quick: bool = False
) -> list[Cell]:
    """Return the cells that give the figures of a method on a problem for this many seeds."""
    every = tuple(range(seeds))
    groups = [every] if family.together(method) else [(seed,) for seed in every]
    return [Cell(family.name, method, problem, group, hide, quick) for group in groups]


def stamp_of(settings: Mapping[str, Any], cell: Cell) -> str:
    """Return a short hash of the settings, as printed, and of the versions of family and problem."""
    versions = {name: VERSIONS[name] for name in (cell.family, cell.problem.partition("@")[0]) if name in VERSIONS}
    text = repr(sorted((name, str(value)) for name, value in {**settings, **versions}.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:8]
