"""Which columns of a Spark DataFrame are the task, the worker, the label and the weight; anything else is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from crowdwise.answers.encoding import LARGEST_EXACT, preview
from crowdwise.errors import IdTypeError, MissingColumnError, ParameterError, WeightError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_KINDS = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint"}
_UNSIGNED = "decimal(20,0)"  # what Spark makes of unsigned integers of 64 bits


class Columns(NamedTuple):
    """Names of the columns."""

    task: str = "task"
    worker: str = "worker"
    label: str = "label"
    weight: str | None = None


def answer_rows(frame: DataFrame, columns: Columns) -> DataFrame:
    """The columns under our names, the file each row is from, and its place, which settles answers given twice."""
    from pyspark.sql import functions as f

    kinds = dict(frame.dtypes)
    chosen = [id_column(frame, name, role) for role, name in zip(Columns._fields[:3], columns[:3], strict=True)]
    weight = f.lit(1.0)
    if columns.weight is not None:
        weight = f.col(f"`{find_column(frame, columns.weight, 'weight')}`")
        kind = kinds[columns.weight]
        if kind not in ("double", "float", "bigint", *_KINDS) and not kind.startswith("decimal"):
            message = f"the weights in {columns.weight!r} are of type {kind}: cast them to numbers."
            raise WeightError(message)
    elif "weight" in kinds:
        message = "there is a column 'weight': use it with weight='weight', or take it out with .drop('weight')."
        raise WeightError(message)
    place = f.monotonically_increasing_id().alias("row")
    return frame.select(*chosen, weight.cast("double").alias("weight"), _file(frame).alias("file"), place)


def _file(frame: DataFrame) -> Column:
    """The file that a row was read from; null where it is from none, or from several that were joined."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    try:
        frame.select(f.input_file_name())
    except AnalysisException:
        return f.lit(None).cast("string")
    return f.nullif(f.input_file_name(), f.lit(""))


def find_column(frame: DataFrame, name: str, role: str) -> str:
    """The name, if there is such a column."""
    if name not in frame.columns:
        message = f"no column {name!r} for the {role}; there are {preview(frame.columns)}. Name it with {role}=."
        raise MissingColumnError(message)
    return name


def id_column(frame: DataFrame, name: str, role: str) -> Column:
    """A column of ids under the name of its role, integers as 64 bits: what the local reader takes, no more.

    Floats and unsigned integers are looked through first: they may be whole numbers that fit, or not.
    """
    from pyspark.sql import functions as f

    kind = dict(frame.dtypes)[find_column(frame, name, role)]
    kind = _KINDS.get(kind, kind)
    if kind in ("double", "float", _UNSIGNED):
        return _whole(frame, name, role).alias(role)
    if kind not in ("bigint", "string", "boolean"):
        message = f"the {role} ids are of type {kind}. Ids are integers, strings or booleans: cast the column."
        raise IdTypeError(message)
    return f.col(f"`{name}`").cast(kind).alias(role)


def _whole(frame: DataFrame, name: str, role: str) -> Column:
    """Whole numbers of 64 bits, whatever they are kept as; no number is a missing id, as in data frames with gaps."""
    from pyspark.sql import functions as f

    value, kind = f.col(f"`{name}`"), dict(frame.dtypes)[name]
    if kind == _UNSIGNED:
        fits = value.try_cast("bigint").isNotNull()
    else:
        value = f.nullif(value.cast("double"), f.lit(float("nan")))
        fits = (value == f.rint(value)) & (f.abs(value) <= LARGEST_EXACT[kind])  # a cast would cut and clip
    wrong = frame.where(value.isNotNull() & ~fits).select(value.alias("id")).first()
    if wrong is not None:
        message = (
            f"the {role} ids in {name!r} are fractional numbers, or so large that a float does not tell them apart or "
            f"64 bits do not hold them ({wrong.id}). Ids are integers, strings or booleans: round the column, or write "
            f"it as text in the first place."
        )
        raise IdTypeError(message)
    return value.cast("bigint")


def check_frame(frame: Any, what: str) -> None:
    """Refuse what is no DataFrame of a classic session."""
    if ".connect." in type(frame).__module__:
        message = (
            f"{what} come in a Spark Connect session, which gives no access to RDDs. Use a classic session: start it "
            f"with SparkSession.builder.config('spark.api.mode', 'classic').master(...), on the cluster itself."
        )
        raise ParameterError(message)
    if not hasattr(frame, "sparkSession"):
        message = f"{what} must be a Spark DataFrame, not {type(frame).__name__}; see spark.createDataFrame(...)."
        raise ParameterError(message)
