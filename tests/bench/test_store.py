"""The store: what is put is found again, by settings; half-written and foreign files."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdwise.bench.cells import Cell
from crowdwise.bench.store import Store
from crowdwise.errors import FormatError

CELL = Cell("toy", "m", "p", (0, 1))
FIGURES = [{"last": 80.125, "test": [1.0, 2.0]}, {"last": 81.0, "test": [3.0, 4.0]}]


def test_a_cell_is_found_by_another_store_of_the_same_folder(tmp_path: Path) -> None:
    Store(tmp_path).put(CELL, "s", FIGURES)
    assert Store(tmp_path).get(CELL, "s") == FIGURES
    assert not list(tmp_path.rglob("*.partial"))


def test_other_settings_seeds_or_speed_are_another_cell(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(CELL, "s", FIGURES)
    assert store.get(CELL, "t") is None
    assert store.get(CELL._replace(seeds=(0,)), "s") is None
    assert store.get(CELL._replace(hide=True), "s") is None
    assert store.get(CELL._replace(quick=True), "s") is None


def test_cells_are_kept_beside_each_other(tmp_path: Path) -> None:
    store, other = Store(tmp_path), CELL._replace(method="n")
    store.put(CELL, "s", FIGURES)
    store.put(other, "s", FIGURES[:1])
    again = Store(tmp_path)
    assert again.get(CELL, "s") == FIGURES
    assert again.get(other, "s") == FIGURES[:1]


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 99, "cells": {}}', '{"cells": {}}'])
def test_a_foreign_file_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cells" / "toy.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(FormatError, match=r"toy\.json"):
        Store(tmp_path).get(CELL, "s")
    assert path.read_text() == text
