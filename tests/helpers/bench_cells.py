"""Finished cells with invented figures, for tests of the reproduction."""

from __future__ import annotations

from pathlib import Path

from reproduction import EXPERIMENTS, Store


def fill(folder: Path, name: str, seeds: int, *methods: str, quick: bool = False) -> None:
    """Store invented figures for the cells of an experiment, for all methods or for some."""
    store, experiment = Store(folder), EXPERIMENTS[name]
    for cell in experiment.cells(seeds, quick=quick):
        if not methods or cell.method in methods:
            figures = dict.fromkeys(("last", "oracle", "held_out", "labels", "auc", "skill"), 80.0)
            store.put(cell, experiment.family.stamp(cell), [{**figures, "seconds": 1.0} for _ in cell.seeds])
