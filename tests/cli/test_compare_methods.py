"""`crowdwise compare-methods`."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app


@pytest.fixture(autouse=True)
def answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answers = cw.simulate.simulate(100, n_workers=8, n_classes=2, answers_per_task=3, seed=1)
    cw.write(answers.with_truth(None), "answers.csv")
    pd.DataFrame({"task": answers.tasks, "label": answers.truth}).to_csv("truth.csv", index=False)
    np.save("X.npy", np.eye(2)[answers.truth] + np.random.default_rng(0).normal(size=(100, 2)))
    return answers


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def test_the_table_is_that_of_the_library(answers):
    line = "compare-methods answers.csv --truth truth.csv -x X.npy -m one-coin -m raykar --seeds 2"
    shown = json.loads(run(f"{line} --json --out table.csv --chart leads.svg").stdout)
    expected = cw.bench(["one-coin", "raykar"], np.load("X.npy"), answers, seeds=2).to_arrow().to_pylist()
    for found in (shown["methods"], pd.read_csv("table.csv").to_dict("records")):
        for row, wanted in zip(found, expected, strict=True):
            assert row["method"] == wanted["method"]
            assert row["accuracy_to_vote"] == pytest.approx(wanted["accuracy_to_vote"])
    assert shown["known"] == 100 and shown["seeds"] == [0, 1] and not shown["held_out"]
    assert "<svg" in Path("leads.svg").read_text()
    text = run(line).stdout
    assert "raykar" in text and "balanced accuracy" in text and "means over 2 seeds" in text


def test_without_truth_held_out_answers_are_compared():
    text = run("compare-methods answers.csv -m one-coin --seeds 2").stdout
    assert "held-out log-lik." in text and "accuracy" not in text


def test_mistakes_are_named():
    assert "--chart leads.pdf" in run("compare-methods answers.csv --chart leads.pdf", 1).output
    assert "learns from features" in run("compare-methods answers.csv -m crowdlayer", 1).output
    assert "no method 'gladd'" in run("compare-methods answers.csv -m gladd", 1).output
