"""`crowdwise feedback`."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crowdwise.cli import app
from crowdwise.run.feedback import feedback, feedback_all, workers_below_crowd
from crowdwise.run.folder import Run
from crowdwise.run.stored_files import WORKERS
from crowdwise.simulate import answer, crowd, draw_truth
from tests.helpers.report_folders import build_for_feedback

CONFUSED, GUESSES = 3, 5  # workers


@pytest.fixture(scope="module")
def today(tmp_path_factory):
    """A run folder with the files that feedback reads: worker 3 takes class 1 for 2, worker 5 guesses."""
    confusion = crowd(8, 3, "one-coin", accuracy=(0.8, 0.9), seed=3)
    confusion[CONFUSED, 1] = [0.05, 0.25, 0.7]
    confusion[GUESSES] = 1 / 3
    answers = answer(draw_truth(400, 3, seed=0), confusion, 4, seed=2)
    return build_for_feedback(tmp_path_factory.mktemp("runs") / "today", answers).path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def test_feedback_for_one_worker_equals_that_of_the_library(today):
    assert run(f"feedback {today} --worker 3").stdout == f"{feedback(Run(today), CONFUSED)}\n"


def test_without_a_worker_those_in_need_are_listed(today):
    shown = run(f"feedback {today}")
    flagged, listed = shown.stdout.split("\n\n")
    assert f"should not be relied on: {GUESSES} (" in flagged
    rows = [line.split() for line in listed.splitlines()[2:]]
    expected = workers_below_crowd(Run(today)).column("worker").to_pylist()
    assert [int(row[0]) for row in rows] == expected
    assert expected[0] == GUESSES
    assert "--worker ID" in shown.stderr
    output = json.loads(run(f"feedback {today} --json").stdout)
    assert [row["worker"] for row in output["workers"]] == expected


def test_json_has_the_feedback_of_each_worker(today):
    output = json.loads(run(f"feedback {today} -w 3 --json").stdout)
    assert output["workers"] == [feedback(Run(today), CONFUSED).as_dict()]
    assert len(json.loads(run(f"feedback {today} --all --json").stdout)["workers"]) == 8


def test_feedback_is_written_as_text_json_and_csv(today):
    everybody = feedback_all(Run(today))
    assert "8 workers in all.txt" in run(f"feedback {today} --all --out all.txt").stdout
    assert Path("all.txt").read_text() == "\n\n".join(map(str, everybody)) + "\n"
    run(f"feedback {today} --all --out all.json")
    assert json.loads(Path("all.json").read_text())["workers"] == [each.as_dict() for each in everybody]
    run(f"feedback {today} --all --out all.csv")
    with Path("all.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    named = [(each.worker, confusion) for each in everybody for confusion in each.confusions]
    assert len(rows) == len(named) > 0
    for row, (worker, confusion) in zip(rows, named, strict=True):
        assert (int(row["worker"]), int(row["truth"]), int(row["said"])) == (worker, confusion.truth, confusion.said)
        assert float(row["share"]) == pytest.approx(confusion.share)
        assert json.loads(row["examples"]) == [example.task for example in confusion.examples]
        assert row["words"] == str(confusion)


def test_a_worker_without_confusions_gives_an_empty_table(today):
    quiet = next(each.worker for each in feedback_all(Run(today)) if not each.confusions)
    run(f"feedback {today} -w {quiet} --out one.csv")
    assert Path("one.csv").read_text().splitlines() == ["worker,truth,said,count,of,share,crowd_share,examples,words"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--worker 77", "No worker '77' in this run"),
        ("--worker 3 --all", "not both"),
        ("--out all.txt", "needs --worker ID or --all"),
        ("--all --out all.docx", "must end in .csv, .txt or .json"),
        ("--all --out nowhere/all.csv", "does not exist"),
    ],
)
def test_user_errors_are_one_message_without_a_traceback(today, options, message):
    result = run(f"feedback {today} {options}", code=1)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not np.any([path.exists() for path in map(Path, ("all.txt", "all.docx"))])


def test_files_of_the_run_are_not_replaced(today):
    before = (today / WORKERS).read_bytes()
    assert "file of the run" in run(f"feedback {today} --all --out {today / WORKERS}", code=1).stderr
    assert (today / WORKERS).read_bytes() == before


def test_a_missing_run_is_reported(tmp_path):
    assert "crowdwise run" in run(f"feedback {tmp_path / 'none'} --all", code=1).stderr
