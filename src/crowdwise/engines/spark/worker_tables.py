"""Tables of workers, computed in the cluster in blocks of workers: no machine needs to hold all of them.

A block is the number of workers that one process handles. Pairs (worker * classes + label) are sorted, so the pairs of
a block are contiguous, and each part sends them as a slice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from safetensors.numpy import load, save

from crowdwise.answers import Pairs
from crowdwise.answers.encoding import starts
from crowdwise.engines.spark.packing import PackedAnswers
from crowdwise.engines.spark.partitions import Sums, add, to_bytes
from crowdwise.engines.spark.results import frame_from_tables, spark_ids, spark_type
from crowdwise.truth.base import Array
from crowdwise.truth.methods.dawid_skene import dense_confusion
from crowdwise.truth.tables import belief_interval, information, worst_pair

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

WORKERS = 250_000  # per block of the worker table
CELLS = 4_000_000  # of dense matrices in one process: 32 MB
_QUALITY = ("quality", "quality_low", "quality_high", "agreement_with_consensus")


class WorkerBlock(NamedTuple):
    """The attributes of `Answers` that `dense_confusion` needs."""

    n_workers: int
    n_classes: int
    pairs: Pairs


def cut(pair: Array, *, stride: int, n_blocks: int) -> list[tuple[int, slice]]:
    """Return the slice of each block among sorted pairs; blocks without pairs are left out.

    >>> cut(np.array([0, 3, 9]), stride=4, n_blocks=3)
    [(0, slice(0, 2, None)), (2, slice(2, 3, None))]
    """
    edges = np.searchsorted(pair, np.arange(n_blocks + 1) * stride).tolist()
    return [(block, slice(edges[block], edges[block + 1])) for block in np.flatnonzero(np.diff(edges)).tolist()]


def block_pairs(pair: Array, first: int, n_workers: int, n_classes: int) -> Pairs:
    """Return the `Pairs` of the workers first, ..., first + n_workers - 1; `pair` must contain no others."""
    worker, label = np.divmod(pair, n_classes)
    return Pairs(np.empty(0, np.int32), label.astype(np.int32), starts(worker - first, n_workers))


def worker_frame(data: PackedAnswers, finished: RDD[Any], more: DataFrame | None) -> DataFrame:
    """Return one row per worker with the columns of the local `worker_table`, and those of `more`, joined by `code`."""
    from pyspark.sql import functions as f

    n_blocks = -(-data.n_workers // WORKERS)
    pieces = partial(cut, stride=WORKERS * data.n_classes, n_blocks=n_blocks)
    sliced = finished.flatMap(partial(_slices, pieces=pieces)).groupByKey(n_blocks)
    rows = sliced.map(partial(_quality, n_workers=data.n_workers, ids=spark_ids(data.class_ids)))
    numbers = ", ".join(f"{name} double" for name in _QUALITY)
    schema = f"code long, answers long, {numbers}, worst_class {spark_type(data.class_ids.type)}"
    table = data.workers.join(frame_from_tables(data.spark, rows, schema), "code")
    table = table if more is None else table.join(more, "code")
    if "informativeness" not in table.columns:
        table = table.withColumn("informativeness", f.lit(None).cast("double"))
    first = ("worker", "answers", *_QUALITY, "informativeness", "worst_class")
    return table.select(*first, *(name for name in table.columns if name not in ("code", *first)))


def column_frame(data: PackedAnswers, name: str, values: Array) -> DataFrame:
    """Return one number per worker, (workers,), as a column beside `code`."""
    return data.spark.createDataFrame(pa.table({"code": np.arange(data.n_workers), name: values}))


def pack_block(first: int, pair: Array, table: Array, totals: Array, prior: Array, **more: Array) -> bytes:
    """Serialise the matrices of a block: probabilities of the pairs that occur, and the prior of the others."""
    arrays = {"first": np.array([first]), "pair": pair, "table": table, "totals": totals, "prior": prior, **more}
    return save({name: np.ascontiguousarray(array) for name, array in arrays.items()})


def make_blocks(data: PackedAnswers, pair: Array, table: Array, totals: Array, prior: Array) -> RDD[Any]:
    """Return the matrices on the driver as blocks: (block, bytes)."""
    size = max(1, CELLS // data.n_classes**2)
    n_blocks = -(-data.n_workers // size)
    blocks = []
    for block, rows in cut(pair, stride=size * data.n_classes, n_blocks=n_blocks):
        own = slice(block * size, (block + 1) * size)
        mine = prior[own] if prior.ndim == 3 else prior
        blocks.append((block, pack_block(block * size, pair[rows], table[rows], totals[own], mine)))
    return data.spark.sparkContext.parallelize(blocks, n_blocks)


def confusion_frame(data: PackedAnswers, blocks: RDD[Any]) -> DataFrame:
    """Return the confusion matrices with one row per cell: worker, truth, label, probability."""
    kind = spark_type(data.class_ids.type)
    cells = blocks.flatMap(partial(_cells, ids=spark_ids(data.class_ids)))
    table = frame_from_tables(data.spark, cells, f"code long, truth {kind}, label {kind}, probability double")
    return data.workers.join(table, "code").select("worker", "truth", "label", "probability")


def information_frame(data: PackedAnswers, blocks: RDD[Any], class_prior: Array) -> DataFrame:
    """Return the informativeness of each worker's answers in bits: code, informativeness."""
    bits = blocks.flatMap(partial(_bits, class_prior=class_prior))
    return frame_from_tables(data.spark, bits, "code long, informativeness double")


def _slices(numbered: Any, *, pieces: Any) -> list[tuple[int, tuple[int, Sums]]]:
    part, (_, sums) = numbered
    return [
        (block, (part, sums._replace(at=sums.at[rows], counts=sums.counts[rows]))) for block, rows in pieces(sums.at)
    ]


def _quality(group: Any, *, n_workers: int, ids: pa.Array) -> bytes:
    """Return the table rows of one block's workers, from the sums over their pairs in all parts."""
    block, arrived = group
    sums = add([part for _, part in sorted(arrived, key=lambda numbered: numbered[0])])
    first, size = block * WORKERS, min(WORKERS, n_workers - block * WORKERS)
    pairs = block_pairs(sums.at, first, size, len(ids))
    pair_count, _, confirmed, confidences, *_ = sums.counts.T  # (pairs,) each
    count, expected, agreed, _, *shared = np.add.reduceat(sums.counts, pairs.worker_starts[:-1]).T  # (workers,) each
    low, high = belief_interval(expected, count, *shared)
    worst = worst_pair(pairs, pair_count, confirmed, confidences)
    columns = {
        "code": np.arange(first, first + size), "answers": count.astype(np.int64), "quality": expected / count,
        "quality_low": low, "quality_high": high, "agreement_with_consensus": agreed / count,
        "worst_class": ids.take(pa.array(worst, mask=worst < 0)),
    }  # fmt: skip
    return to_bytes(pa.table(columns))


def _matrices(block: tuple[int, bytes]) -> Iterator[tuple[int, Array]]:
    """Yield the confusion matrices (workers, truth, labels) of a block, some workers at a time, with the first code."""
    arrays = load(block[1])
    first, prior, (n_workers, n_classes) = int(arrays["first"][0]), arrays["prior"], arrays["totals"].shape
    pairs = block_pairs(arrays["pair"], first, n_workers, n_classes)
    step = max(1, CELLS // n_classes**2)
    for at in range(0, n_workers, step):
        edges = pairs.worker_starts[at : at + step + 1]
        rows, own = slice(edges[0], edges[-1]), slice(at, at + step)
        here = WorkerBlock(len(edges) - 1, n_classes, Pairs(pairs.of_answer, pairs.label[rows], edges - edges[0]))
        mine = prior[own] if prior.ndim == 3 else prior
        yield first + at, dense_confusion(here, arrays["table"][rows], mine, arrays["totals"][own])  # type: ignore[arg-type]


def _cells(block: tuple[int, bytes], *, ids: pa.Array) -> Iterator[bytes]:
    for first, dense in _matrices(block):
        worker, truth, label = np.indices(dense.shape).reshape(3, -1)
        columns = {"code": worker + first, "truth": ids.take(truth), "label": ids.take(label)}
        yield to_bytes(pa.table({**columns, "probability": dense.ravel()}))


def _bits(block: tuple[int, bytes], *, class_prior: Array) -> Iterator[bytes]:
    for first, dense in _matrices(block):
        bits = information(dense, class_prior)
        yield to_bytes(pa.table({"code": np.arange(first, first + len(bits)), "informativeness": bits}))
