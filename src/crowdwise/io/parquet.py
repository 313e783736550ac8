"""Long tables as Parquet: a row an answer. Types are those of the file."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.io.raw import BESIDE, Choose, Raw, encoded


def read_parquet(path: Path, choose: Choose) -> Raw:
    """Two columns at a time: one is decoded while the ids of the other are collected."""
    schema = pq.read_schema(path)
    found = choose(schema.names)
    bulky = {
        name for name in found.values() if _is_bulky(schema.field(name).type)
    }  # pictures, say, in a column `image`
    found = {role: name for role, name in found.items() if role not in BESIDE or name not in bulky}

    def column(name: str) -> pa.Array:
        with pq.ParquetFile(path) as file:
            values = file.read(columns=[name]).column(name)
        if pa.types.is_dictionary(values.type):  # a dictionary in each piece: quicker spelt out and encoded once
            values = values.cast(values.type.value_type)
        return encoded(values)

    with ThreadPoolExecutor(2) as pool:
        columns = dict(zip(found, pool.map(column, found.values()), strict=True))
    return Raw(columns, names=found)


def _is_bulky(kind: pa.DataType) -> bool:
    return pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
