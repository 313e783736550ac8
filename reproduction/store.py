"""Finished cells, in one CSV file per family of methods.

    results/FAMILY.csv          one row per cell: method, problem, seeds, hidden, stamp, then one column per figure
    results/FAMILY-quick.csv    the same for `--quick` runs

A field holds one number per seed, separated by spaces. A curve holds one list per seed: numbers separated by spaces,
lists by semicolons. An empty field means that the figure was not measured. Files are replaced atomically.
"""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from crowdwise._core.atomic_io import atomic_write
from crowdwise.errors import CrowdwiseError, FormatError
from reproduction.cells import Cell, Figures

KEY = ("method", "problem", "seeds", "hidden")
SECONDS = "seconds"  # every seed has it


class FinishedCell(NamedTuple):
    """A row of a file: the stamp of the settings, and the figures of each seed."""

    stamp: str
    figures: list[Figures]


Cells = dict[tuple[str, ...], FinishedCell]  # by the columns of KEY


class Store:
    """Finished cells by family. Cells of quick runs are stored separately.

    Parameters
    ----------
    folder : path
        Folder of the files. It is created when the first cell is stored.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[Path, Cells] = {}

    def get(self, cell: Cell, stamp: str | None = None) -> list[Figures] | None:
        """Return the figures of each seed, or None if the cell is missing.

        With a stamp, a cell that was computed with other settings counts as missing.
        """
        path = self._path(cell)
        if path not in self._files:
            self._files[path] = _read(path)
        finished = self._files[path].get(_key(cell))
        if finished is None or (stamp is not None and finished.stamp != stamp):
            return None
        return finished.figures

    def put(self, cell: Cell, stamp: str, figures: list[Figures]) -> None:
        """Store a finished cell now; cells that another run has stored meanwhile are kept."""
        path = self._path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        cells = _read(path)
        # Rounded here rather than on writing, so that this run and one that reads the file get the same results.
        short = [{**seed, SECONDS: float(f"{seed[SECONDS]:.4g}")} for seed in figures]
        cells[_key(cell)] = FinishedCell(stamp, [rounded(seed) for seed in short])
        self._files[path] = cells
        write_cells(path, cells)

    def open(self) -> None:
        """Create the folder and check that it is writable, before hours are spent on what goes there."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.folder).close()
        except OSError as error:
            message = f"cannot write to {self.folder} ({error.strerror}). Choose another folder with --out."
            raise CrowdwiseError(message) from None

    def _path(self, cell: Cell) -> Path:
        return self.folder / f"{cell.family}{'-quick' if cell.quick else ''}.csv"


def _key(cell: Cell) -> tuple[str, ...]:
    return (cell.method, cell.problem, cell.seed_range, "yes" if cell.hide else "no")


def write_cells(path: Path, cells: Cells) -> None:
    """Write the cells of a family, sorted, so that a change shows where it is."""
    names = sorted({name for cell in cells.values() for seed in cell.figures for name in seed} - {SECONDS})
    with atomic_write(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*KEY, "stamp", SECONDS, *names])
        for key, cell in sorted(cells.items()):
            fields = [_to_field([seed.get(name) for seed in cell.figures]) for name in (SECONDS, *names)]
            writer.writerow([*key, cell.stamp, *fields])


def _read(path: Path) -> Cells:
    if not path.exists():
        return {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            header, *rows = csv.reader(file)
            if header[: len(KEY) + 2] != [*KEY, "stamp", SECONDS]:
                raise ValueError
            return dict(_read_row(header, row) for row in rows)
    except (ValueError, csv.Error):
        message = f"{path} is not a file of finished cells. Move it away, then rerun to compute them again."
        raise FormatError(message) from None


def _read_row(header: list[str], row: list[str]) -> tuple[tuple[str, ...], FinishedCell]:
    """The key and the cell of a row.

    >>> _read_row(["method", "problem", "seeds", "hidden", "stamp", "seconds", "last"],
    ...           ["CE", "music", "0-1", "no", "abc", "1.5 2", "80.5 81"])[1].figures
    [{'seconds': 1.5, 'last': 80.5}, {'seconds': 2.0, 'last': 81.0}]
    """
    if len(row) != len(header):
        raise ValueError
    n = len(KEY)
    columns = {name: _from_field(field) for name, field in zip(header[n + 1 :], row[n + 1 :], strict=True) if field}
    figures: list[Figures] = [{} for _ in columns.get(SECONDS, [])]
    for name, values in columns.items():
        for seed, value in zip(figures, values, strict=True):
            if value is not None:
                seed[name] = value
    return tuple(row[:n]), FinishedCell(row[n], figures)


def _to_field(values: list[Any]) -> str:
    """One figure of all seeds as text.

    >>> _to_field([80.5, None]), _to_field([[1.0, None], [2.0]]), _to_field([None])
    ('80.5 -', '1 nan; 2', '')
    """
    if all(value is None for value in values):
        return ""
    if any(isinstance(value, list) for value in values):
        lists = ("-" if value is None else " ".join(map(_number, value)) for value in values)
        return "; ".join(lists) + ";" * (len(values) == 1)
    return " ".join("-" if value is None else _number(value) for value in values)


def _from_field(text: str) -> list[Any]:
    """One figure of all seeds from text; the inverse of `_to_field`.

    >>> _from_field("80.5 -"), _from_field("1 nan; 2"), _from_field("3;")
    ([80.5, None], [[1.0, nan], [2.0]], [[3.0]])
    """
    if ";" in text:
        parts = [part.strip() for part in text.removesuffix(";").split(";")]
        return [None if part == "-" else [float(word) for word in part.split()] for part in parts]
    return [None if word == "-" else float(word) for word in text.split()]


def _number(value: float | None) -> str:
    return "nan" if value is None else f"{value:.6g}"


def rounded(value: Any) -> Any:
    """Round to six significant digits: more are noise and make the files long.

    >>> rounded({"a": [0.123456789, 12345678.9], "b": 3})
    {'a': [0.123457, 12345700.0], 'b': 3}
    """
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value
