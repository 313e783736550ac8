"""Which column of a table is the task, the worker and the label; and the columns that hold no ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from crowdwise.answers.encoding import preview
from crowdwise.errors import CrowdwiseError, FormatError, MissingColumnError, WeightError

# Names seen in the field, in order of preference; compared in lower case with spaces and dashes as underscores.
KNOWN = {
    "task": ("task", "task_id", "taskid", "item", "item_id", "example", "example_id", "question", "question_id",
             "unit", "unit_id", "instance", "sample", "image", "doc_id", "document", "hitid", "id"),
    "worker": ("worker", "worker_id", "workerid", "annotator", "annotator_id", "annotatorid", "performer", "rater",
               "rater_id", "labeler", "labeller", "coder", "user", "user_id", "expert", "judge"),
    "label": ("label", "answer", "response", "annotation", "rating", "class", "category", "judgment", "judgement",
              "value", "vote", "choice"),
}  # fmt: skip

# What the values of columns without ids are, and the error where they are not.
NO_IDS: dict[str, tuple[pa.DataType, str, type[CrowdwiseError]]] = {
    "weight": (pa.float64(), "a number", WeightError),
    "pseudo": (pa.bool_(), "true or false", FormatError),
}


def cast_column(values: Any, role: str, name: str) -> Any:
    """An Arrow column of `NO_IDS` in its type; the first value that does not fit is named by its row.

    >>> cast_column(pa.array(["0.5", "2"]), "weight", "w").to_pylist()
    [0.5, 2.0]
    """
    kind, what, error = NO_IDS[role]
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return values.cast(kind)
    first, end = 0, len(values)
    while end - first > 1:  # all before `first` fit, and something before `end` does not
        middle = (first + end) // 2
        first, end = (middle, end) if casts(values[first:middle], kind) else (first, middle)
    message = f"column {name!r}: {str(values[first])[:60]!r} at row {first} (counted from 0) is not {what}."
    raise error(message)


def casts(values: Any, kind: pa.DataType) -> bool:
    """Whether Arrow can turn all values into this type."""
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        values.cast(kind)
        return True
    return False


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def recognise(names: Sequence[str], **given: str | None) -> dict[str, str]:
    """Column for each role in `given`; a role given as None is recognised by name.

    >>> recognise(["Item", "annotator_id", "label"], task=None, worker=None, label="label")
    {'task': 'Item', 'worker': 'annotator_id', 'label': 'label'}
    """
    repeated = sorted({n for n in names if list(names).count(n) > 1})
    found: dict[str, str] = {}
    for role, name in given.items():
        if name is None:
            plain = {_plain(n): n for n in reversed(names)}
            taken = set(found.values()) | {g for g in given.values() if g}
            matches = [plain[k] for k in KNOWN[role] if k in plain and plain[k] not in taken]
            if not matches:
                message = (
                    f"no column for the {role} among {preview(names)}. Name it: {role}='...', on the command line "
                    f"--{role} (recognised by themselves: {', '.join(KNOWN[role][:6])}, ...)."
                )
                raise MissingColumnError(message)
            name = matches[0]
        elif name not in names:
            message = f"no column {name!r} for the {role}; the table has {', '.join(map(repr, names))}."
            raise MissingColumnError(message)
        if name in repeated:
            message = f"the column {name!r} stands {list(names).count(name)} times in the table; rename all but one."
            raise MissingColumnError(message)
        found[role] = name
    return found


def columns_of(frame: Any) -> tuple[list[str], Callable[[str], Any]]:
    """Names of a table's columns, and a function that gives one."""
    if isinstance(frame, Mapping):
        return [str(name) for name in frame], lambda name: frame[name]
    if isinstance(frame, pa.Table):
        return frame.column_names, lambda name: frame.column(frame.column_names.index(name))
    if hasattr(frame, "columns"):  # pandas, polars: column by column, so that only three are converted
        return [str(name) for name in frame.columns], lambda name: frame[name]
    if hasattr(frame, "__arrow_c_stream__"):
        return columns_of(pa.table(frame))
    message = f"a {type(frame).__name__} is no table; give a pandas, polars or Arrow one, or use from_arrays."
    raise FormatError(message)
