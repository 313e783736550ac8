"""The label of each task from posteriors in the cluster, and the sums from which the worker table is computed.

Ties are broken as by the local models, where the tied tasks, in the order of their ids, draw one number each from the
generator of `random_state`. Here a distributed sort ranks them, and each batch advances the generator to its ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise.answers import Answers
from crowdwise.engines.spark.packing import PackedAnswers, with_ranks
from crowdwise.engines.spark.partitions import Partition, Sums, column, from_bytes, to_bytes, unpack
from crowdwise.engines.spark.steps import table_rows
from crowdwise.truth.base import Array, fix_gold, pick
from crowdwise.truth.kernels import shared
from crowdwise.truth.kernels.threads import use_threads
from crowdwise.truth.tables import label_columns, shared_sums

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


class FitResult(NamedTuple):
    """The result of a fit: what is needed to compute the posteriors of each part."""

    posterior: Callable[[Partition, Any, Any], Array]  # a step
    message: Any
    pair: Any = None  # broadcast of the pairs that the rows of the message's table belong to
    inputs: Any = None  # (part, (packed answers, rows)) if each part has its own rows
    extra: tuple[str, Callable[[Array], Array]] | None = None  # name and function of an extra label column
    needs: tuple[Any, ...] = ()  # must stay in memory as long as the results


class FixedDraws:
    """Numbers already drawn, in place of a random generator."""

    def __init__(self, numbers: Array) -> None:
        self.numbers = numbers

    def random(self, n: int) -> Array:
        """Return all numbers."""
        assert n == len(self.numbers)
        return self.numbers


def finish(data: PackedAnswers, fit_result: FitResult, seed: int) -> tuple[RDD[Any], list[Any]]:
    """Return the labels and the sums over the answers of each pair: (part, (bytes of a table, Sums)), persisted.

    The second result is a list of temporary RDDs and DataFrames, to be unpersisted once the first is computed.
    """
    inputs = data.parts.mapValues(_bare) if fit_result.inputs is None else fit_result.inputs
    shared = data.parts.context.broadcast(fit_result.message)
    common: dict[str, Any] = {
        "fit_result": fit_result._replace(message=shared, inputs=None, needs=()),
        "n_classes": data.n_classes,
    }
    whole = inputs.join(data.ids, data.n_parts)
    tied = whole.mapValues(partial(_tied, **common)).persist()
    draws, order = _draws(data, tied, seed)
    joined = whole.leftOuterJoin(draws, data.n_parts) if draws is not None else whole.mapValues(_without)
    finished = joined.mapValues(partial(_finished, class_ids=data.class_ids, **common)).persist()
    return finished, [tied, *order]


def label_frame(data: PackedAnswers, finished: RDD[Any], extra: str | None) -> DataFrame:
    """Return one row per task: task, label, confidence, runner_up, agreement, answers, the extra column, proba."""
    label = spark_type(data.class_ids.type)
    schema = (
        f"task {data.task_kind}, label {label}, confidence double, runner_up {label}, agreement double, answers long"
    )
    schema = schema if extra is None else f"{schema}, {extra} double"
    return frame_from_tables(data.spark, finished.map(_bytes), f"{schema}, proba array<double>")


def frame_from_tables(spark: SparkSession, rows: RDD[bytes], schema: str) -> DataFrame:
    """Return a DataFrame of all rows of serialised Arrow tables."""
    return spark.createDataFrame(rows.map(_single), "data binary").mapInArrow(unpack, schema)


def spark_ids(array: pa.Array) -> pa.Array:
    """Return ids in an Arrow type that Spark accepts."""
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array


def _draws(data: PackedAnswers, tied: RDD[Any], seed: int) -> tuple[RDD[Any] | None, list[Any]]:
    """Return a random number for each tied task, as bytes per part (None without ties), and temporary DataFrames."""
    found = tied.filter(_any)
    if found.isEmpty():
        return None, []
    order, _ = with_ranks(
        frame_from_tables(data.spark, found.map(_numbered), f"task {data.task_kind}, position long, part int"), "task"
    )
    drawn = order.mapInArrow(partial(_draw, seed=seed), "part int, position long, number double")
    packed = drawn.groupBy("part").applyInArrow(lambda rows: _gathered(rows), "part int, data binary")
    return packed.rdd.map(tuple).partitionBy(data.n_parts), [order]


def _tied(value: Any, *, fit_result: FitResult, n_classes: int) -> tuple[int, bytes]:
    inputs, ids = value
    with use_threads(1):
        proba = _posterior(inputs, fit_result, n_classes)[1]
        best, n_tied = np.empty(len(proba), np.int32), np.empty(len(proba), np.int32)
        shared.best_classes(proba, 1e-12, best, n_tied)
    at = np.flatnonzero(n_tied > 1)
    return len(at), to_bytes(pa.table({"task": spark_ids(column(from_bytes(ids), "task")).take(at), "position": at}))


def _finished(value: Any, *, fit_result: FitResult, n_classes: int, class_ids: pa.Array) -> tuple[bytes, Sums]:
    (inputs, ids), drawn = value
    with use_threads(1):
        part, proba = _posterior(inputs, fit_result, n_classes)
        draws: Any = FixedDraws(np.empty(0) if drawn is None else column(from_bytes(drawn), "number").to_numpy())
        codes = pick(proba, draws)
    answers = replace(part.answers, task_ids=spark_ids(column(from_bytes(ids), "task")), class_ids=spark_ids(class_ids))
    columns = label_columns(answers, proba, codes)
    if fit_result.extra is not None:
        columns[fit_result.extra[0]] = fit_result.extra[1](inputs[1])
    each = pa.FixedSizeListArray.from_arrays(pa.array(proba.ravel()), n_classes).cast(pa.list_(pa.float64()))
    return to_bytes(pa.table({**columns, "proba": each})), _pair_sums(part, answers, proba, codes)


def _posterior(inputs: Any, fit_result: FitResult, n_classes: int) -> tuple[Partition, Array]:
    packed, rows = inputs
    part, message = Partition(packed, n_classes), fit_result.message.value
    if fit_result.pair is not None and rows is None:
        rows = table_rows(part, message, fit_result.pair.value)
    return part, fix_gold(fit_result.posterior(part, rows, message), part.gold)


def _pair_sums(part: Partition, answers: Answers, proba: Array, codes: Array) -> Sums:
    """Return sums over each pair's answers: their number, probability, agreement with the label, its confidence.

    Two extra columns are those of `truth.tables.shared_sums`.
    """
    belief = proba[answers.task, answers.label]  # (answers,)
    confidence = proba[np.arange(len(codes)), codes]  # (tasks,)
    columns = (
        np.ones(answers.n_answers),
        belief,
        answers.label == codes[answers.task],
        confidence[answers.task],
    )
    sums = [np.bincount(part.of_answer, each, len(part.pair)) for each in columns]
    counts = np.stack([*sums, *shared_sums(answers, belief, part.of_answer, len(part.pair))], axis=1)
    return Sums(part.pair, counts, proba.sum(axis=0), 0.0)


def _draw(batches: Iterator[pa.RecordBatch], seed: int) -> Iterator[pa.RecordBatch]:
    """Add the number that `default_rng(seed).random` gives each rank; the ranks of a batch are consecutive."""
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


def _bare(packed: bytes) -> tuple[bytes, None]:
    """A part whose table rows come with the message."""
    return packed, None


def class_sizes(finished: tuple[bytes, Sums]) -> Sums:
    """Return the class sizes in a result of `finish`."""
    return finished[1]._replace(at=np.empty(0, np.int64), counts=np.empty((0, 1)))


def _without(value: Any) -> tuple[Any, None]:
    return value, None


def _bytes(part: tuple[int, tuple[bytes, Sums]]) -> bytes:
    return part[1][0]


def _single(data: bytes) -> tuple[bytes]:
    return (data,)


def spark_type(kind: pa.DataType) -> str:
    """Return Spark's name for a type of ids."""
    if pa.types.is_boolean(kind):
        return "boolean"
    return "bigint" if pa.types.is_integer(kind) else "string"
