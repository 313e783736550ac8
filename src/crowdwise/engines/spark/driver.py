"""The driver's side: stand-ins for the local models' work arrays, which compute statistics in the cluster.

`DawidSkene`, `IBCC` and `OneCoin` run unchanged on the driver. When they ask their work object for statistics, the
stand-in sends the parameters to all parts once and adds up the results, in the order of the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.answers import Pairs
from crowdwise.answers.encoding import starts
from crowdwise.engines.spark import steps
from crowdwise.engines.spark.packing import PackedAnswers
from crowdwise.engines.spark.partitions import Partition, Sums, add
from crowdwise.truth.base import Array
from crowdwise.truth.kernels.threads import use_threads

if TYPE_CHECKING:
    from pyspark import RDD

MAX_DRIVER_SUMS = 32  # the driver collects at most this many sums; those of more parts are first added in the cluster


class Votes:
    """The first posteriors (vote shares). They stay in the cluster; only their sum is known on the driver."""

    def __init__(self, work: SparkConfusion | SparkOdds) -> None:
        self.work = work

    def sum(self, axis: int) -> Array:
        """Return the expected number of tasks of each class."""
        return self.work.first.totals


class SparkConfusion:
    """A `ConfusionWork` whose tasks are in the cluster. `last` is the message of the latest E-step."""

    last: steps.Tables

    data: PackedAnswers
    n_classes: int

    def __init__(self, data: PackedAnswers) -> None:
        self.data, self.n_classes = data, data.n_classes
        self.codes: Array = data.parts.map(partial(_pair, n_classes=data.n_classes)).treeReduce(
            np.union1d
        )  # (pairs,) int64
        worker, label = np.divmod(self.codes, data.n_classes)
        self.pairs = Pairs(np.empty(0, np.int32), label.astype(np.int32), starts(worker, data.n_workers))
        self.shared = data.parts.context.broadcast(self.codes)

    def set_table(self, table: Array) -> None:
        """Set the probabilities of each pair, (pairs, classes)."""
        self._table, self._logs = table, False

    def set_log_table(self, log_table: Array) -> None:
        """Set the log weights of each pair, (pairs, classes)."""
        self._table, self._logs = log_table, True

    @cached_property
    def first(self) -> Sums:
        """The statistics with vote shares as posteriors."""
        return gather(self.data, steps.first_pairs, None, self.codes)

    def count(self, proba: Votes) -> Array:
        """Return the counts (pairs, classes) with vote shares as posteriors."""
        return self.first.counts

    def e_step(
        self, prior: Array, gold: None, *, hard: bool = False, counts: bool = True, proba: None = None
    ) -> tuple[Array, Array, float]:
        """Return counts, class sizes and log-likelihood under the present table."""
        self.last = steps.Tables(prior, self._table, self._logs, hard)
        sums = gather(self.data, steps.expect_pairs, self.last, self.codes, self.shared)
        return sums.counts, sums.totals, sums.bound


class SparkOdds:
    """The work object of `OneCoin` whose tasks are in the cluster. `last` is the message of the latest E-step."""

    last: steps.Odds

    data: PackedAnswers
    shape: tuple[int, int]
    total: Array

    def __init__(self, data: PackedAnswers) -> None:
        self.data, self.gold, self.shape = data, None, (data.n_tasks, data.n_classes)
        self._workers = np.arange(data.n_workers)
        self.first = gather(data, steps.first_workers, None, self._workers)
        self.total = self.first.counts[:, 1]  # (workers,)

    def agreement_sums(self, proba: Votes) -> Array:
        """Return the agreement of each worker with the vote shares, (workers,)."""
        return self.first.counts[:, 0]

    def expect(self, log_odds: Array, class_prior: Array) -> tuple[Array, Array, float]:
        """Return the expected right answers of each worker, the class sizes, and the sum of the log normalisers."""
        self.last = steps.Odds(class_prior, log_odds)
        sums = gather(self.data, steps.expect_workers, self.last, self._workers)
        return sums.counts[:, 0], sums.totals, sums.bound


def gather(data: PackedAnswers, step: Callable[..., Sums], message: Any, at: Array, pair: Any = None) -> Sums:
    """Run a step on all parts and add up the results as rows of `at`.

    `pair` is a broadcast of the pairs that the rows of the message's table belong to.
    """
    shared = data.parts.context.broadcast(message)
    sums = data.parts.map(partial(run_step, step=step, shared=shared, pair=pair, n_classes=data.n_classes))
    added = add_up(sums, data.n_parts, at)
    shared.destroy()
    return added


def add_up(sums: RDD[Any], n_parts: int, at: Array | None = None) -> Sums:
    """Add up (part, Sums) of all parts, in the order of the parts."""
    if n_parts > MAX_DRIVER_SUMS:
        size = -(-n_parts // MAX_DRIVER_SUMS)
        sums = sums.map(partial(_in_group, size=size)).groupByKey(-(-n_parts // size)).map(_added)
    return add([part for _, part in sorted(sums.collect(), key=_number)], at)


def run_step(
    numbered: tuple[int, bytes], *, step: Callable[..., Any], shared: Any, pair: Any, n_classes: int
) -> tuple[int, Any]:
    """Run a step in the cluster on one thread: Spark gives each core its own part."""
    number, packed = numbered
    part, message = Partition(packed, n_classes), shared.value
    rows = None if pair is None else steps.table_rows(part, message, pair.value)
    with use_threads(1):
        return number, step(part, rows, message)


def _pair(part: tuple[int, bytes], n_classes: int) -> Array:
    return Partition(part[1], n_classes).pair


def _in_group(part: tuple[int, Sums], size: int) -> tuple[int, tuple[int, Sums]]:
    return part[0] // size, part


def _added(group: tuple[int, Any]) -> tuple[int, Sums]:
    number, parts = group
    return number, add([part for _, part in sorted(parts, key=_number)])


def _number(part: tuple[int, Any]) -> int:
    return part[0]
