"""Long tables as CSV and TSV, one row per answer. Only the columns needed are parsed.

An empty cell is a missing value; `NA` is a value. Line numbers in errors start at 1, as in an editor.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from crowdwise.answers.columns import VALUE_COLUMNS, can_cast, cast_column
from crowdwise.answers.encoding import preview
from crowdwise.errors import CrowdwiseError, EmptyError, FormatError
from crowdwise.io.files import LINE, open_arrow, open_text, read_head, read_lines
from crowdwise.io.quoting import check_quoting
from crowdwise.io.raw_columns import SIDE_ROLES, ChooseColumns, RawColumns, encode_column, from_text

BLOCK = LINE  # bytes parsed at a time: large, since the ids of the blocks have to be merged


def read_csv(path: Path, choose: ChooseColumns, *, multiline: bool = False) -> RawColumns:
    """Read comma-separated cells, or semicolons (as in European spreadsheets) if the header has no comma."""
    first = read_head(path).lstrip("\r\n").splitlines()[0]
    return _read_long(path, choose, ";" if ";" in first and "," not in first else ",", multiline=multiline)


def read_tsv(path: Path, choose: ChooseColumns, *, multiline: bool = False) -> RawColumns:
    """Read tab-separated cells."""
    return _read_long(path, choose, "\t", multiline=multiline)


def _read_long(path: Path, choose: ChooseColumns, delimiter: str, *, multiline: bool) -> RawColumns:
    found = choose(header(path, delimiter))
    cells = read_cells(path, delimiter, found, multiline=multiline)
    return from_text(cells, names=found, lines=lambda rows: lines(path, delimiter, rows), first_line=2)


def header(path: Path, delimiter: str) -> list[str]:
    """Return the column names."""
    with long_cells():
        names = next(row for row in csv.reader(io.StringIO(read_head(path), newline=""), delimiter=delimiter) if row)
    if any("\0" in name for name in names):
        message = "the column names contain NUL bytes. Is the file encoded in UTF-16? Save it as UTF-8."
        raise FormatError(message)
    return names


@contextmanager
def long_cells() -> Iterator[None]:
    """Raise the limit of 128 kB per cell in Python's csv module."""
    before = csv.field_size_limit(LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def read_cells(path: Path, delimiter: str, found: Mapping[str, str], *, multiline: bool = False) -> dict[str, pa.Array]:
    """Return the column of each role as dictionary-encoded text, with null for an empty cell; weights are floats.

    With `multiline`, ids and labels may contain line breaks.
    """
    text = pa.large_string()
    kinds = {"task": text} | {role: kind for role, (kind, *_) in VALUE_COLUMNS.items()}
    # task ids repeat too rarely for a dictionary per block to pay off
    types = {name: kinds.get(role, pa.dictionary(pa.int32(), text)) for role, name in found.items()}
    try:
        with open_arrow(path) as stream:
            table = arrow_csv.read_csv(
                stream,
                read_options=arrow_csv.ReadOptions(block_size=BLOCK),
                parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    include_columns=list(types), column_types=types, strings_can_be_null=True, null_values=[""]
                ),
            )
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise _explain(path, delimiter, found, error) from None
    ids = [name for role, name in found.items() if role not in SIDE_ROLES]
    known = {
        name: partial(_distinct, table.column(name)) for role, name in found.items() if role in ("worker", "label")
    }
    check_quoting(path, delimiter, table.num_rows, header(path, delimiter), ids, known, multiline=multiline)
    return {role: _convert(table.column(name), role, name) for role, name in found.items()}


def _distinct(column: pa.ChunkedArray) -> set[str]:
    """Return the distinct values of a column of text."""
    chunks = [chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk for chunk in column.chunks]
    return {text for chunk in chunks for text in pc.unique(chunk).to_pylist()}


def _convert(column: pa.ChunkedArray, role: str, name: str) -> pa.Array:
    if role in VALUE_COLUMNS and pa.types.is_dictionary(column.type):  # the same column is also the text of the tasks
        column = cast_column(pc.utf8_trim_whitespace(column.cast(pa.large_string())), role, name)
    return encode_column(column)


def records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not blank with their line numbers. Slow: only used to explain errors."""
    with open_text(path, newline="") as stream, long_cells():
        reader = csv.reader(read_lines(stream), delimiter=delimiter)
        line = 1
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1


def lines(path: Path, delimiter: str, rows: Sequence[int]) -> list[int]:
    """Return the line numbers of rows; row 0 is the first below the header."""
    wanted, found = set(rows), []
    for row, (line, _) in enumerate(records(path, delimiter), start=-1):
        if row in wanted:
            found.append(line)
            if len(found) == len(wanted):
                break
    return found


def _explain(path: Path, delimiter: str, found: Mapping[str, str], error: Exception) -> CrowdwiseError:
    """Return the error for a file that Arrow rejected: what is wrong, and in which line."""
    if "Empty CSV" in str(error):
        return EmptyError("the file has a header but no rows.")
    if "straddling" in str(error):
        return FormatError(f"a row is longer than {BLOCK >> 20} MB. Is a quotation mark not closed?")
    rows = records(path, delimiter)
    names = next(rows)[1]
    others = {names.index(found[role]): VALUE_COLUMNS[role] for role in VALUE_COLUMNS if role in found}
    for line, row in rows:
        if len(row) != len(names):
            return FormatError(
                f"line {line} has {len(row)} cells, but the header has {len(names)}: {preview(row)}. Correct the line; "
                f"a cell that contains a separator or a line break must be quoted."
            )
        for at, (kind, what, refusal) in others.items():
            if row[at] and not can_cast(pa.scalar(row[at].strip()), kind):
                return refusal(f"column {names[at]!r}: {row[at]!r} at line {line} is not {what}.")
    return FormatError(f"not a valid table: {error}")


def answered_rows(
    path: Path,
    delimiter: str,
    cells: dict[str, pa.Array],
    names: Mapping[str, str],
    keep_status: Sequence[str],
) -> RawColumns:
    """Keep the rows of a platform's table that have an answer and, if there is a `status`, an accepted one."""
    keep = cells["label"].is_valid().to_numpy(zero_copy_only=False).copy()  # (rows,)
    removed: dict[str, int] = {}
    if not keep.all():
        removed[f"rows without an answer in {names['label']!r}"] = int((~keep).sum())
    if "status" in cells:
        status = cells.pop("status").cast(pa.large_string())
        for value in sorted(pc.unique(status.filter(pa.array(keep)).drop_null()).to_pylist()):
            if value.upper() not in keep_status:
                of_status = keep & pc.equal(status, value).fill_null(False).to_numpy(zero_copy_only=False)
                removed[f"answers with status {value}"] = int(of_status.sum())
                keep &= ~of_status
    rows = np.flatnonzero(keep)
    return from_text(
        {role: column.take(pa.array(rows)) for role, column in cells.items()},
        removed=removed,
        names=names,
        lines=lambda numbers: lines(path, delimiter, rows[list(numbers)].tolist()),
    )
