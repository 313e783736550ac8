"""Long tables as Parquet: a row an answer. Types are those of the file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.answers.columns import NO_IDS, cast_column
from crowdwise.answers.distinct import MAX_CODES, Distinct
from crowdwise.answers.encoding import as_arrow
from crowdwise.errors import FormatError
from crowdwise.io.raw import BESIDE, IDS, Choose, Raw, encoded, is_text

ROWS = 1 << 20  # rows of a column that are held spelt out


def read_parquet(path: Path, choose: Choose) -> Raw:
    """Two columns at a time: one is decoded while the ids of the other are collected."""
    schema = pq.read_schema(path)
    found = choose(schema.names)
    bulky = {
        name for name in found.values() if _is_bulky(schema.field(name).type)
    }  # pictures, say, in a column `image`
    found = {role: name for role, name in found.items() if role not in BESIDE or name not in bulky}

    def column(role: str) -> pa.Array:
        name = found[role]
        kind = schema.field(name).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        with pq.ParquetFile(path) as file:
            if role in IDS and (is_text(kind) or pa.types.is_integer(kind)):
                return _ids(file, name, role, pa.large_string() if is_text(kind) else pa.int64())
            values = file.read(columns=[name]).column(name)
        if pa.types.is_dictionary(values.type):  # a dictionary in each piece: quicker spelt out and encoded once
            values = values.cast(values.type.value_type)
        return encoded(cast_column(values, role, name) if role in NO_IDS else values)

    with ThreadPoolExecutor(2) as pool:
        columns = dict(zip(found, pool.map(column, found), strict=True))
    return Raw(columns, names=found)


def _ids(file: pq.ParquetFile, name: str, role: str, kind: pa.DataType) -> pa.Array:
    """A column of ids, dictionary encoded as it is read: it is never there as a whole."""
    ids, codes, row = Distinct(kind), np.empty(file.metadata.num_rows, np.int32), 0
    span = _span(file, name)
    for batch in file.iter_batches(ROWS, columns=[name]):
        part = batch.column(0)
        part = as_arrow(part.dictionary_decode() if pa.types.is_dictionary(part.type) else part, role)
        codes[row : row + len(part)] = ids.add(part) if span is None else _from(part, *span)
        row += len(part)
    if row != len(codes):
        message = f"column {name!r} holds {row:,} values where the file says {len(codes):,}: it is damaged."
        raise FormatError(message)
    table = ids.table if span is None else pa.array(span[0] + np.arange(span[1] - span[0] + 1))
    missing = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing if missing.any() else None), table)


def _from(part: pa.Array, least: int, largest: int) -> np.ndarray:
    """Integers counted from the least, -1 for a missing one; the file's word for the least and largest may be false."""
    ends = pc.min_max(part).as_py()
    if ends["min"] is not None and not least <= ends["min"] <= ends["max"] <= largest:
        message = f"ids from {ends['min']} to {ends['max']} where the file says {least} to {largest}: it is damaged."
        raise FormatError(message)
    return pc.subtract(part, least).fill_null(-1).to_numpy()


def _span(file: pq.ParquetFile, name: str) -> tuple[int, int] | None:
    """The least and the largest integer of a column where they lie so close that codes need no hashing, else None."""
    meta, kind = file.metadata, file.schema_arrow.field(name).type
    if not pa.types.is_signed_integer(kind):
        return None
    place = [meta.schema.column(i).path for i in range(meta.num_columns)].index(name)
    groups = [meta.row_group(i).column(place).statistics for i in range(meta.num_row_groups)]
    if not groups or not all(group is not None and group.has_min_max for group in groups):
        return None
    least, largest = min(group.min for group in groups), max(group.max for group in groups)
    return (least, largest) if largest - least < min(4 * meta.num_rows + 1024, MAX_CODES) else None


def _is_bulky(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
