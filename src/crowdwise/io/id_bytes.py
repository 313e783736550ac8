"""Id tables as bytes of Arrow's stream format, uncompressed, as they are stored in model files.

A stream can also be compressed, and then unpack to thousands of times its size. Arrow unpacks while it reads, so
compression is detected before, in the metadata of the message. That is a flatbuffer: a table has a list of offsets, one
per field, before it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

_HEADER = 2  # field of a message: the record batch
_COMPRESSION = 3  # field of a record batch, missing if it is not compressed
_TYPES = (pa.int64(), pa.bool_(), pa.string(), pa.large_string(), pa.float64())


def ids_to_bytes(ids: pa.Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return an id table as bytes."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([ids], names=["id"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


def ids_from_bytes(data: np.ndarray[Any, np.dtype[np.uint8]]) -> pa.Array:
    """Return the id table, or raise a `ValueError`: its type, size, offsets and values are checked.

    >>> ids_from_bytes(ids_to_bytes(pa.array(["a", "b"]))).to_pylist()
    ['a', 'b']
    """
    messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(data.tobytes()))
    try:
        schema = pa.ipc.read_schema(messages.read_next_message())
        _expect(len(schema) == 1 and schema.field(0).type in _TYPES, f"an id table has the columns {schema.types}")
        batch = messages.read_next_message()
        _expect(batch.type == "record batch", f"an id table has a message of type {batch.type!r}")
        _expect(not _is_compressed(batch.metadata.to_pybytes()), "an id table is compressed")
    except (StopIteration, struct.error):
        message = "an id table is truncated"
        raise ValueError(message) from None
    ids = pa.ipc.read_record_batch(batch, schema).column(0)
    ids.validate(full=True)  # compiled code would follow invalid offsets
    _expect(ids.null_count == 0, "an id is missing in its table")
    _expect(len(ids.unique()) == len(ids), "an id occurs twice in its table")
    return ids


def _is_compressed(message: bytes) -> bool:
    """Whether the record batch in a message is compressed."""
    root = struct.unpack_from("<I", message, 0)[0]
    place = _field(message, root, _HEADER)
    _expect(place is not None, "a message of an id table is empty")
    return _field(message, place + struct.unpack_from("<I", message, place)[0], _COMPRESSION) is not None


def _field(content: bytes, table: int, number: int) -> Any:
    """Return the position of a field of a flatbuffer's table, or None if the table does not have it."""
    fields = table - struct.unpack_from("<i", content, table)[0]
    size = struct.unpack_from("<H", content, fields)[0]  # in bytes, of the list with two numbers before it
    if 4 + 2 * number + 2 > size:
        return None
    offset = struct.unpack_from("<H", content, fields + 4 + 2 * number)[0]
    return table + offset if offset else None


def _expect(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
