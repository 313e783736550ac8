"""EM for confusion matrices that fit on no single machine: they stay in the cluster, in blocks of workers.

    M   the counts of all parts, split by block, are joined with the block; the local M-step runs on each block of
        workers; the block is written to disk as the next checkpoint
    E   each block sends each part the rows of the pairs that occur there; the local E-step runs on the part

The driver sees only class sizes and bounds. Blocks are read from disk in each iteration, so a lost machine costs only
what it held, and the work to recompute does not grow with the number of iterations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from safetensors.numpy import load

from crowdwise._core.validation import require
from crowdwise.answers import Pairs
from crowdwise.engines.spark import steps
from crowdwise.engines.spark.packing import PackedAnswers
from crowdwise.engines.spark.partitions import Partition, Sums, add
from crowdwise.engines.spark.worker_tables import CELLS, block_pairs, cut, pack_block
from crowdwise.errors import ModelFileError
from crowdwise.truth.base import Array
from crowdwise.truth.kernels.confusion import confusion_rows
from crowdwise.truth.kernels.threads import run, use_threads
from crowdwise.truth.methods.dawid_skene import prior_counts
from crowdwise.truth.methods.ibcc import diagonal, dirichlet, dirichlet_rows, posterior_mean

if TYPE_CHECKING:
    from pyspark import RDD

_MOST_BLOCKS = 1000


class Parameters(NamedTuple):
    """The parameters of EM on the driver; the tables of the blocks are on disk."""

    sizes: Array  # (classes,): expected number of tasks
    prior: Array  # (labels, classes): pseudo-counts; empty if each worker has their own
    written: int  # how many times the blocks have been written, which determines their folder
    n_blocks: int


def dawid_skene_m_step(pairs: Pairs, counts: Array, prior: Array) -> dict[str, Array]:
    """Run the M-step of Dawid-Skene on a block; return the arrays that the next E-step and the tables need."""
    n_workers, n_classes = len(pairs.worker_starts) - 1, counts.shape[1]
    table, totals, log_prior = np.empty_like(counts), np.empty((n_workers, n_classes)), np.empty(n_workers)
    by_worker = np.ascontiguousarray(prior).reshape(-1, n_classes, n_classes)  # (1 or workers, labels, classes)
    confusion_rows(counts, pairs.label, pairs.worker_starts, by_worker, table, totals, log_prior)
    return {"table": table, "totals": totals, "log_prior": log_prior}


def ibcc_m_step(pairs: Pairs, counts: Array, prior: Array) -> dict[str, Array]:
    """Run the M-step of IBCC on a block; return the same arrays, and the expected logs."""
    n_workers = len(pairs.worker_starts) - 1
    log_table, totals, divergence = np.empty_like(counts), np.empty((n_workers, counts.shape[1])), np.empty(n_workers)
    run(dirichlet_rows, n_workers, counts, pairs.label, pairs.worker_starts, prior, log_table, totals, divergence)
    table = posterior_mean(counts, prior, totals, pairs.label, pairs.worker_starts)
    return {"table": table, "totals": totals, "log_prior": -divergence, "log_table": log_table}


class JoinedEM(ABC):
    """EM steps over blocks of workers, which are stored in `folder`, shared by all machines."""

    block_m_step: ClassVar[Callable[..., dict[str, Array]]]
    sent: ClassVar[str] = "table"  # the table of a block that the E-step needs
    hard = False

    data: PackedAnswers
    folder: Path
    max_iter: Any
    model: Any
    monotone: Any
    tol: Any

    def __init__(self, model: Any, data: PackedAnswers, folder: Path) -> None:
        self.model, self.data, self.folder = model, data, folder
        self.max_iter, self.tol, self.monotone = model.max_iter, model.tol, model.monotone
        self.size: int = max(1, CELLS // data.n_classes**2, -(-data.n_workers // _MOST_BLOCKS))  # workers each
        self.n_blocks: int = -(-data.n_workers // self.size)
        self._cut = partial(cut, stride=self.size * data.n_classes, n_blocks=self.n_blocks)
        pairs = data.parts.flatMap(partial(_routes, n_classes=data.n_classes, pieces=self._cut))
        routes, own = pairs.groupByKey(self.n_blocks).mapValues(_in_order), self._own_priors()
        with_priors = routes.mapValues(_without) if own is None else routes.join(own, self.n_blocks)
        self.routes = with_priors.persist()  # (block, ([(part, pairs)], its workers' priors or None))

    # To be implemented by a model

    @abstractmethod
    def shares(self, parameters: Parameters) -> Array:
        """Return the class shares of the E-step, (classes,)."""

    @abstractmethod
    def _prior(self, pooled: Array) -> Array:
        """Return pseudo-counts (labels, classes), given the counts of all workers together."""

    def _own_priors(self) -> RDD[Any] | None:
        """Return each worker's own prior, by blocks, if there is one."""
        return None

    def _log_prior(self, parameters: Parameters) -> float:
        """Return the part of the bound that depends on the class shares."""
        return 0.0

    # Called by the EM driver

    def initialise(self) -> Parameters:
        """Return parameters estimated from the vote shares."""
        sums, pooled = self._sums(self.data.parts.mapValues(_bare), steps.first_pairs, None)
        return self._estimate(sums, self._prior(pooled.counts), pooled.totals, 1)

    def restore(self, parameters: Parameters) -> None:
        """Raise ModelFileError if the checkpoint's blocks have another size."""
        if parameters.n_blocks != self.n_blocks:
            message = (
                f"the checkpoint in {str(self.folder)!r} has {parameters.n_blocks} blocks of workers, not "
                f"{self.n_blocks}: another version wrote it. Resume with that version, or delete it to start over."
            )
            raise ModelFileError(message)

    def _e_step(self, work: None, parameters: Parameters) -> tuple[Any, float]:
        sums, pooled = self._sums(self.inputs(parameters, self.sent), steps.expect_pairs, self.message(parameters))
        return (sums, pooled.totals), pooled.bound + self._log_prior(parameters)

    def _m_step(self, work: None, statistics: Any, parameters: Parameters) -> Parameters:
        sums, totals = statistics
        return self._estimate(sums, parameters.prior, totals, parameters.written + 1)

    def message(self, parameters: Parameters) -> steps.Tables:
        """Return the message that is the same for all parts."""
        return steps.Tables(self.shares(parameters), None, self.sent == "log_table", self.hard)

    def inputs(self, parameters: Parameters, name: str) -> RDD[Any]:
        """Return each part with its rows of a table: (part, (packed answers, rows, log priors by block))."""
        sent = self.routes.join(self.blocks(parameters), self.n_blocks).flatMap(partial(_rows, name=name))
        return self.data.parts.cogroup(sent, self.data.n_parts).mapValues(_met)

    def blocks(self, parameters: Parameters) -> RDD[Any]:
        """Read the matrices from disk: (block, bytes)."""
        return self.data.spark.read.parquet(self._path(parameters.written)).rdd.map(tuple).partitionBy(self.n_blocks)

    def _path(self, written: int) -> str:
        return f"file://{self.folder.resolve()}/blocks-{written % 2}"  # the other folder stays until this is complete

    def _sums(self, inputs: RDD[Any], step: Any, message: Any) -> tuple[RDD[Any], Sums]:
        """Return the statistics of each part, split by blocks and persisted, and their totals for the driver."""
        shared = self.data.parts.context.broadcast(message)
        work = partial(_run, step=step, shared=shared, n_classes=self.data.n_classes, pieces=self._cut)
        self.sums = sums = inputs.mapValues(work).persist()
        found = sorted(sums.mapValues(_pooled).collect(), key=lambda part: part[0])
        log_priors: dict[int, float] = {}
        for _, (_, of_blocks) in found:
            log_priors |= of_blocks
        pooled = add([part for _, (part, _) in found])
        bound = pooled.bound + sum(log_priors[block] for block in sorted(log_priors))
        return sums, pooled._replace(bound=bound)

    def _estimate(self, sums: RDD[Any], prior: Array, totals: Array, written: int) -> Parameters:
        counts = sums.flatMap(_by_block).groupByKey(self.n_blocks)
        work = partial(
            _block, block_m_step=self.block_m_step, prior=prior, n_workers=self.data.n_workers, size=self.size
        )
        met = self.routes.join(counts, self.n_blocks).map(work)
        frame = self.data.spark.createDataFrame(met, "block int, state binary")
        frame.write.mode("overwrite").parquet(self._path(written))
        sums.unpersist()
        return Parameters(totals, prior, written, self.n_blocks)


class JoinedDawidSkene(JoinedEM):
    """`DawidSkene` with all of its settings."""

    block_m_step = staticmethod(dawid_skene_m_step)

    def __init__(self, model: Any, data: PackedAnswers, folder: Path) -> None:
        self.hard: Any = model.hard
        super().__init__(model, data, folder)

    def shares(self, parameters: Parameters) -> Array:
        """Return the class shares as in the local model."""
        return self.model._shares(parameters.sizes, self.data.n_tasks)

    def _prior(self, pooled: Array) -> Array:
        if np.ndim(self.model.prior) == 3:
            return np.empty((0, 0))
        all_workers = Pairs(np.empty(0, np.int32), np.arange(len(pooled), dtype=np.int32), np.zeros(1, np.int64))
        return prior_counts(self.model.prior, pooled, all_workers)

    def _own_priors(self) -> RDD[Any] | None:
        if np.ndim(self.model.prior) != 3:
            return None
        shape = (self.data.n_workers, self.data.n_classes, self.data.n_classes)
        prior = np.asarray(self.model.prior, dtype=float).swapaxes(1, 2)  # (workers, labels, classes)
        require(prior.shape == shape, "prior", prior.shape, f"one {shape[1]} x {shape[1]} matrix for all workers, or "
                f"one for each of the {shape[0]}")  # fmt: skip
        slices = [(b, prior[b * self.size : (b + 1) * self.size].copy()) for b in range(self.n_blocks)]
        return self.data.parts.context.parallelize(slices, self.n_blocks).partitionBy(self.n_blocks)


class JoinedIBCC(JoinedEM):
    """`IBCC` with all of its settings."""

    block_m_step = staticmethod(ibcc_m_step)
    sent = "log_table"

    def shares(self, parameters: Parameters) -> Array:
        """Exponentials of the expected logs."""
        return np.exp(dirichlet(parameters.sizes, self.model.alpha)[0])

    def _prior(self, pooled: Array) -> Array:
        return diagonal(len(pooled), self.model.a_v, self.model.b_v)

    def _log_prior(self, parameters: Parameters) -> float:
        return -dirichlet(parameters.sizes, self.model.alpha)[1]


# Functions that run in the cluster


def _block(
    met: Any, *, block_m_step: Callable[..., dict[str, Array]], prior: Array, n_workers: int, size: int
) -> tuple[int, bytes]:
    """Run the M-step of one block on the counts of all parts in which its workers occur."""
    block, ((routes, own), arrived) = met
    counts_of, prior = dict(arrived), prior if own is None else own
    n_classes = prior.shape[-1]
    sums = add([Sums(pair, counts_of[part], np.zeros(n_classes), 0.0) for part, pair in routes])
    pairs = block_pairs(sums.at, block * size, min(size, n_workers - block * size), n_classes)
    with use_threads(1):
        found = block_m_step(pairs, sums.counts, prior)
    found["log_prior"] = found["log_prior"].sum(keepdims=True)
    return block, pack_block(block * size, sums.at, prior=prior, **found)


def _rows(met: Any, *, name: str) -> list[tuple[int, Any]]:
    """Return the rows that a block sends to each part in which its workers occur."""
    block, ((routes, _), state) = met
    arrays = load(state)
    log_prior = float(arrays["log_prior"][0])
    return [(part, (block, arrays[name][np.searchsorted(arrays["pair"], pair)], log_prior)) for part, pair in routes]


def _met(both: Any) -> tuple[bytes, Array, dict[int, float]]:
    """Return a part with the rows that the blocks sent it, in the order of its pairs."""
    (packed,), sent = both
    sent = sorted(sent, key=lambda block: block[0])
    return packed, np.concatenate([rows for _, rows, _ in sent]), {block: log_prior for block, _, log_prior in sent}


def _run(inputs: Any, *, step: Any, shared: Any, n_classes: int, pieces: Any) -> Any:
    """Return the statistics of one part, and their slices by block."""
    packed, rows, log_priors = inputs
    part = Partition(packed, n_classes)
    with use_threads(1):
        sums = step(part, rows, shared.value)
    pooled = np.zeros((n_classes, n_classes))  # (labels, classes)
    np.add.at(pooled, part.pair % n_classes, sums.counts)
    slices = [(block, sums.counts[rows].copy()) for block, rows in pieces(part.pair)]
    return slices, Sums(np.arange(n_classes), pooled, sums.totals, sums.bound), log_priors


def _pooled(value: Any) -> tuple[Sums, dict[int, float]]:
    return value[1], value[2]


def _by_block(numbered: Any) -> list[tuple[int, tuple[int, Array]]]:
    part, (slices, _, _) = numbered
    return [(block, (part, counts)) for block, counts in slices]


def _routes(numbered: tuple[int, bytes], *, n_classes: int, pieces: Any) -> list[tuple[int, tuple[int, Array]]]:
    pair = Partition(numbered[1], n_classes).pair
    return [(block, (numbered[0], pair[rows].copy())) for block, rows in pieces(pair)]


def _in_order(parts: Any) -> list[Any]:
    return sorted(parts, key=lambda part: part[0])


def drop_log_priors(inputs: tuple[bytes, Array, Any]) -> tuple[bytes, Array]:
    """Return a part and its rows of a table only."""
    return inputs[:2]


def _bare(packed: bytes) -> tuple[bytes, None, dict[int, float]]:
    return packed, None, {}


def _without(routes: Any) -> tuple[Any, None]:
    return routes, None
