"""Parsing of times and durations, and the two rules that assign time spans to answers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest

from crowdwise.io.times import parse_durations, parse_times, previous_times, tasks_per_span

NOON = datetime(2024, 2, 29, 12, 0, 5, 250_000, UTC)


@pytest.mark.parametrize(
    "text",
    [
        NOON.isoformat(),
        NOON.isoformat().replace("T", " "),
        NOON.astimezone(timezone(timedelta(hours=-3, minutes=-30))).isoformat(),
        NOON.astimezone(timezone(timedelta(hours=5))).isoformat().replace("+05:00", "+0500"),
        "2024-02-29T12:00:05.25Z",
        " 2024-02-29 12:00:05,25 UTC ",
        "2024-02-29T12:00:05.25",
        "2024-02-29T17:00:05.25+05",
    ],
)
def test_iso_times_match_the_standard_library(text):
    assert parse_times(pa.array([text])).tolist() == [NOON.timestamp()]
    assert parse_times(pa.array([text, None, text]).dictionary_encode())[[0, 2]].tolist() == [NOON.timestamp()] * 2


@pytest.mark.parametrize("unit", [1, 1e3, 1e6, 1e9])
def test_unit_of_unix_times_is_inferred(unit):
    for column in (pa.array([NOON.timestamp() * unit]), pa.array([str(int(NOON.timestamp() * unit))])):
        assert parse_times(column)[0] == pytest.approx(NOON.timestamp(), abs=1)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_timestamps_and_durations(unit):
    at = pa.array([NOON.replace(microsecond=0), None], pa.timestamp(unit, "UTC"))
    assert parse_times(at).tolist() == pytest.approx([int(NOON.timestamp()), np.nan], nan_ok=True)
    assert parse_durations(pa.array([90, None]).cast(pa.duration(unit)).cast(pa.duration("ns")))[0] == pytest.approx(
        90 / {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}[unit], abs=1e-6
    )


INVALID = ["soon", "12:30", "2024-02-06", "2024-02-06T25:00", "06/02/2024 10:00", "nan", "1,5", "--1", "", " ", "0x10"]


@pytest.mark.parametrize("parse", [parse_durations, parse_times])
def test_invalid_cells_become_nan(parse):
    assert np.isnan(parse(pa.array(INVALID))).all()
    assert np.isnan(parse(pa.array(INVALID).dictionary_encode())).all()
    for column in (pa.array([True, None]), pa.array([[1], []]), pa.array([{"a": 1}]), pa.nulls(2), pa.array([b"1"])):
        assert np.isnan(parse(column)).all()
    assert parse(pa.array([], pa.string())).shape == (0,)


def test_durations_match_python_floats():
    cells = ["3", "3.", ".5", "-2", "1e3", "+4"]
    assert parse_durations(pa.array(cells)).tolist() == [float(cell) for cell in cells]
    assert parse_durations(pa.array([3, None])).tolist() == pytest.approx([3, np.nan], nan_ok=True)


def test_previous_times_and_tasks_per_span_match_a_loop():
    rng = np.random.default_rng(0)
    for n in (0, 1, 200):
        worker, task, at = rng.integers(0, 5, n), rng.integers(0, 4, n), rng.integers(0, 30, n).astype(float)
        before = [max((t for v, t in zip(worker, at, strict=True) if v == w and t < own), default=np.nan)
                  for w, own in zip(worker, at, strict=True)]  # fmt: skip
        np.testing.assert_array_equal(previous_times(worker, at), np.array(before))
        spans = list(zip(worker, at, at + 1, strict=True))
        shared = [len({t for other, t in zip(spans, task, strict=True) if other == span}) for span in spans]
        assert tasks_per_span(worker, at, at + 1, task).tolist() == shared
