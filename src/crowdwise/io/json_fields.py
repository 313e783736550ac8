"""The fields of a JSONL file: of all its lines, though only a few of them are parsed for it.

The first lines are parsed as JSON. All lines are scanned for names of fields not seen before, and only those that have
one are parsed. So a field that first appears in the last line is found, too.
"""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

from crowdwise.io.files import LINE, open_binary
from crowdwise.io.json_records import read_json_lines

Array = np.ndarray[Any, np.dtype[Any]]

FIRST_LINES = 1000  # parsed to find the fields and their types
MAX_NAMES = 4096  # distinct names that a scan remembers; a file with more is parsed line by line
BLOCK = LINE  # bytes scanned at a time


def find_fields(path: Path) -> dict[str, type | None]:
    r"""Return the names of all fields, with the type of their first value that is not null (None if there is none).

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "answers.jsonl"
    >>> lines = ['{"task": 1}'] * 5000 + ['{"task": 2, "truth": "cat"}']
    >>> _ = file.write_text("\n".join(lines))
    >>> find_fields(file)
    {'task': <class 'int'>, 'truth': <class 'str'>}
    """
    kinds: dict[str, type | None] = {}
    lines = read_json_lines(path)
    for _, record in islice(lines, FIRST_LINES):
        _add(kinds, record)
    following = next(lines, None)
    if following is None:
        return kinds
    _add(kinds, following[1])
    new = _lines_with_new_names(path)
    if new is None:
        for _, record in lines:
            _add(kinds, record)
        return kinds
    for line in new:
        try:
            record = json.loads(line)
        except ValueError:  # the reader explains what is wrong with the line
            continue
        if isinstance(record, dict):
            _add(kinds, record)
    return kinds


def _add(kinds: dict[str, type | None], record: dict[str, Any]) -> None:
    for name, value in record.items():
        if kinds.get(name) is None:
            kinds[name] = None if value is None else type(value)


def _lines_with_new_names(path: Path) -> list[bytes] | None:
    """Return the lines with a name not seen before, or with its first value that is not null.

    None if there are too many names, or if a line is too long.
    """
    names = np.zeros((MAX_NAMES, 2), np.uint64)  # hash of the name; 1 while all its values are null
    found: list[bytes] = []
    rest = b""
    with open_binary(path) as stream:
        while block := stream.read(BLOCK):
            end = block.rfind(b"\n") + 1
            data, rest = (rest + block[:end], block[end:]) if end else (b"", rest + block)
            if len(rest) > LINE or not _collect(data, names, found):
                return None
    return found if _collect(rest, names, found) else None


def _collect(data: bytes, names: Array, found: list[bytes]) -> bool:
    """Add the lines of `data` with new names to `found`; return whether the table of names still has room."""
    if not data:
        return True
    starts = np.empty(2 * MAX_NAMES, np.int64)
    count = _scan(np.frombuffer(data, np.uint8), names, starts)
    for start in starts[: max(count, 0)].tolist():
        end = data.find(b"\n", start)
        found.append(data[start : len(data) if end < 0 else end])
    return count >= 0


@njit(cache=True, nogil=True)
def _scan(data: Array, names: Array, starts: Array) -> int:
    """Write the starts of lines with a new name at the top level, or with its first value that is not null.

    `names` is the table of hashes, which the scan extends. Returns the number of starts, -1 if the table is full.
    """
    quote, escape, colon, null = 34, 92, 58, 110  # " \ : n
    n_names = 0
    while n_names < names.shape[0] and names[n_names, 0]:
        n_names += 1
    count, line, at, depth = 0, 0, 0, 0
    while at < data.shape[0]:
        byte = data[at]
        if byte == 10:  # a new line is a new record, whatever came before
            depth, line = 0, at + 1
        elif byte in (123, 91):  # { [
            depth += 1
        elif byte in (125, 93):  # } ]
            depth -= 1
        elif byte == quote:
            hashed = np.uint64(14695981039346656037)  # FNV-1a
            at += 1
            while at < data.shape[0] and data[at] != quote and data[at] != 10:
                hashed = (hashed ^ np.uint64(data[at])) * np.uint64(1099511628211)
                at += 2 if data[at] == escape else 1
            if at < data.shape[0] and data[at] == 10:
                continue  # the text is not closed
            after = at + 1
            while after < data.shape[0] and data[after] in (32, 9):
                after += 1
            if depth == 1 and after < data.shape[0] and data[after] == colon:
                after += 1
                while after < data.shape[0] and data[after] in (32, 9):
                    after += 1
                is_null = after < data.shape[0] and data[after] == null
                i = 0
                while i < n_names and names[i, 0] != hashed:
                    i += 1
                if i == names.shape[0]:
                    return -1
                if i == n_names or (names[i, 1] and not is_null):
                    n_names = max(n_names, i + 1)
                    names[i, 0], names[i, 1] = hashed, is_null
                    if count == 0 or starts[count - 1] != line:
                        starts[count] = line
                        count += 1
        at += 1
    return count
