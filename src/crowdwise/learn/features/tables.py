"""Features in tables: data frames, and CSV and Parquet files with a column of task ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq

from crowdwise.answers import Answers
from crowdwise.answers.columns import recognise
from crowdwise.answers.encoding import as_arrow, preview
from crowdwise.answers.rows import check_ids
from crowdwise.errors import FeaturesError, MissingColumnError
from crowdwise.io.csv_escaping import unescape
from crowdwise.io.files import open_arrow, read_head
from crowdwise.io.formats.delimited import header
from crowdwise.io.formats.parquet import check_rows
from crowdwise.learn.features.arrays import ArrayFeatures
from crowdwise.learn.features.matching import match_by_name

INDEX = "__index_level_0__"  # what pandas calls a nameless index in a Parquet file


def is_frame(X: Any) -> bool:
    """Whether X is a pandas, polars or Arrow table."""
    return isinstance(X, pa.Table) or (hasattr(X, "columns") and hasattr(X, "dtypes"))


def frame_features(frame: Any, answers: Answers | None) -> ArrayFeatures:
    """A data frame of numbers. Rows follow the tasks, unless a column `task` or `task_id` names them.

    >>> frame_features(pa.table({"task": ["b", "a"], "length": [3, 5]}), None).matrix().tolist()
    [[3.0], [5.0]]
    """
    names = [str(name) for name in getattr(frame, "column_names", frame.columns)]
    ids = next((name for name in names if name in ("task", "task_id")), None)
    if ids is None and answers is not None and _indexed(frame, answers):
        frame, ids = frame.rename_axis("task").reset_index(), "task"
        names = ["task", *names]
    if ids is None and (array := np.asarray(frame)).dtype.kind in "biuf":
        plain = ArrayFeatures(array)
        plain.columns = tuple(names)
        return plain
    try:
        if hasattr(frame, "iloc"):  # pandas
            table = pa.Table.from_pandas(frame, preserve_index=False)
        else:  # old versions of polars know no other way
            table = frame.to_arrow() if hasattr(frame, "to_arrow") else pa.table(frame)
    except (ValueError, TypeError, pa.ArrowException) as error:
        message = f"the data frame is no table of numbers: {error}"
        raise FeaturesError(message) from None
    return table_features(table, ids, answers)


def _indexed(frame: Any, answers: Answers) -> bool:
    """Whether the index of a pandas frame names the tasks, and is more than the numbers of its rows."""
    if not hasattr(frame, "iloc"):
        return False
    index = frame.index
    if type(index).__name__ == "RangeIndex" or not index.is_unique:
        return False
    return bool(np.isin(answers.tasks.astype(str), np.asarray(index).astype(str)).all())


def file_features(path: Path, answers: Answers | None) -> ArrayFeatures:
    """A CSV or Parquet file: a row for each task, one column with its id, numbers in the others."""
    parquet = path.suffix == ".parquet"
    delimiter = "," if parquet else _delimiter(path)
    names = pq.read_schema(path).names if parquet else header(path, delimiter)
    try:
        ids = recognise([name for name in names if name != INDEX], task=None)["task"]
    except MissingColumnError:
        if INDEX not in names:
            message = f"no column of task ids among {preview(names)}: call it 'task'."
            raise MissingColumnError(message) from None
        ids = INDEX
    table = _read_parquet(path) if parquet else _read_csv(path, delimiter, names, ids)
    if not parquet:  # ids as `write` escapes them for spreadsheets
        place = table.column_names.index(ids)
        table = table.set_column(place, ids, unescape(table.column(place).combine_chunks()))
    if INDEX in names and ids != INDEX:
        table = table.drop_columns([INDEX])
    return table_features(table, ids, answers)


def table_features(table: pa.Table, ids: str | None, answers: Answers | None) -> ArrayFeatures:
    """Numbers of a table, float32, in the order of the tasks where a column of ids tells it."""
    columns = table if ids is None else table.drop_columns([ids])
    _require_numbers(columns)
    matrix = np.empty((table.num_rows, columns.num_columns), np.float32)
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused with the rest
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
    """Name the columns that hold anything else."""
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null)
    odd = [i for i, field in enumerate(columns.schema) if not any(is_kind(field.type) for is_kind in kinds)]
    if odd:
        first = columns.column(odd[0])
        example = next((value for value in first.to_pylist() if value is not None), None)
        message = (
            f"not numbers: column {preview([columns.column_names[i] for i in odd])} ({first.type}, for example "
            f"{example!r:.60}). Encode it as numbers, or leave it out."
        )
        raise FeaturesError(message)


def _read_parquet(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        check_rows(file, 4 * len(file.schema_arrow.names))  # two numbers of 8 bytes for each cell
        return file.read()


def _read_csv(path: Path, delimiter: str, names: list[str], ids: str) -> pa.Table:
    """Ids as text, the rest as numbers; where that fails, as text, so that the columns at fault can be named."""

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
    """Cells as numbers, true and false among them; None if they are not."""
    empty = pc.is_in(cells, value_set=pa.array(["", "NA", "NaN", "nan", "null"], pa.large_string()))
    known = pc.if_else(empty, pa.scalar(None, pa.large_string()), cells)
    for kind in (pa.float32(), pa.bool_()):
        try:
            return known.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


def _delimiter(path: Path) -> str:
    """Comma, or tab or semicolon when the header has no comma."""
    first = read_head(path).lstrip("\r\n").splitlines()[0]
    return next((mark for mark in ",\t;" if mark in first), ",")
