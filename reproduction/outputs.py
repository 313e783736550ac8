"""What is left of an experiment: a CSV file of its lines, a JSON file with what they are, and a figure."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, NamedTuple

from crowdwise._core.atomic_io import atomic_write
from crowdwise.errors import MissingDependencyError
from reproduction.experiments import COLUMNS, Experiment, Line
from reproduction.figures import draw
from reproduction.store import Store, rounded


class Saved(NamedTuple):
    """What became of the files."""

    table: Path | None  # the CSV file, if it was written
    note: str = ""  # what was not written, and why


def save(experiment: Experiment, found: list[Line], store: Store, folder: Path, seeds: int, *, quick: bool) -> Saved:
    """Write NAME.csv, NAME.json and NAME.svg; the figure is left out where altair is not installed.

    Nothing is written where nothing is finished, nor over results of more seeds, nor over whole ones of fewer seeds as
    long as lines are missing.
    """
    stem = folder / f"{experiment.name}{'-quick' if quick else ''}"
    table, about = stem.with_suffix(".csv"), stem.with_suffix(".json")
    if not found:
        return Saved(None, f"{experiment.name}: no cell is finished, so nothing is saved.")
    before, lines = _already(about)
    if before > seeds or (before < seeds and lines > len(found)):
        what = (
            f"{before} seeds where this has {seeds}" if before > seeds else f"{lines} lines where this has {len(found)}"
        )
        return Saved(None, f"{about} has {what}, and is left as it is: move it away to save this.")
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(table) as beside, beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rounded(line) for line in found)
    result = {
        "name": experiment.name, "title": experiment.title, "shows": experiment.shows, "seeds": seeds, "quick": quick,
        "core_seconds": core_seconds(experiment, store, seeds, quick=quick), "lines": found,
    }  # fmt: skip
    with atomic_write(about) as beside:
        beside.write_text(json.dumps(rounded(result), indent=1), encoding="utf-8")
    try:
        with atomic_write(stem.with_suffix(".svg")) as beside:
            draw(experiment, found, beside)
    except MissingDependencyError as error:
        return Saved(table, str(error))
    return Saved(table)


def _already(path: Path) -> tuple[int, int]:
    """Seeds and lines of a saved result; none of a file that is not there, or holds no result."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return int(found["seeds"]), len(found["lines"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0, 0


def core_seconds(experiment: Experiment, store: Store, seeds: int, *, quick: bool = False) -> float:
    """How long its cells took on one core, those that other experiments share included."""
    total = 0.0
    for cell in experiment.cells(seeds, quick=quick):
        found: list[Any] = store.get(cell, experiment.family.stamp(cell)) or []
        total += sum(each["seconds"] for each in found)
    return total
