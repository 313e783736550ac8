"""Tell from its values whether a column holds ratings: fractional numbers, or integers that behave like a scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.encoding import preview
from crowdwise.answers.kinds import RATING_NAMES
from crowdwise.answers.rating_columns import MAX_LEVELS, are_numbers, as_arrow_values, as_numbers, scale_levels
from crowdwise.answers.rows import Array

MIN_PAIRS = 50  # pairs of different answers to one task, from which their distance says something
NEAR = 0.8  # distance of different answers to one task, relative to chance, up to which levels are ordered
MIN_LEVELS, MAX_CLASS_LEVELS = 4, 11  # of integers that may be a scale
MAX_CLASS_CODE = 1_000_000  # larger integers are ids
_FRACTION = r"[.,][0-9]*[1-9]|[eE]-"


def ratings_reason(column: Any, name: str, task: Any) -> str | None:
    """Return why a column of answers is taken for ratings, as a phrase for a message; None if it is not.

    Parameters
    ----------
    column : Arrow array
        The answers, as read.
    name : str
        Its name: `rating`, `score` and the like are taken at their word.
    task : Arrow array
        The task of each answer. Answers to the same task that differ are mostly neighbours on a scale.

    Examples
    --------
    >>> ratings_reason(pa.array(["0.5", "0.75", "1"]), "label", pa.array([1, 1, 2]))
    "holds numbers ('0.5', '0.75', '1')"
    >>> ratings_reason(pa.array(["cat", "dog"]), "label", pa.array([1, 1]))
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_text(kind)):
        return None
    distinct = as_arrow_values(pc.unique(column), "label").drop_null()
    if not len(distinct) or (pa.types.is_large_string(distinct.type) and not are_numbers(distinct)):
        return None
    shown = distinct.to_pylist()
    values = np.unique([float(each.replace(",", ".") if isinstance(each, str) else each) for each in shown])
    if not np.isfinite(values).all():  # text of more digits than a float holds, too
        return None
    if pa.types.is_integer(kind) and np.abs(values).max() > MAX_CLASS_CODE:
        return None
    written = distinct.cast(pa.large_string())
    if len(values) > 2 and bool(pc.any(pc.match_substring_regex(written, _FRACTION)).as_py()):
        return f"holds numbers ({preview(shown[:3], len(shown))})"
    whole = bool((values == np.round(values)).all())
    first, last = int(values[0]), int(values[-1])
    named = any(word in name.lower() for word in RATING_NAMES)
    if named and len(values) > 2 and whole:
        return f"is named like ratings and holds integers from {first} to {last}"
    if not whole or not MIN_LEVELS <= len(values) <= MAX_CLASS_LEVELS or last - first >= MAX_LEVELS:
        return None
    if first in (0, 1) or first == -last:
        numbers = as_numbers(as_arrow_values(column, "label"), name)
        if scale_levels(numbers) is not None and relative_distance(task, numbers) <= NEAR:
            return f"holds integers from {first} to {last}, and different answers to a task are mostly neighbours"
    return None


def relative_distance(task: Any, numbers: pa.Array) -> float:
    """Return the mean distance of two different answers to one task, relative to two different answers to any tasks.

    It is about 1 for codes of unordered classes, and infinity if there are too few pairs to tell.

    >>> task = pa.array(np.repeat(np.arange(60), 2))
    >>> round(relative_distance(task, pa.array([1.0, 2.0, 5.0, 4.0] * 30)), 2)
    0.43
    """
    codes = (task if pa.types.is_dictionary(task.type) else task.dictionary_encode()).indices
    keep = np.logical_and(*(part.is_valid().to_numpy(zero_copy_only=False) for part in (codes, numbers)))
    of_task = codes.to_numpy(zero_copy_only=False)[keep].astype(np.int64)
    value = numbers.to_numpy(zero_copy_only=False)[keep]
    order = np.lexsort((value, of_task))
    of_task, value = of_task[order], value[order]
    starts = np.flatnonzero(np.diff(of_task, prepend=-1))
    rank = np.arange(len(of_task)) - np.repeat(starts, np.diff(np.append(starts, len(of_task))))
    size = np.repeat(np.diff(np.append(starts, len(of_task))), np.diff(np.append(starts, len(of_task))))
    distance = float((value * (2 * rank - size + 1)).sum())  # sum over pairs of |difference|
    counts = np.unique(np.stack([of_task, value]), axis=1, return_counts=True)[1]
    n_pairs = float((size - 1).sum() / 2 - (counts * (counts - 1)).sum() / 2)  # of different answers
    if n_pairs < MIN_PAIRS:
        return float("inf")
    levels, total = np.unique(value, return_counts=True)
    share: Array = total / total.sum()
    both = np.outer(share, share)
    chance = (both * abs(levels[:, None] - levels)).sum() / (1 - np.trace(both))
    return distance / n_pairs / float(chance)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)
