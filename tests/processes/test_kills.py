"""A few kills of each command; `python -m benchmarks kill` has a hundred. The folder is checked after each kill."""

import pytest

from tests.helpers.kills import damaged, jobs, kill_many, make_inputs, open_complete


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "n"),
    [("fit", 3), pytest.param("aggregate", 4, marks=pytest.mark.slow), pytest.param("run", 4, marks=pytest.mark.slow)],
)
def test_killed_command_reaches_the_same_bytes_when_rerun(name, n, inputs, tmp_path):
    kills = kill_many(jobs(inputs)[name], tmp_path / name, n, seed=1)
    assert kills.n == n and kills.finished


@pytest.mark.parametrize(
    ("name", "half"),
    [
        ("a.json", b'{"a": 1'),
        ("a.csv", b"task,label\n1,x\n2"),
        ("a.parquet", b"PAR1 and no end"),
        ("a.safetensors", b"\x10\0\0\0\0\0\0\0{"),
        ("report.html", b"<html><body>"),
        ("a.svg", b"<svg><g>"),
    ],
)
def test_incomplete_file_is_found(name, half, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_bytes(half)
    assert len(damaged(tmp_path)) == 1
    with pytest.raises(Exception):  # noqa: B017 - of any kind
        open_complete(tmp_path / "out" / name)
