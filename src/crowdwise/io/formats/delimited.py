"""Long tables as CSV and TSV: a row an answer. The cells of the columns needed are parsed, and no others.

An empty cell is a missing value; `NA` is a value. Line numbers in errors are those of an editor: the first line is 1.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from crowdwise.answers.columns import VALUE_COLUMNS, can_cast, cast_column
from crowdwise.answers.encoding import preview
from crowdwise.errors import CrowdwiseError, EmptyError, FormatError
from crowdwise.io.files import LINE, open_arrow, open_text, read_head, read_lines
from crowdwise.io.raw_columns import ChooseColumns, RawColumns, encode_column, from_text

BLOCK = LINE  # bytes parsed at a time: large, since ids are collected block by block before they are merged


def read_csv(path: Path, choose: ChooseColumns) -> RawColumns:
    """Comma separated; semicolons, as spreadsheets write in much of Europe, when the header has no comma."""
    first = read_head(path).lstrip("\r\n").splitlines()[0]
    return _read_long(path, choose, ";" if ";" in first and "," not in first else ",")


def read_tsv(path: Path, choose: ChooseColumns) -> RawColumns:
    """Tab separated."""
    return _read_long(path, choose, "\t")


def _read_long(path: Path, choose: ChooseColumns, delimiter: str) -> RawColumns:
    found = choose(header(path, delimiter))
    cells = read_cells(path, delimiter, found)
    return from_text(cells, names=found, lines=lambda rows: lines(path, delimiter, rows), first_line=2)


def header(path: Path, delimiter: str) -> list[str]:
    """Names of the columns."""
    with long_cells():
        names = next(row for row in csv.reader(io.StringIO(read_head(path), newline=""), delimiter=delimiter) if row)
    if any("\0" in name for name in names):
        message = "the names of its columns hold NUL bytes. Is it in UTF-16? Save the file as UTF-8."
        raise FormatError(message)
    return names


@contextmanager
def long_cells() -> Iterator[None]:
    """Python's csv takes no cell above 128 kB unless told so."""
    before = csv.field_size_limit(LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def read_cells(path: Path, delimiter: str, found: Mapping[str, str]) -> dict[str, pa.Array]:
    """The column of each role: text, dictionary encoded, with null for an empty cell; weights are floats."""
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
    return {role: _convert(table.column(name), role, name) for role, name in found.items()}


def _convert(column: pa.ChunkedArray, role: str, name: str) -> pa.Array:
    if role in VALUE_COLUMNS and pa.types.is_dictionary(column.type):  # the same column is also the text of the tasks
        column = cast_column(pc.utf8_trim_whitespace(column.cast(pa.large_string())), role, name)
    return encode_column(column)


def records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Rows that are not blank, each with the line it begins on. Slow: for finding what is wrong."""
    with open_text(path, newline="") as stream, long_cells():
        reader = csv.reader(read_lines(stream), delimiter=delimiter)
        line = 1
        for row in reader:
            if row:
                yield line, row
            line = reader.line_num + 1


def lines(path: Path, delimiter: str, rows: Sequence[int]) -> list[int]:
    """Line numbers of some rows, row 0 being the first below the header."""
    wanted, found = set(rows), []
    for row, (line, _) in enumerate(records(path, delimiter), start=-1):
        if row in wanted:
            found.append(line)
            if len(found) == len(wanted):
                break
    return found


def _explain(path: Path, delimiter: str, found: Mapping[str, str], error: Exception) -> CrowdwiseError:
    """What is wrong with a file that Arrow refused, and where."""
    if "Empty CSV" in str(error):
        return EmptyError("there is a header but no row below it.")
    if "straddling" in str(error):
        return FormatError(f"a row is longer than {BLOCK >> 20} MB: is a quotation mark left open?")
    rows = records(path, delimiter)
    names = next(rows)[1]
    others = {names.index(found[role]): VALUE_COLUMNS[role] for role in VALUE_COLUMNS if role in found}
    for line, row in rows:
        if len(row) != len(names):
            return FormatError(
                f"line {line} has {len(row)} cells where the header has {len(names)}: {preview(row)}. Mend the line; "
                f"a cell with a separator or a line break in it stands in quotation marks."
            )
        for at, (kind, what, refusal) in others.items():
            if row[at] and not can_cast(pa.scalar(row[at].strip()), kind):
                return refusal(f"column {names[at]!r}: {row[at]!r} at line {line} is not {what}.")
    return FormatError(f"not a table as expected: {error}")


def answered_rows(
    path: Path,
    delimiter: str,
    cells: dict[str, pa.Array],
    names: Mapping[str, str],
    keep_status: Sequence[str],
) -> RawColumns:
    """Of a platform's table, the rows with an answer whose `status`, where there is one, says they count."""
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
        lines=lambda kept: lines(path, delimiter, rows[list(kept)].tolist()),
    )
