"""The store: finished cells are found again by their settings; unfinished and foreign files are not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdwise.errors import CrowdwiseError, FormatError, UnwritableError
from reproduction.cells import Cell
from reproduction.store import Store

CELL = Cell("toy", "m, with a comma", "p", (0, 1))
FIGURES = [{"last": 80.125, "test": [1.0, 2.0], "seconds": 1.0}, {"last": 81.0, "test": [3.0, 4.0], "seconds": 1.0}]
HEADER = "method,problem,seeds,hidden,stamp,seconds"


def test_cell_is_found_by_another_store_of_the_same_folder(tmp_path: Path) -> None:
    Store(tmp_path).put(CELL, "s", FIGURES)
    assert Store(tmp_path).get(CELL, "s") == FIGURES
    assert [path.name for path in tmp_path.iterdir()] == ["toy.csv"]


def test_figures_are_rounded_when_stored_not_when_read(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(CELL._replace(seeds=(0,)), "s", [{"last": 1 / 3, "test": [2 / 3], "seconds": 0.1}])
    assert store.get(CELL._replace(seeds=(0,)), "s") == Store(tmp_path).get(CELL._replace(seeds=(0,)), "s")


def test_unmeasured_figures_are_absent_for_that_seed_only(tmp_path: Path) -> None:
    Store(tmp_path).put(CELL, "s", [{"seconds": 1.0, "oracle": None}, {"seconds": 2.0, "oracle": 90.0}])
    assert Store(tmp_path).get(CELL, "s") == [{"seconds": 1.0}, {"seconds": 2.0, "oracle": 90.0}]


def test_other_settings_seeds_or_speed_are_another_cell(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(CELL, "s", FIGURES)
    assert store.get(CELL, "t") is None
    assert store.get(CELL) == FIGURES  # any settings
    assert store.get(CELL._replace(seeds=(0,)), "s") is None
    assert store.get(CELL._replace(hide=True), "s") is None
    assert store.get(CELL._replace(quick=True), "s") is None


def test_cells_that_another_run_stored_meanwhile_are_kept(tmp_path: Path) -> None:
    first, second, other = Store(tmp_path), Store(tmp_path), CELL._replace(method="n")
    assert first.get(CELL, "s") is second.get(CELL, "s") is None  # both have read the file
    first.put(CELL, "s", FIGURES)
    second.put(other, "s", FIGURES)
    first.put(CELL._replace(method="o"), "s", FIGURES)
    assert all(Store(tmp_path).get(CELL._replace(method=name), "s") == FIGURES for name in (CELL.method, "n", "o"))
    assert first.get(other, "s") == FIGURES


def test_full_disk_leaves_stored_cells_intact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.put(CELL, "s", FIGURES)

    def full(rows: object) -> str:
        message = "no space left"
        raise OSError(message)

    with (
        monkeypatch.context() as patch,
        pytest.raises(UnwritableError, match=r"toy\.csv cannot be written: no space left\."),
    ):
        patch.setattr("reproduction.store._to_field", full)
        store.put(CELL._replace(method="n"), "s", FIGURES)
    assert Store(tmp_path).get(CELL, "s") == FIGURES


def test_unwritable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CrowdwiseError, match=r"cannot write to .*file.*--out"):
        Store(tmp_path / "file").open()
    Store(tmp_path / "new").open()
    assert not list((tmp_path / "new").iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}\n",
        "a,b\n1,2\n",
        f"{HEADER}\nm,p,0\n",
        f"{HEADER}\nm,p,0,no,s,fast\n",
        f"{HEADER},last\nm,p,0,no,s,1,2 3\n",
    ],
)  # fmt: skip
def test_foreign_file_is_named_and_not_changed(tmp_path: Path, text: str) -> None:
    path = tmp_path / "toy.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match=r"toy\.csv is not a file of finished cells"):
        Store(tmp_path).get(CELL, "s")
    assert path.read_text() == text
