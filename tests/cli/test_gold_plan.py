"""`crowdwise next --gold N`, and the way of its file into `crowdwise run --gold`."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app
from crowdwise.io import write


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(150, n_workers=8, n_classes=2, answers_per_task=4, seed=5)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, crowd):
    monkeypatch.chdir(tmp_path)
    write(crowd.with_truth(None), "answers.csv")


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def fill_in(file, crowd):
    """Label every row of a gold file; return its rows."""
    with Path(file).open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    for row in rows:
        row["label"] = str(crowd.truth[int(row["task"])])
    with Path(file).open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return rows


def test_a_plan_goes_back_into_the_run_and_a_second_round_adds_to_it(crowd):
    shown = run("next answers.csv --gold 40 --out gold.csv")
    assert "40 tasks" in shown.stdout and "after 40 labels" in shown.stdout and "--gold gold.csv" in shown.stdout
    rows = fill_in("gold.csv", crowd)
    assert len(rows) == 40 and {row["round"] for row in rows} == {"1"}
    made = json.loads(run("run answers.csv --gold gold.csv --out run --method wawa --json").stdout)
    assert "drawn by `crowdwise next --gold`" in made["trust"]["assumes"]
    found, right = made["trust"]["estimates"]["accuracy"], cw.run.Run("run").codes == crowd.truth
    assert found["n_gold"] == 40 and found["low"] <= right.mean() <= found["high"]

    again = json.loads(run("next run --gold 20 --out more.csv --json").stdout)
    assert (again["known_gold"], again["to_label"], len(again["tasks_to_label"])) == (40, 20, 20)
    now, after = again["accuracy"]["before"], again["accuracy"]["planned"]
    assert after["high"] - after["low"] < now["high"] - now["low"]
    rows = fill_in("more.csv", crowd)
    assert [row["round"] for row in rows] == ["1"] * 40 + ["2"] * 20
    assert len({row["task"] for row in rows}) == 60
    made = json.loads(run("run answers.csv --gold more.csv --out second --method wawa --json").stdout)
    assert made["trust"]["n_gold"] == 60
    found, right = made["trust"]["estimates"]["accuracy"], cw.run.Run("second").codes == crowd.truth
    assert found["low"] <= right.mean() <= found["high"]


def test_known_gold_without_a_design_was_drawn_at_random(crowd):
    Path("known.csv").write_text("task,label\n" + "".join(f"{t},{crowd.truth[t]}\n" for t in range(12)))
    run("next answers.csv --gold 20 --gold known.csv --out gold.csv")
    rows = fill_in("gold.csv", crowd)
    assert [row["round"] for row in rows] == [""] * 12 + ["1"] * 20
    made = cw.run.run("answers.csv", "run", gold="gold.csv", method="wawa")
    assert made.gold.num_rows == 32 and made.gold.column("round").null_count == 12
    np.testing.assert_allclose(made.gold.column("probability").to_numpy()[12:], 20 / 138, rtol=0.5)


def test_user_errors():
    for line, message in {
        "next answers.csv": "--gold N for tasks",
        "next answers.csv --gold 20 --budget 5": "--gold N for tasks",
        "next answers.csv --gold 20 --method glad": "--method has no effect",
        "next answers.csv --gold 20 --gold 30": "pass one number",
        "next answers.csv --gold 0": "above 0",
        "next answers.csv --gold 5": "ask for at least 10",
        "next answers.csv --gold 20 --gold none.csv": "none.csv",
        "next answers.csv --gold 20 -o answers.csv": "named twice",
    }.items():
        assert message in run(line, 1).stderr
    assert "not written" in run("next answers.csv --gold 20").stderr
    assert "Only 150 tasks have no gold label" in run("next answers.csv --gold 200").stderr
