"""One part of the tasks, as a few arrays that the local kernels work on, inside one Python process of the cluster.

A part holds all answers to the tasks whose ids hash to its number. It is sent and stored as one byte string:

    starts     (tasks + 1,) int64    answers to task t are starts[t]:starts[t + 1]
    of_answer  (answers,) int32      the pair, among those of the part, of each answer
    pair       (pairs,) int64        worker * classes + label of each pair that occurs in the part, sorted
    weight     (answers,) float64    weight of each answer; only if answers have weights
    gold       (tasks,) int32        known class of each task, -1 where unknown; only with gold

Tasks are sorted by id, so nothing depends on the order of the input rows. Ids are stored separately, as only the last
pass needs them.
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
    """Statistics of a part: of its pairs or workers, and of all its tasks."""

    at: Array  # (rows,) int64: the pair (worker * classes + label) or worker of each row
    counts: Array  # (rows, columns)
    totals: Array  # (classes,)
    bound: float


class Partition:
    """One part of the tasks, with views in the form that the local code expects."""

    gold: Array | None
    n_classes: int
    n_tasks: int
    of_answer: Array
    pair: Array
    starts: Array
    weight: Array | None

    def __init__(self, packed: bytes, n_classes: int) -> None:
        arrays = load(packed)
        self.starts, self.of_answer, self.pair = arrays["starts"], arrays["of_answer"], arrays["pair"]
        self.weight, self.gold = arrays.get("weight"), arrays.get("gold")
        self.n_tasks, self.n_classes = len(self.starts) - 1, n_classes

    @cached_property
    def confusion(self) -> ConfusionWork:
        """The arrays of EM over confusion matrices."""
        label = (self.pair % self.n_classes).astype(np.int32)
        pairs = Pairs(self.of_answer, label, np.empty(0, np.int64))
        return ConfusionWork(self.starts, pairs, self.weight, self.n_classes)

    @cached_property
    def workers(self) -> Array:
        """Global codes of the workers of this part, sorted: (workers,)."""
        return np.unique(self.pair // self.n_classes)

    @cached_property
    def answers(self) -> Answers:
        """The part as `Answers`. Workers are numbered within the part; task ids are positions."""
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
        answers.__dict__["pairs"] = Pairs(self.of_answer, label, worker_starts)  # already known; saves recomputing them
        return answers

    def votes(self) -> Array:
        """Return each task's vote shares, with known classes fixed: (tasks, classes)."""
        return fix_gold(vote_shares(self.answers), self.gold)


def pack(table: pa.Table, n_classes: int, duplicates: Duplicates, weighted: bool, golden: bool) -> pa.Table:
    """Pack all rows of one part (part, task, worker code, label code, weight, row) into one row of bytes.

    Of duplicate answers one is used, by the order of `row`; the others go to `repeated`. Rows without a worker are
    known labels; their tasks without answers go to `unanswered`.
    """
    part, known = table["part"][0], table.filter(pc.field("worker").is_null())
    table = table.filter(pc.field("worker").is_valid()).sort_by("row").combine_chunks()
    task, task_ids = encode(column(table, "task"), "task")
    worker, label, row = (column(table, name).to_numpy() for name in ("worker", "label", "row"))
    workers, local = np.unique(worker, return_inverse=True)  # `sort_rows` needs small codes
    codes = [task, local.astype(np.int32), label.astype(np.int32)]
    tables = task_ids, pa.array(workers), pa.array(np.arange(n_classes))
    rule: Duplicates = "first" if duplicates == "error" else duplicates  # the driver raises the error, with ids
    place = np.arange(len(row))
    kept = sort_rows(codes, tables, weight=place, pseudo=None, truth=None, duplicates=rule, removed={})
    weight = column(table, "weight").to_numpy()[kept["weight"]] if weighted else None
    used = slice(None) if weight is None else np.flatnonzero(weight)  # an answer of weight 0 is the same as none
    pair, of_answer = np.unique(workers[kept["worker"][used]] * n_classes + kept["label"][used], return_inverse=True)
    arrays = {
        "starts": starts_of(kept["task"][used], len(task_ids)),
        "of_answer": of_answer.astype(np.int32),
        "pair": pair.astype(np.int64),
    }
    if weight is not None:
        arrays["weight"] = weight[used]
    at = pc.index_in(column(known, "task").cast(task_ids.type), value_set=task_ids)
    if golden:
        arrays["gold"] = np.full(len(task_ids), -1, np.int32)
        found = at.is_valid().to_numpy(zero_copy_only=False)
        arrays["gold"][at.drop_null().to_numpy()] = column(known, "label").to_numpy()[found]
    unused = np.ones(len(row), bool)
    unused[kept["weight"]] = False
    repeated = table.filter(pa.array(unused)).select(["task", "worker", "label", "weight", "row"])
    return pa.table(
        {
            "part": pa.array([part.as_py()], pa.int32()),
            "packed": pa.array([save(arrays)], pa.binary()),
            "ids": pa.array([to_bytes(pa.table({"task": task_ids}))], pa.binary()),
            "repeated": pa.array([to_bytes(repeated)], pa.binary()),
            "unanswered": pa.array([to_bytes(known.select(["task"]).filter(at.is_null()))], pa.binary()),
            "tasks": pa.array([len(task_ids)], pa.int64()),
            "answers": pa.array([len(of_answer)], pa.int64()),
            "repeats": pa.array([len(repeated)], pa.int64()),
        }
    )


def add(parts: Sequence[Sums], at: Array | None = None) -> Sums:
    """Add up statistics in the order of `parts`, so that the result is the same to the last bit in every run.

    The rows of the result are those of `at` (sorted), or all that occur.

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
    """Return a column as one array."""
    chunks = table.column(name).combine_chunks()
    return chunks.combine_chunks() if isinstance(chunks, pa.ChunkedArray) else chunks


def to_bytes(table: pa.Table) -> bytes:
    """Serialise an Arrow table."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> Any:
    """Read an Arrow table that `to_bytes` serialised."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the serialised Arrow tables in the first column."""
    for batch in batches:
        for data in batch.column(0):
            yield from from_bytes(data.as_py()).to_batches()
