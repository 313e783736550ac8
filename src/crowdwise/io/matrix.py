"""The text matrix of Rodrigues' data sets: a line a task, a column a worker, whole numbers, -1 for no answer.

Tasks and workers are numbered from 0 in the order of the file, those without answers included.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from crowdwise.errors import FormatError
from crowdwise.io.files import head, open_text
from crowdwise.io.raw import Raw


def read_matrix(path: Path) -> Raw:
    """Kept sparse line by line: the dense matrix is never in memory."""
    head(path)
    task, worker, label = [], [], []
    width, n_tasks = 0, 0
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
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
    return Raw(columns, tasks=np.arange(n_tasks), workers=np.arange(width))


def _row(line: str, number: int) -> np.ndarray:
    try:
        row = np.array(line.split(), dtype=np.int64)
    except (ValueError, OverflowError):
        message = f"line {number} holds more than whole numbers: {line.strip()[:40]!r}."
        raise FormatError(message) from None
    if row.min() < -1:
        message = f"line {number} holds {row.min()}; classes are 0 and up, and -1 stands for no answer."
        raise FormatError(message)
    return row
