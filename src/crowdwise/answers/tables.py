"""The kinds of answers, and the conversion of any table to the kind that a method takes."""

from __future__ import annotations

from typing import Any

from crowdwise._core.registry import methods
from crowdwise.answers.answers import Answers
from crowdwise.answers.columns import is_table
from crowdwise.answers.comparisons import Comparisons
from crowdwise.answers.ratings import Ratings
from crowdwise.answers.table import AnswerTable
from crowdwise.errors import AnswerKindError, ParameterError

TABLES: dict[str, type[AnswerTable]] = {table.kind: table for table in (Answers, Ratings, Comparisons)}


def as_answers(data: Any) -> Answers:
    """Return answers as they are, and build them from a data frame or a mapping of columns.

    >>> as_answers({"task": [1, 1], "worker": ["ann", "bob"], "label": ["cat", "dog"]})
    Answers(1 tasks, 2 workers, 2 answers, 2 classes)
    """
    table: Answers = as_kind(data, Answers.kind)
    return table


def as_kind(data: Any, kind: str, taker: str = "this function") -> Any:
    """Return a table of a kind as it is, and build it from a data frame or a mapping of columns.

    A table of another kind is an error that names the methods for it; `taker` is the name of what takes the table.

    >>> as_kind({"task": [1, 1], "worker": ["ann", "bob"], "rating": [1, 3]}, "ratings")
    Ratings(1 tasks, 2 workers, 2 answers, 3 levels from 1 to 3)
    """
    table = TABLES[kind]
    if isinstance(data, AnswerTable):
        if data.kind == kind:
            return data
        fitting = ", ".join(method.name for method in methods(data.kind))
        message = (
            f"{taker} takes {kind}, but the answers are {data.kind}. Methods for {data.kind}: {fitting}. Or read the "
            f"answers as {kind}: kind={kind!r} (--kind {kind})."
        )
        raise AnswerKindError(message)
    if is_table(data):
        return table.from_frame(data)
    message = (
        f"{type(data).__name__} is not a table of answers. Pass a pandas, polars or Arrow table with the columns task, "
        f"worker and label, or {table.__name__}, for example from crowdwise.read(path)."
    )
    raise ParameterError(message)
