"""Dawid-Skene for crowds whose confusion matrices fit no one machine: they stay in the cluster, in blocks of workers.

    M   counts of all parts, cut by blocks of workers, meet in the block; the local M-step runs on it, as on a crowd of
        its own; the block is written to disk, as the next checkpoint
    E   each block sends each part the rows of the pairs that occur there; the local E-step runs on the part

The driver sees sizes of classes and bounds alone. Blocks are read from disk in each iteration, so a lost machine costs
what it held and no more, and what has to be computed again does not grow with the iterations.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from safetensors.numpy import load, save

from crowdwise.answers import Pairs
from crowdwise.answers.encoding import starts
from crowdwise.engines import steps
from crowdwise.engines.intake import Data
from crowdwise.engines.parts import Part, Sums, add, to_bytes
from crowdwise.errors import TooLargeError
from crowdwise.truth.base import Array
from crowdwise.truth.dawid_skene import DawidSkene, Work, dense_confusion, prior_counts
from crowdwise.truth.dawid_skene import Parameters as Estimate
from crowdwise.truth.threads import use_threads

if TYPE_CHECKING:
    from pyspark import RDD


class Parameters(NamedTuple):
    """What EM climbs over; the tables of the blocks are on disk."""

    class_prior: Array  # (classes,)
    prior: Array  # (labels, classes): pseudo-counts
    written: int  # how many times the blocks have been written: says in which folder they are


class Crowd(NamedTuple):
    """As much of the answers as matrices of workers need."""

    n_workers: int
    n_classes: int
    pairs: Pairs


class JoinedDawidSkene:
    """A climber for a crowd cut into blocks of `size` workers, which lie in `folder`; all machines share it."""

    def __init__(self, model: DawidSkene, data: Data, size: int, folder: Path) -> None:
        if np.ndim(model.prior) == 3:  # type: ignore[arg-type]
            message = "a prior for each worker does not go with so many workers; give one for all, or none."
            raise TooLargeError(message)
        self.model, self.data, self.folder, self.size = model, data, folder, size
        self.max_iter, self.tol, self.monotone = model.max_iter, model.tol, model.monotone
        self.n_blocks = -(-data.n_workers // size)
        self._cut = partial(_cut, stride=size * data.n_classes, n_blocks=self.n_blocks)
        pairs = data.parts.flatMap(partial(_routes, n_classes=data.n_classes, cut=self._cut))
        self.routes = pairs.groupByKey(self.n_blocks).mapValues(_in_order).persist()  # (block, [(part, pairs)])

    def initialise(self) -> Parameters:
        """Parameters from the votes."""
        work = self.data.parts.mapValues(_bare)
        sums, pooled = self._sums(work, steps.first_pairs, None)
        rows = Pairs(np.empty(0, np.int32), np.arange(self.data.n_classes, dtype=np.int32), np.zeros(1, np.int64))
        return self._estimate(sums, prior_counts(self.model.prior, pooled.counts, rows), pooled.totals, 1)

    def _e_step(self, work: None, parameters: Parameters) -> tuple[Any, float]:
        sums, pooled = self._sums(self.inputs(parameters), steps.expect_pairs, self.message(parameters))
        return (sums, pooled.totals), pooled.bound

    def _m_step(self, work: None, statistics: Any, parameters: Parameters) -> Parameters:
        sums, totals = statistics
        return self._estimate(sums, parameters.prior, totals, parameters.written + 1)

    def message(self, parameters: Parameters) -> steps.Tables:
        """What is the same for all parts."""
        return steps.Tables(parameters.class_prior, None, False, self.model.hard)

    def inputs(self, parameters: Parameters) -> RDD[Any]:
        """Each part with the rows it needs: (part, (packed answers, rows, log priors by block))."""
        sent = self.routes.join(self.blocks(parameters), self.n_blocks).flatMap(_rows)
        return self.data.parts.cogroup(sent, self.data.n_parts).mapValues(_met)

    def blocks(self, parameters: Parameters) -> RDD[Any]:
        """Matrices as they are on disk: (block, bytes)."""
        path = self._path(parameters.written)
        return self.data.workers.sparkSession.read.parquet(path).rdd.map(tuple).partitionBy(self.n_blocks)

    def confusion(self, parameters: Parameters, class_ids: pa.Array) -> RDD[bytes]:
        """Confusion matrices as tables (code of the worker, truth, label, probability)."""
        return self.blocks(parameters).map(partial(_dense, prior=parameters.prior, size=self.size, ids=class_ids))

    def _path(self, written: int) -> str:
        return str(self.folder / f"blocks-{written % 2}")  # the one before stays until this one is whole

    def _sums(self, inputs: RDD[Any], step: Any, message: Any) -> tuple[RDD[Any], Sums]:
        """Statistics of each part cut by blocks, kept in the cluster; and what the driver has to know of them."""
        shared = self.data.parts.context.broadcast(message)
        run = partial(_run, step=step, shared=shared, n_classes=self.data.n_classes, cut=self._cut)
        self.sums = sums = inputs.mapValues(run).persist()
        found = sorted(sums.mapValues(_pooled).collect(), key=lambda part: part[0])
        log_priors: dict[int, float] = {}
        for _, (_, of_blocks) in found:
            log_priors |= of_blocks
        pooled = add([part for _, (part, _) in found])
        bound = pooled.bound + sum(log_priors[block] for block in sorted(log_priors))
        return sums, pooled._replace(bound=bound)

    def _estimate(self, sums: RDD[Any], prior: Array, totals: Array, written: int) -> Parameters:
        shared = self.data.parts.context.broadcast((prior, totals))
        settle = partial(
            _settle, model=self.model, shared=shared, n_tasks=self.data.n_tasks, n_workers=self.data.n_workers,
            size=self.size,
        )  # fmt: skip
        met = self.routes.join(sums.flatMap(_by_block).groupByKey(self.n_blocks), self.n_blocks).map(settle)
        frame = self.data.workers.sparkSession.createDataFrame(met, "block int, state binary")
        frame.write.mode("overwrite").parquet(self._path(written))
        sums.unpersist()
        nobody = Pairs(np.empty(0, np.int32), np.empty(0, np.int32), np.zeros(1, np.int64))
        everywhere = _on_block(self.model, nobody, np.empty((0, len(totals))), totals, prior, self.data.n_tasks)
        return Parameters(everywhere.class_prior, prior, written)


def _on_block(model: DawidSkene, pairs: Pairs, counts: Array, totals: Array, prior: Array, n_tasks: int) -> Estimate:
    """The local M-step on a crowd of these pairs alone."""
    n_workers, confusion = len(pairs.worker_starts) - 1, SimpleNamespace(pairs=pairs)
    work = Work(confusion, None, n_tasks, np.empty((n_workers, len(totals))), np.empty(n_workers))  # type: ignore[arg-type]
    with use_threads(1):
        return model._estimate(work, counts, totals, prior)


def _settle(met: Any, *, model: DawidSkene, shared: Any, n_tasks: int, n_workers: int, size: int) -> tuple[int, bytes]:
    """M-step of one block."""
    block, (routes, arrived) = met
    prior, totals = shared.value
    n_classes, counts_of = len(totals), dict(arrived)
    sums = add([Sums(pair, counts_of[part], totals, 0.0) for part, pair in routes])
    worker, label = np.divmod(sums.at, n_classes)
    end = min(size, n_workers - block * size)
    pairs = Pairs(np.empty(0, np.int32), label.astype(np.int32), starts(worker - block * size, end))
    found = _on_block(model, pairs, sums.counts, totals, prior, n_tasks)
    state = {"pair": sums.at, "table": found.table, "totals": found.totals, "log_prior": np.array([found.log_prior])}
    return block, save(state)


def _rows(met: Any) -> list[tuple[int, Any]]:
    """What a block sends to each part that knows its workers."""
    block, (routes, state) = met
    arrays = load(state)
    log_prior = float(arrays["log_prior"][0])
    return [(part, (block, arrays["table"][np.searchsorted(arrays["pair"], pair)], log_prior)) for part, pair in routes]


def _met(both: Any) -> tuple[bytes, Array, dict[int, float]]:
    """A part and what the blocks sent it, in the order of its pairs."""
    (packed,), sent = both
    sent = sorted(sent, key=lambda block: block[0])
    return packed, np.concatenate([rows for _, rows, _ in sent]), {block: log_prior for block, _, log_prior in sent}


def _run(inputs: Any, *, step: Any, shared: Any, n_classes: int, cut: Any) -> Any:
    """Statistics of one part, and its slices by blocks."""
    packed, rows, log_priors = inputs
    part = Part(packed, n_classes)
    with use_threads(1):
        sums = step(part, rows, shared.value)
    pooled = np.zeros((n_classes, n_classes))  # (labels, classes)
    np.add.at(pooled, part.pair % n_classes, sums.counts)
    slices = [(block, sums.counts[rows].copy()) for block, rows in cut(part.pair)]
    return slices, Sums(np.arange(n_classes), pooled, sums.totals, sums.bound), log_priors


def _pooled(value: Any) -> tuple[Sums, dict[int, float]]:
    return value[1], value[2]


def _by_block(numbered: Any) -> list[tuple[int, tuple[int, Array]]]:
    part, (slices, _, _) = numbered
    return [(block, (part, counts)) for block, counts in slices]


def _cut(pair: Array, *, stride: int, n_blocks: int) -> list[tuple[int, slice]]:
    """Where the pairs of each block lie among sorted pairs; blocks without any are left out."""
    edges = np.searchsorted(pair, np.arange(n_blocks + 1) * stride)
    return [(block, slice(edges[block], edges[block + 1])) for block in np.flatnonzero(np.diff(edges)).tolist()]


def _routes(numbered: tuple[int, bytes], *, n_classes: int, cut: Any) -> list[tuple[int, tuple[int, Array]]]:
    pair = Part(numbered[1], n_classes).pair
    return [(block, (numbered[0], pair[rows].copy())) for block, rows in cut(pair)]


def _in_order(parts: Any) -> list[Any]:
    return sorted(parts, key=lambda part: part[0])


def _bare(packed: bytes) -> tuple[bytes, None, dict[int, float]]:
    return packed, None, {}


def _dense(block: tuple[int, bytes], *, prior: Array, size: int, ids: pa.Array) -> bytes:
    number, arrays = block[0], load(block[1])
    n_workers, n_classes = arrays["totals"].shape
    worker, label = np.divmod(arrays["pair"], n_classes)
    pairs = Pairs(np.empty(0, np.int32), label.astype(np.int32), starts(worker - number * size, n_workers))
    return cells(Crowd(n_workers, n_classes, pairs), arrays["table"], prior, arrays["totals"], number * size, ids)[0]


def cells(crowd: Crowd, table: Array, prior: Array, totals: Array, first: int, ids: pa.Array) -> tuple[bytes, Array]:
    """Confusion matrices as bytes of a table of cells, workers numbered from `first`; and as an array."""
    dense = dense_confusion(crowd, table, prior, totals)  # type: ignore[arg-type]  # (workers, truth, labels)
    worker, truth, label = np.indices(dense.shape).reshape(3, -1)
    columns = {"code": worker + first, "truth": ids.take(truth), "label": ids.take(label), "probability": dense.ravel()}
    return to_bytes(pa.table(columns)), dense
