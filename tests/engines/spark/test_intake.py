"""Ids of other types, and rows set aside, on a real session: as the local reader has them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.answers.encoding import as_arrow
from crowdwise.engines.spark import packing
from crowdwise.engines.spark.columns import Columns, id_column
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
        "double": pa.array([3.0, None, float("nan"), 1 - 2.0**53, 2.0**53 - 1]),
        "float": pa.array([3.0, -1.0, None, float("nan"), 2.0**24 - 1], pa.float32()),
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
        "inexact": pa.array([1.0, None, 2.0**53]),
        "coarse": pa.array([1.0, None, 2.0**24], pa.float32()),
    }
    said = {
        "half": r"2\.5",
        "endless": "inf",
        "above": str(LARGEST + 1),
        "wide": "e.18",
        "inexact": "9007",
        "coarse": "1677",
    }
    frame = written(table)
    for name, column in table.items():
        with pytest.raises(IdTypeError, match=f"task ids in {name!r}.*64 bits.*{said[name]}"):
            id_column(frame, name, "task")
        with pytest.raises(IdTypeError):
            as_arrow(column, "task")


def test_rows_set_aside_keep_their_weight_and_name_their_file(written, spark, tmp_path):
    rows = {
        "task": ["a", "a", "b", "c", None, "a"],
        "worker": pa.array([1, 2, 1, 2, 1, 2], pa.uint64()),
        "label": list("xyxyxx"),
        "sure": [1.0, 0.5, -3.0, None, 0.25, 0.75],
    }
    data = packing.pack_answers(written(rows), Columns(weight="sure"), parts=1, duplicates="last")
    aside = sorted(map(tuple, data.rejected.collect()), key=str)
    assert data.rejected.columns == ["task", "worker", "label", "weight", "file", "reason"]
    file = f"file://{tmp_path}/answers.parquet"
    assert aside == [
        ("a", 2, "y", 0.5, file, packing.DUPLICATE),
        ("b", 1, "x", -3.0, file, packing.BAD_WEIGHT),
        ("c", 2, "y", None, file, packing.BAD_WEIGHT),
        (None, 1, "x", 0.25, file, "task is missing"),
    ]
    data = packing.pack_answers(written(rows).drop("sure"), Columns(), parts=1, duplicates="last")
    assert data.rejected.columns == ["task", "worker", "label", "file", "reason"] and data.rejected.count() == 2
    made_up = spark.createDataFrame([(None, 1, "x"), ("a", 1, "y")], "task string, worker int, label string")
    assert packing.pack_answers(made_up, Columns(), parts=1).rejected.first().file is None


def test_each_row_set_aside_names_its_own_file_also_where_two_were_joined(spark, tmp_path):
    kind = "task string, worker int, label string"
    for name, rows in {"a": [("t", 1, "x"), (None, 1, "x")], "b": [("t", 1, "y"), ("u", None, "y")]}.items():
        spark.createDataFrame(rows, kind).coalesce(1).write.parquet(str(tmp_path / name))
    both = spark.read.parquet(str(tmp_path / "a"), str(tmp_path / "b"))
    aside = packing.pack_answers(both, Columns(), parts=1, duplicates="first").rejected.collect()
    folders = {(row.reason, row.file.split("/")[-2]) for row in aside}
    assert folders == {("task is missing", "a"), ("worker is missing", "b"), (packing.DUPLICATE, aside_twice(aside))}
    joined = both.join(spark.read.parquet(str(tmp_path / "a")).select("label").distinct(), "label", "left")
    assert {
        row.file for row in packing.pack_answers(joined, Columns(), parts=1, duplicates="first").rejected.collect()
    } == {None}


def aside_twice(aside):
    """Of the two answers of one worker to one task, the one that was not first in the order of the rows."""
    (row,) = (row for row in aside if row.reason == packing.DUPLICATE)
    return {"x": "a", "y": "b"}[row.label]
