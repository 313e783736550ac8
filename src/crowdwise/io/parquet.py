"""Long tables as Parquet: a row an answer. Types are those of the file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.answers.distinct import Distinct
from crowdwise.answers.encoding import as_arrow
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
        return encoded(values)

    with ThreadPoolExecutor(2) as pool:
        columns = dict(zip(found, pool.map(column, found), strict=True))
    return Raw(columns, names=found)


def _ids(file: pq.ParquetFile, name: str, role: str, kind: pa.DataType) -> pa.Array:
    """A column of ids, dictionary encoded as it is read: it is never there as a whole."""
    ids, codes, row = Distinct(kind), np.empty(file.metadata.num_rows, np.int32), 0
    for batch in file.iter_batches(ROWS, columns=[name]):
        part = batch.column(0)
        part = part.dictionary_decode() if pa.types.is_dictionary(part.type) else part
        codes[row : row + len(part)] = ids.add(as_arrow(part, role))
        row += len(part)
    missing = codes < 0
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing if missing.any() else None), ids.table)


def _is_bulky(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
