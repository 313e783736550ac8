"""Known labels on Spark: a DataFrame of task and label, checked as the local models check theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crowdwise.engines.spark.columns import Columns, check_frame, id_column
from crowdwise.errors import DuplicateError, IdTypeError, NullError, UnknownIdError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def known_labels(gold: Any, columns: Columns, rows: DataFrame, codes: DataFrame) -> tuple[DataFrame, int]:
    """Task and class (by `codes`: label, class) of each known label, and a digest of them all.

    A task has one known label; one that is given twice alike counts once.
    """
    from pyspark.sql import functions as f

    check_frame(gold, "the known labels (gold)")
    known = gold.select(id_column(gold, columns.task, "task"), id_column(gold, columns.label, "label"))
    kinds = dict(rows.dtypes)
    for role, kind in known.dtypes:
        if kind != kinds[role]:
            message = f"the {role} ids of gold are {kind} where the answers have {kinds[role]}. Convert one of them."
            raise IdTypeError(message)
    known = known.join(f.broadcast(codes), "label", "left")
    of_task = known.groupBy("task").agg(
        f.min("class").alias("class"), f.max("class").alias("other"), f.min_by("label", f.col("class").isNotNull()),
        f.bool_or(f.col("label").isNull()).alias("empty"), f.bool_or(f.col("class").isNull()).alias("unknown"),
    )  # fmt: skip
    wrong = of_task.where("task is null or empty or unknown or class <> other").sort("task").first()
    if wrong is not None:
        raise _refusal(wrong, [row.label for row in codes.sort("class").collect()])
    digest = of_task.agg(f.bit_xor(f.xxhash64("task", "class", f.lit("gold")))).collect()[0][0]
    return of_task.select("task", "class"), digest or 0


def check_strangers(strangers: DataFrame) -> None:
    """Refuse known labels of tasks that nobody answered."""
    shown = [repr(row.task) for row in strangers.sort("task").take(3)]
    if shown:
        message = f"gold names tasks without answers: {', '.join(shown)}. Take those rows out."
        raise UnknownIdError(message)


def _refusal(wrong: Any, classes: list[Any]) -> Exception:
    task, _, _, label, empty, unknown = wrong
    if task is None:
        return NullError("a row of gold has no task. Take it out.")
    if empty:
        return NullError(f"gold has no label for task {task!r}. Take out the rows of tasks that are not known.")
    if unknown:
        return UnknownIdError(f"gold says {label!r} for task {task!r}: the classes are {classes}. Declare classes=.")
    return DuplicateError(f"gold gives task {task!r} two labels. A task has one; mend the table.")
