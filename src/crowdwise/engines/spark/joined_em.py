"""EM for crowds whose confusion matrices fit no one machine: they stay in the cluster, in blocks of workers.

    M   counts of all parts, cut by blocks of workers, meet in the block; the local M-step runs on it, as on a crowd of
        its own; the block is written to disk, as the next checkpoint
    E   each block sends each part the rows of the pairs that occur there; the local E-step runs on the part

The driver sees sizes of classes and bounds alone. Blocks are read from disk in each iteration, so a lost machine costs
what it held and no more, and what has to be computed again does not grow with the iterations.
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
from crowdwise.engines.spark.intake import Data
from crowdwise.engines.spark.partitions import Part, Sums, add
from crowdwise.engines.spark.worker_tables import CELLS, cut, pack_block, pairs_of
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
    """What EM climbs over; the tables of the blocks are on disk."""

    sizes: Array  # (classes,): expected tasks of each
    prior: Array  # (labels, classes): pseudo-counts; empty where each worker has its own
    written: int  # how many times the blocks have been written: says in which folder they are
    n_blocks: int


def maximise(pairs: Pairs, counts: Array, prior: Array) -> dict[str, Array]:
    """M-step of Dawid-Skene on the pairs (worker, label) of a block: all that the next E-step and the tables need."""
    n_workers, n_classes = len(pairs.worker_starts) - 1, counts.shape[1]
    table, totals, log_prior = np.empty_like(counts), np.empty((n_workers, n_classes)), np.empty(n_workers)
    by_worker = np.ascontiguousarray(prior).reshape(-1, n_classes, n_classes)  # (1 or workers, labels, classes)
    confusion_rows(counts, pairs.label, pairs.worker_starts, by_worker, table, totals, log_prior)
    return {"table": table, "totals": totals, "log_prior": log_prior}


def integrate(pairs: Pairs, counts: Array, prior: Array) -> dict[str, Array]:
    """The same of IBCC."""
    n_workers = len(pairs.worker_starts) - 1
    log_table, totals, divergence = np.empty_like(counts), np.empty((n_workers, counts.shape[1])), np.empty(n_workers)
    run(dirichlet_rows, n_workers, counts, pairs.label, pairs.worker_starts, prior, log_table, totals, divergence)
    table = posterior_mean(counts, prior, totals, pairs.label, pairs.worker_starts)
    return {"table": table, "totals": totals, "log_prior": -divergence, "log_table": log_table}


class JoinedEM(ABC):
    """A climber for a crowd cut into blocks, which lie in `folder`, shared by all machines."""

    settle: ClassVar[Callable[..., dict[str, Array]]]  # M-step of a block
    sent: ClassVar[str] = "table"  # which table of a block an E-step needs
    hard = False

    def __init__(self, model: Any, data: Data, folder: Path) -> None:
        self.model, self.data, self.folder = model, data, folder
        self.max_iter, self.tol, self.monotone = model.max_iter, model.tol, model.monotone
        self.size = max(1, CELLS // data.n_classes**2, -(-data.n_workers // _MOST_BLOCKS))  # workers each
        self.n_blocks = -(-data.n_workers // self.size)
        self._cut = partial(cut, stride=self.size * data.n_classes, n_blocks=self.n_blocks)
        pairs = data.parts.flatMap(partial(_routes, n_classes=data.n_classes, pieces=self._cut))
        routes, own = pairs.groupByKey(self.n_blocks).mapValues(_in_order), self._own_priors()
        with_priors = routes.mapValues(_without) if own is None else routes.join(own, self.n_blocks)
        self.routes = with_priors.persist()  # (block, ([(part, pairs)], prior of its own or None))

    # What a model supplies

    @abstractmethod
    def shares(self, parameters: Parameters) -> Array:
        """Shares of the classes, (classes,), as the E-step takes them."""

    @abstractmethod
    def _prior(self, pooled: Array) -> Array:
        """Pseudo-counts (labels, classes), given the counts of the whole crowd."""

    def _own_priors(self) -> RDD[Any] | None:
        """Prior of each worker, by blocks, where there is one."""
        return None

    def _log_prior(self, parameters: Parameters) -> float:
        """What the shares of the classes add to the bound."""
        return 0.0

    # What EM calls

    def initialise(self) -> Parameters:
        """Parameters from the votes."""
        sums, pooled = self._sums(self.data.parts.mapValues(_bare), steps.first_pairs, None)
        return self._estimate(sums, self._prior(pooled.counts), pooled.totals, 1)

    def resumed(self, parameters: Parameters) -> None:
        """Refuse a checkpoint whose blocks are cut in another way."""
        if parameters.n_blocks != self.n_blocks:
            message = (
                f"the checkpoint in {str(self.folder)!r} has {parameters.n_blocks} blocks of workers, not "
                f"{self.n_blocks}: another version wrote it. Resume with that one, or delete it to begin anew."
            )
            raise ModelFileError(message)

    def _e_step(self, work: None, parameters: Parameters) -> tuple[Any, float]:
        sums, pooled = self._sums(self.inputs(parameters, self.sent), steps.expect_pairs, self.message(parameters))
        return (sums, pooled.totals), pooled.bound + self._log_prior(parameters)

    def _m_step(self, work: None, statistics: Any, parameters: Parameters) -> Parameters:
        sums, totals = statistics
        return self._estimate(sums, parameters.prior, totals, parameters.written + 1)

    def message(self, parameters: Parameters) -> steps.Tables:
        """What is the same for all parts."""
        return steps.Tables(self.shares(parameters), None, self.sent == "log_table", self.hard)

    def inputs(self, parameters: Parameters, name: str) -> RDD[Any]:
        """Each part with the rows of a table that it needs: (part, (packed answers, rows, log priors by block))."""
        sent = self.routes.join(self.blocks(parameters), self.n_blocks).flatMap(partial(_rows, name=name))
        return self.data.parts.cogroup(sent, self.data.n_parts).mapValues(_met)

    def blocks(self, parameters: Parameters) -> RDD[Any]:
        """Matrices as they are on disk: (block, bytes)."""
        return self.data.spark.read.parquet(self._path(parameters.written)).rdd.map(tuple).partitionBy(self.n_blocks)

    def _path(self, written: int) -> str:
        return f"file://{self.folder.resolve()}/blocks-{written % 2}"  # the one before stays until this one is whole

    def _sums(self, inputs: RDD[Any], step: Any, message: Any) -> tuple[RDD[Any], Sums]:
        """Statistics of each part cut by blocks, kept in the cluster; and what the driver has to know of them."""
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
        work = partial(_block, settle=self.settle, prior=prior, n_workers=self.data.n_workers, size=self.size)
        met = self.routes.join(counts, self.n_blocks).map(work)
        frame = self.data.spark.createDataFrame(met, "block int, state binary")
        frame.write.mode("overwrite").parquet(self._path(written))
        sums.unpersist()
        return Parameters(totals, prior, written, self.n_blocks)


class JoinedDawidSkene(JoinedEM):
    """`DawidSkene` with all of its settings."""

    settle = staticmethod(maximise)

    def __init__(self, model: Any, data: Data, folder: Path) -> None:
        self.hard = model.hard
        super().__init__(model, data, folder)

    def shares(self, parameters: Parameters) -> Array:
        """As the local model has them."""
        return self.model._shares(parameters.sizes, self.data.n_tasks)

    def _prior(self, pooled: Array) -> Array:
        if np.ndim(self.model.prior) == 3:
            return np.empty((0, 0))
        everybody = Pairs(np.empty(0, np.int32), np.arange(len(pooled), dtype=np.int32), np.zeros(1, np.int64))
        return prior_counts(self.model.prior, pooled, everybody)

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

    settle = staticmethod(integrate)
    sent = "log_table"

    def shares(self, parameters: Parameters) -> Array:
        """Exponentials of the expected logs."""
        return np.exp(dirichlet(parameters.sizes, self.model.alpha)[0])

    def _prior(self, pooled: Array) -> Array:
        return diagonal(len(pooled), self.model.a_v, self.model.b_v)

    def _log_prior(self, parameters: Parameters) -> float:
        return -dirichlet(parameters.sizes, self.model.alpha)[1]


# What runs in the cluster


def _block(
    met: Any, *, settle: Callable[..., dict[str, Array]], prior: Array, n_workers: int, size: int
) -> tuple[int, bytes]:
    """M-step of one block, from the counts of all parts that know its workers."""
    block, ((routes, own), arrived) = met
    counts_of, prior = dict(arrived), prior if own is None else own
    n_classes = prior.shape[-1]
    sums = add([Sums(pair, counts_of[part], np.zeros(n_classes), 0.0) for part, pair in routes])
    pairs = pairs_of(sums.at, block * size, min(size, n_workers - block * size), n_classes)
    with use_threads(1):
        found = settle(pairs, sums.counts, prior)
    found["log_prior"] = found["log_prior"].sum(keepdims=True)
    return block, pack_block(block * size, sums.at, prior=prior, **found)


def _rows(met: Any, *, name: str) -> list[tuple[int, Any]]:
    """What a block sends to each part that knows its workers."""
    block, ((routes, _), state) = met
    arrays = load(state)
    log_prior = float(arrays["log_prior"][0])
    return [(part, (block, arrays[name][np.searchsorted(arrays["pair"], pair)], log_prior)) for part, pair in routes]


def _met(both: Any) -> tuple[bytes, Array, dict[int, float]]:
    """A part and what the blocks sent it, in the order of its pairs."""
    (packed,), sent = both
    sent = sorted(sent, key=lambda block: block[0])
    return packed, np.concatenate([rows for _, rows, _ in sent]), {block: log_prior for block, _, log_prior in sent}


def _run(inputs: Any, *, step: Any, shared: Any, n_classes: int, pieces: Any) -> Any:
    """Statistics of one part, and its slices by blocks."""
    packed, rows, log_priors = inputs
    part = Part(packed, n_classes)
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
    pair = Part(numbered[1], n_classes).pair
    return [(block, (numbered[0], pair[rows].copy())) for block, rows in pieces(pair)]


def _in_order(parts: Any) -> list[Any]:
    return sorted(parts, key=lambda part: part[0])


def bare_rows(inputs: tuple[bytes, Array, Any]) -> tuple[bytes, Array]:
    """A part and its rows of a table, alone."""
    return inputs[:2]


def _bare(packed: bytes) -> tuple[bytes, None, dict[int, float]]:
    return packed, None, {}


def _without(routes: Any) -> tuple[Any, None]:
    return routes, None
