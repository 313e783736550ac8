"""Turn columns of ratings into numbers: texts that are numbers, the levels of a scale, and the order of their names."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.encoding import as_arrow, preview, short_repr
from crowdwise.answers.rows import Array
from crowdwise.errors import AnswerKindError, UnknownIdError

MAX_LEVELS = 21  # such as 0 to 10 in halves; a finer grid holds numbers
SHORT_SCALE = 11  # up to so many levels, most may be unused
_NUMBER = r"^\s*[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?\s*$"
_SCALES = (  # names of levels in common use, lowest first
    ("strongly disagree", "disagree", "somewhat disagree", "neutral", "neither agree nor disagree", "somewhat agree",
     "agree", "strongly agree"),
    ("very dissatisfied", "dissatisfied", "neutral", "satisfied", "very satisfied"),
    ("very unlikely", "unlikely", "neutral", "likely", "very likely"),
    ("very negative", "negative", "neutral", "positive", "very positive"),
    ("terrible", "very poor", "very bad", "poor", "bad", "fair", "ok", "okay", "average", "good", "very good",
     "great", "excellent", "perfect"),
    ("none", "very low", "low", "minor", "medium", "moderate", "high", "major", "very high", "severe", "critical"),
    ("never", "rarely", "seldom", "sometimes", "often", "usually", "always"),
    ("not relevant", "irrelevant", "slightly relevant", "partially relevant", "somewhat relevant", "relevant",
     "highly relevant", "very relevant", "perfectly relevant"),
)  # fmt: skip


def scale_levels(column: pa.Array) -> Array | None:
    """Return the levels of a scale with few equal steps, unused ones included; None for other numbers.

    >>> scale_levels(pa.array([1.0, 5.0, 2.0])).tolist(), scale_levels(pa.array([0.3, 17.0, 100.0]))
    ([1.0, 2.0, 3.0, 4.0, 5.0], None)
    """
    values = np.unique(column.drop_null().to_numpy())
    if len(values) < 2:
        return values if len(values) else None
    whole = bool((values == np.round(values)).all())
    step = float(np.diff(values).min()) if not whole or values[-1] - values[0] >= MAX_LEVELS else 1.0
    n_levels = (values[-1] - values[0]) / step + 1
    if n_levels > MAX_LEVELS + 1e-6 or 2 * len(values) < n_levels > SHORT_SCALE:
        return None
    levels = np.round(values[0] + step * np.arange(round(n_levels)), 12)
    at = np.minimum(np.searchsorted(levels, values - 1e-9), len(levels) - 1)
    return levels if np.allclose(levels[at], values, rtol=0, atol=1e-9) else None


def natural_order(names: pa.Array, column: str) -> tuple[str, ...]:
    """Return names of levels, lowest first: by a number they begin with, or as on a scale in common use.

    >>> natural_order(pa.array(["good", "poor"], pa.large_string()), "label")
    ('poor', 'good')
    >>> natural_order(pa.array(["2 - so so", "1 - bad"], pa.large_string()), "label")
    ('1 - bad', '2 - so so')
    """
    texts = sorted(str(name) for name in names.to_pylist() if name is not None)
    leading = [re.match(r"\s*([+-]?\d+)\b", text) for text in texts]
    numbers = [int(match[1]) for match in leading if match]
    if len(numbers) == len(texts) == len(set(numbers)):
        return tuple(text for _, text in sorted(zip(numbers, texts, strict=True)))
    plain = {re.sub(r"[\s_-]+", " ", text.strip().lower()): text for text in texts}
    for scale in _SCALES:
        if len(plain) == len(texts) and set(plain) <= set(scale):
            return tuple(plain[name] for name in scale if name in plain)
    message = (
        f"column {column!r}: the order of the levels {preview(texts)} is not known. Pass it with levels=[...], lowest "
        "first (--levels LOW,...,HIGH)."
    )
    raise AnswerKindError(message)


def as_arrow_values(values: Any, role: str) -> pa.Array:
    """Return ratings of any origin as an Arrow array of floats or text; nulls are kept."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if not isinstance(values, pa.Array):
        try:
            values = values.to_arrow() if hasattr(values, "to_arrow") else pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            values = as_arrow(values, role)
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        values = values.cast(pa.float64(), safe=False)  # integers above 2^53 lose digits
        return pc.if_else(pc.is_nan(values), pa.scalar(None, pa.float64()), values)
    if pa.types.is_null(values.type):
        return values.cast(pa.float64())
    if pa.types.is_decimal(values.type):
        return values.cast(pa.float64())
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        message = f"ratings are numbers or names of levels, but the column of the {role} holds {values.type}."
        raise AnswerKindError(message)
    return values.cast(pa.large_string())


def are_numbers(column: pa.Array) -> bool:
    """Return whether every text is a number."""
    return bool(pc.all(pc.match_substring_regex(column, _NUMBER), min_count=0).as_py())


def as_numbers(column: pa.Array, name: str) -> pa.Array:
    """Return a column as floats; a decimal comma is accepted, and what is not a finite number is an error."""
    if not pa.types.is_floating(column.type):
        wrong = pc.fill_null(pc.invert(pc.match_substring_regex(column, _NUMBER)), False)
        if pc.any(wrong, min_count=0).as_py():
            row = int(np.flatnonzero(wrong.to_numpy(zero_copy_only=False))[0])
            message = (
                f"column {name!r}: {short_repr(column[row].as_py())} at row {row} (counted from 0) is not a number."
            )
            raise AnswerKindError(message)
        column = pc.replace_substring(pc.utf8_trim_whitespace(column), ",", ".").cast(pa.float64())
    infinite = np.flatnonzero(np.isinf(column.to_numpy(zero_copy_only=False)))
    if len(infinite):
        message = f"column {name!r} is infinite at row {infinite[0]} (counted from 0). Ratings are finite numbers."
        raise AnswerKindError(message)
    return column


def positions(column: pa.Array, levels: pa.Array, name: str) -> pa.Array:
    """Return the position of each name among the levels, as floats; an unknown name is an error."""
    if not pa.types.is_large_string(column.type):
        column = column.cast(pa.int64()).cast(pa.large_string())
    position = pc.index_in(column, value_set=levels)
    unknown = np.flatnonzero(pc.and_(position.is_null(), column.is_valid()).to_numpy(zero_copy_only=False))
    if len(unknown):
        message = (
            f"column {name!r}: {short_repr(column[int(unknown[0])].as_py())} at row {unknown[0]} is not one of the "
            f"levels {preview(levels.to_pylist())}. Add it to levels= (--levels), in its place."
        )
        raise UnknownIdError(message)
    return position.cast(pa.float64())
