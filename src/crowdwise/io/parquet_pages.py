"""What a Parquet file unpacks to, from the headers of its pages, before anything is unpacked.

The footer of a file also states sizes, but a forged footer can state anything: what Arrow allocates is what the header
of each page says. A header is a struct in Thrift's compact protocol, whose fields 2 and 3 are the sizes of the page
unpacked and packed; pages follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from crowdwise.errors import FormatError, TooLargeError
from crowdwise.io.files import MAX_RATIO, MIN_UNPACKED

_UNPACKED, _PACKED = 2, 3  # fields of a page header
_MAX_DEPTH = 8  # of structs in a header; Parquet has three levels
_STOP, _BOOLEANS, _BYTE, _INTEGERS, _DOUBLE, _BINARY, _STRUCT = 0, (1, 2), 3, (4, 5, 6), 7, 8, 12  # of Thrift
_FLAT = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
_TEXT = (pa.types.is_string, pa.types.is_large_string)


def check_pages(path: Path, file: pq.ParquetFile, columns: Iterable[str] | None = None) -> None:
    """Reject a file whose pages unpack to far more than its size: a small file could fill the memory.

    Parameters
    ----------
    path : path
        The file.
    file : ParquetFile
        The same, opened by Arrow.
    columns : iterable of str, optional
        The columns that will be read; all by default.
    """
    size, total = path.stat().st_size, 0
    wanted = None if columns is None else set(columns)
    with path.open("rb") as stream:
        for group in range(file.metadata.num_row_groups):
            for index in range(file.metadata.num_columns):
                chunk = file.metadata.row_group(group).column(index)
                if wanted is not None and not _is_within(chunk.path_in_schema, wanted):
                    continue
                start = chunk.data_page_offset
                if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                    start = chunk.dictionary_page_offset
                total += _unpacked_size(stream, start, min(start + chunk.total_compressed_size, size))
                _check(total, size)


def read_flat_table(path: Path, n_rows: int) -> pa.Table:
    """Read a table of numbers and text with a known number of rows; its size is checked before it is unpacked."""
    with path.open("rb") as stream, pq.ParquetFile(stream) as file:
        schema, found = file.schema_arrow, file.metadata
        other = next((field for field in schema if not any(is_kind(field.type) for is_kind in (*_FLAT, *_TEXT))), None)
        if other is not None:
            message = f"column {other.name!r} has the type {other.type}"
            raise ValueError(message)
        groups = [found.row_group(i) for i in range(found.num_row_groups)]
        counts = [found.num_rows, sum(group.num_rows for group in groups)]
        counts += [sum(group.column(i).num_values for group in groups) for i in range(found.num_columns)]
        if set(counts) != {n_rows}:
            message = f"it has {next(count for count in counts if count != n_rows):,} rows, not {n_rows:,}"
            raise ValueError(message)
        check_pages(path, file)
    return read_texts_once(path).replace_schema_metadata(schema.metadata)


def read_texts_once(path: Path) -> pa.Table:
    """Read all columns; text that rows repeat is checked before each row gets its own copy."""
    with path.open("rb") as stream:  # given a name like `a:b`, Arrow would see a URL
        schema = pq.read_schema(stream)
        texts = [field.name for field in schema if any(is_kind(field.type) for is_kind in _TEXT)]
        with pq.ParquetFile(stream, read_dictionary=texts) as file:
            table = file.read()
    for column, name in zip(table.columns, table.column_names, strict=True):
        if name in texts:
            for chunk in column.chunks:
                check_repeated_text(path, chunk)
    return table.cast(pa.schema([(field.name, field.type) for field in schema]))


def check_repeated_text(path: Path, column: pa.DictionaryArray) -> None:
    """Reject text from a file that takes far more than its size once every row has its own copy."""
    lengths = pc.binary_length(column.dictionary).take(column.indices)
    _check(pc.sum(lengths.cast(pa.int64())).as_py() or 0, path.stat().st_size)


def _check(unpacked: int, packed: int) -> None:
    if unpacked > max(MIN_UNPACKED, MAX_RATIO * packed):
        message = (
            f"its {packed:,} bytes unpack to at least {unpacked:,}, over {MAX_RATIO} times as many, which is unusual "
            f"for answers. Remove long texts that repeat, or write the file again without compression."
        )
        raise TooLargeError(message)


def _is_within(path: str, columns: set[str]) -> bool:
    """Whether a leaf such as `a.list.element` belongs to one of these columns, whose names may contain dots."""
    return path in columns or any(path.startswith(f"{name}.") for name in columns)


def _unpacked_size(stream: IO[bytes], start: int, end: int) -> int:
    """Return the size that the pages between two places of a file unpack to."""
    total = 0
    while 0 <= start < end:
        stream.seek(start)
        sizes = _integers(stream)
        unpacked, packed = sizes.get(_UNPACKED, -1), sizes.get(_PACKED, -1)
        if unpacked < 0 or packed < 0:
            message = f"the page at byte {start:,} has no valid size. The file is damaged."
            raise FormatError(message)
        total += unpacked
        start = stream.tell() + packed
    return total


def _integers(stream: IO[bytes], depth: int = 0) -> dict[int, int]:
    """Read a struct, and return its integers by field."""
    out, field = {}, 0
    while (head := _byte(stream)) & 15 != _STOP:
        field = field + (head >> 4) if head >> 4 else _zigzag(stream)
        if head & 15 in _INTEGERS:
            out[field] = _zigzag(stream)
        elif head & 15 not in _BOOLEANS:  # the type of a boolean field is its value
            _skip(stream, head & 15, depth)
    return out


def _skip(stream: IO[bytes], kind: int, depth: int) -> None:
    """Skip a value."""
    if kind in (*_BOOLEANS, _BYTE):
        _byte(stream)
    elif kind in _INTEGERS:
        _zigzag(stream)
    elif kind in (_DOUBLE, _BINARY):
        stream.seek(8 if kind == _DOUBLE else _varint(stream), 1)
    elif kind == _STRUCT and depth < _MAX_DEPTH:
        _integers(stream, depth + 1)
    else:  # a page header has no lists or maps
        raise _damaged()


def _zigzag(stream: IO[bytes]) -> int:
    value = _varint(stream)
    return (value >> 1) ^ -(value & 1)


def _varint(stream: IO[bytes]) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _byte(stream)
        value |= (byte & 127) << shift
        if byte < 128:
            return value
    raise _damaged()


def _byte(stream: IO[bytes]) -> int:
    byte = stream.read(1)
    if not byte:
        raise _damaged()
    return byte[0]


def _damaged() -> FormatError:
    return FormatError("the header of a page is not valid. The file is damaged.")
