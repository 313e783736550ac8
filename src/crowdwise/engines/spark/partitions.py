"""What one part of the tasks does, inside one Python process of the cluster: the local kernels on a few arrays.

A part is all answers to the tasks whose ids hash to its number. It travels and is kept as one string of bytes:

    starts     (tasks + 1,) int64    answers to task t are starts[t]:starts[t + 1]
    of_answer  (answers,) int32      which pair, among those of the part, each answer is
    pair       (pairs,) int64        worker * classes + label of each pair that occurs in the part, sorted
    weight     (answers,) float64    how much each answer counts, where answers are weighed
    gold       (tasks,) int32        known class of each task, -1 where unknown; where any is known

Tasks are in the order of their ids, so nothing depends on the order in which rows came. Ids are kept apart: only the
last pass needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from safetensors.numpy import load, save

from crowdwise.answers import Answers, Pairs
from crowdwise.answers.encoding import encode
from crowdwise.answers.encoding import starts as starts_of
from crowdwise.answers.rows import Duplicates, sort_rows
from crowdwise.truth.base import Array, fix_gold, vote_shares
from crowdwise.truth.kernels.confusion import ConfusionWork


class Sums(NamedTuple):
    """What a part sends back: statistics of the pairs or workers it holds, and of all its tasks."""

    at: Array  # (rows,) int64: which pairs (worker * classes + label) or workers
    counts: Array  # (rows, columns)
    totals: Array  # (classes,)
    bound: float


class Part:
    """One part of the tasks, and views of it as the local code takes them."""

    def __init__(self, packed: bytes, n_classes: int) -> None:
        arrays = load(packed)
        self.starts, self.of_answer, self.pair = arrays["starts"], arrays["of_answer"], arrays["pair"]
        self.weight, self.gold = arrays.get("weight"), arrays.get("gold")
        self.n_tasks, self.n_classes = len(self.starts) - 1, n_classes

    @cached_property
    def confusion(self) -> ConfusionWork:
        """Arrays for an EM over confusion matrices."""
        label = (self.pair % self.n_classes).astype(np.int32)
        pairs = Pairs(self.of_answer, label, np.empty(0, np.int64))
        return ConfusionWork(self.starts, pairs, self.weight, self.n_classes)

    @cached_property
    def workers(self) -> Array:
        """Global codes of the workers of this part, sorted: (workers,)."""
        return np.unique(self.pair // self.n_classes)

    @cached_property
    def answers(self) -> Answers:
        """The part as answers. Workers are numbered within the part; ids of tasks are their positions."""
        worker = np.searchsorted(self.workers, self.pair // self.n_classes).astype(np.int32)  # (pairs,)
        label = (self.pair % self.n_classes).astype(np.int32)  # (pairs,)
        answers = Answers(
            np.repeat(np.arange(self.n_tasks, dtype=np.int32), np.diff(self.starts)),
            worker[self.of_answer],
            label[self.of_answer],
            pa.array(np.arange(self.n_tasks)),
            pa.array(self.workers),
            pa.array(np.arange(self.n_classes)),
            self.weight,
        )
        worker_starts = starts_of(worker, len(self.workers))
        answers.__dict__["pairs"] = Pairs(self.of_answer, label, worker_starts)  # known already: not counted again
        return answers

    def votes(self) -> Array:
        """Shares of the votes of each task, known classes fixed: (tasks, classes)."""
        return fix_gold(vote_shares(self.answers), self.gold)


def pack(table: pa.Table, n_classes: int, duplicates: Duplicates, weighted: bool, golden: bool) -> pa.Table:
    """All rows of one part (part, task, worker code, label code, weight, row) as one row of bytes.

    Of answers given twice one is kept, by the order of `row`; the others are set aside. Rows without a worker say what
    is known: `strangers` are tasks of such rows that nobody answered.
    """
    part, known = table["part"][0], table.filter(pc.field("worker").is_null())
    table = table.filter(pc.field("worker").is_valid()).sort_by("row").combine_chunks()
    task, task_ids = encode(column(table, "task"), "task")
    worker, label, row = (column(table, name).to_numpy() for name in ("worker", "label", "row"))
    workers, local = np.unique(worker, return_inverse=True)  # sorting needs small codes
    codes = [task, local.astype(np.int32), label.astype(np.int32)]
    tables = task_ids, pa.array(workers), pa.array(np.arange(n_classes))
    rule: Duplicates = "first" if duplicates == "error" else duplicates  # the driver refuses them, with their ids
    place = np.arange(len(row))
    kept = sort_rows(codes, tables, weight=place, pseudo=None, truth=None, duplicates=rule, removed={})
    pair, of_answer = np.unique(workers[kept["worker"]] * n_classes + kept["label"], return_inverse=True)
    arrays = {
        "starts": starts_of(kept["task"], len(task_ids)),
        "of_answer": of_answer.astype(np.int32),
        "pair": pair.astype(np.int64),
    }
    if weighted:
        arrays["weight"] = column(table, "weight").to_numpy()[kept["weight"]]
    at = pc.index_in(column(known, "task").cast(task_ids.type), value_set=task_ids)
    if golden:
        arrays["gold"] = np.full(len(task_ids), -1, np.int32)
        found = at.is_valid().to_numpy(zero_copy_only=False)
        arrays["gold"][at.drop_null().to_numpy()] = column(known, "label").to_numpy()[found]
    twice = np.ones(len(row), bool)
    twice[kept["weight"]] = False
    aside = table.filter(pa.array(twice)).select(["task", "worker", "label", "weight", "row"])
    return pa.table(
        {
            "part": pa.array([part.as_py()], pa.int32()),
            "packed": pa.array([save(arrays)], pa.binary()),
            "ids": pa.array([to_bytes(pa.table({"task": task_ids}))], pa.binary()),
            "twice": pa.array([to_bytes(aside)], pa.binary()),
            "strangers": pa.array([to_bytes(known.select(["task"]).filter(at.is_null()))], pa.binary()),
            "tasks": pa.array([len(task_ids)], pa.int64()),
            "answers": pa.array([len(of_answer)], pa.int64()),
            "repeats": pa.array([len(aside)], pa.int64()),
        }
    )


def add(parts: Sequence[Sums], at: Array | None = None) -> Sums:
    """Sum statistics, in the order given: the same to the last bit however the cluster was busy.

    The rows are those of `at` (sorted), or all that occur.

    >>> one = Sums(np.array([0, 2]), np.ones((2, 1)), np.ones(1), -1.0)
    >>> two = Sums(np.array([2, 5]), np.ones((2, 1)), np.ones(1), -2.0)
    >>> both = add([one, two])
    >>> both.at.tolist(), both.counts.ravel().tolist(), both.bound
    ([0, 2, 5], [1.0, 2.0, 1.0], -3.0)
    """
    at = np.unique(np.concatenate([part.at for part in parts])) if at is None else at
    counts, totals, bound = np.zeros((len(at), parts[0].counts.shape[1])), np.zeros_like(parts[0].totals), 0.0
    for part in parts:
        counts[np.searchsorted(at, part.at)] += part.counts
        totals += part.totals
        bound += part.bound
    return Sums(at, counts, totals, bound)


def column(table: pa.Table, name: str) -> pa.Array:
    """A column in one piece."""
    chunks = table.column(name).combine_chunks()
    return chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks


def to_bytes(table: pa.Table) -> bytes:
    """An Arrow table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> Any:
    """The Arrow table that `to_bytes` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Arrow tables as bytes, one a row of the first column, as their own rows."""
    for batch in batches:
        for data in batch.column(0):
            yield from from_bytes(data.as_py()).to_batches()
