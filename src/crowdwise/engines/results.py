"""From posteriors in the cluster to tables: the label of each task, and how good each worker is.

Ties are broken as on one machine, where the tied tasks, in the order of their ids, draw one number each from the
generator of `random_state`: here they are ranked by a distributed sort, and each piece skips to its place in the
generator's sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from crowdwise.answers import Answers
from crowdwise.engines.intake import Data, ranked
from crowdwise.engines.parts import Part, Sums, column, from_bytes, to_bytes, unpacked
from crowdwise.engines.steps import rows_of
from crowdwise.truth import kernels
from crowdwise.truth.base import Array, pick
from crowdwise.truth.tables import label_columns, wilson
from crowdwise.truth.threads import use_threads

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

Posterior = Callable[[Part, Any, Any], Array]


class Drawn:
    """Numbers already drawn, where a generator is expected."""

    def __init__(self, numbers: Array) -> None:
        self.numbers = numbers

    def random(self, n: int) -> Array:
        """All of them."""
        assert n == len(self.numbers)
        return self.numbers


def finish(data: Data, inputs: RDD[Any], posterior: Posterior, message: Any, pair: Any, seed: int) -> RDD[Any]:
    """Labels and sums of workers of each part: (part, (bytes of a table, Sums)), kept in the cluster.

    `inputs` are (part, (packed answers, rows of the table of probabilities or None)); with None, they are looked up in
    the message, by the broadcast `pair`.
    """
    shared = data.parts.context.broadcast(message)
    common = {"posterior": posterior, "shared": shared, "pair": pair, "n_classes": data.n_classes}
    whole = inputs.join(data.ids, data.n_parts)
    draws = _draws(data, whole.mapValues(partial(_tied, **common)), seed)
    joined = whole.leftOuterJoin(draws, data.n_parts) if draws is not None else whole.mapValues(_without)
    return joined.mapValues(partial(_finished, class_ids=data.class_ids, **common)).persist()


def label_frame(data: Data, finished: RDD[Any]) -> DataFrame:
    """One row a task: task, label, confidence, runner_up, agreement, answers, proba."""
    spark = data.workers.sparkSession
    label = id_kind(data.class_ids.type)
    schema = (
        f"task {data.task_kind}, label {label}, confidence double, runner_up {label}, agreement double, answers long"
    )
    return spread(spark, finished.map(_bytes), f"{schema}, proba array<double>")


def worker_frame(data: Data, sums: Sums, more: dict[str, Array]) -> DataFrame:
    """One row a worker: how many answers, how good, and what else the model knows of each, (workers,) arrays."""
    count, expected, agreed = sums.counts.T  # (workers,) each, in the order of codes
    low, high = wilson(expected, count)
    columns = {
        "code": np.arange(data.n_workers), "answers": count.astype(np.int64), "quality": expected / count,
        "quality_low": low, "quality_high": high, "agreement_with_consensus": agreed / count, **more,
    }  # fmt: skip
    table = data.workers.sparkSession.createDataFrame(pa.table(columns))
    return data.workers.join(table, "code").select("worker", *list(columns)[1:])


def matrix_frame(data: Data, table: DataFrame) -> DataFrame:
    """Cells of confusion matrices with the ids of the workers in place of their codes."""
    return data.workers.join(table, "code").select("worker", "truth", "label", "probability")


def spread(spark: SparkSession, rows: RDD[bytes], schema: str) -> DataFrame:
    """Arrow tables as bytes, one a row, as a DataFrame of all their rows."""
    return spark.createDataFrame(rows.map(_single), "data binary").mapInArrow(unpacked, schema)


def plain(array: pa.Array) -> pa.Array:
    """Ids as Spark takes them."""
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array


def _draws(data: Data, tied: RDD[Any], seed: int) -> RDD[Any] | None:
    """A random number for each tied task, by parts, as bytes; None when no task is tied."""
    spark = data.workers.sparkSession
    tied = tied.persist()
    if not tied.filter(_any).isEmpty():
        tables = tied.filter(_any).map(_numbered)
        order, _ = ranked(spread(spark, tables, f"task {data.task_kind}, position long, part int"), "task")
        drawn = order.mapInArrow(partial(_draw, seed=seed), "part int, position long, number double")
        packed = drawn.groupBy("part").applyInArrow(lambda rows: _gathered(rows), "part int, data binary")
        return packed.rdd.map(tuple).partitionBy(data.n_parts)
    return None


def _tied(value: Any, *, posterior: Posterior, shared: Any, pair: Any, n_classes: int) -> tuple[int, bytes]:
    inputs, ids = value
    with use_threads(1):
        proba = _posterior(inputs, posterior, shared, pair, n_classes)[1]
        best, n_tied = np.empty(len(proba), np.int32), np.empty(len(proba), np.int32)
        kernels.best_classes(proba, 1e-12, best, n_tied)
    at = np.flatnonzero(n_tied > 1)
    return len(at), to_bytes(pa.table({"task": plain(column(from_bytes(ids), "task")).take(at), "position": at}))


def _finished(
    value: Any, *, posterior: Posterior, shared: Any, pair: Any, n_classes: int, class_ids: pa.Array
) -> tuple[bytes, Sums]:
    (inputs, ids), drawn = value
    with use_threads(1):
        part, proba = _posterior(inputs, posterior, shared, pair, n_classes)
        draws: Any = Drawn(np.empty(0) if drawn is None else column(from_bytes(drawn), "number").to_numpy())
        codes = pick(proba, draws)
    answers = replace(part.answers, task_ids=plain(column(from_bytes(ids), "task")), class_ids=plain(class_ids))
    columns = label_columns(answers, proba, codes)
    each = pa.FixedSizeListArray.from_arrays(pa.array(proba.ravel()), n_classes).cast(pa.list_(pa.float64()))
    return to_bytes(pa.table({**columns, "proba": each})), _worker_sums(part, answers, proba, codes)


def _posterior(inputs: Any, posterior: Posterior, shared: Any, pair: Any, n_classes: int) -> tuple[Part, Array]:
    packed, rows = inputs
    part, message = Part(packed, n_classes), shared.value
    if pair is not None and rows is None:
        rows = rows_of(part, message, pair.value)
    return part, posterior(part, rows, message)


def _worker_sums(part: Part, answers: Answers, proba: Array, codes: Array) -> Sums:
    """Answers of each worker, how many are right by the posteriors, and how many say the label."""
    columns = (
        np.ones(answers.n_answers),
        proba[answers.task, answers.label],
        answers.label == codes[answers.task],
    )
    counts = np.stack([np.bincount(answers.worker, each, answers.n_workers) for each in columns], axis=1)
    return Sums(part.workers, counts, proba.sum(axis=0), 0.0)


def _draw(batches: Iterator[pa.RecordBatch], seed: int) -> Iterator[pa.RecordBatch]:
    """The number that `default_rng(seed).random` gives each rank; ranks of a batch follow each other."""
    for batch in batches:
        if batch.num_rows:
            generator = np.random.default_rng(seed)
            generator.bit_generator.advance(batch.column("code")[0].as_py())  # type: ignore[attr-defined]
            numbers = pa.array(generator.random(batch.num_rows))
            yield batch.select(["part", "position"]).append_column("number", numbers)


def _gathered(table: pa.Table) -> pa.Table:
    data = to_bytes(table.sort_by("position").select(["number"]))
    return pa.table({"part": table["part"].slice(0, 1), "data": pa.array([data], pa.binary())})


def _numbered(part: tuple[int, tuple[int, bytes]]) -> bytes:
    number, (n, data) = part
    return to_bytes(from_bytes(data).append_column("part", pa.array(np.full(n, number, np.int32))))


def _any(part: tuple[int, tuple[int, bytes]]) -> bool:
    return part[1][0] > 0


def with_rows(packed: bytes) -> tuple[bytes, None]:
    """A part whose rows of the table come with the message."""
    return packed, None


def first_two(inputs: tuple[bytes, Array, Any]) -> tuple[bytes, Array]:
    """A part and its own rows of the table."""
    return inputs[:2]


def sums_of(finished: tuple[bytes, Sums]) -> Sums:
    """The sums among what `finish` gives."""
    return finished[1]


def _without(value: Any) -> tuple[Any, None]:
    return value, None


def _bytes(part: tuple[int, tuple[bytes, Sums]]) -> bytes:
    return part[1][0]


def _single(data: bytes) -> tuple[bytes]:
    return (data,)


def id_kind(kind: pa.DataType) -> str:
    """Spark's name for a type of ids."""
    if pa.types.is_boolean(kind):
        return "boolean"
    return "bigint" if pa.types.is_integer(kind) else "string"
