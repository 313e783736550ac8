"""Crowds of any size for the benchmarks, drawn a part at a time.

Every answer is a function of its number (a hash replaces the generator), so parts do not depend on one another and rows
can be written in any order:

    answers 5t .. 5t + 4 belong to task t, by 5 different workers; there is one worker per 500 answers
    classes are as uneven as 1, 1/2, 1/3, ...
    worker w is right with a probability between 0.4 and 0.95, and otherwise answers any class
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

PER_TASK, PER_WORKER = 5, 500
PART = 1 << 20  # answers drawn at a time: a row group

Array = np.ndarray[Any, np.dtype[Any]]


def draw(path: Path, n_answers: int, n_classes: int = 8, *, strings: bool = False) -> Path:
    """Write a crowd: integer ids sorted by task, or (`strings`) text ids such as "task_17" in random order."""
    names = ("task", "worker", "label")
    kinds = [pa.string()] * 3 if strings else [pa.int64(), pa.int32(), pa.int8()]
    with pq.ParquetWriter(path, pa.schema(zip(names, kinds, strict=True))) as writer:
        for start in range(0, n_answers, PART):
            number = np.arange(start, min(start + PART, n_answers), dtype=np.uint64)
            codes = draw_answers(shuffled(number, n_answers) if strings else number, n_answers, n_classes)
            columns = [pa.array(column).cast(kind) for column, kind in zip(codes, kinds, strict=True)]
            if strings:
                prefixes = ("task_", "worker_", "class_")
                columns = [pc.binary_join_element_wise(p, c, "") for p, c in zip(prefixes, columns, strict=True)]
            writer.write_table(pa.table(dict(zip(names, columns, strict=True))))
    return path


def draw_answers(number: Array, n_answers: int, n_classes: int) -> tuple[Array, Array, Array]:
    """Return task, worker and label of the answers with these numbers."""
    n_workers = max(50, n_answers // PER_WORKER)
    task, turn = np.divmod(number, np.uint64(PER_TASK))
    step = 1 + _hash(task, 2) % np.uint64(
        n_workers // PER_TASK
    )  # five steps stay below one turn, so no worker answers a task twice
    worker = (_hash(task, 1) + turn * step) % np.uint64(n_workers)
    share = np.cumsum(1 / np.arange(1, n_classes + 1))
    truth = np.searchsorted(share[:-1] / share[-1], _uniform(task, 3), side="right")
    right = _uniform(number, 5) < 0.4 + 0.55 * _uniform(worker, 4)
    label = np.where(right, truth, _hash(number, 6) % np.uint64(n_classes))
    return task.astype(np.int64), worker.astype(np.int64), label.astype(np.int64)


def shuffled(number: Array, n: int) -> Array:
    """Return the number at each place of a fixed random order of 0 .. n - 1.

    >>> np.sort(shuffled(np.arange(10, dtype=np.uint64), 10)).tolist()
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    bits = max(int(n - 1).bit_length(), 2)
    mask, half = np.uint64((1 << bits) - 1), np.uint64(bits // 2)

    def mix(x: Array) -> Array:
        for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
            x = (x * np.uint64(factor)) & mask  # odd factors and right shifts are invertible, so numbers stay distinct
            x = x ^ (x >> half)
        return x

    place = mix(number)
    while len(
        outside := np.flatnonzero(place >= n)
    ):  # the mask allows numbers up to a power of two: mix again until below n
        place[outside] = mix(place[outside])
    return place


def _hash(x: Array, salt: int) -> Array:
    """Return 63 pseudo-random bits from a number and a salt (splitmix64)."""
    x = x + np.uint64(salt * 0x9E3779B97F4A7C15 % (1 << 64))
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))) >> np.uint64(1)  # sums of two stay below 2^64


def _uniform(x: Array, salt: int) -> Array:
    return _hash(x, salt) / 2.0**63
