"""Check the quotation marks of a CSV or TSV file: a stray one can swallow all rows up to the next.

Parsers accept `1,ann,"cat` and take the lines that follow as part of the cell. So the file is scanned once more: a cell
that is never closed, text after a closing quotation mark, and line breaks in ids or labels are errors that name the
line. A stray mark in one comment and a second one in a later comment hide the rows in between: then every line that the
cell touches has the cells of a row, with a worker and a label that other rows have too. Files without quotation marks,
which is most, only have their lines counted.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from crowdwise.errors import FormatError
from crowdwise.io.files import open_binary, open_text, read_lines

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK = 1 << 24  # bytes scanned at a time
QUOTE = ord('"')
RETURN, NEW_LINE = ord("\r"), ord("\n")

_START, _PLAIN, _QUOTED, _AFTER_QUOTE = 0, 1, 2, 3  # where in a cell the scan is
# Positions in the state of a scan. Lines are counted from 1; 0 means that there is none.
_MODE, _LINE, _COLUMN, _PREVIOUS, _EMPTY, _OPENED, _BROKEN = range(7)  # where the scan is
_SEPARATORS, _FIRST, _UNEVEN = range(
    7, 10
)  # of this line, quoted or not; the record's first line; if a line has others
_ROWS, _TEXT_AFTER, _BREAK, _BREAK_COLUMN, _SUSPECTS = range(10, 15)  # what it found
MOST_SUSPECTS = 10_000  # records that are looked at again


def check_quoting(
    path: Path,
    delimiter: str,
    n_rows: int,
    names: Sequence[str],
    ids: Collection[str],
    known: Mapping[str, Callable[[], Collection[str]]],
    *,
    multiline: bool,
) -> None:
    """Raise an error if quotation marks hide rows, or if another number of rows was read than the file has.

    Parameters
    ----------
    path : Path
    delimiter : str
    n_rows : int
        Number of rows read, without the header.
    names : sequence of str
        All columns of the file.
    ids : collection of str
        The columns that hold ids or labels, in which a line break is an error.
    known : mapping from str to callable
        Functions that return the values of the columns in which a hidden row repeats a value of other rows.
    multiline : bool
        Accept line breaks in ids and labels.
    """
    with open_binary(path) as stream:
        quoted = any(b'"' in block for block in iter(lambda: stream.read(BLOCK), b""))
    state = np.zeros(15, np.int64)
    state[[_LINE, _EMPTY, _FIRST]] = 1
    suspects = np.zeros((MOST_SUSPECTS, 2), np.int64)  # the first and last line of records
    is_id = np.array([name in ids for name in names])
    with open_binary(path) as stream:
        block = stream.read(BLOCK).removeprefix(codecs.BOM_UTF8)
        while block:
            data = np.frombuffer(block, np.uint8)
            if quoted:
                _scan(data, ord(delimiter), is_id, state, suspects)
            else:
                _count_rows(data, state)
            block = stream.read(BLOCK)
    if quoted and state[_MODE] != _QUOTED:  # the last line may have no line break
        _scan(np.array([NEW_LINE], np.uint8), ord(delimiter), is_id, state, suspects)
    if state[_MODE] == _QUOTED:
        message = f"the quotation mark that opens a cell at line {state[_OPENED]} is never closed. {_REMEDY}"
        raise FormatError(message)
    if state[_TEXT_AFTER]:
        message = f"line {state[_TEXT_AFTER]}: text follows a closing quotation mark. {_REMEDY}"
        raise FormatError(message)
    if state[_BREAK] and not multiline:
        message = (
            f"line {state[_BREAK]}: a cell of column {names[state[_BREAK_COLUMN]]!r} contains a line break, often "
            "because of a stray quotation mark. Correct the cell, or accept line breaks with multiline=True "
            "(--multiline)."
        )
        raise FormatError(message)
    n_records = state[_ROWS] + (not state[_EMPTY])
    if n_records - 1 != n_rows:
        message = (
            f"{n_rows:,} rows were read, but the file has {n_records - 1:,} rows below its header. Save it again as "
            "UTF-8 with one row per line."
        )
        raise FormatError(message)
    if state[_SUSPECTS] and not multiline:
        _check_hidden_rows(path, delimiter, suspects[: state[_SUSPECTS]], names, known)


def _check_hidden_rows(
    path: Path,
    delimiter: str,
    records: Array,
    names: Sequence[str],
    known: Mapping[str, Callable[[], Collection[str]]],
) -> None:
    """Raise an error if the lines of a record are rows: their workers and labels are those of other rows."""
    values = {names.index(name): set(column()) for name, column in known.items()}
    lines = {line: first for first, last in records.tolist() for line in range(first + 1, last + 1)}
    with open_text(path, newline="") as stream:
        for number, line in enumerate(read_lines(stream), start=1):
            if number in lines:
                cells = line.rstrip("\r\n").split(delimiter)
                if all(cells[column].strip('"') in found for column, found in values.items()):
                    message = (
                        f"line {number} is inside a quoted cell that begins in line {lines[number]}, but it is a row: "
                        "other rows have its worker and its label. Remove the quotation mark if it is stray, or "
                        "accept lines in cells with multiline=True (--multiline)."
                    )
                    raise FormatError(message)


_REMEDY = "Remove it if it is stray; quotation marks inside a quoted cell are doubled."


def _count_rows(data: Array, state: Array) -> None:
    """Count the lines of a block that are not empty. The file has no quotation marks."""
    end = (data == NEW_LINE) | (data == RETURN)
    before = np.concatenate(([bool(state[_EMPTY])], end[:-1]))  # whether a line begins here
    state[_ROWS] += np.count_nonzero(end & ~before)
    state[_EMPTY] = end[-1]


@njit(cache=True, nogil=True)
def _scan(data: Array, delimiter: int, is_id: Array, state: Array, suspects: Array) -> None:
    """Follow the cells through a block; the state goes on from block to block."""
    for byte in data:
        is_end = byte in (NEW_LINE, RETURN)
        continues = byte == NEW_LINE and state[_PREVIOUS] == RETURN  # the second half of a line break
        state[_PREVIOUS] = byte
        if byte == delimiter:
            state[_SEPARATORS] += 1
        if is_end and not continues:
            state[_UNEVEN] |= state[_SEPARATORS] != is_id.shape[0] - 1
            state[_SEPARATORS] = 0
        if state[_MODE] == _QUOTED:
            if byte == QUOTE:
                state[_MODE] = _AFTER_QUOTE
            elif is_end and not continues:
                column = state[_COLUMN]
                if column < is_id.shape[0] and is_id[column] and not state[_BREAK]:
                    state[_BREAK], state[_BREAK_COLUMN] = state[_OPENED], column
                state[_BROKEN] = 1
        elif is_end:
            if not continues:
                state[_ROWS] += not state[_EMPTY]
                if state[_FIRST] < state[_LINE] and not state[_UNEVEN] and state[_SUSPECTS] < suspects.shape[0]:
                    suspects[state[_SUSPECTS]] = state[_FIRST], state[_LINE]
                    state[_SUSPECTS] += 1
                state[_FIRST], state[_UNEVEN] = state[_LINE] + 1, 0
            state[_MODE], state[_COLUMN], state[_EMPTY] = _START, 0, 1
        else:
            state[_EMPTY] = 0
            if byte == delimiter:
                state[_MODE] = _START
                state[_COLUMN] += 1
            elif state[_MODE] == _START:
                state[_MODE] = _QUOTED if byte == QUOTE else _PLAIN
                state[_OPENED], state[_BROKEN] = state[_LINE], 0
            elif state[_MODE] == _AFTER_QUOTE:
                column = state[_COLUMN]
                matters = state[_BROKEN] or (column < is_id.shape[0] and is_id[column])
                if byte != QUOTE and matters and not state[_TEXT_AFTER]:
                    state[_TEXT_AFTER] = state[_LINE]
                state[_MODE] = _QUOTED if byte == QUOTE else _PLAIN
        if is_end and not continues:
            state[_LINE] += 1
