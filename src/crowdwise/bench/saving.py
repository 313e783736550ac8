"""What is left of an experiment: a CSV file of its lines, a JSON file with what they are, and a figure."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from crowdwise.bench.drawing import draw
from crowdwise.bench.experiments import COLUMNS, Experiment, Line
from crowdwise.bench.store import Store, rounded


def save(experiment: Experiment, found: list[Line], store: Store, folder: Path, seeds: int, *, quick: bool) -> Path:
    """Write NAME.csv, NAME.json and NAME.svg; the figure is left out where altair is not installed.

    Returns
    -------
    Path
        Of the CSV file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{experiment.name}{'-quick' if quick else ''}"
    table = stem.with_suffix(".csv")
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rounded(line) for line in found)
    about = {
        "name": experiment.name, "title": experiment.title, "shows": experiment.shows, "seeds": seeds, "quick": quick,
        "core_seconds": core_seconds(experiment, store, seeds, quick=quick), "lines": found,
    }  # fmt: skip
    stem.with_suffix(".json").write_text(json.dumps(rounded(about), indent=1), encoding="utf-8")
    if found:
        draw(experiment, found, stem.with_suffix(".svg"))
    return table


def core_seconds(experiment: Experiment, store: Store, seeds: int, *, quick: bool = False) -> float:
    """How long its cells took on one core, those that other experiments share included."""
    total = 0.0
    for cell in experiment.cells(seeds, quick=quick):
        found: list[Any] = store.get(cell, experiment.family.stamp(cell)) or []
        total += sum(each["seconds"] for each in found)
    return total
