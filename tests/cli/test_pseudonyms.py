"""`--pseudonymise`: nothing that a command writes or prints identifies a worker; the same key gives the same names."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.answers.pseudonyms import hash_ids, read_key
from crowdwise.cli import app
from crowdwise.io import read

MARK = "quokka"  # part of every worker id, and of nothing else
IDS = [f"{MARK}-{w}@example.org" for w in range(8)]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Work in a folder with answers and features in `mine/`; outputs are written elsewhere."""
    monkeypatch.chdir(tmp_path)
    answers = cw.simulate.simulate(60, n_workers=8, n_classes=3, answers_per_task=3, seed=4)
    (tmp_path / "mine").mkdir()
    rows = {
        "task": answers.task, "worker": [IDS[w] for w in answers.worker], "label": [f"c{c}" for c in answers.label],
        "seconds": 2.0 + answers.worker, "text": [f"text of {t}" for t in answers.task],
    }  # fmt: skip
    pyarrow.csv.write_csv(pa.table(rows), "mine/answers.csv")
    X = np.random.default_rng(0).normal(size=(60, 4)) + np.eye(3, 4)[answers.truth]
    np.save("mine/X.npy", X)
    return tmp_path


def run(line: str, code: int = 0) -> str:
    """Return the output of a command, which must not identify a worker."""
    result = CliRunner().invoke(app, shlex.split(line))
    output = result.stdout + result.stderr
    assert result.exit_code == code, output
    assert MARK not in output, output
    return output


def leaks(folder: Path) -> list[str]:
    """Return the files with the mark in their name, their bytes or their unpacked content."""
    found = []
    for file in folder.rglob("*"):
        if file.is_file() and "mine" not in file.relative_to(folder).parts:
            content = file.read_bytes()
            if any(
                MARK.encode() in part or MARK.encode("utf-16-le") in part
                for part in (file.name.encode(), *unpacked(content))
            ):
                found.append(str(file))
    return found


def unpacked(content: bytes):
    yield content
    if content[:2] == b"\x1f\x8b":
        yield from unpacked(gzip.decompress(content))
    elif content[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            yield from (packed.read(name) for name in packed.namelist())
    elif content[:4] == b"PAR1":
        yield json.dumps(pq.read_table(io.BytesIO(content)).to_pylist(), default=str).encode()
        yield str(pq.read_schema(io.BytesIO(content)).metadata).encode()
    elif content[:8] == b"\x89PNG\r\n\x1a\n":
        yield zlib.decompress(content[content.index(b"IDAT") + 4 :])


def test_the_search_finds_ids_in_packed_files(place):
    run("convert mine/answers.csv plain.parquet")
    run("convert mine/answers.csv plain.csv.gz")
    assert sorted(Path(name).name for name in leaks(place)) == ["plain.csv.gz", "plain.parquet"]


def test_no_output_identifies_a_worker(place):
    key = "--pseudonymise mine/key"
    run(f"run mine/answers.csv --out run -m one-coin -m dawid-skene --folds 2 --jobs 1 {key}")
    run("report run")
    run(f"aggregate mine/answers.csv -o labels.parquet --workers workers.csv {key}")
    run(f"convert mine/answers.csv answers.parquet {key} --json")
    run(f"fit mine/answers.csv -x mine/X.npy -o model -m crowdlayer --epochs 1 --checkpoint state {key} --json")
    run(f"rank mine/answers.csv -x mine/X.npy -o ranking.parquet --kept kept.csv --epochs 1 {key}")
    run(f"next mine/answers.csv -b 5 -o next.csv --workers {IDS[0]},{IDS[1]},{MARK}-new {key} --json")
    run(f"feedback run --worker {IDS[2]} -o feedback.json {key}")
    run("feedback run --all -o feedback.txt")
    run("compare run run --out same.csv")
    assert leaks(place) == []
    name = dict(zip(IDS, hash_ids(pa.array(IDS), read_key("mine/key")).to_pylist(), strict=True))
    assert set(read("answers.parquet").workers) == set(name.values()) == set(cw.run.Run("run").answers.workers)
    asked = pyarrow.csv.read_csv("next.csv").column("worker").to_pylist()
    assert set(asked) <= {*name.values(), *hash_ids(pa.array([f"{MARK}-new"]), read_key("mine/key")).to_pylist()}
    assert json.loads(Path("feedback.json").read_text())["workers"][0]["worker"] == name[IDS[2]]


def test_times_belong_to_the_right_pseudonym(place):
    """Worker w took 2 + w seconds per answer."""
    run("run mine/answers.csv --out run -m dawid-skene --folds 2 --jobs 1 --pseudonymise mine/key")
    found = cw.run.Run("run").workers.to_pydict()
    seconds = dict(zip(found["worker"], found["seconds"], strict=True))
    assert seconds == dict(
        zip(hash_ids(pa.array(IDS), read_key("mine/key")).to_pylist(), 2.0 + np.arange(8), strict=True)
    )


def test_labels_stay_the_same_and_another_key_gives_other_pseudonyms(place):
    run("aggregate mine/answers.csv -o a.csv --workers wa.csv --pseudonymise mine/key")
    run("aggregate mine/answers.csv -o b.csv --workers wb.csv --pseudonymise mine/key")
    run("aggregate mine/answers.csv -o c.csv --workers wc.csv --pseudonymise mine/second")
    CliRunner().invoke(app, shlex.split("aggregate mine/answers.csv -o d.csv"))
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert Path("wa.csv").read_bytes() == Path("wb.csv").read_bytes()
    workers = [set(pyarrow.csv.read_csv(f).column("worker").to_pylist()) for f in ("wa.csv", "wc.csv")]
    assert not workers[0] & workers[1]
    labels = [pyarrow.csv.read_csv(f).column("label") for f in ("a.csv", "c.csv", "d.csv")]
    assert labels[0].equals(labels[1]) and labels[0].equals(labels[2])


@pytest.mark.parametrize(
    ("table", "message"),
    [(f"task,worker,label\n1,{MARK}-1,a\n1,{MARK}-1,b\n", "answered a task more than once"),
     (f"task,worker,label\n1,{MARK}-1\n", "not in the format"),
     (f"task,{MARK}-1,{MARK}-2\n1,a,b\n", "required column is missing"),
     (f"task,worker,label\n1,{MARK}-1,\n2,{MARK}-2,b\n", "row has no task, worker or label")],
)  # fmt: skip
def test_errors_identify_no_worker_and_point_to_inspect(place, table, message):
    Path("mine/bad.csv").write_text(table)
    for command in ("aggregate mine/bad.csv -o a.csv", "run mine/bad.csv --out run", "next mine/bad.csv -b 1"):
        output = " ".join(run(f"{command} --pseudonymise mine/key", code=1).split())
        assert message in output and "crowdwise inspect mine/bad.csv" in output
    assert leaks(place) == []


def test_errors_about_unknown_workers_show_pseudonyms_only(place):
    Path("mine/numbers.csv").write_text("task,worker,label\n1,1,a\n1,2,b\n2,1,a\n2,2,a\n3,1,b\n")
    run(f"next mine/numbers.csv -b 1 --workers {MARK},2 --pseudonymise mine/key", code=1)
    run("run mine/answers.csv --out run -m dawid-skene --folds 2 --jobs 1 --pseudonymise mine/key")
    output = run(f"feedback run --worker {MARK}-none --pseudonymise mine/key", code=1)
    assert "No worker 'w-" in output
    assert "needs --worker ID" in run("feedback run --all --pseudonymise mine/key", code=1)


def test_pseudonyms_are_accepted_as_workers(place):
    name = hash_ids(pa.array([IDS[0]]), read_key("mine/key"))[0].as_py()
    for who in (name, "w-0123456789abcdef"):
        output = run(f"next mine/answers.csv -b 1 --workers {who} --pseudonymise mine/key")
        assert ("no answers yet" in output) == (who != name), output


def test_a_key_that_is_an_output_or_too_short_is_rejected(place):
    assert "named twice" in run("aggregate mine/answers.csv -o key.csv --pseudonymise key.csv", code=1)
    Path("mine/short").write_text("abc")
    assert "mine/short" in run("aggregate mine/answers.csv -o a.csv --pseudonymise mine/short", code=1)
    assert not Path("a.csv").exists()


def test_an_input_file_or_a_missing_file_is_not_a_key(place):
    output = run("aggregate mine/answers.csv -o a.csv --pseudonymise mine/answers.csv", code=1)
    assert "an input file" in output
    run("run mine/answers.csv --out run --method majority-vote --pseudonymise mine/key")
    assert "mine/typo" in run(f"feedback run --worker {IDS[0]} --pseudonymise mine/typo", code=1)
    assert not Path("mine/typo").exists()
