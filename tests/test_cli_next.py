"""`crowdwise next`."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
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


def test_next_writes_what_the_library_proposes(crowd):
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


def test_json_is_one_object():
    result = run("next answers.csv -b 7 --strategy uncertainty --method one-coin --set max_iter=300 --json")
    told = json.loads(result.stdout)
    assert (told["proposed"], told["strategy"], told["method"], told["whole"]) == (7, "uncertainty", "one-coin", True)
    assert len(told["pairs"]) == 5
    assert set(told["pairs"][0]) >= {"task", "worker", "gain", "belief", "confidence", "uncertainty", "expected"}
    assert told["written"] == {}
    assert "not written" in run("next answers.csv -b 7").stderr


def test_strategies_are_the_librarys():
    assert [strategy.value for strategy in Strategy] == list(STRATEGIES)


def test_who_can_be_asked():
    Path("who.txt").write_text("worker\n3\n8\n\n")
    for given in ("3,8", "who.txt"):
        run(f"next answers.csv -b 30 --workers {given} -o next.csv")
        assert {row["worker"] for row in rows_of("next.csv")} <= {"3", "8"}
    assert "2 workers have not answered yet" in run("next answers.csv -b 3 --workers 3,77,78").stderr
    assert "'ann' is not" in run("next answers.csv -b 3 --workers ann", 1).stderr
    Path("none.txt").write_text("\n")
    assert "no worker is named" in run("next answers.csv -b 3 --workers none.txt", 1).stderr


def test_learners_take_features(crowd):
    X = np.random.default_rng(0).normal(size=(80, 4))
    np.save("X.npy", X)
    run("next answers.csv -b 5 --features X.npy --method raykar --set max_iter=300 -o next.csv")
    proposal = propose(cw.Raykar(max_iter=300).fit(X, crowd), 5, X=X)
    assert [int(row["task"]) for row in rows_of("next.csv")] == proposal.table["task"].to_pylist()


def test_mistakes_in_plain_words(crowd):
    np.save("X.npy", np.zeros((80, 2)))
    for line, words in {
        "next answers.csv -b 5 --method crowdlayer": "add --features FILE",
        "next answers.csv -b 5 --features X.npy": "uses no features",
        "next answers.csv -b 5 -o answers.csv": "named twice",
        "next answers.csv -b 5 --workers who.csv": "'who.csv' is not",
        "next answers.csv -b 5 -o next.txt": "ends in .csv",
    }.items():
        assert words in run(line, 1).stderr
    assert "Only 80 pairs" in run("next answers.csv -b 500").stderr
    assert run("next answers.csv", 2).stderr
    write(crowd.thin(0.6), "thin.csv")
    assert "Most tasks have one answer" in run("next thin.csv -b 5").stderr
    assert "Most tasks" not in run("next answers.csv -b 5").stderr
    write(cw.simulate.simulate(5, n_workers=3, n_classes=2, answers_per_task=3), "full.csv")
    assert "nothing to buy" in run("next full.csv -b 5", 1).stderr


def test_help_ends_with_an_example_that_runs():
    shown = " ".join(run("next --help").stdout.split())
    assert shown.endswith("Example: crowdwise next answers.csv --budget 100 --out next.csv")
    run("next answers.csv --budget 100 --out next.csv")
