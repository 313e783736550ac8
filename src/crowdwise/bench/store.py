"""Finished cells, in one JSON file a family, which is written whole under another name and renamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from crowdwise.bench.cells import Cell, Figures
from crowdwise.errors import FormatError

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
        found = self._cells(cell).get(cell.key)
        return found["figures"] if found is not None and found["stamp"] == stamp else None

    def put(self, cell: Cell, stamp: str, figures: list[Figures]) -> None:
        """Keep a finished cell, at once."""
        cells = self._cells(cell)
        cells[cell.key] = {"stamp": stamp, "seeds": list(cell.seeds), "figures": figures}
        path = self._path(cell)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(".partial")
        half.write_text(_text(cells), encoding="utf-8")
        half.replace(path)

    def _path(self, cell: Cell) -> Path:
        return self.folder / "cells" / f"{cell.family}{'-quick' if cell.quick else ''}.json"

    def _cells(self, cell: Cell) -> dict[str, Any]:
        path = self._path(cell)
        if path not in self._files:
            self._files[path] = _read(path) if path.exists() else {}
        return self._files[path]


def _text(cells: dict[str, Any]) -> str:
    """A line for each cell: short, and a change shows where it is."""
    rows = [f"{json.dumps(key)}: {json.dumps(rounded(cell), sort_keys=True)}" for key, cell in sorted(cells.items())]
    return f'{{"version": {VERSION}, "cells": {{\n' + ",\n".join(rows) + "\n}}\n"


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        fits = found["version"] == VERSION
        cells: dict[str, Any] = found["cells"]
    except (ValueError, KeyError, TypeError):
        fits = False
    if not fits:
        message = f"{path} holds no finished cells of this version: move it away to compute them anew."
        raise FormatError(message)
    return cells


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
