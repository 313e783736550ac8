"""Turn a Spark DataFrame of answers into packed parts that stay in the cluster.

Rows that cannot be used are counted and kept, with a reason, in `PackedAnswers.rejected`. Workers are numbered in the
order of their ids by a join, so their ids are never collected in one place. Classes are few and are collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from crowdwise._core.validation import is_integer, require
from crowdwise.answers.answers import MAX_CLASSES
from crowdwise.answers.rows import LARGEST_WEIGHT, Duplicates, check_ids
from crowdwise.engines.spark.columns import Columns, answer_rows, check_frame, check_gold_tasks, known_labels
from crowdwise.engines.spark.partitions import pack, unpack
from crowdwise.engines.spark.session import need_spark
from crowdwise.errors import (
    DuplicateError,
    EmptyError,
    IdTypeError,
    NullError,
    ParameterError,
    TooManyClassesError,
    UnknownIdError,
)

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame, SparkSession

BadRows = Literal["aside", "error"]
DUPLICATE, UNKNOWN_LABEL = "worker gave this task another answer", "label is not among the classes"
BAD_WEIGHT = f"weight is missing, negative or above {LARGEST_WEIGHT:g}"
_ANSWERS_PER_PART = 1_000_000  # enough work for one Spark task, and far below the 2 GB limit of one row
_PACKED_SCHEMA = (
    "part int, packed binary, ids binary, repeated binary, unanswered binary, tasks long, answers long, repeats long"
)


class PackedAnswers(NamedTuple):
    """Answers in the cluster."""

    parts: RDD[Any]  # (part, bytes): see `partitions`
    ids: RDD[Any]  # (part, bytes): task ids of each part
    workers: DataFrame  # worker, code
    class_ids: pa.Array
    task_kind: str  # Spark's type of the task ids
    rejected: DataFrame  # task, worker, label, weight if there are weights, file, reason
    removed: dict[str, int]  # number of rejected rows, by reason
    n_parts: int
    n_tasks: int
    n_workers: int
    n_answers: int
    digest: int  # of all usable rows and known labels, in any order
    cached: tuple[DataFrame, ...]  # in the cluster's memory; results are read from them

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.class_ids)

    @property
    def spark(self) -> SparkSession:
        """The Spark session."""
        return self.workers.sparkSession

    def release(self) -> None:
        """Free the cluster memory of the answers; `cached` stays."""
        self.parts.unpersist()
        self.ids.unpersist()


def pack_answers(
    frame: DataFrame,
    columns: Columns,
    *,
    gold: Any = None,
    classes: Any = None,
    duplicates: Duplicates = "error",
    bad: BadRows = "aside",
    max_classes: int = MAX_CLASSES,
    parts: int | None = None,
    max_cells: int | None = None,
) -> PackedAnswers:
    """Check, number and pack the answers; see `SparkModel.fit` for the arguments.

    If confusion matrices would need more than `max_cells` numbers, raise an error before packing.
    """
    need_spark()
    from pyspark.sql import functions as f

    check_frame(frame, "the answers")
    require(duplicates in ("error", "first", "last", "vote"), "duplicates", duplicates, "error, first, last or vote")
    require(bad in ("aside", "error"), "bad", bad, "'aside' or 'error'")
    require(parts is None or is_integer(parts, 1), "parts", parts, "an integer, 1 or more")
    spark = frame.sparkSession
    rows = answer_rows(frame, columns)
    table = _classes(rows, classes, max_classes)
    codes = spark.createDataFrame(pa.table({"label": table, "class": np.arange(len(table), dtype=np.int32)}))
    if dict(codes.dtypes)["label"] != dict(rows.dtypes)["label"]:
        message = f"the labels are {dict(rows.dtypes)['label']} and the declared classes {table.type}; convert one."
        raise IdTypeError(message)
    unusable = f.col("weight").isNull() | f.isnan("weight") | ~f.col("weight").between(0, LARGEST_WEIGHT)
    reason = f.when(f.col("class").isNull(), UNKNOWN_LABEL).when(unusable, BAD_WEIGHT)
    for role in ("label", "worker", "task"):  # the last condition added is tested first
        reason = f.when(f.col(role).isNull(), f"{role} is missing").otherwise(reason)
    rows = rows.join(f.broadcast(codes), "label", "left").withColumn("reason", reason)
    digest = f.bit_xor(f.xxhash64("task", "worker", "label", "weight", f.lit(duplicates)))
    summary = rows.groupBy("reason").agg(f.count("*"), digest).collect()
    removed = {row[0]: row[1] for row in summary if row[0] is not None}
    good = [row for row in summary if row[0] is None]
    shown = ("task", "worker", "label", *(("weight",) if columns.weight is not None else ()), "file")
    rejected = rows.where("reason is not null").select(*shown, "reason")
    if bad == "error" and removed:
        raise _bad_rows_error(rejected, removed)
    if not good:
        message = f"there are no usable answers: {removed or 'the table has no rows'}."
        raise EmptyError(message)
    rows = rows.where("reason is null")
    workers, n_workers = with_ranks(rows.select("worker").distinct(), "worker")
    if max_cells is not None and n_workers * len(table) ** 2 > max_cells:
        raise _too_large_error(n_workers, len(table), max_cells)
    n_parts = parts or max(spark.sparkContext.defaultParallelism, -(-good[0][1] // _ANSWERS_PER_PART))
    coded = rows.join(workers, "worker").select("task", f.col("code").alias("worker"), "class", "weight", "row")
    hashed = good[0][2]
    if gold is not None:
        known, of_gold = known_labels(gold, columns, rows, codes)
        coded, hashed = coded.unionByName(known, allowMissingColumns=True), hashed ^ of_gold
    coded = coded.select(
        f.expr(f"cast(pmod(xxhash64(task), {n_parts}) as int)").alias("part"),
        "task", "worker", f.col("class").alias("label"), "weight", "row",
    )  # fmt: skip
    options = len(table), duplicates, columns.weight is not None, gold is not None
    packer = lambda rows: pack(rows, *options)  # noqa: E731 - Spark 4 cannot read the type hints of a partial
    packed = coded.groupBy("part").applyInArrow(packer, _PACKED_SCHEMA).persist()
    tasks, answers, repeats = packed.agg(f.sum("tasks"), f.sum("answers"), f.sum("repeats")).collect()[0]
    if gold is not None:
        check_gold_tasks(packed.select("unanswered").mapInArrow(unpack, rows.select("task").schema))
    if repeats:
        schema = coded.select("task", "worker", "label", "weight", "row").schema
        repeated = packed.select("repeated").mapInArrow(unpack, schema)
        repeated = repeated.withColumnsRenamed({"worker": "code", "label": "class"})
        ids = repeated.join(workers, "code").join(codes, "class")
        ids = ids.join(rows.select("row", "task", "file"), ["row", "task"], "left")  # Spark may renumber `row`
        repeated = ids.select(*shown, f.lit(DUPLICATE).alias("reason"))
        if duplicates == "error":
            raise _duplicate_error(repeated, repeats)
        rejected, removed[DUPLICATE] = rejected.unionByName(repeated), repeats
    kept: list[RDD[Any]] = [
        packed.select("part", name).rdd.map(tuple).partitionBy(n_parts) for name in ("packed", "ids")
    ]
    for rdd in kept:
        rdd.persist().count()
    if not repeats:
        packed.unpersist()  # a second copy of the same bytes; with repeats, `rejected` is read from it
    return PackedAnswers(
        kept[0], kept[1], workers, table, dict(rows.dtypes)["task"], rejected, removed,
        n_parts, tasks, n_workers, answers, hashed, (workers, packed) if repeats else (workers,),
    )  # fmt: skip


def with_ranks(frame: DataFrame, name: str) -> tuple[DataFrame, int]:
    """Return the rows sorted by a column of distinct ids, with their rank as `code`, and the number of rows."""
    from pyspark.sql import functions as f

    ordered = frame.sort(name).withColumn("piece", f.spark_partition_id()).persist()
    first, before = {}, 0
    for piece, size in sorted(map(tuple, ordered.groupBy("piece").count().collect())):
        first[piece], before = before, before + size
    schema = f"{', '.join(f'`{key}` {kind}' for key, kind in frame.dtypes)}, code long"
    numbered = ordered.mapInArrow(partial(_number, first=first), schema).persist()
    numbered.count()  # compute it now, so that its source can be freed
    ordered.unpersist()
    return numbered, before


def _number(batches: Iterator[pa.RecordBatch], first: dict[int, int]) -> Iterator[pa.RecordBatch]:
    done = 0  # rows of this piece so far; a piece may consist of several batches
    for batch in batches:
        if batch.num_rows:
            start = first[batch.column("piece")[0].as_py()] + done
            done += batch.num_rows
            code = pa.array(np.arange(start, start + batch.num_rows))
            yield batch.drop_columns(["piece"]).append_column("code", code)


def _classes(rows: DataFrame, classes: Any, max_classes: int) -> pa.Array:
    if classes is not None:
        table = check_ids(classes, "class")
    else:
        found = rows.select("label").where("label is not null").distinct().limit(max_classes + 1).toArrow()
        table = check_ids(found["label"].combine_chunks(), "class").sort()
    if len(table) > max_classes:
        message = (
            f"the label column has more than {max_classes:,} distinct values. Pass the right column with label=, "
            f"or allow more with max_classes=."
        )
        raise TooManyClassesError(message)
    if not len(table):
        message = "there are no answers: the label column is empty."
        raise EmptyError(message)
    return table


def _bad_rows_error(rejected: DataFrame, removed: dict[str, int]) -> Exception:
    first = rejected.first()
    assert first is not None
    counts = "; ".join(f"{count:,} where the {why}" for why, count in sorted(removed.items()))
    message = f"unusable rows: {counts}. First: {first.asDict()}. Correct them, or leave them out with bad='aside'."
    return UnknownIdError(message) if set(removed) == {UNKNOWN_LABEL} else NullError(message)


def _too_large_error(n_workers: int, n_classes: int, max_cells: int) -> Exception:
    message = (
        f"the confusion matrices of {n_workers:,} workers and {n_classes:,} classes are {n_workers * n_classes**2:,} "
        f"numbers. Above {max_cells:,} (broadcast_limit, --broadcast-limit) they are stored in a folder that all "
        f"machines share; pass it as checkpoint= (--checkpoint)."
    )
    return ParameterError(message)


def _duplicate_error(repeated: DataFrame, repeats: int) -> Exception:
    first = repeated.sort("task", "worker").take(3)
    shown = ", ".join(
        f"worker {row.worker!r} on task {row.task!r}{f' ({row.file})' if row.file else ''}" for row in first
    )
    message = (
        f"{repeats:,} answers are duplicates (same worker and task): {shown}. Keep one of each with "
        f"duplicates='first' (or 'last', or 'vote')."
    )
    return DuplicateError(message)
