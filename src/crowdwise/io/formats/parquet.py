"""Long tables as Parquet: a row an answer. Types are those of the file."""

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
from crowdwise.io.raw_columns import ID_ROLES, SIDE_ROLES, ChooseColumns, RawColumns, encode_column, is_text

ROWS = 1 << 20  # rows of a column that are held spelt out


def read_parquet(path: Path, choose: ChooseColumns) -> RawColumns:
    """Two columns at a time: one is decoded while the ids of the other are collected."""
    schema = pq.read_schema(path)
    found = choose(schema.names)
    bulky = {
        name for name in found.values() if _is_bulky(schema.field(name).type)
    }  # pictures, say, in a column `image`
    found = {role: name for role, name in found.items() if role not in SIDE_ROLES or name not in bulky}
    with pq.ParquetFile(path) as file:
        check_rows(file, len(found))

    def column(role: str) -> pa.Array:
        name = found[role]
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        with pq.ParquetFile(path) as file:
            if role in ID_ROLES and (is_text(kind) or pa.types.is_integer(kind)):
                return _ids(file, name, role, pa.large_string() if is_text(kind) else pa.int64())
            values = file.read(columns=[name]).column(name)
        if pa.types.is_dictionary(values.type):  # a dictionary in each piece: quicker spelt out and encoded once
            values = values.cast(values.type.value_type)
        return encode_column(cast_column(values, role, name) if role in VALUE_COLUMNS else values)

    with ThreadPoolExecutor(2) as pool:
        columns = dict(zip(found, pool.map(column, found), strict=True))
    return RawColumns(columns, names=found)


def check_rows(file: pq.ParquetFile, n_columns: int) -> None:
    """Refuse a file whose rows, a number each and column, do not fit into memory: few bytes can say a billion rows."""
    rows, free = file.metadata.num_rows, available()
    if 4 * rows * n_columns > free:
        message = (
            f"{rows:,} rows of {n_columns} columns need {gigabytes(4 * rows * n_columns)}, with {gigabytes(free)} free."
        )
        raise TooLargeError(message)


def _ids(file: pq.ParquetFile, name: str, role: str, kind: pa.DataType) -> pa.Array:
    """A column of ids, dictionary encoded as it is read: it is never there as a whole."""
    codes, row = np.empty(file.metadata.num_rows, np.int32), 0
    ids, near = IdTable(kind), _Near(len(codes)) if pa.types.is_int64(kind) else None
    for batch in file.iter_batches(ROWS, columns=[name]):
        part = batch.column(0)
        part = as_arrow(part.dictionary_decode() if pa.types.is_dictionary(part.type) else part, role)
        if near is not None and not near.holds(part):
            for start in range(0, row, ROWS):
                codes[start : min(start + ROWS, row)] = ids.add(near.ids(codes[start : min(start + ROWS, row)]))
            near = None
        codes[row : row + len(part)] = ids.add(part) if near is None else near.add(part)
        row += len(part)
    if row != len(codes):
        message = f"column {name!r} holds {row:,} values where the file says {len(codes):,}: it is damaged."
        raise FormatError(message)
    missing = codes < 0
    table = ids.table if near is None else near.table(codes)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing if missing.any() else None), table)


class _Near:
    """Integers that lie so close together that their distance from one of them is their code, with nothing hashed.

    Taken from the ids themselves: the least and largest that a file claims may be false, and Arrow does not survive
    asking for them in a damaged file.
    """

    def __init__(self, n_rows: int) -> None:
        self._room = min(4 * n_rows + 1024, MAX_CODES // 2)
        self._least, self._largest = 0, 0
        self._base: int | None = None  # no id so far

    def holds(self, part: pa.Array) -> bool:
        """Take note of some more ids; whether all are close so far."""
        least, largest = pc.min_max(part).as_py().values()
        if least is None:
            return True
        if self._base is None:  # codes count from here until all are known: those below would be negative
            self._least, self._largest, self._base = least, largest, max(least - self._room, -(2**63))
        self._least, self._largest = min(self._least, least), max(self._largest, largest)
        return self._largest - self._least < self._room

    def add(self, part: pa.Array) -> np.ndarray:
        """Codes of ids, -1 for a missing one."""
        return np.full(len(part), -1) if self._base is None else pc.subtract(part, self._base).fill_null(-1).to_numpy()

    def ids(self, codes: np.ndarray) -> pa.Array:
        """The ids of codes."""
        return pa.array((self._base or 0) + codes.astype(np.int64), mask=codes < 0)

    def table(self, codes: np.ndarray) -> pa.Array:
        """The ids from the least to the largest; the codes count from the least from now on."""
        if self._base is None:
            return pa.array([], pa.int64())
        np.subtract(codes, np.int32(self._least - self._base), out=codes, where=codes >= 0)
        return pa.array(self._least + np.arange(self._largest - self._least + 1))


def _is_bulky(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
