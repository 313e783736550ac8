"""What is saved, and what is not: nothing finished, fewer seeds than are there, no library to draw with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from reproduction.cells import Family
from reproduction.experiments import Experiment, lines
from reproduction.outputs import Saved, save
from reproduction.store import Store

FAMILY = Family("toy", lambda cell: [], lambda cell: "s", lambda method: method == "many")
TOY = Experiment("toy", "Toy", "nothing", FAMILY, ("one", "many"), ("p",))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three seeds of two methods; of more, nothing."""
    made = Store(tmp_path / "out")
    for seeds in (1, 2, 3):
        for cell in TOY.cells(seeds):
            made.put(cell, "s", [{"last": 80.0 + seed, "seconds": 2.0} for seed in cell.seeds])
    return made


def write(store: Store, seeds: int) -> Saved:
    return save(TOY, lines(TOY, store, seeds), store, store.folder, seeds, quick=False)


def seeds_saved(store: Store) -> int:
    return int(json.loads((store.folder / "toy.json").read_text())["seeds"])


def test_a_table_its_description_and_a_figure_are_written(store: Store) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    assert write(store, 2) == (store.folder / "toy.csv", "")
    assert json.loads((store.folder / "toy.json").read_text())["core_seconds"] == 8.0
    assert (store.folder / "toy.svg").read_text().startswith("<svg")


def test_nothing_finished_writes_nothing(tmp_path: Path) -> None:
    table, note = write(Store(tmp_path / "none"), 2)
    assert table is None
    assert "no cell is finished" in note
    assert not (tmp_path / "none").exists()


def test_results_of_more_seeds_are_left_alone(store: Store) -> None:
    for seeds in (2, 3, 3):
        assert write(store, seeds).table is not None
    kept = {path: path.read_bytes() for path in store.folder.glob("toy.*")}
    table, note = write(store, 1)
    assert table is None
    assert "3 seeds where this has 1" in note
    assert "toy.json" in note
    assert {path: path.read_bytes() for path in store.folder.glob("toy.*")} == kept


def test_whole_results_are_not_replaced_by_a_part_of_more_seeds(store: Store) -> None:
    write(store, 3)
    table, note = write(store, 4)  # those of "many", trained together, are not finished
    assert table is None
    assert "2 lines where this has 1" in note
    assert seeds_saved(store) == 3
    for cell in TOY.cells(4):
        store.put(cell, "s", [{"last": 80.0, "seconds": 2.0}] * len(cell.seeds))
    assert write(store, 4)[0] is not None
    assert seeds_saved(store) == 4


def test_a_file_that_holds_no_result_is_replaced(store: Store) -> None:
    (store.folder / "toy.json").write_text("{")
    assert write(store, 1)[0] is not None
    assert seeds_saved(store) == 1


def test_without_altair_only_the_figure_is_missing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    table, note = write(store, 1)
    assert table == store.folder / "toy.csv"
    assert "crowdwise[plots]" in note
    assert seeds_saved(store) == 1
    assert not (store.folder / "toy.svg").exists()
