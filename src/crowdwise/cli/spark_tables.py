"""Tables on Spark for the command line: answers as the local reader takes them, known labels, scores against them."""

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


def format_of(files: Iterable[str], given: str | None) -> str:
    """What kind of files to read: as said, or as they are called; Parquet where the names do not say.

    >>> format_of(["s3a://lake/day=1/*.csv.gz"], None), format_of(["answers/"], None)
    ('csv', 'parquet')
    """
    if given is not None:
        if given not in FORMATS.values():
            message = f"--format {given}: Spark reads parquet, csv, tsv and jsonl. Exports: `crowdwise convert` first."
            raise FormatError(message)
        return given
    ends = {file: re.search(r"(\.\w+?)?(?:\.(?:gz|bz2|zst|snappy))?/?$", file.lower()) for file in files}
    kinds = {FORMATS.get((end[1] if end else None) or ".parquet", "parquet"): file for file, end in ends.items()}
    if len(kinds) > 1:
        message = f"{' and '.join(kinds.values())} are of different formats. Read them one by one, or say --format."
        raise FormatError(message)
    return next(iter(kinds))


def read(
    spark: SparkSession, files: Sequence[str], kind: str, given: Mapping[str, str | None]
) -> tuple[DataFrame, dict[str, str]]:
    """The answers, and which columns are the task, the worker and the label."""
    from crowdwise.answers.columns import recognise

    if kind == "parquet":
        frame = spark.read.parquet(*files)
    elif kind == "jsonl":
        frame = spark.read.json(list(files))
    else:
        separator = "\t" if kind == "tsv" else ","
        frame = spark.read.csv(list(files), header=True, sep=separator, escape='"', nullValue="", emptyValue="")
    found = recognise(frame.columns, **given)
    return (typed(frame, list(found.values())) if kind in ("csv", "tsv") else frame), found


def renamed(frame: DataFrame, found: Mapping[str, str], key: bytes) -> DataFrame:
    """The answers with other names for the workers, the same as on one machine; columns nobody asked for are left."""
    from pyspark.sql import types as t

    from crowdwise.engines.spark.session import need_spark

    need_spark()
    wanted = [*found.values(), *({"weight"} & set(frame.columns) - set(found.values()))]
    frame, worker = frame.select(*(f"`{name}`" for name in wanted)), found["worker"]
    kinds = (t.StringType, t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.BooleanType)
    if not isinstance(frame.schema[worker].dataType, kinds):
        message = f"{worker!r} is of type {dict(frame.dtypes)[worker]}. Ids are integers, strings or booleans: cast it."
        raise IdTypeError(message)
    named = t.StructField(worker, t.StringType())
    schema = t.StructType([named if field.name == worker else field for field in frame.schema])
    return frame.mapInArrow(partial(_rename, worker=worker, key=key), schema)


def _rename(batches: Iterator[pa.RecordBatch], worker: str, key: bytes) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    from crowdwise.answers.pseudonyms import names

    for batch in batches:
        distinct = batch.column(worker).dictionary_encode()
        name = names(distinct.dictionary, key).cast(pa.string()).take(distinct.indices)
        yield batch.set_column(batch.schema.get_field_index(worker), worker, name)


def typed(frame: DataFrame, columns: Iterable[str]) -> DataFrame:
    """Cells of text files as the local reader takes them: integers, or booleans, where all of a column are."""
    from pyspark.sql import functions as f

    from crowdwise.io.csv_escaping import BOOLEAN, INTEGER

    asked = []
    for name in columns:
        cell = f.col(f"`{name}`")
        integer = cell.rlike(INTEGER) & cell.try_cast("bigint").isNotNull()
        asked += [f.bool_and(integer), f.bool_and(cell.rlike(BOOLEAN)), f.bool_or(cell.startswith("'"))]
    said = frame.agg(*asked).collect()[0]
    for i, name in enumerate(columns):
        integers, booleans, escaped = said[3 * i : 3 * i + 3]
        if escaped:
            message = (
                f"cells of {name!r} begin with an apostrophe, as crowdwise writes ids that a spreadsheet would run. "
                "Read them on one machine: `crowdwise convert FILE answers.parquet` first."
            )
            raise FormatError(message)
        if integers or booleans:
            frame = frame.withColumn(name, f.col(f"`{name}`").cast("bigint" if integers else "boolean"))
    return frame


def sizes(model: SparkModel) -> dict[str, int]:
    """How many of what there is."""
    from pyspark.sql import functions as f

    tasks, answers = model.labels.agg(f.count("*"), f.sum("answers")).collect()[0]
    return {"tasks": tasks, "workers": model.workers.count(), "answers": answers, "classes": model.classes.count()}


def confident(model: SparkModel) -> dict[str, float]:
    """Share of the tasks whose label is rather sure."""
    from pyspark.sql import functions as f

    from crowdwise.cli.aggregate import CONFIDENT

    sure = f.avg((f.col("confidence") > CONFIDENT).cast("double"))
    return {"confident_share": model.labels.agg(sure).collect()[0][0]}


def known(frame: DataFrame, names: Mapping[str, str], file: Path) -> DataFrame:
    """Known labels of a file of this machine, with ids named and typed as in the frame."""
    import pyarrow as pa
    from pyspark.sql import functions as f

    from crowdwise.engines.spark.results import spark_ids
    from crowdwise.io.reader import read_truth

    table, kinds = read_truth(file), dict(frame.dtypes)
    columns = {names[role]: spark_ids(table[role].combine_chunks()) for role in ("task", "label")}
    labels = frame.sparkSession.createDataFrame(pa.table(columns))
    cells = {name: f.col(f"`{name}`") for name in columns}
    for name, cell in cells.items():
        wrong = labels.where(cell.isNotNull() & cell.try_cast(kinds[name]).isNull()).select(cell).first()
        if wrong is not None:
            message = (
                f"{file}: {wrong[0]!r} where {name!r} of the answers is of type {kinds[name]}. Are the ids the same?"
            )
            raise IdTypeError(message)
    return labels.select(*(cell.cast(kinds[name]) for name, cell in cells.items()))


def held_fixed(frame: DataFrame, names: Mapping[str, str], gold: Path) -> tuple[DataFrame, dict[str, int]]:
    """Known labels to tell the fit, and how many are left out, being of tasks that nobody answered."""
    labels = known(frame, names, gold)
    there = labels.join(frame.select(f"`{names['task']}`").distinct(), names["task"], "left_semi").persist()
    n_all, n_there = labels.count(), there.count()
    if not n_there:
        message = f"{gold}: none of its {n_all:,} tasks is among the answers. Are the ids the same?"
        raise GoldError(message)
    return there, {"known label is of a task nobody answered": n_all - n_there} if n_there < n_all else {}


def scores(models: Mapping[str, SparkModel], truth: Path, told: DataFrame | None) -> dict[str, dict[str, Any]]:
    """Scores against known labels, but for those that the fit was told. Only what is scored leaves the cluster."""
    import numpy as np
    from pyspark.sql import functions as f

    from crowdwise.evaluate import evaluate

    found = {}
    for name, model in models.items():
        labels = known(model.labels, {"task": "task", "label": "label"}, truth).withColumnRenamed("label", "truth")
        if told is not None:
            labels = labels.join(told, "task", "left_anti")  # what was told is no merit
        rows = model.labels.join(f.broadcast(labels), "task").select("label", "proba", "truth").toArrow().to_pydict()
        if not rows["truth"]:
            message = f"{truth}: no task is left to score. Are the ids those of the answers, and not all of them gold?"
            raise GoldError(message)
        classes = [row["class"] for row in model.classes.collect()]
        classes += sorted(set(rows["truth"]) - set(classes))  # some only the truth knows: never inferred
        code = {each: i for i, each in enumerate(classes)}
        proba = np.array(rows["proba"])
        proba = np.pad(proba, ((0, 0), (0, len(classes) - proba.shape[1])))
        guess = SimpleNamespace(proba_=proba, codes_=np.array([code[each] for each in rows["label"]]))
        found[name] = evaluate(guess, np.array([code[each] for each in rows["truth"]])).as_dict()
        for row in found[name]["per_class"]:
            row["name"] = classes[row["name"]]
    return found
