"""The driver's side: objects the local models take for their arrays, whose work is done by the cluster.

`DawidSkene`, `IBCC` and `OneCoin` run on the driver as they are. Where they ask their work for statistics, an object
from here sends the parameters to all parts once, and adds up what comes back, in the order of the parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.answers import Pairs
from crowdwise.answers.encoding import starts
from crowdwise.engines.spark import steps
from crowdwise.engines.spark.intake import Data
from crowdwise.engines.spark.partitions import Part, Sums, add
from crowdwise.truth.base import Array
from crowdwise.truth.kernels.threads import use_threads

if TYPE_CHECKING:
    from pyspark import RDD

FAN = 32  # sums of more parts than this are added in the cluster first, so that the driver gets no more than these


class Votes:
    """The first posteriors: they lie in the cluster, and only their sum is known here."""

    def __init__(self, work: SparkConfusion | SparkOdds) -> None:
        self.work = work

    def sum(self, axis: int) -> Array:
        """Expected number of tasks of each class."""
        return self.work.first.totals


class SparkConfusion:
    """A `ConfusionWork` whose tasks lie in the cluster. `last` is what the latest E-step sent there."""

    last: steps.Tables

    def __init__(self, data: Data) -> None:
        self.data, self.n_classes = data, data.n_classes
        self.codes = data.parts.map(partial(_pair, n_classes=data.n_classes)).treeReduce(np.union1d)  # (pairs,) int64
        worker, label = np.divmod(self.codes, data.n_classes)
        self.pairs = Pairs(np.empty(0, np.int32), label.astype(np.int32), starts(worker, data.n_workers))
        self.shared = data.parts.context.broadcast(self.codes)

    def set_table(self, table: Array) -> None:
        """Take the probabilities of each pair, (pairs, classes)."""
        self._table, self._logs = table, False

    def set_log_table(self, log_table: Array) -> None:
        """Take log weights of each pair, (pairs, classes)."""
        self._table, self._logs = log_table, True

    @cached_property
    def first(self) -> Sums:
        """Statistics under the votes."""
        return gather(self.data, steps.first_pairs, None, self.codes)

    def count(self, proba: Votes) -> Array:
        """Counts (pairs, classes) under the votes."""
        return self.first.counts

    def e_step(
        self, prior: Array, gold: None, *, hard: bool = False, counts: bool = True, proba: None = None
    ) -> tuple[Array, Array, float]:
        """Counts, sizes of the classes and log-likelihood under the present table."""
        self.last = steps.Tables(prior, self._table, self._logs, hard)
        sums = gather(self.data, steps.expect_pairs, self.last, self.codes, self.shared)
        return sums.counts, sums.totals, sums.bound


class SparkOdds:
    """The work of `OneCoin` whose tasks lie in the cluster. `last` is what the latest E-step sent there."""

    last: steps.Odds

    def __init__(self, data: Data) -> None:
        self.data, self.gold, self.shape = data, None, (data.n_tasks, data.n_classes)
        self._workers = np.arange(data.n_workers)
        self.first = gather(data, steps.first_workers, None, self._workers)
        self.total = self.first.counts[:, 1]  # (workers,)

    def agreement_sums(self, proba: Votes) -> Array:
        """Agreement of each worker with the votes, (workers,)."""
        return self.first.counts[:, 0]

    def expect(self, log_odds: Array, class_prior: Array) -> tuple[Array, Array, float]:
        """Expected right answers of each worker, sizes of the classes, and the log of the normalisers."""
        self.last = steps.Odds(class_prior, log_odds)
        sums = gather(self.data, steps.expect_workers, self.last, self._workers)
        return sums.counts[:, 0], sums.totals, sums.bound


def gather(data: Data, step: Callable[..., Sums], message: Any, at: Array, pair: Any = None) -> Sums:
    """Run a step on all parts and add up what they send back, as rows of all of `at`.

    `pair` says, as a broadcast, of which pairs the table in the message is.
    """
    shared = data.parts.context.broadcast(message)
    sums = data.parts.map(partial(run_step, step=step, shared=shared, pair=pair, n_classes=data.n_classes))
    added = add_up(sums, data.n_parts, at)
    shared.destroy()
    return added


def add_up(sums: RDD[Any], n_parts: int, at: Array | None = None) -> Sums:
    """Sum (part, Sums) of all parts, in the order of the parts."""
    if n_parts > FAN:
        size = -(-n_parts // FAN)
        sums = sums.map(partial(_in_group, size=size)).groupByKey(-(-n_parts // size)).map(_added)
    return add([part for _, part in sorted(sums.collect(), key=_number)], at)


def run_step(
    numbered: tuple[int, bytes], *, step: Callable[..., Any], shared: Any, pair: Any, n_classes: int
) -> tuple[int, Any]:
    """Run a step in the cluster, on one thread: Spark gives each core a part of its own."""
    number, packed = numbered
    part, message = Part(packed, n_classes), shared.value
    rows = None if pair is None else steps.rows_of(part, message, pair.value)
    with use_threads(1):
        return number, step(part, rows, message)


def _pair(part: tuple[int, bytes], n_classes: int) -> Array:
    return Part(part[1], n_classes).pair


def _in_group(part: tuple[int, Sums], size: int) -> tuple[int, tuple[int, Sums]]:
    return part[0] // size, part


def _added(group: tuple[int, Any]) -> tuple[int, Sums]:
    number, parts = group
    return number, add([part for _, part in sorted(parts, key=_number)])


def _number(part: tuple[int, Any]) -> int:
    return part[0]
