"""From a Spark DataFrame of answers to parts that lie in the cluster, packed and kept.

Rows that cannot be used are never lost from sight: each gets a reason, all are counted, and `Data.rejected` holds them.
Workers are numbered in the order of their ids by a join, so their ids are never gathered in one place; classes, of
which there are few, are.
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
from crowdwise.engines.spark.columns import Columns, answer_rows, check_frame
from crowdwise.engines.spark.gold import check_strangers, known_labels
from crowdwise.engines.spark.partitions import pack, unpacked
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

Bad = Literal["aside", "error"]
TWICE, UNKNOWN = "worker gave this task another answer", "label is not among the classes"
BAD_WEIGHT = f"weight is missing, negative or above {LARGEST_WEIGHT:g}"
_ANSWERS_A_PART = 1_000_000  # enough work for each task of a job, and far below the 2 GB one row may hold
_PACKED = "part int, packed binary, ids binary, twice binary, strangers binary, tasks long, answers long, repeats long"


class Data(NamedTuple):
    """Answers in the cluster."""

    parts: RDD[Any]  # (part, bytes): see `parts`
    ids: RDD[Any]  # (part, bytes): ids of the tasks of each part
    workers: DataFrame  # worker, code
    class_ids: pa.Array
    task_kind: str  # Spark's type of the ids of tasks
    rejected: DataFrame  # task, worker, label, weight where there are weights, file, reason
    removed: dict[str, int]  # rows left out, by reason
    n_parts: int
    n_tasks: int
    n_workers: int
    n_answers: int
    digest: int  # of all usable rows and known labels, whatever their order
    held: tuple[DataFrame, ...]  # in memory, for results to be read from

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return len(self.class_ids)

    @property
    def spark(self) -> SparkSession:
        """The session they lie in."""
        return self.workers.sparkSession

    def release(self) -> None:
        """Let the cluster forget the answers; what is `held` stays."""
        self.parts.unpersist()
        self.ids.unpersist()


def take(
    frame: DataFrame,
    columns: Columns,
    *,
    gold: Any = None,
    classes: Any = None,
    duplicates: Duplicates = "error",
    bad: Bad = "aside",
    max_classes: int = MAX_CLASSES,
    parts: int | None = None,
    room: int | None = None,
) -> Data:
    """Check, number and pack the answers; see `SparkModel.fit` for the arguments.

    Confusion matrices of more than `room` numbers are refused before the packing: there is no folder to keep them in.
    """
    need_spark()
    from pyspark.sql import functions as f

    check_frame(frame, "the answers")
    require(duplicates in ("error", "first", "last", "vote"), "duplicates", duplicates, "error, first, last or vote")
    require(bad in ("aside", "error"), "bad", bad, "'aside' or 'error'")
    require(parts is None or is_integer(parts, 1), "parts", parts, "a whole number, 1 or more")
    spark = frame.sparkSession
    rows = answer_rows(frame, columns)
    table = _classes(rows, classes, max_classes)
    codes = spark.createDataFrame(pa.table({"label": table, "class": np.arange(len(table), dtype=np.int32)}))
    if dict(codes.dtypes)["label"] != dict(rows.dtypes)["label"]:
        message = f"labels are {dict(rows.dtypes)['label']} where {table.type} classes are declared; convert one."
        raise IdTypeError(message)
    unusable = f.col("weight").isNull() | f.isnan("weight") | ~f.col("weight").between(0, LARGEST_WEIGHT)
    reason = f.when(f.col("class").isNull(), UNKNOWN).when(unusable, BAD_WEIGHT)
    for role in ("label", "worker", "task"):  # the first to be missing is named
        reason = f.when(f.col(role).isNull(), f"{role} is missing").otherwise(reason)
    rows = rows.join(f.broadcast(codes), "label", "left").withColumn("reason", reason)
    digest = f.bit_xor(f.xxhash64("task", "worker", "label", "weight", f.lit(duplicates)))
    found = rows.groupBy("reason").agg(f.count("*"), digest).collect()
    removed = {row[0]: row[1] for row in found if row[0] is not None}
    good = [row for row in found if row[0] is None]
    shown = ("task", "worker", "label", *(("weight",) if columns.weight is not None else ()), "file")
    rejected = rows.where("reason is not null").select(*shown, "reason")
    if bad == "error" and removed:
        raise _refusal(rejected, removed)
    if not good:
        message = f"no answers: {removed or 'the table has no rows'}."
        raise EmptyError(message)
    rows = rows.where("reason is null")
    workers, n_workers = ranked(rows.select("worker").distinct(), "worker")
    if room is not None and n_workers * len(table) ** 2 > room:
        raise _too_large(n_workers, len(table), room)
    n_parts = parts or max(spark.sparkContext.defaultParallelism, -(-good[0][1] // _ANSWERS_A_PART))
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
    packer = lambda rows: pack(rows, *options)  # noqa: E731 - Spark 4 stumbles over the hints of a partial
    packed = coded.groupBy("part").applyInArrow(packer, _PACKED).persist()
    tasks, answers, repeats = packed.agg(f.sum("tasks"), f.sum("answers"), f.sum("repeats")).collect()[0]
    if gold is not None:
        check_strangers(packed.select("strangers").mapInArrow(unpacked, rows.select("task").schema))
    if repeats:
        kinds = coded.select("task", "worker", "label", "weight", "row").schema
        twice = packed.select("twice").mapInArrow(unpacked, kinds)
        ids = twice.withColumnsRenamed({"worker": "code", "label": "class"}).join(workers, "code").join(codes, "class")
        ids = ids.join(rows.select("row", "task", "file"), ["row", "task"], "left")  # both: rows are numbered once more
        twice = ids.select(*shown, f.lit(TWICE).alias("reason"))
        if duplicates == "error":
            raise _repeats(twice, repeats)
        rejected, removed[TWICE] = rejected.unionByName(twice), repeats
    kept: list[RDD[Any]] = [
        packed.select("part", name).rdd.map(tuple).partitionBy(n_parts) for name in ("packed", "ids")
    ]
    for rows_kept in kept:
        rows_kept.persist().count()
    if not repeats:
        packed.unpersist()  # the same bytes twice; with repeats, `rejected` is read from it
    return Data(
        kept[0], kept[1], workers, table, dict(rows.dtypes)["task"], rejected, removed,
        n_parts, tasks, n_workers, answers, hashed, (workers, packed) if repeats else (workers,),
    )  # fmt: skip


def ranked(frame: DataFrame, name: str) -> tuple[DataFrame, int]:
    """Rows in the order of a column of distinct ids, with their rank as `code`, and how many there are."""
    from pyspark.sql import functions as f

    ordered = frame.sort(name).withColumn("piece", f.spark_partition_id()).persist()
    first, before = {}, 0
    for piece, size in sorted(map(tuple, ordered.groupBy("piece").count().collect())):
        first[piece], before = before, before + size
    schema = f"{', '.join(f'`{key}` {kind}' for key, kind in frame.dtypes)}, code long"
    numbered = ordered.mapInArrow(partial(_number, first=first), schema).persist()
    numbered.count()  # once it is there, what it was made from may go
    ordered.unpersist()
    return numbered, before


def _number(batches: Iterator[pa.RecordBatch], first: dict[int, int]) -> Iterator[pa.RecordBatch]:
    done = 0  # rows of this piece so far; it may come in several batches
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
            f"the label column has more than {max_classes:,} distinct values: is it the label? Name it with label=, "
            f"or pass max_classes=."
        )
        raise TooManyClassesError(message)
    if not len(table):
        message = "no answers: the label column is empty."
        raise EmptyError(message)
    return table


def _refusal(rejected: DataFrame, removed: dict[str, int]) -> Exception:
    first = rejected.first()
    assert first is not None
    counts = "; ".join(f"{count:,} where the {why}" for why, count in sorted(removed.items()))
    message = f"{counts}. First: {first.asDict()}. Mend them, or set them aside with bad='aside'."
    return UnknownIdError(message) if set(removed) == {UNKNOWN} else NullError(message)


def _too_large(n_workers: int, n_classes: int, room: int) -> Exception:
    message = (
        f"confusion matrices of {n_workers:,} workers and {n_classes:,} classes are {n_workers * n_classes**2:,} "
        f"numbers. Above {room:,} (broadcast_limit, --broadcast-limit) they stay in a folder that all machines share: "
        f"name it with checkpoint= (--checkpoint)."
    )
    return ParameterError(message)


def _repeats(twice: DataFrame, repeats: int) -> Exception:
    first = twice.sort("task", "worker").take(3)
    shown = ", ".join(
        f"worker {row.worker!r} on task {row.task!r}{f' ({row.file})' if row.file else ''}" for row in first
    )
    message = (
        f"{repeats:,} answers are given a second time or more: {shown}. Keep one of each with duplicates='first' "
        f"(or last, or vote)."
    )
    return DuplicateError(message)
