"""Finished cells, in one JSON file a family, which is written whole under another name and renamed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from crowdwise._core.atomic_io import atomic_write
from crowdwise.errors import CrowdwiseError, FormatError
from reproduction.cells import Cell, Figures

VERSION = 1


class Store:
    """Cells that were computed, by family and key. Those of quick runs are kept apart.

    Parameters
    ----------
    folder : path
        Where the files are; made when the first cell is kept.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[Path, dict[str, Any]] = {}

    def get(self, cell: Cell, stamp: str) -> list[Figures] | None:
        """The figures of each seed, if the cell was computed with these settings."""
        path = self._path(cell)
        if path not in self._files:
            self._files[path] = _read(path)
        found = self._files[path].get(cell.key)
        return found["figures"] if found is not None and found["stamp"] == stamp else None

    def put(self, cell: Cell, stamp: str, figures: list[Figures]) -> None:
        """Keep a finished cell, at once; what another run has kept since this one looked stays."""
        path = self._path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        cells = _read(path)
        # Rounded at once, and not as it is written: a run that reads them again must come to the same results.
        cells[cell.key] = rounded({"stamp": stamp, "seeds": list(cell.seeds), "figures": figures})
        self._files[path] = cells
        with atomic_write(path) as beside:
            beside.write_text(_text(cells), encoding="utf-8")

    def open(self) -> None:
        """Make the folder and see that it can be written to, before hours are spent on what goes there."""
        folder = self.folder / "cells"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            message = f"{self.folder} cannot hold the results ({error.strerror}): give another folder with --out."
            raise CrowdwiseError(message) from None

    def _path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.family}{'-quick' if cell.quick else ''}.json"


def _text(cells: dict[str, Any]) -> str:
    """A line for each cell: short, and a change shows where it is."""
    rows = [f"{json.dumps(key)}: {json.dumps(cell, sort_keys=True)}" for key, cell in sorted(cells.items())]
    return f'{{"version": {VERSION}, "cells": {{\n' + ",\n".join(rows) + "\n}}\n"


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        cells: dict[str, Any] = found["cells"]
        fits = found["version"] == VERSION and all(map(_is_cell, cells.values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        message = f"{path} holds no finished cells of this version: move it away to compute them anew."
        raise FormatError(message)
    return cells


def _is_cell(found: Any) -> bool:
    """Whether it has what is read of a cell: its stamp, and figures with the time each seed took."""
    timed = all(isinstance(each["seconds"], (int, float)) for each in found["figures"])
    return timed and isinstance(found["stamp"], str) and isinstance(found["figures"], list)


def rounded(value: Any) -> Any:
    """Numbers with six digits: more are noise, and make the files long.

    >>> rounded({"a": [0.123456789, 12345678.9], "b": 3})
    {'a': [0.123457, 12345700.0], 'b': 3}
    """
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, (list, tuple)) else value
