"""The wide table of cleanlab: one row per task, one column per worker, empty cells for missing answers.

CSV, TSV or Parquet. Task ids are in the column named with `task=`, or in the index that pandas wrote (a column without
a name, or named task, id, index, item or example); otherwise tasks are numbered from 0. Tasks without answers are kept.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.answers.encoding import as_arrow
from crowdwise.errors import FormatError, MissingColumnError
from crowdwise.io.files import is_parquet, read_head
from crowdwise.io.formats.delimited import header, read_cells
from crowdwise.io.formats.parquet import check_rows
from crowdwise.io.parquet_pages import check_pages, read_texts_once
from crowdwise.io.raw_columns import RawColumns, concat_columns, decode, encode_column, is_integers, is_text, text_ids

_INDEX = ("", "Unnamed: 0", "__index_level_0__", "task", "task_id", "id", "index", "item", "example")
_INTEGER = r"^-?[0-9]+(\.0*)?$"  # pandas writes integers with gaps as 1.0


def read_cleanlab(path: Path, *, task: str | None = None, multiline: bool = False) -> RawColumns:
    """Read one answer per non-empty cell."""
    table = _parquet(path) if is_parquet(path) else _text(path, multiline=multiline)
    index = task if task is not None else next((name for name in _INDEX if name in table), None)
    if index is not None and index not in table:
        message = f"no column {index!r} for the task; the table has {', '.join(map(repr, table))}."
        raise MissingColumnError(message)
    ids = None if index is None else _typed(table.pop(index), "task")
    if not table:
        message = "the table has no worker columns."
        raise FormatError(message)
    cells, places = list(table.values()), [f"column {name!r}" for name in table]
    tasks = pa.array(np.arange(len(cells[0]))) if ids is None else ids
    workers = text_ids(list(table))
    rows = [np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)) for column in cells]
    columns = {
        "task": tasks.take(pa.array(np.concatenate(rows))),
        "worker": workers.take(pa.array(np.repeat(np.arange(len(rows)), [len(r) for r in rows]))),
        "label": _typed(concat_columns([column.drop_null() for column in cells], "class", places), "class"),
    }
    return RawColumns(columns, tasks=tasks, workers=workers)


def _parquet(path: Path) -> dict[str, pa.Array]:
    with pq.ParquetFile(path) as file:
        check_rows(file, 4 * len(file.schema_arrow.names))  # 16 bytes per cell
        check_pages(path, file)
    table = read_texts_once(path)
    _check_unique(table.column_names)
    return {name: as_arrow(decode(encode_column(table.column(name))), "class") for name in table.column_names}


def _text(path: Path, *, multiline: bool) -> dict[str, pa.Array]:
    delimiter = max(",\t;", key=read_head(path).lstrip("\r\n").splitlines()[0].count)
    names = header(path, delimiter)
    _check_unique(names)
    cells = read_cells(path, delimiter, {str(i): name for i, name in enumerate(names)}, multiline=multiline)
    return {name: decode(column) for name, column in zip(names, cells.values(), strict=True)}


def _check_unique(names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        message = f"the column {repeated[0]!r} occurs twice in the table. Each worker must have one column."
        raise MissingColumnError(message)


def _typed(ids: pa.Array, what: str) -> pa.Array:
    """Convert ids to integers, if all of them are written as integers."""
    ids = as_arrow(ids, what)
    if not is_text(ids.type) or not len(ids):
        return ids
    if what == "class" and pc.all(pc.match_substring_regex(ids, _INTEGER)).as_py():
        bare = pc.replace_substring_regex(ids, r"\.0*$", "")
        return bare.cast(pa.int64()) if is_integers(bare) else ids
    return ids.cast(pa.int64()) if is_integers(ids) else ids
