"""`crowdwise next`."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.acquire import STRATEGIES, propose
from crowdwise.cli import app
from crowdwise.cli.next import Strategy
from crowdwise.io import write


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(80, n_workers=10, n_classes=3, answers_per_task=3, seed=5).with_truth(None)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, crowd):
    monkeypatch.chdir(tmp_path)
    write(crowd, "answers.csv")


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def rows_of(file):
    with Path(file).open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_next_writes_the_proposal_of_the_library(crowd):
    shown = run("next answers.csv --budget 20 --out next.csv --balance --per-task 2 --per-worker 5 --seed 3").stdout
    model = cw.DawidSkene(random_state=3).fit(crowd)
    proposal = propose(model, 20, balance=True, per_task=2, per_worker=5, random_state=3)
    rows, expected = rows_of("next.csv"), proposal.table.to_pylist()
    assert [(int(r["task"]), int(r["worker"])) for r in rows] == [(r["task"], r["worker"]) for r in expected]
    assert [float(r["gain"]) for r in rows] == pytest.approx([r["gain"] for r in expected])
    for text in ("80 tasks", "dawid-skene", "20 answers by information", f"{proposal.gain:.4g} bits", "next.csv"):
        assert text in shown
    table = shown.splitlines()[-5:]
    assert table[0].split()[:2] == [rows[0]["task"], rows[0]["worker"]]
    assert f"({expected[0]['confidence']:.0%})" in table[0]


def test_json_has_every_pair():
    result = run("next answers.csv -b 7 --strategy uncertainty --method one-coin --set max_iter=300 --json")
    output = json.loads(result.stdout)
    assert (output["proposed"], output["whole"]) == (7, True)
    assert (output["strategy"], output["method"]) == ("uncertainty", "one-coin")
    assert len(output["pairs"]) == output["proposed"] == 7  # all of them
    assert (output["available"], output["hopeless"]) == (80 * 10 - 240, None)
    assert set(output["pairs"][0]) >= {"task", "worker", "gain", "belief", "confidence", "uncertainty", "expected"}
    assert output["written"] == {}
    assert "not written" in run("next answers.csv -b 7").stderr


def test_strategies_are_those_of_the_library():
    assert [strategy.value for strategy in Strategy] == list(STRATEGIES)


def test_workers_are_given_as_a_list_or_a_file():
    Path("who.txt").write_text("worker\n3\n8\n\n")
    for workers in ("3,8", "who.txt"):
        run(f"next answers.csv -b 30 --workers {workers} -o next.csv")
        assert {row["worker"] for row in rows_of("next.csv")} <= {"3", "8"}
    assert "2 workers have no answers yet" in run("next answers.csv -b 3 --workers 3,77,78").stderr
    assert "'ann' is not" in run("next answers.csv -b 3 --workers ann", 1).stderr
    Path("none.txt").write_text("\n")
    assert "the list is empty" in run("next answers.csv -b 3 --workers none.txt", 1).stderr


def test_a_mistyped_file_is_not_taken_for_a_worker(crowd):
    codes = crowd.task, crowd.worker, crowd.label
    named = [f"{w}@crowd.org" for w in range(9)] + ["x.txt"]
    write(cw.Answers.from_codes(*codes, tasks=80, workers=named, classes=3), "named.csv")
    for workers in ("workres.txt", "WORKERS.CSV", "lists/workers"):
        error = run(f"next named.csv -b 3 --workers {workers}", 1).stderr
        assert f"--workers {workers}: no file or worker named" in error
    run("next named.csv -b 3 --workers x.txt")
    for workers in ("ann@crowd.org", "new.txt,", "3@crowd.org,new.txt"):
        assert "1 workers have no answers yet" in run(f"next named.csv -b 3 --workers {workers}").stderr
    Path("who.txt").write_bytes(b"\xff\xfe3")
    assert "UTF-8" in run("next named.csv -b 3 --workers who.txt", 1).stderr


def ranked(crowd, scores):
    """Return a ranking as `crowdwise rank` writes it: lowest score first, null if a task has none."""
    order = np.argsort(scores)
    values = [None if np.isnan(s) else s for s in scores[order].tolist()]
    return pa.table({"task": crowd.tasks[order], "rank": np.arange(1, 81), "score": values, "labels": ["[1]"] * 80})


@pytest.mark.parametrize("name", ["ranking.csv", "ranking.parquet", "ranking.jsonl", "ranking.csv.gz"])
def test_hopeless_tasks_are_not_proposed(crowd, name):
    scores = np.random.default_rng(0).normal(size=80)
    scores[7] = np.nan
    write(ranked(crowd, scores), name)
    result = run(f"next answers.csv -b 80 --hopeless {name} --alpha 0.1 --caution 5 -o next.csv --json")
    output, model = json.loads(result.stdout), cw.DawidSkene().fit(crowd)
    expected = propose(model, 80, hopeless=scores, alpha=0.1, caution=5)
    assert [(row["task"], row["worker"]) for row in output["pairs"]] == list(
        zip(expected.table["task"].to_pylist(), expected.table["worker"].to_pylist(), strict=True)
    )
    assert [row["gain"] for row in output["pairs"]] == pytest.approx(expected.table["gain"].to_pylist())
    assert len(rows_of("next.csv")) == 72
    assert output["hopeless"] == 8
    assert "1 of the tasks have no score" in result.stderr
    shown = run(f"next answers.csv -b 5 --hopeless {name}").stdout
    assert "1 most ambiguous tasks" in shown


def test_invalid_rankings_are_rejected(crowd):
    scores = np.arange(80.0)
    write(ranked(crowd, scores).set_column(0, "task", pa.array(np.arange(100, 180))), "other.csv")
    write(ranked(crowd, scores).set_column(0, "task", pa.array([f"t{i}" for i in range(80)])), "text.csv")
    write(ranked(crowd, scores).set_column(2, "score", pa.array(["low"] * 80)), "words.csv")
    write(ranked(crowd, scores).set_column(2, "score", pa.array(["low"] * 80)), "words.parquet")
    write(pa.concat_tables([ranked(crowd, scores)] * 2), "twice.parquet")
    write(ranked(crowd, scores), "ranking.csv")
    for file, words in {
        "other.csv": "no score for any task",
        "twice.parquet": "lists a task twice",
        "text.csv": "needs a column `task`",
        "word*": "names 2 files; a ranking is one file",
        "words.parquet": "numeric column `score`",
        "words.csv": "numeric column `score`",
        "ranking.csv --alpha 1.0": "--alpha 1.0",
        "ranking.csv -o ranking.csv": "named twice",
    }.items():
        assert words in run(f"next answers.csv -b 5 --hopeless {file}", 1).stderr


def test_the_output_of_rank_is_accepted(crowd):
    np.save("X.npy", np.random.default_rng(0).normal(size=(80, 4)))
    shown = run("rank answers.csv --features X.npy --out ranking.csv --alpha 0.2 --epochs 2 --json").stdout
    run("next answers.csv -b 80 --hopeless ranking.csv --alpha 0.2 -o next.csv")
    bought = {int(row["task"]) for row in rows_of("next.csv")}
    assert bought == set(range(80)) - set(json.loads(shown)["left_out"])


def test_learners_use_features(crowd):
    X = np.random.default_rng(0).normal(size=(80, 4))
    np.save("X.npy", X)
    run("next answers.csv -b 5 --features X.npy --method raykar --set max_iter=300 -o next.csv")
    proposal = propose(cw.Raykar(max_iter=300).fit(X, crowd), 5, X=X, per_worker="fair")
    assert [int(row["task"]) for row in rows_of("next.csv")] == proposal.table["task"].to_pylist()


def test_user_errors_and_notes(crowd):
    np.save("X.npy", np.zeros((80, 2)))
    for line, message in {
        "next answers.csv -b 5 --method crowdlayer": "Add --features FILE",
        "next answers.csv -b 5 --features X.npy": "does not use features",
        "next answers.csv -b 5 -o answers.csv": "named twice",
        "next answers.csv -b 5 --workers who.csv": "no file or worker named",
        "next answers.csv -b 5 --alpha 0.1": "needs --hopeless RANKING",
        "next answers.csv -b 5 --hopeless no.csv": "no.csv",
        "next answers.csv -b 5 --hopeless answers.csv": "numeric column `score`",
        "next answers.csv -b 5 --caution inf": "--caution inf",
        "next answers.csv -b 5 -o next.txt": "end in .csv",
    }.items():
        assert message in run(line, 1).stderr
    output = run("next answers.csv -b 500").stderr
    assert "Only 80 of 500 answers can be bought with at most 1 per task. Raise --per-task." in output
    output = run("next answers.csv -b 500 --per-worker 3").stderr
    assert "Only 30 of 500 answers can be bought with at most 1 per task and 3 per worker." in output
    output = run("next answers.csv -b 600 --per-task 10").stderr
    assert "Only 560 of 600 answers can be bought; there are no other pairs" in output
    assert "can be bought" not in run("next answers.csv -b 80").stderr
    assert "Pass --budget N" in run("next answers.csv", 1).stderr
    write(crowd.thin(0.6), "thin.csv")
    assert "Most tasks have one answer" in run("next thin.csv -b 5").stderr
    assert "Most tasks" not in run("next answers.csv -b 5").stderr
    write(cw.simulate.simulate(5, n_workers=3, n_classes=2, answers_per_task=3), "full.csv")
    assert "nothing to buy" in run("next full.csv -b 5", 1).stderr
