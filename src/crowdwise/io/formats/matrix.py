"""The text matrix of Rodrigues' data sets: a line a task, a column a worker, whole numbers, -1 for no answer.

Tasks and workers are numbered from 0 in the order of the file, those without answers included.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

from crowdwise.errors import FormatError
from crowdwise.io.files import open_text, read_head, read_lines
from crowdwise.io.raw_columns import RawColumns


def read_matrix(path: Path) -> RawColumns:
    """Kept sparse line by line: the dense matrix is never in memory."""
    read_head(path)
    task, worker, label = [], [], []
    width, n_tasks = 0, 0
    with open_text(path) as stream:
        for number, line in enumerate(read_lines(stream), start=1):
            if not line.strip():
                continue
            row = _row(line, number)
            width = width or len(row)
            if len(row) != width:
                message = f"line {number} has {len(row)} numbers where the first has {width}."
                raise FormatError(message)
            answered = np.flatnonzero(row >= 0)
            task.append(np.full(len(answered), n_tasks))
            worker.append(answered)
            label.append(row[answered])
            n_tasks += 1
    parts = {"task": task, "worker": worker, "label": label}
    columns = {role: pa.array(np.concatenate(arrays).astype(np.int64)) for role, arrays in parts.items()}
    return RawColumns(columns, tasks=np.arange(n_tasks), workers=np.arange(width))


def _row(line: str, number: int) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # how older numpy says that it stopped midway
            row = np.fromstring(line, dtype=np.int64, sep=" ")  # Python's integers would take a hundred times the line
    except (ValueError, DeprecationWarning):
        message = f"line {number} holds more than whole numbers: {line.strip()[:40]!r}."
        raise FormatError(message) from None
    if row.max() == np.iinfo(np.int64).max:  # what does not fit into 64 bits is cut down to this
        message = f"line {number} holds a number of {row.max()} or more: classes are numbered from 0."
        raise FormatError(message)
    if row.min() < -1:
        message = f"line {number} holds {row.min()}; classes are 0 and up, and -1 stands for no answer."
        raise FormatError(message)
    return row
