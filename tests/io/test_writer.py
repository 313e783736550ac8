from __future__ import annotations

import csv
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crowdwise import Answers
from crowdwise.errors import FormatError
from crowdwise.io import read, write

pytestmark = pytest.mark.filterwarnings("ignore::crowdwise.errors.LookalikeWarning")  # random ids

SUFFIXES = (".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz")

# Arrow does not allow lone surrogates. Text that looks like formulas, numbers or quotes is drawn often.
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.text(
    st.sampled_from("'=+-@\t\r\n ,;\"01.ae\0"), max_size=4
)
ints = st.integers(-(2**63), 2**63 - 1)


def answer_sets(ids):
    """Draw a few answers whose tasks, workers and labels are ids of one kind."""
    table = st.lists(ids, min_size=1, max_size=6, unique=True)
    return st.tuples(table, table, table, st.integers(0, 2**32)).map(_build)


def _build(drawn):
    tasks, workers, classes, seed = drawn
    rng = np.random.default_rng(seed)
    pairs = [(t, w) for t in tasks for w in workers]
    label = [classes[k] for k in rng.integers(len(classes), size=len(pairs))]
    return Answers.from_arrays([t for t, _ in pairs], [w for _, w in pairs], label, as_classes=True)


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(answers=st.one_of(answer_sets(strings), answer_sets(ints)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
def test_ids_survive_the_round_trip(tmp_path, suffix, answers):
    write(answers, tmp_path / f"answers{suffix}")
    assert read(tmp_path / f"answers{suffix}", multiline=True, as_classes=True) == answers


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_booleans_survive_the_round_trip(tmp_path, suffix):
    answers = Answers.from_arrays([True, False], [True, True], [False, True])
    write(answers, tmp_path / f"answers{suffix}")
    assert read(tmp_path / f"answers{suffix}", multiline=True) == answers
    text = Answers.from_arrays(["True", "False"], ["True", "x"], ["False", "False"])
    write(text, tmp_path / f"text{suffix}")
    assert read(tmp_path / f"text{suffix}") == text


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("ids", [["x", "=y"], [3, 5], [False, True]])
def test_weights_and_truth_survive_the_round_trip(tmp_path, suffix, ids):
    answers = Answers.from_arrays([1, 1, 2, 2], ["a", "b", "a", "b"], [ids[0], ids[1], ids[0], ids[0]], [1, 0.25, 3, 0])
    answers = answers.with_truth({2: ids[1]})
    write(answers, tmp_path / f"answers{suffix}")
    back = read(tmp_path / f"answers{suffix}")
    assert back.weight.tolist() == answers.weight.tolist()
    assert back.truth.tolist() == answers.truth.tolist()


def test_csv_cells_are_quoted_and_escaped(tmp_path):
    answers = Answers.from_arrays(["t 1", "t,2", 't"3'], ["=cmd()", "-5", "w"], ["@x", "y", "'=z"])
    write(answers, tmp_path / "a.csv")
    text = (tmp_path / "a.csv").read_text()
    assert text.splitlines() == ["task,worker,label", "t 1,'=cmd(),'@x", '"t""3",w,\'\'=z', '"t,2",-5,y']


def test_tables_of_any_type(tmp_path):
    table = pa.table({
        "=name": ["a", None, "=b"], "n": [1, None, 3], "p": [0.5, float("nan"), None], "ok": [True, False, None],
        "day": pa.array([0, 1, None], pa.date32()),
    })  # fmt: skip
    write(table, tmp_path / "t.csv")
    with (tmp_path / "t.csv").open(newline="") as stream:
        assert list(csv.reader(stream)) == [
            ["'=name", "n", "p", "ok", "day"],
            ["a", "1", "0.5", "True", "1970-01-01"],
            ["", "", "", "False", "1970-01-02"],
            ["'=b", "3", "", "", ""],
        ]
    write(table, tmp_path / "t.jsonl")
    records = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert records[0] == {"=name": "a", "n": 1, "p": 0.5, "ok": True, "day": "1970-01-01"}
    assert records[1] == {"=name": None, "n": None, "p": None, "ok": False, "day": "1970-01-02"}
    write(table, tmp_path / "t.parquet")
    assert repr(pq.read_table(tmp_path / "t.parquet").to_pydict()) == repr(table.to_pydict())


def test_parquet_columns_are_not_dictionary_encoded(tmp_path):
    write(Answers.from_arrays(["a"], [1], [True]), tmp_path / "a.parquet")
    assert [str(f.type) for f in pq.read_schema(tmp_path / "a.parquet")] == ["large_string", "int64", "bool"]


def test_a_table_without_rows(tmp_path):
    table = pa.table({"task": pa.array([], pa.string()), "p": pa.array([], pa.float64())})
    for suffix in SUFFIXES:
        write(table, tmp_path / f"t{suffix}")
    assert (tmp_path / "t.csv").read_text() == "task,p\n"


def test_a_failed_write_leaves_only_the_old_file(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text("old")
    with pytest.raises(FormatError, match=r"cannot be written as \.csv"):
        write(pa.table({"a": [1], "lists": [[1, 2]]}), file)
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["t.csv"]  # noqa: PTH208


def test_equal_answers_are_written_as_equal_bytes(tmp_path):
    answers = Answers.from_arrays(["a", "b"], ["x", "y"], ["l", "m"])
    for name in ("1.csv.gz", "2.csv.gz"):
        write(answers, tmp_path / name)
    assert (tmp_path / "1.csv.gz").read_bytes() == (tmp_path / "2.csv.gz").read_bytes()


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.parquet.gz", "nowhere/t.csv", "folder.csv"])
def test_invalid_targets_are_rejected(tmp_path, name):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(FormatError, match=r"must end in \.csv|does not exist|it is a folder"):
        write(pa.table({"a": [1]}), tmp_path / name)
