"""`crowdwise panel`."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app

NAMES = np.array(["ann", "bob", "cyd", "fox-s", "fox-l", "owl"])


@pytest.fixture(scope="module")
def crowd():
    """Three people and three judges; two judges are nearly the same."""
    drawn = cw.simulate.simulate(200, n_workers=5, n_classes=2, answers_per_task=5, accuracy=(0.7, 0.9), seed=6)
    own = drawn.take(np.flatnonzero(drawn.worker == 4))
    copy = cw.Answers.from_arrays(own.task, own.worker + 1, np.where(own.task % 15 == 0, 0, own.label))
    both = drawn.merge(copy)
    return cw.Answers.from_arrays(both.task, NAMES[both.worker], both.label).with_truth(drawn.truth)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, crowd):
    monkeypatch.chdir(tmp_path)
    cw.write(crowd.with_truth(None), "answers.csv")
    Path("gold.csv").write_text("task,label\n" + "".join(f"{t},{crowd.truth[t]}\n" for t in range(0, 200, 2)))


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def test_figures_are_those_of_the_library(crowd):
    Path("judges.csv").write_text("worker,family\nowl,twins\nfox-l,twins\n")
    line = "panel answers.csv --gold gold.csv --families judges.csv --people ann,bob,cyd --epsilon 0.2"
    made = json.loads(run(f"{line} --out panel.json --json").stdout)
    assert json.loads(Path("panel.json").read_text()) == made
    gold = {t: int(crowd.truth[t]) for t in range(0, 200, 2)}
    named, people = {"owl": "twins", "fox-l": "twins"}, ["ann", "bob", "cyd"]
    found = cw.trust.panel(crowd.with_truth(None), gold, families=named, people=people, epsilon=0.2)
    assert made["members"] == json.loads(json.dumps(found.to_arrow().to_pylist()))
    assert [each["worker"] for each in made["tests"]] == [each.candidate for each in found.tests]
    assert made["gold"] == 100 and made["effective_votes"] < made["answers_per_task"]
    (family,) = made["families"]
    assert sorted(family["workers"]) == ["fox-l", "owl"] and family["name"] == "twins"
    shown = run(f"{line} --out panel.csv --pairs pairs.csv").stdout
    assert "Family twins" in shown and "may replace a person (epsilon 0.2)" in shown and "95% interval" in shown
    assert len(Path("panel.csv").read_text().splitlines()) == 7
    assert Path("pairs.csv").read_text().startswith("worker,other,common_tasks")


def test_without_gold_it_says_so(crowd):
    shown = run("panel answers.csv")
    assert "come from the answers only" in shown.stderr and "accuracy  " not in shown.stdout
    cw.write(crowd, "known.csv")  # with a column `truth`
    made = run("panel known.csv --json")
    assert "known labels of 200 tasks" in made.stderr and json.loads(made.stdout)["gold"] == 200
    assert json.loads(run("panel known.csv --gold none --json").stdout)["gold"] == 0


def test_pseudonyms_hide_workers_families_and_people():
    Path("people.csv").write_text("worker,since\nann,2020\nbob,2021\n")
    Path("judges.csv").write_text("worker,family\nfox-s,fox\nfox-l,fox\n")
    shown = run("panel answers.csv --people people.csv --families judges.csv --pseudonymise key --out panel.json")
    text = shown.output + Path("panel.json").read_text()
    assert not set(re.findall(r"[\w-]+", text)) & set(NAMES)
    made = json.loads(Path("panel.json").read_text())
    assert len(made["tests"]) == 4 and len(made["families"][0]["workers"]) == 2 and made["families"][0]["name"] == "fox"


def test_abstentions_are_shown():
    lines = [("t1", "gpt", "yes"), ("t1", "owl", "no"), ("t2", "gpt", None), ("t2", "owl", "no"), ("t1", "mute", None)]
    rows = [json.dumps(dict(zip(("task", "judge", "verdict"), line, strict=True))) for line in lines]
    Path("judges.jsonl").write_text("\n".join(rows))
    shown = run("panel judges.jsonl --nulls drop --json")
    counted = {row["worker"]: row["abstentions"] for row in json.loads(shown.stdout)["members"]}
    assert counted == {"gpt": 1, "owl": 0, "mute": 1}
    assert "abstained" in run("panel judges.jsonl --nulls drop").stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--people nobody,ann", "no file or worker named 'nobody'"),
        ("--people ann", "people must be two or more"),
        ("--out panel.txt", "panel.txt"),
        ("--tolerance 2", "--tolerance 2"),
        ("--families gold.csv", "gold.csv"),
        ("--out gold.csv --gold gold.csv", "gold.csv is named twice"),
    ],
)
def test_user_errors(line, message):
    shown = run(f"panel answers.csv {line}", code=1)
    assert message in shown.stderr and "Traceback" not in shown.stderr
