"""Reading a DataFrame on a real session: id types and rejected rows are as in the local reader."""

from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise.answers.encoding import as_arrow
from crowdwise.engines.spark import columns, packing
from crowdwise.engines.spark.columns import Columns, id_column, known_labels
from crowdwise.errors import DuplicateError, IdTypeError, NullError, UnknownIdError

LARGEST = 2**63 - 1


@pytest.fixture
def written(spark, tmp_path):
    """Return a function that turns columns into a DataFrame by way of a file, where unsigned integers are decimals."""

    def through(table):
        pq.write_table(pa.table(table), tmp_path / "answers.parquet")
        return spark.read.parquet(str(tmp_path / "answers.parquet"))

    return through


def test_integer_valued_columns_become_64_bit_ids(written):
    table = {
        "double": pa.array([3.0, None, float("nan"), 1 - 2.0**53, 2.0**53 - 1]),
        "float": pa.array([3.0, -1.0, None, float("nan"), 2.0**24 - 1], pa.float32()),
        "unsigned": pa.array([3, None, 0, LARGEST, LARGEST - 1], pa.uint64()),
    }
    frame = written(table)
    found = frame.select(*(id_column(frame, name, "task").alias(name) for name in table)).toArrow()
    for name, column in table.items():
        assert found[name].type == pa.int64()
        assert found[name].to_pylist() == as_arrow(column, "task").to_pylist(), name


def test_numbers_that_are_not_exact_integers_are_rejected_as_locally(written):
    table = {
        "half": (pa.array([1.0, None, 2.5]), r"2\.5"),
        "infinite": (pa.array([1.0, float("nan"), float("inf")]), "inf"),
        "above": (pa.array([1, None, LARGEST + 1], pa.uint64()), str(LARGEST + 1)),
        "wide": (pa.array([1.0, None, 2.0**63]), "e.18"),
        "inexact": (pa.array([1.0, None, 2.0**53]), "9007"),
        "coarse": (pa.array([1.0, None, 2.0**24], pa.float32()), "1677"),
    }
    frame = written({name: column for name, (column, _) in table.items()})
    for name, (column, shown) in table.items():
        with pytest.raises(IdTypeError, match=f"task ids in {name!r}.*64 bits.*{shown}"):
            id_column(frame, name, "task")
        with pytest.raises(IdTypeError):
            as_arrow(column, "task")


def test_rejected_rows_keep_weight_and_file(written, tmp_path):
    rows = {
        "task": ["a", "a", "b", "c", None, "a"],
        "worker": pa.array([1, 2, 1, 2, 1, 2], pa.uint64()),
        "label": list("xyxyxx"),
        "sure": [1.0, 0.5, -3.0, None, 0.25, 0.75],
    }
    data = packing.pack_answers(written(rows), Columns(weight="sure"), parts=1, duplicates="last")
    assert data.rejected.columns == ["task", "worker", "label", "weight", "file", "reason"]
    file = f"file://{tmp_path}/answers.parquet"
    assert sorted(map(tuple, data.rejected.collect()), key=str) == [
        ("a", 2, "y", 0.5, file, packing.DUPLICATE),
        ("b", 1, "x", -3.0, file, packing.BAD_WEIGHT),
        ("c", 2, "y", None, file, packing.BAD_WEIGHT),
        (None, 1, "x", 0.25, file, "task is missing"),
    ]


@pytest.mark.slow
def test_rejected_rows_name_their_own_file_unless_files_were_joined(spark, tmp_path):
    schema = "task string, worker int, label string"
    for name, rows in {"a": [("t", 1, "x"), (None, 1, "x")], "b": [("t", 1, "y"), ("u", None, "y")]}.items():
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / name))
    both = spark.read.parquet(str(tmp_path / "a"), str(tmp_path / "b"))
    rejected = packing.pack_answers(both, Columns(), parts=1, duplicates="first").rejected.collect()
    (duplicate,) = (row for row in rejected if row.reason == packing.DUPLICATE)
    assert {(row.reason, row.file.split("/")[-2]) for row in rejected} == {
        ("task is missing", "a"),
        ("worker is missing", "b"),
        (packing.DUPLICATE, {"x": "a", "y": "b"}[duplicate.label]),
    }
    joined = both.join(spark.read.parquet(str(tmp_path / "a")).select("label").distinct(), "label", "left")
    rejected = packing.pack_answers(joined, Columns(), parts=1, duplicates="first").rejected.collect()
    assert {row.file for row in rejected} == {None}


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (("t2", None, None, "cow", False, True), UnknownIdError, r"'cow' for task 't2'.*'cat'"),
        (("t1", None, None, None, True, True), NullError, "no label for task 't1'"),
        ((None, 0, 0, "cat", False, False), NullError, "has no task"),
        (("t1", 0, 1, "cat", False, False), DuplicateError, "two labels for task 't1'"),
    ],
)
def test_gold_errors_name_the_task(row, error, message):
    with pytest.raises(error, match=message):
        raise columns._gold_error(row, ["cat", "dog"])


def test_gold_of_tasks_without_answers_is_refused():
    tasks = SimpleNamespace(sort=lambda name: SimpleNamespace(take=lambda n: [SimpleNamespace(task="no one")]))
    with pytest.raises(UnknownIdError, match="tasks without answers: 'no one'"):
        columns.check_gold_tasks(tasks)


def test_gold_is_checked_and_identical_rows_count_once(spark, frame):
    codes = spark.createDataFrame([("cat", 0), ("dog", 1), ("owl", 2)], "label string, class int")
    gold = spark.createDataFrame([("t1", "cat"), ("t1", "cat"), ("t2", "cow")], "task string, label string")
    with pytest.raises(UnknownIdError, match=r"'cow' for task 't2'.*'cat'"):
        known_labels(gold, Columns(), frame, codes)
    known, digest = known_labels(gold.where("task = 't1'"), Columns(), frame, codes)
    assert known.collect() == [("t1", 0)] and digest
    with pytest.raises(IdTypeError, match="bigint in gold and string in the answers"):
        known_labels(gold.selectExpr("1 as task", "label"), Columns(), frame, codes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([("t1", None)], NullError),
        ([(None, "cat")], NullError),
        ([("t1", "cat"), ("t1", "dog")], DuplicateError),
    ],
)
def test_invalid_gold_rows_are_found(spark, frame, rows, error):
    codes = spark.createDataFrame([("cat", 0), ("dog", 1), ("owl", 2)], "label string, class int")
    gold = spark.createDataFrame(rows, "task string, label string")
    with pytest.raises(error):
        known_labels(gold, Columns(), frame, codes)
