"""Spark tables for the command line: answers and known labels as the local reader reads them, and scores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from crowdwise.errors import FormatError, GoldError, IdTypeError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from crowdwise.engines.spark.base import SparkModel

FORMATS = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def file_format(files: Iterable[str], chosen: str | None) -> str:
    """Return the file format: the chosen one, or that of the file names; Parquet if they have no known suffix.

    >>> file_format(["s3a://lake/day=1/*.csv.gz"], None), file_format(["answers/"], None)
    ('csv', 'parquet')
    """
    if chosen is not None:
        if chosen not in FORMATS.values():
            message = f"--format {chosen}: Spark reads parquet, csv, tsv and jsonl. Run `crowdwise convert` first."
            raise FormatError(message)
        return chosen
    ends = {file: re.search(r"(\.\w+?)?(?:\.(?:gz|bz2|zst|snappy))?/?$", file.lower()) for file in files}
    kinds = {FORMATS.get((end[1] if end else None) or ".parquet", "parquet"): file for file, end in ends.items()}
    if len(kinds) > 1:
        message = f"{' and '.join(kinds.values())} have different formats. Use --format, or files of one format."
        raise FormatError(message)
    return next(iter(kinds))


def read(
    spark: SparkSession, files: Sequence[str], kind: str, columns: Mapping[str, str | None]
) -> tuple[DataFrame, dict[str, str]]:
    """Return the answers, and the columns of the task, the worker and the label."""
    from crowdwise.answers.columns import recognise

    if kind == "parquet":
        frame = spark.read.parquet(*files)
    elif kind == "jsonl":
        frame = spark.read.json(list(files))
    else:
        separator = "\t" if kind == "tsv" else ","
        frame = spark.read.csv(list(files), header=True, sep=separator, escape='"', nullValue="", emptyValue="")
    roles = recognise(frame.columns, **columns)
    return (parse_types(frame, list(roles.values())) if kind in ("csv", "tsv") else frame), roles


def pseudonymise_workers(frame: DataFrame, roles: Mapping[str, str], key: bytes) -> DataFrame:
    """Return the answers with the same pseudonyms as on one machine; other columns are dropped."""
    from pyspark.sql import types as t

    from crowdwise.engines.spark.session import need_spark

    need_spark()
    wanted = [*roles.values(), *({"weight"} & set(frame.columns) - set(roles.values()))]
    frame, worker = frame.select(*(f"`{name}`" for name in wanted)), roles["worker"]
    kinds = (t.StringType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.BooleanType)
    if not isinstance(frame.schema[worker].dataType, kinds):
        message = f"{worker!r} has type {dict(frame.dtypes)[worker]}; ids are integers, strings or booleans. Cast it."
        raise IdTypeError(message)
    named = t.StructField(worker, t.StringType())
    schema = t.StructType([named if field.name == worker else field for field in frame.schema])
    return frame.mapInArrow(partial(_rename, worker=worker, key=key), schema)


def _rename(batches: Iterator[pa.RecordBatch], worker: str, key: bytes) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from crowdwise.answers.pseudonyms import hash_ids

    for batch in batches:
        distinct = batch.column(worker).dictionary_encode()
        name = hash_ids(distinct.dictionary, key).cast(pa.string()).take(distinct.indices)
        yield batch.set_column(batch.schema.get_field_index(worker), worker, name)


def parse_types(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Parse the columns of text files like the local reader: as integers or booleans if all cells are."""
    from pyspark.sql import functions as f

    from crowdwise.io.csv_escaping import BOOLEAN, INTEGER

    checks = []
    for name in columns:
        cell = f.col(f"`{name}`")
        integer = cell.rlike(INTEGER) & cell.try_cast("bigint").isNotNull()
        checks += [f.bool_and(integer), f.bool_and(cell.rlike(BOOLEAN)), f.bool_or(cell.startswith("'"))]
    results = frame.agg(*checks).collect()[0]
    for i, name in enumerate(columns):
        integers, booleans, escaped = results[3 * i : 3 * i + 3]
        if escaped:
            message = (
                f"Cells of {name!r} begin with an apostrophe, as crowdwise writes ids that look like formulas. "
                "Run `crowdwise convert FILE answers.parquet` first."
            )
            raise FormatError(message)
        if integers or booleans:
            frame = frame.withColumn(name, f.col(f"`{name}`").cast("bigint" if integers else "boolean"))
    return frame


def sizes(model: SparkModel) -> dict[str, int]:
    """Return the number of tasks, workers, answers and classes."""
    from pyspark.sql import functions as f

    tasks, answers = model.labels.agg(f.count("*"), f.sum("answers")).collect()[0]
    return {"tasks": tasks, "workers": model.workers.count(), "answers": answers, "classes": model.classes.count()}


def confident_share(model: SparkModel) -> dict[str, float]:
    """Return the share of the tasks with a confident label."""
    from pyspark.sql import functions as f

    from crowdwise.cli.aggregate import CONFIDENT

    share = f.avg((f.col("confidence") > CONFIDENT).cast("double"))
    return {"confident_share": model.labels.agg(share).collect()[0][0]}


def known_labels(frame: DataFrame, names: Mapping[str, str], file: Path) -> DataFrame:
    """Read known labels from a local file, with the column names and types of the frame."""
    import pyarrow as pa
    from pyspark.sql import functions as f

    from crowdwise.engines.spark.results import spark_ids
    from crowdwise.io.files import file_errors
    from crowdwise.io.reader import cast_ids, read_truth

    table, kinds = read_truth(file), dict(frame.dtypes)
    arrow = {"string": pa.large_string(), "boolean": pa.bool_()}  # other ids are integers
    columns = {}
    with file_errors(file):
        for role in ("task", "label"):
            like = pa.array([], arrow.get(kinds[names[role]], pa.int64()))
            columns[names[role]] = spark_ids(cast_ids(table[role].combine_chunks(), like, role))
    labels = frame.sparkSession.createDataFrame(pa.table(columns))
    return labels.select(*(f.col(f"`{name}`").cast(kinds[name]) for name in columns))


def gold_labels(frame: DataFrame, names: Mapping[str, str], gold: Path) -> tuple[DataFrame, dict[str, int]]:
    """Return the gold labels of answered tasks, and the number of dropped ones with the reason."""
    labels = known_labels(frame, names, gold)
    answered = labels.join(frame.select(f"`{names['task']}`").distinct(), names["task"], "left_semi").persist()
    n_all, n_answered = labels.count(), answered.count()
    if not n_answered:
        message = f"{gold}: none of its {n_all:,} tasks has answers. Check that the task ids are the same."
        raise GoldError(message)
    return answered, {"known label is of a task without answers": n_all - n_answered} if n_answered < n_all else {}


def scores(models: Mapping[str, SparkModel], truth: Path, gold: DataFrame | None) -> dict[str, dict[str, Any]]:
    """Score models against known labels, gold tasks excluded. Only the scored tasks leave the cluster."""
    import numpy as np
    from pyspark.sql import functions as f

    from crowdwise.evaluate import evaluate

    found = {}
    for name, model in models.items():
        labels = known_labels(model.labels, {"task": "task", "label": "label"}, truth).withColumnRenamed(
            "label", "truth"
        )
        if gold is not None:
            labels = labels.join(gold, "task", "left_anti")  # the fit knows these labels
        rows = model.labels.join(f.broadcast(labels), "task").select("label", "proba", "truth").toArrow().to_pydict()
        if not rows["truth"]:
            message = f"{truth}: no task to score. Check the task ids, and that not all of them are gold."
            raise GoldError(message)
        classes = [row["class"] for row in model.classes.collect()]
        classes += sorted(set(rows["truth"]) - set(classes))  # classes that only the truth has are never inferred
        code = {each: i for i, each in enumerate(classes)}
        proba = np.array(rows["proba"])
        proba = np.pad(proba, ((0, 0), (0, len(classes) - proba.shape[1])))
        inferred = SimpleNamespace(proba_=proba, codes_=np.array([code[each] for each in rows["label"]]))
        found[name] = evaluate(inferred, np.array([code[each] for each in rows["truth"]])).as_dict()
        for row in found[name]["per_class"]:
            row["name"] = classes[row["name"]]
    return found
