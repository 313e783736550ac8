"""Parquet files are read in parts, which affects only the memory needed."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crowdwise import Answers, errors
from crowdwise.io import read
from crowdwise.io.formats import parquet


def shuffled(n_tasks, kind, seed=0):
    """Return a long table with two answers per task in random order, as integers, text or categories."""
    rng = np.random.default_rng(seed)
    task = np.repeat(rng.permutation(n_tasks), 2)
    rows = rng.permutation(len(task))
    worker, label = np.arange(len(task)) % 97, rng.integers(0, 3, len(task))
    columns = {name: pa.array(codes[rows]) for name, codes in (("task", task), ("worker", worker), ("label", label))}
    if kind != "integers":
        columns = {name: column.cast(pa.string()) for name, column in columns.items()}
    if kind == "categories":
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    return pa.table(columns)


@settings(deadline=None, max_examples=30)
@given(
    kind=st.sampled_from(["integers", "text", "categories"]), n_tasks=st.integers(1, 60), rows=st.integers(1, 50),
    group=st.integers(1, 50), n_files=st.integers(1, 4),
)  # fmt: skip
def test_the_size_of_parts_and_files_does_not_matter(tmp_path_factory, kind, n_tasks, rows, group, n_files):
    folder, table = tmp_path_factory.mktemp("parts"), shuffled(n_tasks, kind)
    for i in range(n_files):
        first, end = (table.num_rows * edge // n_files for edge in (i, i + 1))
        pq.write_table(table.slice(first, end - first), folder / f"{i}.parquet", row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "ROWS", rows)
        answers = read(str(folder / "*.parquet"))
    assert answers == Answers.from_frame(table)
    assert answers.task_ids.equals(table.column("task").cast(answers.task_ids.type).unique().sort())


@pytest.mark.parametrize("spread", [1, 10**9])
@pytest.mark.parametrize("statistics", [False, True])
def test_dense_and_sparse_integer_ids(tmp_path, spread, statistics):
    rng = np.random.default_rng(1)
    task = np.repeat(rng.permutation(np.arange(-40, 40)[::2]), 2) * spread
    table = pa.table({"task": task, "worker": np.arange(80), "label": rng.integers(0, 2, 80) * spread})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=7, write_statistics=statistics)
    assert read(tmp_path / "a.parquet") == Answers.from_frame(table)
    assert read(tmp_path / "a.parquet").n_tasks == 40


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.uint64()])
def test_integers_of_any_width_are_the_same_ids(tmp_path, kind):
    table = shuffled(20, "integers")
    file = tmp_path / "a.parquet"
    pq.write_table(table.cast(pa.schema([(name, kind) for name in table.column_names])), file)
    assert read(file) == Answers.from_frame(table)


def test_integers_beyond_64_bits_are_rejected(tmp_path):
    pq.write_table(
        pa.table({"task": pa.array([2**64 - 1], pa.uint64()), "worker": [1], "label": [1]}), tmp_path / "a.parquet"
    )
    with pytest.raises(errors.IdTypeError, match=r"a\.parquet: the task ids hold integers above 2\*\*63"):
        read(tmp_path / "a.parquet")


def test_missing_ids_are_reported_with_their_rows_or_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS", 2)
    file = tmp_path / "a.parquet"
    for ids in ([1, 2, 3, None, 5], ["1", "2", "3", None, "5"]):
        pq.write_table(pa.table({"task": ids, "worker": list("abcde"), "label": [0, 1, 0, 1, 0]}), file)
        with pytest.raises(errors.NullError, match=r"'task' is empty in 1 of 5 rows \(rows 3, counted from 0\)"):
            read(file)
        answers = read(file, nulls="drop")
        assert answers.removed == {"rows with a missing value": 1}
        assert answers.workers.tolist() == list("abce")


def test_duplicates_are_reported_with_their_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS", 2)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"task": list("baba"), "worker": [1, 1, 1, 2], "label": list("xyzx")}), file)
    with pytest.raises(errors.DuplicateError, match=r"worker 1 on task 'b' \(first: rows 0 and 2\)"):
        read(file)
    assert read(file, duplicates="last").to_arrow().column("label").to_pylist() == ["y", "x", "z"]


@pytest.mark.parametrize("place", [0, 3, 6])
@pytest.mark.parametrize(
    ("role", "valid", "invalid", "error"),
    [
        ("weight", "0.5", "heavy", errors.WeightError),
        ("weight", 7, 2**60 + 1, errors.WeightError),
        ("pseudo", "true", "perhaps", errors.FormatError),
    ],
)
def test_invalid_weights_and_flags_are_reported_with_their_row(tmp_path, place, role, valid, invalid, error):
    values = [valid] * 7
    columns = {"task": range(7), "worker": range(7), "label": [0] * 7}
    pq.write_table(pa.table(columns | {role: values}), tmp_path / "a.parquet", row_group_size=2)
    assert len(getattr(read(tmp_path / "a.parquet"), role)) == 7
    values[place] = invalid
    for column in (pa.array(values), pa.array(values).dictionary_encode()):
        pq.write_table(pa.table(columns | {role: column}), tmp_path / "b.parquet", row_group_size=2)
        with pytest.raises(error, match=rf"b\.parquet: column '{role}': '{invalid}' at row {place} "):
            read([tmp_path / "a.parquet", tmp_path / "b.parquet"])


def test_text_that_is_not_utf8_is_rejected(tmp_path):
    broken = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff"]).buffers())
    pq.write_table(pa.table({"task": broken, "worker": [1], "label": [1]}), tmp_path / "a.parquet")
    with pytest.raises(errors.FormatError, match="cannot be read"):
        read(tmp_path / "a.parquet")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["integers", "text"])
def test_reading_takes_few_bytes_of_memory_per_answer(tmp_path, monkeypatch, kind):
    """51 bytes when this was written, 20 of them for the result; with columns decoded entirely it was 144 and 102."""
    monkeypatch.setattr(parquet, "ROWS", 1 << 15)
    file, n_answers = tmp_path / "a.parquet", 1_000_000
    pq.write_table(shuffled(n_answers // 2, kind), file, row_group_size=1 << 15)
    usual, pool = pa.default_memory_pool(), pa.system_memory_pool()  # a pool that nothing else has used
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        answers = read(file)
        peak = tracemalloc.get_traced_memory()[1] + pool.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)
    assert answers.n_answers == n_answers
    assert peak / n_answers < 65
