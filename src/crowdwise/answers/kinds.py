"""Notice answers that are not one class: numbers, lists of labels, free text; and labels that differ only in case.

Every method takes a label as one of a few unordered classes. Answers of another kind would run as well, with hundreds
of classes and confidences that mean nothing. So what is clearly not a class is an error, unless the user says that it
is one, and what may be a scale is a warning.
"""

from __future__ import annotations

import json
import re
import warnings
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.encoding import decode_dictionary, preview, short_repr
from crowdwise.errors import AnswerKindError, AnswerKindWarning

RATING_NAMES = ("rating", "score", "grade", "stars", "likert")
MIN_LEVELS, MAX_LEVELS = 4, 10  # of a rating scale from 1; others are usually from 0 to 10, or from -n to n
MANY_INTEGERS = 20  # distinct integers from which the labels may be measurements
FREE_TEXT = 20  # distinct labels from which they may be free text
_NUMBER = r"^[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)([eE][+-]?[0-9]+)?$"
_FRACTION = r"^[+-]?[0-9]*[.,][0-9]*[1-9]"
_INTEGER = r"^[+-]?(0|[1-9][0-9]{0,8})([.,]0*)?$"
SEPARATORS = ("|", ";", ",")  # of several labels in one cell
_REMEDY = "To treat each distinct value as a class all the same, pass as_classes=True (--as-classes)."


def check_kind(class_ids: pa.Array, name: str, n_rows: int, n_tasks: int) -> None:
    """Raise an error for labels that are clearly not classes, and warn of labels that look like a scale.

    Parameters
    ----------
    class_ids : pa.Array
        The distinct labels, sorted.
    name : str
        Their column, for messages.
    n_rows : int
        Number of answers.
    n_tasks : int
        Number of tasks.

    Examples
    --------
    >>> check_kind(pa.array(["cat", "dog"], pa.large_string()), "label", 100, 30)
    >>> check_kind(pa.array(["0.5", "0.75", "1"], pa.large_string()), "label", 100, 30)
    Traceback (most recent call last):
    crowdwise.errors.AnswerKindError: column 'label' holds numbers ('0.5', '0.75', '1'), not classes. ...
    """
    shown = preview(class_ids[:3].to_pylist(), len(class_ids))
    if pa.types.is_integer(class_ids.type):
        _warn_of_scale(class_ids.to_numpy(), name)
    elif pa.types.is_large_string(class_ids.type):
        kind = None
        if len(class_ids) > 2 and _all(class_ids, _NUMBER) and _any(class_ids, _FRACTION):
            kind = "numbers"
        elif _any(class_ids, r"^\s*\[") and all(map(_is_list, class_ids.to_pylist())):
            kind = "lists of labels"
        elif _is_free_text(class_ids, n_rows, n_tasks):
            kind = "free text"
            shown += f"; {n_rows:,} answers to {n_tasks:,} tasks"
        if kind is not None:
            message = f"column {name!r} holds {kind} ({shown}), not classes. {_REMEDY}"
            raise AnswerKindError(message)
        if _all(class_ids, _INTEGER):
            _warn_of_scale(np.sort([int(re.split("[.,]", text)[0]) for text in class_ids.to_pylist()]), name)
        else:
            _warn_of_sets(class_ids.to_pylist(), name)


def _warn_of_scale(values: np.ndarray, name: str) -> None:
    first, last = int(values[0]), int(values[-1])
    consecutive = last - first + 1 == len(values)
    named = any(word in name.lower() for word in RATING_NAMES)
    from_one = first == 1 and MIN_LEVELS <= len(values) <= MAX_LEVELS
    usual = from_one or (first, last) == (0, 10) or -first == last > 1
    if (named and len(values) > 2) or (usual and consecutive):
        what = f"look like a rating scale from {first} to {last}"
    elif len(values) > MANY_INTEGERS and not consecutive:
        what = f"are {len(values)} different integers from {first} to {last}, which may be measurements"
    else:
        return
    message = (
        f"the labels in {name!r} {what}. They are treated as unordered classes: whether an answer is off by one or by "
        "many does not matter, and confidences may be too high. as_classes=True (--as-classes) silences this warning."
    )
    warnings.warn(message, AnswerKindWarning, stacklevel=2)


def _warn_of_sets(labels: list[str], name: str) -> None:
    """Warn if a label consists of other labels, such as "cat|dog" besides "cat" and "dog"."""
    known = {label.strip() for label in labels}
    for separator in SEPARATORS:
        for label in labels:
            parts = label.split(separator)
            if len(parts) > 1 and all(part.strip() and part.strip() in known for part in parts):
                message = (
                    f"the labels in {name!r} look like several labels at once, joined by {separator!r}: "
                    f"{short_repr(label)}. Each combination is treated as a class of its own, unrelated to the others. "
                    "as_classes=True (--as-classes) silences this warning."
                )
                warnings.warn(message, AnswerKindWarning, stacklevel=2)
                return


def _all(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _is_list(text: str) -> bool:
    for candidate in (text, text.replace("'", '"')):  # as JSON, or as Python writes lists
        with suppress(ValueError, RecursionError):
            return isinstance(json.loads(candidate), list)
    return False


def _is_free_text(texts: pa.Array, n_rows: int, n_tasks: int) -> bool:
    """Return whether most answers, or tasks, have texts of their own; half of the tasks if these are of three words."""
    if len(texts) < FREE_TEXT:
        return False
    if 2 * len(texts) >= n_rows or len(texts) >= n_tasks:
        return True
    n_spaces = pc.count_substring_regex(pc.utf8_trim_whitespace(texts), r"\s+")
    return 2 * len(texts) >= n_tasks and bool(pc.mean(n_spaces).as_py() >= 2)


def fold_labels(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    """Return columns of labels in which variants that differ in case or surrounding spaces are written alike.

    The most frequent variant in all columns is used.

    >>> labels = pa.array(["Cat", "cat ", "Cat", "dog"], pa.large_string())
    >>> fold_labels({"label": labels})["label"].to_pylist()
    ['Cat', 'Cat', 'Cat', 'dog']
    """
    plain = {role: decode_dictionary(column) for role, column in columns.items()}
    texts = [column.drop_null() for column in plain.values() if pa.types.is_large_string(column.type)]
    if not texts:
        return columns
    counts = pc.value_counts(pa.concat_arrays(texts))
    values, number = counts.field("values"), counts.field("counts").to_numpy()
    names, folded = values.to_pylist(), folded_text(values).to_pylist()
    chosen: dict[str, str] = {}
    for i in sorted(range(len(names)), key=lambda i: (-number[i], names[i])):
        chosen.setdefault(folded[i], names[i])
    final = pa.array([chosen[text] for text in folded], pa.large_string())
    is_text = {role: pa.types.is_large_string(column.type) for role, column in plain.items()}
    return {
        role: final.take(pc.index_in(column, value_set=values)) if is_text[role] else column
        for role, column in plain.items()
    }


def folded_text(texts: pa.Array) -> pa.Array:
    """Return texts without case and surrounding spaces."""
    return pc.utf8_lower(pc.utf8_trim_whitespace(texts))
