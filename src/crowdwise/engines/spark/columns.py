"""Validation of the input DataFrames: the columns of task, worker, label and weight, and the known labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.answers.encoding import LARGEST_EXACT, preview
from crowdwise.errors import (
    DuplicateError,
    IdTypeError,
    MissingColumnError,
    NullError,
    ParameterError,
    UnknownIdError,
    WeightError,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KINDS = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint"}
_UNSIGNED = "decimal(20,0)"  # Spark's type for unsigned 64-bit integers


class Columns(NamedTuple):
    """Names of the columns."""

    task: str = "task"
    worker: str = "worker"
    label: str = "label"
    weight: str | None = None


def answer_rows(frame: DataFrame, columns: Columns) -> DataFrame:
    """Return the columns under standard names, with each row's file, and its number, which orders duplicate answers."""
    from pyspark.sql import functions as f

    kinds = dict(frame.dtypes)
    chosen = [id_column(frame, name, role) for role, name in zip(Columns._fields[:3], columns[:3], strict=True)]
    weight = f.lit(1.0)
    if columns.weight is not None:
        weight = f.col(f"`{find_column(frame, columns.weight, 'weight')}`")
        kind = kinds[columns.weight]
        if kind not in ("double", "float", "bigint", *_KINDS) and not kind.startswith("decimal"):
            message = f"the weights in {columns.weight!r} are of type {kind}; cast them to numbers."
            raise WeightError(message)
    elif "weight" in kinds:
        message = "there is a column 'weight'. Use it with weight='weight', or remove it with .drop('weight')."
        raise WeightError(message)
    row = f.monotonically_increasing_id().alias("row")
    return frame.select(*chosen, weight.cast("double").alias("weight"), _file(frame).alias("file"), row)


def _file(frame: DataFrame) -> Column:
    """Return the file each row was read from; null if it came from no file, or from a join of several."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    try:
        frame.select(f.input_file_name())
    except AnalysisException:
        return f.lit(None).cast("string")
    return f.nullif(f.input_file_name(), f.lit(""))


def find_column(frame: DataFrame, name: str, role: str) -> str:
    """Return the name if there is such a column; raise MissingColumnError otherwise."""
    if name not in frame.columns:
        message = (
            f"there is no column {name!r} for the {role}; the columns are {preview(frame.columns)}. "
            f"Pass the name with {role}=."
        )
        raise MissingColumnError(message)
    return name


def id_column(frame: DataFrame, name: str, role: str) -> Column:
    """Return a column of ids named after its role, integers as 64 bits; accept what the local reader accepts.

    Floats and unsigned integers are checked first: they must be integers that fit into 64 bits.
    """
    from pyspark.sql import functions as f

    kind = dict(frame.dtypes)[find_column(frame, name, role)]
    kind = _KINDS.get(kind, kind)
    if kind in ("double", "float", _UNSIGNED):
        return _integer_column(frame, name, role).alias(role)
    if kind not in ("bigint", "string", "boolean"):
        message = f"the {role} ids are of type {kind}. Ids must be integers, strings or booleans; cast the column."
        raise IdTypeError(message)
    return f.col(f"`{name}`").cast(kind).alias(role)


def _integer_column(frame: DataFrame, name: str, role: str) -> Column:
    """Return floats or unsigned integers as 64-bit integers; NaN is a missing id, as in data frames with gaps."""
    from pyspark.sql import functions as f

    value, kind = f.col(f"`{name}`"), dict(frame.dtypes)[name]
    if kind == _UNSIGNED:
        fits = value.try_cast("bigint").isNotNull()
    else:
        value = f.nullif(value.cast("double"), f.lit(float("nan")))
        fits = (value == f.rint(value)) & (f.abs(value) <= LARGEST_EXACT[kind])  # a cast would truncate
    wrong = frame.where(value.isNotNull() & ~fits).select(value.alias("id")).first()
    if wrong is not None:
        message = (
            f"the {role} ids in {name!r} are not integers that fit exactly into the column's type and 64 bits "
            f"({wrong.id}). Ids must be integers, strings or booleans; round the column, or store the ids as text."
        )
        raise IdTypeError(message)
    return value.cast("bigint")


def check_frame(frame: Any, what: str) -> None:
    """Raise ParameterError unless this is a DataFrame of a classic Spark session."""
    if ".connect." in type(frame).__module__:
        message = (
            f"{what} are in a Spark Connect session, which gives no access to RDDs. Use a classic session on the "
            f"cluster itself: SparkSession.builder.config('spark.api.mode', 'classic').master(...)."
        )
        raise ParameterError(message)
    if not hasattr(frame, "sparkSession"):
        message = f"{what} must be a Spark DataFrame, not {type(frame).__name__}; use spark.createDataFrame(...)."
        raise ParameterError(message)


def known_labels(gold: Any, columns: Columns, rows: DataFrame, codes: DataFrame) -> tuple[DataFrame, int]:
    """Return the task and class of each known label, and a digest of them all.

    `codes` maps each label to its class. A task has one known label; identical rows count once.
    """
    from pyspark.sql import functions as f

    check_frame(gold, "the known labels (gold)")
    known = gold.select(id_column(gold, columns.task, "task"), id_column(gold, columns.label, "label"))
    kinds = dict(rows.dtypes)
    for role, kind in known.dtypes:
        if kind != kinds[role]:
            message = f"the {role} ids are {kind} in gold and {kinds[role]} in the answers. Convert one of them."
            raise IdTypeError(message)
    known = known.join(f.broadcast(codes), "label", "left")
    of_task = known.groupBy("task").agg(
        f.min("class").alias("class"), f.max("class").alias("other"), f.min_by("label", f.col("class").isNotNull()),
        f.bool_or(f.col("label").isNull()).alias("empty"), f.bool_or(f.col("class").isNull()).alias("unknown"),
    )  # fmt: skip
    wrong = of_task.where("task is null or empty or unknown or class <> other").sort("task").first()
    if wrong is not None:
        raise _gold_error(wrong, [row.label for row in codes.sort("class").collect()])
    digest = of_task.agg(f.bit_xor(f.xxhash64("task", "class", f.lit("gold")))).collect()[0][0]
    return of_task.select("task", "class"), digest or 0


def check_gold_tasks(unanswered: DataFrame) -> None:
    """Raise UnknownIdError if there are known labels of tasks without answers."""
    examples = [repr(row.task) for row in unanswered.sort("task").take(3)]
    if examples:
        message = f"gold names tasks without answers: {', '.join(examples)}. Remove those rows."
        raise UnknownIdError(message)


def _gold_error(wrong: Any, classes: list[Any]) -> Exception:
    task, _, _, label, empty, unknown = wrong
    if task is None:
        return NullError("a row of gold has no task. Remove it.")
    if empty:
        return NullError(f"gold has no label for task {task!r}. Remove the rows of tasks that are not known.")
    if unknown:
        message = f"gold has the label {label!r} for task {task!r}; the classes are {classes}. Add it with classes=."
        return UnknownIdError(message)
    return DuplicateError(f"gold has two labels for task {task!r}. Keep one of them.")
