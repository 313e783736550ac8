"""Features in tables: data frames, and CSV or Parquet files with a column of task ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from crowdwise._core.frames import to_table
from crowdwise.answers import Answers
from crowdwise.answers.columns import COLUMN_NAMES, normalise, recognise
from crowdwise.answers.encoding import as_arrow, preview
from crowdwise.answers.rows import check_ids
from crowdwise.errors import FeaturesError, MissingColumnError
from crowdwise.io.csv_escaping import unescape
from crowdwise.io.files import open_arrow, read_head
from crowdwise.io.formats.delimited import header
from crowdwise.io.formats.parquet import check_rows
from crowdwise.io.parquet_pages import check_pages, read_texts_once
from crowdwise.learn.features.arrays import ArrayFeatures
from crowdwise.learn.features.matching import match_by_name

INDEX = "__index_level_0__"  # the name pandas gives an unnamed index in a Parquet file


def is_frame(X: Any) -> bool:
    """Whether X is a pandas, polars or Arrow table."""
    return isinstance(X, pa.Table) or (hasattr(X, "columns") and hasattr(X, "dtypes"))


def frame_features(frame: Any, answers: Answers | None) -> ArrayFeatures:
    """Return the features in a data frame. Rows follow the tasks, unless a column or the index holds their ids.

    A column `task` or `task_id` holds ids; one with another usual name (`item`, `image`, `id`, ...) does if it contains
    the id of every task, each once, or, without answers, if it holds text.

    >>> frame_features(pa.table({"task": ["b", "a"], "length": [3, 5]}), None).matrix().tolist()
    [[3.0], [5.0]]
    """
    names = [str(name) for name in getattr(frame, "column_names", frame.columns)]
    ids = next((name for name in names if name in ("task", "task_id")), None)
    if ids is None:
        usual = [name for name in names if normalise(name) in COLUMN_NAMES["task"]]
        ids = next((name for name in usual if _names_tasks(frame[name], answers)), None)
    if ids is None and answers is not None and _index_names_tasks(frame, answers):
        frame, ids = frame.rename_axis("task").reset_index(), "task"
        names = ["task", *names]
    if ids is None and (array := np.asarray(frame)).dtype.kind in "biuf":
        plain = ArrayFeatures(array)
        plain.columns = tuple(names)
        return plain
    try:
        table = to_table(frame)
    except (ValueError, TypeError, pa.ArrowException) as error:
        message = f"the data frame cannot be read as numbers: {error}"
        raise FeaturesError(message) from None
    return table_features(table, ids, answers)


def _index_names_tasks(frame: Any, answers: Answers) -> bool:
    """Whether the index of a pandas frame holds the task ids, and is not just row numbers."""
    if not hasattr(frame, "iloc"):
        return False
    return type(frame.index).__name__ != "RangeIndex" and _names_tasks(frame.index, answers)


def _names_tasks(values: Any, answers: Answers | None) -> bool:
    """Whether these values are distinct and contain the id of every task; without answers, whether they are text."""
    ids = np.asarray(values)
    if answers is None:
        return ids.dtype.kind not in "biuf"
    ids = ids.astype(str)
    return len(np.unique(ids)) == len(ids) and bool(np.isin(answers.tasks.astype(str), ids).all())


def file_features(path: Path, answers: Answers | None) -> ArrayFeatures:
    """Return the features in a CSV or Parquet file: one row per task, a column of ids, numbers in the others."""
    parquet = path.suffix == ".parquet"
    delimiter = "," if parquet else _delimiter(path)
    names = pq.read_schema(path).names if parquet else header(path, delimiter)
    try:
        ids = recognise([name for name in names if name != INDEX], task=None)["task"]
    except MissingColumnError:
        if INDEX not in names:
            message = f"no column of task ids among {preview(names)}. Name it 'task'."
            raise MissingColumnError(message) from None
        ids = INDEX
    table = _read_parquet(path) if parquet else _read_csv(path, delimiter, names, ids)
    if not parquet:  # `write` escapes ids for spreadsheets
        position = table.column_names.index(ids)
        table = table.set_column(position, ids, unescape(table.column(position).combine_chunks()))
    if INDEX in names and ids != INDEX:
        table = table.drop_columns([INDEX])
    return table_features(table, ids, answers)


def table_features(table: pa.Table, ids: str | None, answers: Answers | None) -> ArrayFeatures:
    """Return the numbers of a table, float32; with a column of ids, in the order of the tasks."""
    columns = table if ids is None else table.drop_columns([ids])
    _require_numbers(columns)
    matrix = np.empty((table.num_rows, columns.num_columns), np.float32)
    with np.errstate(over="ignore"):  # values that are too large become infinite, and are rejected later
        for i, column in enumerate(columns.columns):
            matrix[:, i] = column.cast(pa.float64()).to_numpy()  # a missing value becomes NaN
    if ids is None:
        features = ArrayFeatures(matrix)
        features.columns = tuple(columns.column_names)
        return features
    names = check_ids(as_arrow(table.column(ids), "task"), "task").cast(pa.large_string())
    if answers is not None:
        chosen = match_by_name(answers, names)
        matrix, names = matrix[chosen], names.take(pa.array(chosen))
    features = ArrayFeatures(matrix)
    features.columns = tuple(columns.column_names)
    features.tasks, features.n_ignored = names.to_numpy(zero_copy_only=False), table.num_rows - len(matrix)
    return features


def _require_numbers(columns: pa.Table) -> None:
    """Raise FeaturesError that names the columns without numbers."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    invalid = [i for i, field in enumerate(columns.schema) if not any(is_kind(field.type) for is_kind in kinds)]
    if invalid:
        first = columns.column(invalid[0])
        example = next((value for value in first.to_pylist() if value is not None), None)
        message = (
            f"column {preview([columns.column_names[i] for i in invalid])} does not contain numbers ({first.type}, for "
            f"example {example!r:.60}). Encode it as numbers, or remove it."
        )
        raise FeaturesError(message)


def _read_parquet(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        check_rows(file, 4 * len(file.schema_arrow.names))  # two numbers of 8 bytes per cell
        check_pages(path, file)
    return read_texts_once(path)


def _read_csv(path: Path, delimiter: str, names: list[str], ids: str) -> pa.Table:
    """Read ids as text and the rest as numbers; if that fails, as text, so that an error can name the columns."""

    def read(kind: pa.DataType | None) -> pa.Table:
        types = {name: pa.large_string() if name == ids else kind for name in names}
        with open_arrow(path) as stream:
            return arrow_csv.read_csv(
                stream,
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(column_types=types),
            )

    try:
        return read(pa.float32())
    except pa.ArrowInvalid as error:
        if "onversion error" not in str(error):
            raise
    table = read(pa.large_string())
    for i, name in enumerate(names):
        if name != ids and (numbers := _as_numbers(table.column(i))) is not None:
            table = table.set_column(i, name, numbers)
    return table


def _as_numbers(cells: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Convert cells to numbers, including true and false; return None if that is not possible."""
    empty = pc.is_in(cells, value_set=pa.array(["", "NA", "NaN", "nan", "null"], pa.large_string()))
    known = pc.if_else(empty, pa.scalar(None, pa.large_string()), cells)
    for kind in (pa.float32(), pa.bool_()):
        try:
            return known.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _delimiter(path: Path) -> str:
    """Return comma, or tab or semicolon if the header has no comma."""
    first = read_head(path).lstrip("\r\n").splitlines()[0]
    return next((mark for mark in ",\t;" if mark in first), ",")
