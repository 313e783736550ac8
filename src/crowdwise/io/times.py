"""Cells that hold lengths of time and points in time, and how long an answer took when only its moment is known.

Nothing here fails: a cell that cannot be understood is NaN, for the caller to count. Points in time are seconds since
1970; a time without a zone is taken as UTC, which does not matter for differences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.rows import Array
from crowdwise.io.raw_columns import is_text

_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_ISO = (  # 2024-02-06T10:57:29.5+01:00; the T may be a space, the seconds and the zone may be missing
    r"^(?P<minute>\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?::(?P<second>\d\d(?:[.,]\d+)?))?"
    r" ?(?:Z|UTC|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?$"
)


def parse_durations(column: pa.Array) -> Array:
    """Numbers, as numbers or as text, and Arrow's durations: in the column's own unit, or in seconds.

    >>> parse_durations(pa.array(["12.5", " 3 ", "soon", None])).tolist()
    [12.5, 3.0, nan, nan]
    """
    return _by_value(column, _numbers)


def parse_times(column: pa.Array) -> Array:
    """Points in time: ISO 8601, Arrow's timestamps, or seconds (or milli-, micro-, nanoseconds) since 1970.

    >>> parse_times(pa.array(["1970-01-02T00:00:00.5Z", "1970-01-01 01:00+01:00", "1707211049000", "noon"])).tolist()
    [86400.5, 0.0, 1707211049.0, nan]
    """
    return _by_value(column, _moments)


def _by_value(column: pa.Array, parse: Callable[[pa.Array], Array]) -> Array:
    """A column parsed, each value of a dictionary once."""
    if not pa.types.is_dictionary(column.type):
        return parse(column)
    values = np.append(parse(column.dictionary), np.nan)
    return values[column.indices.fill_null(-1).to_numpy()]


def _numbers(values: pa.Array) -> Array:
    kind = values.type
    if is_text(kind):
        trimmed = pc.utf8_trim_whitespace(values)
        number = pc.match_substring_regex(trimmed, _NUMBER)
        values = pc.if_else(number, trimmed, pa.scalar(None, trimmed.type))
    elif pa.types.is_duration(kind):
        return _floats(values.cast(pa.duration("us"), safe=False).cast(pa.int64())) / 1e6
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return np.full(len(values), np.nan)
    return _floats(values)


def _moments(values: pa.Array) -> Array:
    if pa.types.is_timestamp(values.type):
        return _floats(values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(pa.int64())) / 1e6
    at = _numbers(values)
    for unit in (1e17, 1e14, 1e11):  # 1e11 seconds are the year 5138
        at = np.where(np.abs(at) > unit, at / (unit / 1e8), at)
    return np.where(np.isnan(at), _iso(values), at) if is_text(values.type) else at


def _iso(values: pa.Array) -> Array:
    parts = pc.extract_regex(pc.utf8_trim_whitespace(values.cast(pa.large_string())), _ISO)
    found = parts.is_valid()
    part = {
        name: pc.struct_field(parts, name).fill_null("") for name in ("minute", "second", "sign", "hours", "minutes")
    }
    minute = pc.strptime(
        pc.replace_substring(part["minute"], " ", "T"), format="%Y-%m-%dT%H:%M", unit="s", error_is_null=True
    )
    start = _floats(pc.if_else(found, minute, pa.scalar(None, minute.type)).cast(pa.int64()))
    second, hours, minutes = (
        np.nan_to_num(_numbers(pc.replace_substring(part[name], ",", "."))) for name in ("second", "hours", "minutes")
    )
    east = np.where(pc.equal(part["sign"], "-").to_numpy(zero_copy_only=False), -1, 1)
    return start + second - east * (3600 * hours + 60 * minutes)


def _floats(values: pa.Array) -> Array:
    return values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64)


def previous_times(worker: Array, at: Array) -> Array:
    """The worker's moment before this one, NaN for the first; answers of one moment have the same one before them.

    >>> previous_times(np.array([0, 1, 0, 0, 0]), np.array([30.0, 5.0, 10.0, 30.0, 37.0])).tolist()
    [10.0, nan, nan, 10.0, 30.0]
    """
    order = np.lexsort((at, worker))  # (rows,)
    worker, sorted_at = worker[order], at[order]
    first = np.flatnonzero(_changes(worker, sorted_at))  # (moments,) where each worker's distinct moments begin
    before = np.full(len(first), np.nan)
    follows = np.flatnonzero(np.diff(worker[first]) == 0) + 1
    before[follows] = sorted_at[first[follows - 1]]
    out = np.empty(len(at))
    out[order] = np.repeat(before, np.diff(np.append(first, len(at))))
    return out


def tasks_per_span(worker: Array, started: Array, ended: Array, task: Array) -> Array:
    """How many tasks a worker did in the same span: a page of ten tasks has one time, and each a tenth of it.

    >>> worker, started, ended = np.array([0, 0, 0, 1]), np.array([5.0, 5, 9, 5]), np.array([9.0, 9, 12, 9])
    >>> tasks_per_span(worker, started, ended, task=np.array([1, 2, 3, 1])).tolist()
    [2, 2, 1, 1]
    """
    order = np.lexsort((task, ended, started, worker))  # (rows,)
    spans = [array[order] for array in (worker, started, ended)]
    span = np.cumsum(_changes(*spans)) - 1  # (rows,) which span each is in
    distinct = _changes(*spans, task[order])
    out = np.empty(len(task), np.int64)
    out[order] = np.bincount(span[distinct], minlength=span[-1] + 1 if len(span) else 0)[span]
    return out


def _changes(*columns: Array) -> Array:
    """Whether a row differs from the one before it; the first does."""
    differs = np.ones(len(columns[0]), bool)
    differs[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return differs
