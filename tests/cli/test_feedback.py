"""`crowdwise feedback`."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from crowdwise import DawidSkene
from crowdwise.cli import app
from crowdwise.io import write
from crowdwise.run import folder, folder_format
from crowdwise.run.feedback import feedback, feedback_all, in_need
from crowdwise.run.folder import Run
from crowdwise.run.tables.labels import Disagreement, Labelled, label_table
from crowdwise.run.tables.tasks import task_table
from crowdwise.run.tables.workers import judge
from crowdwise.simulate import answer, crowd, draw_truth

CONFUSED, GUESSES = 3, 5  # workers


@pytest.fixture(scope="module")
def today(tmp_path_factory):
    """A run folder with what feedback reads: worker 3 takes class 1 for 2, worker 5 does not look."""
    confusion = crowd(8, 3, "one-coin", accuracy=(0.8, 0.9), seed=3)
    confusion[CONFUSED, 1] = [0.05, 0.25, 0.7]
    confusion[GUESSES] = 1 / 3
    model = DawidSkene().fit(answer(draw_truth(400, 3, seed=0), confusion, 4, seed=2))
    labelled = Labelled(model.answers_, model.proba_, model.codes_)
    quality = judge(*labelled)
    ranked = Disagreement(labelled, quality.column("quality").to_numpy())
    path = tmp_path_factory.mktemp("runs") / "today"
    path.mkdir()
    write(label_table(labelled, ranked, 0.9), path / folder.LABELS)
    write(quality, path / folder.WORKERS)
    write(task_table(ranked, None, {}), path / folder.TASKS)
    model.save(path / folder.MODEL)
    (path / folder.METRICS).write_text(json.dumps(folder_format.sealed(folder_format.empty(), path, folder.READ)))
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def test_one_worker_is_told_what_the_library_says(today):
    assert run(f"feedback {today} --worker 3").stdout == f"{feedback(Run(today), CONFUSED)}\n"


def test_without_a_worker_who_needs_it_most(today):
    shown = run(f"feedback {today}")
    rows = [line.split() for line in shown.stdout.splitlines()[2:]]
    expected = in_need(Run(today)).column("worker").to_pylist()
    assert [int(row[0]) for row in rows] == expected
    assert expected[0] == GUESSES
    assert "--worker ID" in shown.stderr
    told = json.loads(run(f"feedback {today} --json").stdout)
    assert [row["worker"] for row in told["workers"]] == expected


def test_json_is_one_object(today):
    told = json.loads(run(f"feedback {today} -w 3 --json").stdout)
    assert told["workers"] == [feedback(Run(today), CONFUSED).as_dict()]
    assert len(json.loads(run(f"feedback {today} --all --json").stdout)["workers"]) == 8


def test_files(today):
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


def test_a_worker_with_nothing_to_tell_still_makes_a_table(today):
    quiet = next(each.worker for each in feedback_all(Run(today)) if not each.confusions)
    run(f"feedback {today} -w {quiet} --out one.csv")
    assert Path("one.csv").read_text().splitlines() == ["worker,truth,said,count,of,share,crowd_share,examples,words"]


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("--worker 77", "no worker '77' in this run"),
        ("--worker 3 --all", "not both"),
        ("--out all.txt", "needs --worker ID or --all"),
        ("--all --out all.docx", "must end in .csv, .txt or .json"),
        ("--all --out nowhere/all.csv", "does not exist"),
    ],
)
def test_mistakes_in_plain_words(today, rest, words):
    result = run(f"feedback {today} {rest}", code=1)
    assert words in result.stderr
    assert "Traceback" not in result.stderr
    assert not np.any([path.exists() for path in map(Path, ("all.txt", "all.docx"))])


def test_files_of_the_run_are_not_replaced(today):
    before = (today / folder.WORKERS).read_bytes()
    assert "file of the run" in run(f"feedback {today} --all --out {today / folder.WORKERS}", code=1).stderr
    assert (today / folder.WORKERS).read_bytes() == before


def test_no_run(tmp_path):
    assert "crowdwise run" in run(f"feedback {tmp_path / 'none'} --all", code=1).stderr
