"""Check the quotation marks of a CSV or TSV file: a stray one can swallow all rows up to the next.

Parsers accept `1,ann,"cat` and take the lines that follow as part of the cell. So the file is scanned once more: a cell
that is never closed, text after a closing quotation mark, and line breaks in ids or labels are errors that name the
line. Files without quotation marks, which is most, only have their lines counted.
"""

from __future__ import annotations

import codecs
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from crowdwise.errors import CrowdwiseWarning, FormatError
from crowdwise.io.files import open_binary

Array = np.ndarray[Any, np.dtype[Any]]

BLOCK = 1 << 24  # bytes scanned at a time
QUOTE = ord('"')
RETURN, NEW_LINE = ord("\r"), ord("\n")

_START, _PLAIN, _QUOTED, _AFTER_QUOTE = 0, 1, 2, 3  # where in a cell the scan is
# Positions in the state of a scan. Lines are counted from 1; 0 means that there is none.
_MODE, _LINE, _COLUMN, _PREVIOUS, _EMPTY, _OPENED, _BROKEN, _SEPARATORS = range(8)  # where the scan is
_ROWS, _TEXT_AFTER, _BREAK, _BREAK_COLUMN, _ROW_IN_CELL = range(8, 13)  # what it found


def check_quoting(
    path: Path, delimiter: str, n_rows: int, names: Sequence[str], ids: Collection[str], *, multiline: bool
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
    multiline : bool
        Accept line breaks in ids and labels.
    """
    with open_binary(path) as stream:
        quoted = any(b'"' in block for block in iter(lambda: stream.read(BLOCK), b""))
    state = np.zeros(13, np.int64)
    state[[_LINE, _EMPTY]] = 1
    is_id = np.array([name in ids for name in names])
    with open_binary(path) as stream:
        block = stream.read(BLOCK).removeprefix(codecs.BOM_UTF8)
        while block:
            data = np.frombuffer(block, np.uint8)
            if quoted:
                _scan(data, ord(delimiter), is_id, state)
            else:
                _count_rows(data, state)
            block = stream.read(BLOCK)
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
    n_records = state[_ROWS] + (not state[_EMPTY])  # the last line may have no line break
    if n_records - 1 != n_rows:
        message = (
            f"{n_rows:,} rows were read, but the file has {n_records - 1:,} rows below its header. Save it again as "
            "UTF-8 with one row per line."
        )
        raise FormatError(message)
    if state[_ROW_IN_CELL] and not multiline:
        message = (
            f"{path}: line {state[_ROW_IN_CELL]} is part of a quoted cell, but looks like a row of its own. If it is "
            "one, remove the quotation mark before it; if not, multiline=True (--multiline) silences this warning."
        )
        warnings.warn(message, CrowdwiseWarning, stacklevel=2)


_REMEDY = "Remove it if it is stray; quotation marks inside a quoted cell are doubled."


def _count_rows(data: Array, state: Array) -> None:
    """Count the lines of a block that are not empty. The file has no quotation marks."""
    end = (data == NEW_LINE) | (data == RETURN)
    before = np.concatenate(([bool(state[_EMPTY])], end[:-1]))  # whether a line begins here
    state[_ROWS] += np.count_nonzero(end & ~before)
    state[_EMPTY] = end[-1]


@njit(cache=True, nogil=True)
def _scan(data: Array, delimiter: int, is_id: Array, state: Array) -> None:
    """Follow the cells through a block; the state goes on from block to block."""
    for byte in data:
        is_end = byte in (NEW_LINE, RETURN)
        continues = byte == NEW_LINE and state[_PREVIOUS] == RETURN  # the second half of a line break
        state[_PREVIOUS] = byte
        if state[_MODE] == _QUOTED:
            if byte == QUOTE:
                state[_MODE] = _AFTER_QUOTE
            elif is_end and not continues:
                if state[_BROKEN] and state[_SEPARATORS] == is_id.shape[0] - 1 and not state[_ROW_IN_CELL]:
                    state[_ROW_IN_CELL] = state[_LINE]
                column = state[_COLUMN]
                if column < is_id.shape[0] and is_id[column] and not state[_BREAK]:
                    state[_BREAK], state[_BREAK_COLUMN] = state[_OPENED], column
                state[_BROKEN], state[_SEPARATORS] = 1, 0
            elif byte == delimiter:
                state[_SEPARATORS] += 1
        elif is_end:
            if not continues:
                state[_ROWS] += not state[_EMPTY]
            state[_MODE], state[_COLUMN], state[_EMPTY] = _START, 0, 1
        else:
            state[_EMPTY] = 0
            if byte == delimiter:
                state[_MODE] = _START
                state[_COLUMN] += 1
            elif state[_MODE] == _START:
                state[_MODE] = _QUOTED if byte == QUOTE else _PLAIN
                state[_OPENED], state[_BROKEN], state[_SEPARATORS] = state[_LINE], 0, 0
            elif state[_MODE] == _AFTER_QUOTE:
                column = state[_COLUMN]
                matters = state[_BROKEN] or (column < is_id.shape[0] and is_id[column])
                if byte != QUOTE and matters and not state[_TEXT_AFTER]:
                    state[_TEXT_AFTER] = state[_LINE]
                state[_MODE] = _QUOTED if byte == QUOTE else _PLAIN
        if is_end and not continues:
            state[_LINE] += 1
