"""Long tables as JSON lines, one object per answer. Strings, integers and booleans keep their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from sys import float_info
from typing import Any

import pyarrow as pa
import pyarrow.json as arrow_json

from crowdwise.answers.encoding import type_name
from crowdwise.errors import CrowdwiseError, FormatError, IdTypeError
from crowdwise.io.files import open_arrow
from crowdwise.io.formats.delimited import BLOCK
from crowdwise.io.json_fields import find_fields
from crowdwise.io.json_records import read_json_lines, text_cells
from crowdwise.io.raw_columns import SIDE_ROLES, ChooseColumns, RawColumns, encode_column

LARGEST = float_info.max  # larger numbers, such as 1e400, become infinite
_ARROW = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64()}


def read_jsonl(path: Path, choose: ChooseColumns) -> RawColumns:
    """Read the fields needed; other fields are skipped, however deeply nested."""
    kinds = find_fields(path)
    found = choose(list(kinds))
    schema = {}
    side = {role: name for role, name in found.items() if role in SIDE_ROLES}
    for role, name in found.items():
        kind = kinds[name]
        if role in side:
            continue
        if kind is None:  # only null so far
            kind = kinds[found["label"]] if role == "truth" and "label" in found else str
        if kind not in _ARROW:
            found_type = getattr(kind, "__name__", kind)
            message = f"the field {name!r} contains a {found_type}; ids must be strings, integers or booleans."
            raise IdTypeError(message)
        schema[name] = {"weight": pa.float64(), "pseudo": pa.bool_()}.get(role, _ARROW[kind])
    columns = {}
    try:
        table = _table(path, {name: _side_type(role, kinds[name]) for role, name in side.items()} | schema)
    except CrowdwiseError:
        if not side:
            raise
        table = _table(path, schema)
        for role, name in side.items():  # a side field may have several types: each value becomes text
            columns[role] = text_cells((record.get(name) for _, record in read_json_lines(path)), role)
    columns |= {role: encode_column(table.column(name)) for role, name in found.items() if role not in columns}
    return RawColumns(columns, names=found, lines=lambda rows: _lines(path, rows), first_line=1)


def _side_type(role: str, kind: type | None) -> pa.DataType:
    """Return the type of a side field; Arrow rejects values of another type."""
    times = role not in ("text", "image") and kind in (int, float)
    return pa.float64() if times else _ARROW.get(kind or str, pa.string())


def _table(path: Path, schema: Mapping[str, pa.DataType]) -> pa.Table:
    try:
        with open_arrow(path) as stream:
            return arrow_json.read_json(
                stream,
                read_options=arrow_json.ReadOptions(block_size=BLOCK),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=pa.schema(schema), unexpected_field_behavior="ignore"
                ),
            )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _explain(path, schema, error) from None


def _lines(path: Path, rows: Sequence[int]) -> list[int]:
    wanted = set(rows)
    return [line for row, (line, _) in enumerate(read_json_lines(path)) if row in wanted]


def _explain(path: Path, schema: Mapping[str, pa.DataType], error: Exception) -> CrowdwiseError:
    """Return the error for a file that Arrow rejected: what is wrong, and in which line."""
    if "straddling" in str(error):
        return FormatError(f"a line is longer than {BLOCK >> 20} MB.")
    for line, record in read_json_lines(path):
        for name, kind in schema.items():
            value = record.get(name)
            if value is not None and not _fits(value, kind):
                if type(value) is int and pa.types.is_integer(kind):
                    return IdTypeError(
                        f"line {line}: the field {name!r} is {value}, which exceeds 64 bits. Write it as text."
                    )
                return IdTypeError(
                    f"line {line}: the field {name!r} is {value!r:.80}, a {type(value).__name__}, but "
                    f"{type_name(kind)} are expected. Use one type throughout."
                )
    return FormatError(f"not valid JSON lines: {error}")


def _fits(value: Any, kind: pa.DataType) -> bool:
    if pa.types.is_floating(kind):
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST
    if pa.types.is_integer(kind):
        return type(value) is int and -(2**63) <= value < 2**63
    return _ARROW.get(type(value)) == kind
