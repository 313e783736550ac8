"""Find the task, worker and label columns of a table, and convert the columns that hold values instead of ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from crowdwise._core.frames import as_table
from crowdwise.answers.encoding import preview
from crowdwise.errors import CrowdwiseError, FormatError, MissingColumnError, WeightError

# Column names in common use, in order of preference. Compared in lower case, with spaces and dashes as underscores.
COLUMN_NAMES = {
    "task": ("task", "task_id", "taskid", "item", "item_id", "example", "example_id", "question", "question_id",
             "unit", "unit_id", "instance", "sample", "image", "doc_id", "document", "hitid", "id"),
    "worker": ("worker", "worker_id", "workerid", "annotator", "annotator_id", "annotatorid", "performer", "rater",
               "rater_id", "labeler", "labeller", "coder", "user", "user_id", "expert", "judge", "judge_id",
               "judge_model", "model"),
    "label": ("label", "answer", "response", "annotation", "rating", "class", "category", "judgment", "judgement",
              "verdict", "value", "vote", "choice", "score", "stars", "grade"),
}  # fmt: skip

# Columns that hold values: their type, its description, and the error raised for other values.
VALUE_COLUMNS: dict[str, tuple[pa.DataType, str, type[CrowdwiseError]]] = {
    "weight": (pa.float64(), "a number", WeightError),
    "pseudo": (pa.bool_(), "true or false", FormatError),
}


def cast_column(values: Any, role: str, name: str) -> Any:
    """Cast an Arrow column to its type in `VALUE_COLUMNS`; the error names the row of the first invalid value.

    >>> cast_column(pa.array(["0.5", "2"]), "weight", "w").to_pylist()
    [0.5, 2.0]
    """
    kind, what, error = VALUE_COLUMNS[role]
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values.cast(kind)
    first, end = 0, len(values)
    while end - first > 1:  # all values before `first` are valid, and one before `end` is not
        middle = (first + end) // 2
        first, end = (middle, end) if can_cast(values[first:middle], kind) else (first, middle)
    message = f"column {name!r}: {str(values[first])[:60]!r} at row {first} (counted from 0) is not {what}."
    raise error(message)


def can_cast(values: Any, kind: pa.DataType) -> bool:
    """Return whether Arrow can cast all values to this type."""
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values.cast(kind)
        return True
    return False


def normalise(name: str) -> str:
    """Return a column name in lower case, with spaces and dashes as underscores."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def recognise(names: Sequence[str], **roles: str | None) -> dict[str, str]:
    """Return the column of each role; for a role that is None, the column is recognised by its name.

    >>> recognise(["Item", "annotator_id", "label"], task=None, worker=None, label="label")
    {'task': 'Item', 'worker': 'annotator_id', 'label': 'label'}
    """
    repeated = sorted({n for n in names if list(names).count(n) > 1})
    columns: dict[str, str] = {}
    for role, name in roles.items():
        if name is None:
            by_name = {normalise(n): n for n in reversed(names)}
            taken = set(columns.values()) | {column for column in roles.values() if column}
            matches = [by_name[k] for k in COLUMN_NAMES[role] if k in by_name and by_name[k] not in taken]
            if not matches:
                message = (
                    f"no column for the {role} among {preview(names)}. Name it with {role}='...' (--{role}). "
                    f"Recognised names: {', '.join(COLUMN_NAMES[role][:6])}, ..."
                )
                raise MissingColumnError(message)
            name = matches[0]
        elif name not in names:
            message = f"no column {name!r} for the {role}; the table has {', '.join(map(repr, names))}."
            raise MissingColumnError(message)
        if name in repeated:
            message = f"the column {name!r} appears {list(names).count(name)} times in the table; rename all but one."
            raise MissingColumnError(message)
        columns[role] = name
    return columns


def is_table(data: Any) -> bool:
    """Return whether this is a table that `column_reader` can read.

    >>> is_table({"task": [1]}), is_table(pa.table({"task": [1]})), is_table([1, 2])
    (True, True, False)
    """
    return isinstance(data, Mapping) or is_frame(data) or hasattr(data, "__arrow_c_stream__")


def is_frame(data: Any) -> bool:
    """Return whether this is a pandas, polars or Arrow table.

    >>> is_frame(pa.table({"task": [1]})), is_frame({"task": [1]}), is_frame(pa.array([1]))
    (True, False, False)
    """
    return type(data).__name__ == "LazyFrame" or hasattr(data, "columns")  # a LazyFrame resolves columns slowly


def column_reader(frame: Any) -> tuple[list[str], Callable[[str], Any]]:
    """Return the column names of a table, and a function that returns a column by name."""
    frame = as_table(frame)
    if isinstance(frame, Mapping):
        return [str(name) for name in frame], lambda name: frame[name]
    if isinstance(frame, pa.Table):
        return frame.column_names, lambda name: frame.column(frame.column_names.index(name))
    if type(frame).__name__ == "LazyFrame":  # polars
        frame = frame.collect()
    if hasattr(frame, "columns"):  # pandas, polars: column by column, so that only the needed ones are converted
        by_name = {str(name): name for name in frame.columns}  # pandas also has numbers as names
        levels = {str(name) for name in getattr(getattr(frame, "index", None), "names", []) if name is not None}
        names = [*map(str, frame.columns), *sorted(levels - by_name.keys())]  # a named index is a column, too
        return names, lambda name: frame[by_name[name]] if name in by_name else frame.index.get_level_values(name)
    if hasattr(frame, "__arrow_c_stream__"):
        return column_reader(pa.table(frame))
    message = f"a {type(frame).__name__} is not a table; pass a pandas, polars or Arrow table, or use from_arrays."
    raise FormatError(message)
