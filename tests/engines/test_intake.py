"""Ids of other types, and rows set aside, on a real session: as the local reader has them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.answers.encoding import as_arrow
from crowdwise.engines import intake
from crowdwise.engines.columns import Columns, id_column
from crowdwise.errors import IdTypeError

LARGEST = 2**63 - 1


@pytest.fixture
def written(spark, tmp_path):
    """Columns as a DataFrame, by way of a file: unsigned integers are decimals there."""

    def through(table):
        pq.write_table(pa.table(table), tmp_path / "answers.parquet")
        return spark.read.parquet(str(tmp_path / "answers.parquet"))

    return through


def test_whole_numbers_are_integers_whatever_they_are_kept_as(written):
    table = {
        "double": pa.array([3.0, None, float("nan"), -(2.0**53), 2.0**53]),
        "float": pa.array([3.0, -1.0, None, float("nan"), 2.0**24], pa.float32()),
        "unsigned": pa.array([3, None, 0, LARGEST, LARGEST - 1], pa.uint64()),
    }
    frame = written(table)
    for name, column in table.items():
        found = frame.select(id_column(frame, name, "task")).toArrow()["task"]
        assert found.type == pa.int64()
        assert found.to_pylist() == as_arrow(column, "task").to_pylist(), name


def test_numbers_that_are_no_ids_are_refused_as_on_one_machine(written):
    table = {
        "half": pa.array([1.0, None, 2.5]),
        "endless": pa.array([1.0, float("nan"), float("inf")]),
        "above": pa.array([1, None, LARGEST + 1], pa.uint64()),
        "wide": pa.array([1.0, None, 2.0**63]),
        "inexact": pa.array([1.0, None, 2.0**53 + 2]),
        "coarse": pa.array([1.0, None, 2.0**24 + 2], pa.float32()),
    }
    said = {"half": r"2\.5", "endless": "inf", "above": str(LARGEST + 1), "wide": "e.18", "inexact": "9007", "coarse": "1677"}
    frame = written(table)
    for name, column in table.items():
        with pytest.raises(IdTypeError, match=f"task ids in {name!r}.*64 bits.*{said[name]}"):
            id_column(frame, name, "task")
        with pytest.raises(IdTypeError):
            as_arrow(column, "task")


def test_rows_set_aside_keep_their_weight(written):
    rows = {
        "task": ["a", "a", "b", "c", None, "a"],
        "worker": pa.array([1, 2, 1, 2, 1, 2], pa.uint64()),
        "label": list("xyxyxx"),
        "sure": [1.0, 0.5, -3.0, None, 0.25, 0.75],
    }
    data = intake.take(written(rows), Columns(weight="sure"), parts=1, duplicates="last")
    aside = sorted(map(tuple, data.rejected.collect()), key=str)
    assert data.rejected.columns == ["task", "worker", "label", "weight", "reason"]
    assert aside == [
        ("a", 2, "y", 0.5, intake.TWICE),
        ("b", 1, "x", -3.0, intake.BAD_WEIGHT),
        ("c", 2, "y", None, intake.BAD_WEIGHT),
        (None, 1, "x", 0.25, "task is missing"),
    ]
    data = intake.take(written(rows).drop("sure"), Columns(), parts=1, duplicates="last")
    assert data.rejected.columns == ["task", "worker", "label", "reason"] and data.rejected.count() == 2
