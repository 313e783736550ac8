"""The store: what is put is found again, by settings; half-written and foreign files."""

from __future__ import annotations

from pathlib import Path

import pytest

from crowdwise.errors import CrowdwiseError, FormatError, UnwritableError
from reproduction.cells import Cell
from reproduction.store import Store

CELL = Cell("toy", "m", "p", (0, 1))
FIGURES = [{"last": 80.125, "test": [1.0, 2.0], "seconds": 1.0}, {"last": 81.0, "test": [3.0, 4.0], "seconds": 1.0}]


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


def test_what_another_run_kept_since_is_kept(tmp_path: Path) -> None:
    first, second, other = Store(tmp_path), Store(tmp_path), CELL._replace(method="n")
    assert first.get(CELL, "s") is second.get(CELL, "s") is None  # both have looked
    first.put(CELL, "s", FIGURES)
    second.put(other, "s", FIGURES)
    first.put(CELL._replace(method="o"), "s", FIGURES)
    assert all(Store(tmp_path).get(CELL._replace(method=name), "s") == FIGURES for name in "mno")
    assert first.get(other, "s") == FIGURES


def test_a_disk_that_fills_up_spares_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    store.put(CELL, "s", FIGURES)

    def half(path: Path, text: str, **options: str) -> None:
        with path.open("w") as file:
            file.write(text[: len(text) // 2])
        message = "no space left"
        raise OSError(message)

    with (
        monkeypatch.context() as patch,
        pytest.raises(UnwritableError, match=r"toy\.json cannot be written: no space left\."),
    ):
        patch.setattr(Path, "write_text", half)
        store.put(CELL._replace(method="n"), "s", FIGURES)
    assert Store(tmp_path).get(CELL, "s") == FIGURES


def test_a_folder_that_cannot_be_written_to_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CrowdwiseError, match=r"file cannot hold the results.*--out"):
        Store(tmp_path / "file").open()
    Store(tmp_path / "new").open()
    assert not list((tmp_path / "new" / "cells").iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"version": 99, "cells": {}}', '{"cells": {}}', '{"version": 1, "cells": []}',
        *(
            f'{{"version": 1, "cells": {{"m | p | 0": {cell}}}}}'
            for cell in (
                "{}", "[]", '{"stamp": "s"}', '{"figures": []}', '{"stamp": 3, "figures": []}',
                '{"stamp": "s", "figures": {}}', '{"stamp": "s", "figures": [{"last": 1.0}]}',
            )
        ),
    ],
)  # fmt: skip
def test_a_foreign_file_is_named_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "cells" / "toy.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(FormatError, match=r"toy\.json"):
        Store(tmp_path).get(CELL, "s")
    assert path.read_text() == text
