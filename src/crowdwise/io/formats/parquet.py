"""Long tables as Parquet, one row per answer. Columns keep the types of the file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise._core.memory import available, gigabytes
from crowdwise.answers.columns import VALUE_COLUMNS, cast_column
from crowdwise.answers.encoding import as_arrow
from crowdwise.answers.id_table import MAX_CODES, IdTable
from crowdwise.errors import FormatError, TooLargeError
from crowdwise.io.parquet_pages import check_pages, check_repeated_text
from crowdwise.io.raw_columns import ID_ROLES, SIDE_ROLES, ChooseColumns, RawColumns, encode_column, is_text

ROWS = 1 << 20  # rows of a column that are decoded at a time


def read_parquet(path: Path, choose: ChooseColumns) -> RawColumns:
    """Read two columns at a time: one is decoded while the ids of the other are collected."""
    schema = pq.read_schema(path)
    found = choose(schema.names)
    bulky = {
        name for name in found.values() if _is_bulky(schema.field(name).type)
    }  # such as encoded images in a column `image`
    found = {role: name for role, name in found.items() if role not in SIDE_ROLES or name not in bulky}
    with pq.ParquetFile(path) as file:
        check_rows(file, len(found))
        check_pages(path, file, found.values())

    def column(role: str) -> pa.Array:
        name = found[role]
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        with pq.ParquetFile(path, read_dictionary=[name] if is_text(kind) else None) as file:
            if role in ID_ROLES and (is_text(kind) or pa.types.is_integer(kind)):
                return _ids(path, file, name, role, pa.large_string() if is_text(kind) else pa.int64())
            values = file.read(columns=[name]).column(name)
        if pa.types.is_dictionary(values.type):  # one dictionary per chunk: faster to decode and encode once
            values = values.cast(values.type.value_type)
        return encode_column(cast_column(values, role, name) if role in VALUE_COLUMNS else values)

    with ThreadPoolExecutor(2) as pool:
        columns = dict(zip(found, pool.map(column, found), strict=True))
    return RawColumns(columns, names=found)


def check_rows(file: pq.ParquetFile, n_columns: int) -> None:
    """Reject a file whose rows do not fit into memory at 4 bytes per cell: a small file can claim a billion rows."""
    rows, free = file.metadata.num_rows, available()
    if 4 * rows * n_columns > free:
        needed = gigabytes(4 * rows * n_columns)
        message = f"{rows:,} rows of {n_columns} columns need {needed} of memory, but only {gigabytes(free)} is free."
        raise TooLargeError(message)


def _ids(path: Path, file: pq.ParquetFile, name: str, role: str, kind: pa.DataType) -> pa.Array:
    """Read a column of ids, dictionary encoding it in parts, so that it is never in memory decoded."""
    codes, row = np.empty(file.metadata.num_rows, np.int32), 0
    ids, dense = IdTable(kind), _DenseIntegers(len(codes)) if pa.types.is_int64(kind) else None
    for batch in file.iter_batches(ROWS, columns=[name]):
        part = batch.column(0)
        if pa.types.is_dictionary(part.type) and is_text(part.type.value_type):
            check_repeated_text(path, part)
        part = as_arrow(part.dictionary_decode() if pa.types.is_dictionary(part.type) else part, role)
        if dense is not None and not dense.holds(part):
            for start in range(0, row, ROWS):
                codes[start : min(start + ROWS, row)] = ids.add(dense.ids(codes[start : min(start + ROWS, row)]))
            dense = None
        codes[row : row + len(part)] = ids.add(part) if dense is None else dense.add(part)
        row += len(part)
    if row != len(codes):
        message = f"column {name!r} has {row:,} values, but the file declares {len(codes):,}. The file is damaged."
        raise FormatError(message)
    missing = codes < 0
    table = ids.table if dense is None else dense.table(codes)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing if missing.any() else None), table)


class _DenseIntegers:
    """Integer ids within a small range: the code of an id is its distance from a base, without hashing.

    The range is computed from the ids. The statistics in the file may be wrong, and reading them from a damaged file
    crashes Arrow.
    """

    def __init__(self, n_rows: int) -> None:
        self._range = min(4 * n_rows + 1024, MAX_CODES // 2)
        self._least, self._largest = 0, 0
        self._base: int | None = None  # None until the first id

    def holds(self, part: pa.Array) -> bool:
        """Include more ids; return whether all ids so far are within the range."""
        least, largest = pc.min_max(part).as_py().values()
        if least is None:
            return True
        if self._base is None:  # preliminary base, low enough to keep codes positive
            self._least, self._largest, self._base = least, largest, max(least - self._range, -(2**63))
        self._least, self._largest = min(self._least, least), max(self._largest, largest)
        return self._largest - self._least < self._range

    def add(self, part: pa.Array) -> np.ndarray:
        """Return the codes of ids, -1 for a missing one."""
        return np.full(len(part), -1) if self._base is None else pc.subtract(part, self._base).fill_null(-1).to_numpy()

    def ids(self, codes: np.ndarray) -> pa.Array:
        """Return the ids of codes."""
        return pa.array((self._base or 0) + codes.astype(np.int64), mask=codes < 0)

    def table(self, codes: np.ndarray) -> pa.Array:
        """Return the ids from the smallest to the largest, and shift the codes to start at the smallest."""
        if self._base is None:
            return pa.array([], pa.int64())
        np.subtract(codes, np.int32(self._least - self._base), out=codes, where=codes >= 0)
        return pa.array(self._least + np.arange(self._largest - self._least + 1))


def _is_bulky(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
