"""From posteriors in the cluster to the label of each task, and to sums that say how good each worker is.

Ties are broken as on one machine, where the tied tasks, in the order of their ids, draw one number each from the
generator of `random_state`: here they are ranked by a distributed sort, and each piece skips to its place in the
generator's sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise.answers import Answers
from crowdwise.engines.spark.intake import Data, ranked
from crowdwise.engines.spark.partitions import Part, Sums, column, from_bytes, to_bytes, unpacked
from crowdwise.engines.spark.steps import rows_of
from crowdwise.truth.base import Array, fix_gold, pick
from crowdwise.truth.kernels import shared
from crowdwise.truth.kernels.threads import use_threads
from crowdwise.truth.tables import label_columns, shared_sums

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession


class Learned(NamedTuple):
    """What the posteriors of a part are made from."""

    posterior: Callable[[Part, Any, Any], Array]  # a step
    message: Any
    pair: Any = None  # broadcast: of which pairs the table in the message is
    inputs: Any = None  # (part, (packed answers, rows)) where each part has rows of its own, in no message
    more: tuple[str, Callable[[Array], Array]] | None = None  # one more column of the labels, made from those rows
    needs: tuple[Any, ...] = ()  # what has to stay in memory as long as the results


class Drawn:
    """Numbers already drawn, where a generator is expected."""

    def __init__(self, numbers: Array) -> None:
        self.numbers = numbers

    def random(self, n: int) -> Array:
        """All of them."""
        assert n == len(self.numbers)
        return self.numbers


def finish(data: Data, learned: Learned, seed: int) -> tuple[RDD[Any], list[Any]]:
    """Labels of each part, and sums over the answers of each pair: (part, (bytes of a table, Sums)), to be kept.

    Also what is held in memory for them, and need not be any more once they are there.
    """
    inputs = data.parts.mapValues(_bare) if learned.inputs is None else learned.inputs
    shared = data.parts.context.broadcast(learned.message)
    common: dict[str, Any] = {
        "learned": learned._replace(message=shared, inputs=None, needs=()),
        "n_classes": data.n_classes,
    }
    whole = inputs.join(data.ids, data.n_parts)
    tied = whole.mapValues(partial(_tied, **common)).persist()
    draws, order = _draws(data, tied, seed)
    joined = whole.leftOuterJoin(draws, data.n_parts) if draws is not None else whole.mapValues(_without)
    finished = joined.mapValues(partial(_finished, class_ids=data.class_ids, **common)).persist()
    return finished, [tied, *order]


def label_frame(data: Data, finished: RDD[Any], more: str | None) -> DataFrame:
    """One row a task: task, label, confidence, runner_up, agreement, answers, what more there is, proba."""
    label = id_kind(data.class_ids.type)
    schema = (
        f"task {data.task_kind}, label {label}, confidence double, runner_up {label}, agreement double, answers long"
    )
    schema = schema if more is None else f"{schema}, {more} double"
    return spread(data.spark, finished.map(_bytes), f"{schema}, proba array<double>")


def spread(spark: SparkSession, rows: RDD[bytes], schema: str) -> DataFrame:
    """Arrow tables as bytes, one a row, as a DataFrame of all their rows."""
    return spark.createDataFrame(rows.map(_single), "data binary").mapInArrow(unpacked, schema)


def plain(array: pa.Array) -> pa.Array:
    """Ids as Spark takes them."""
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array


def _draws(data: Data, tied: RDD[Any], seed: int) -> tuple[RDD[Any] | None, list[Any]]:
    """A random number for each tied task, by parts, as bytes (None when no task is tied); and what it is held in."""
    found = tied.filter(_any)
    if found.isEmpty():
        return None, []
    order, _ = ranked(
        spread(data.spark, found.map(_numbered), f"task {data.task_kind}, position long, part int"), "task"
    )
    drawn = order.mapInArrow(partial(_draw, seed=seed), "part int, position long, number double")
    packed = drawn.groupBy("part").applyInArrow(lambda rows: _gathered(rows), "part int, data binary")
    return packed.rdd.map(tuple).partitionBy(data.n_parts), [order]


def _tied(value: Any, *, learned: Learned, n_classes: int) -> tuple[int, bytes]:
    inputs, ids = value
    with use_threads(1):
        proba = _posterior(inputs, learned, n_classes)[1]
        best, n_tied = np.empty(len(proba), np.int32), np.empty(len(proba), np.int32)
        shared.best_classes(proba, 1e-12, best, n_tied)
    at = np.flatnonzero(n_tied > 1)
    return len(at), to_bytes(pa.table({"task": plain(column(from_bytes(ids), "task")).take(at), "position": at}))


def _finished(value: Any, *, learned: Learned, n_classes: int, class_ids: pa.Array) -> tuple[bytes, Sums]:
    (inputs, ids), drawn = value
    with use_threads(1):
        part, proba = _posterior(inputs, learned, n_classes)
        draws: Any = Drawn(np.empty(0) if drawn is None else column(from_bytes(drawn), "number").to_numpy())
        codes = pick(proba, draws)
    answers = replace(part.answers, task_ids=plain(column(from_bytes(ids), "task")), class_ids=plain(class_ids))
    columns = label_columns(answers, proba, codes)
    if learned.more is not None:
        columns[learned.more[0]] = learned.more[1](inputs[1])
    each = pa.FixedSizeListArray.from_arrays(pa.array(proba.ravel()), n_classes).cast(pa.list_(pa.float64()))
    return to_bytes(pa.table({**columns, "proba": each})), _pair_sums(part, answers, proba, codes)


def _posterior(inputs: Any, learned: Learned, n_classes: int) -> tuple[Part, Array]:
    packed, rows = inputs
    part, message = Part(packed, n_classes), learned.message.value
    if learned.pair is not None and rows is None:
        rows = rows_of(part, message, learned.pair.value)
    return part, fix_gold(learned.posterior(part, rows, message), part.gold)


def _pair_sums(part: Part, answers: Answers, proba: Array, codes: Array) -> Sums:
    """Sums over the answers of each pair: of 1, of their probability, of those that say the label, of its certainty.

    And of `shared_sums`.
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


def _bare(packed: bytes) -> tuple[bytes, None]:
    """A part whose rows of the table come with the message."""
    return packed, None


def sizes_of(finished: tuple[bytes, Sums]) -> Sums:
    """Sizes of the classes among what `finish` gives."""
    return finished[1]._replace(at=np.empty(0, np.int64), counts=np.empty((0, 1)))


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
