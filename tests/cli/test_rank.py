"""`crowdwise rank`."""

import csv
import json
import shlex
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app
from crowdwise.io import write

LINE = "rank answers.csv --features X.npy --out ranking.csv --epochs 2"


@pytest.fixture(scope="module")
def digits():
    X, answers = cw.simulate.digits_crowd()
    return X[:100].astype(np.float32), answers[np.arange(100)]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, digits):
    monkeypatch.chdir(tmp_path)
    np.save("X.npy", digits[0])
    write(digits[1].with_truth(None), "answers.csv")
    return tmp_path


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def rows_of(file):
    with Path(file).open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_rank_writes_the_ranking_of_the_library(digits):
    X, answers = digits
    shown = run(f"{LINE} --alpha 0.1 --kept kept.csv --top 3 --seed 4 --set margin=pleiss").stdout
    waum = cw.WAUM(epochs=2, random_state=4, margin="pleiss").fit(X, answers)
    table, rows = waum.ranking().to_pylist(), rows_of("ranking.csv")
    assert [int(row["task"]) for row in rows] == [row["task"] for row in table]
    assert [float(row["score"]) for row in rows] == pytest.approx([row["score"] for row in table])
    assert [json.loads(row["labels"]) for row in rows] == [row["labels"] for row in table]
    assert [json.loads(row["workers"]) for row in rows] == [row["workers"] for row in table]
    np.testing.assert_allclose(json.loads(rows[0]["trust"]), table[0]["trust"], atol=1e-4)
    kept = waum.prune(0.1)
    left = cw.read("kept.csv")
    assert left.tasks.tolist() == answers.tasks[kept.rows].tolist()
    assert left.n_answers == kept.answers.n_answers
    first = table[0]
    assert f"{first['workers'][0]}: {first['labels'][0]} ({first['trust'][0]:.2f})" in shown
    for text in ("most ambiguous", "10 of the tasks are dropped", "ranking.csv", "kept.csv", "waum"):
        assert text in shown
    assert shown.count("(0.") >= 3


def test_parquet_keeps_lists(digits):
    run(LINE.replace("ranking.csv", "ranking.parquet"))
    assert pq.read_table("ranking.parquet").to_pylist() == cw.WAUM(epochs=2).fit(*digits).ranking().to_pylist()


def test_json_has_the_ranking_of_the_library(digits):
    result = run(
        f"{LINE.replace('epochs 2', 'epochs 30')} --method aum --top 2 --json --network mlp --set network__hidden=7"
    )
    output = json.loads(result.stdout)
    model = cw.AUM(cw.MLP(7), epochs=30).fit(*digits)
    assert output["most_ambiguous"] == model.ranking(2).to_pylist()
    assert output["left_out"] == model.tasks_[model.prune(0.01).removed].tolist()
    assert (output["method"], output["parameters"]["network__hidden"], output["tasks"]) == ("aum", 7, 100)
    assert output["written"] == {"ranking": "ranking.csv"}
    assert result.stderr == ""


def test_random_drops_tasks_at_random(digits):
    _, answers = digits
    line = f"{LINE} --alpha 0.1 --kept kept.csv"
    shown = run(f"{line} --random").stdout
    kept = cw.WAUM(epochs=2).fit(*digits).prune(0.1, random=True)
    assert cw.read("kept.csv").tasks.tolist() == answers.tasks[kept.rows].tolist()
    assert "10 of the tasks are dropped, chosen at random" in shown
    output = json.loads(run(f"{line} --random --json").stdout)
    assert (output["random"], output["left_out"]) == (True, answers.tasks[kept.removed].tolist())
    usual = json.loads(run(f"{line} --json").stdout)
    assert usual["random"] is False
    assert usual["left_out"] != output["left_out"]
    assert usual["most_ambiguous"] == output["most_ambiguous"]  # the ranking is the same


def test_alpha_0_and_top_0_drop_and_show_nothing():
    shown = run(f"{LINE} --alpha 0 --top 0 --kept kept.csv").stdout
    assert "0 of the tasks are dropped" in shown
    assert "most ambiguous" not in shown
    assert cw.read("kept.csv").n_tasks == 100


def test_cells_that_look_like_formulas_are_escaped(digits):
    _, answers = digits
    formulas = cw.Answers.from_arrays(
        [f"=t{t:03d}" for t in answers.task], [f"=w{w}" for w in answers.worker], [f"@c{c}" for c in answers.label]
    )
    write(formulas, "answers.csv")
    run(LINE)
    for row in rows_of("ranking.csv"):
        assert row["task"].startswith("'=t")
        assert all(not cell.startswith(("=", "@", "+")) for cell in row.values())
        assert json.loads(row["workers"])[0].startswith("=w")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (LINE.replace("answers.csv", "missing.csv"), "missing.csv"),
        (LINE.replace("X.npy", "missing.npy"), "missing.npy"),
        (LINE.replace("ranking.csv", "ranking.txt"), "ranking.txt"),
        (LINE.replace("ranking.csv", "answers.csv"), "named twice"),
        (f"{LINE} --kept ranking.csv", "named twice"),
        (f"{LINE} --kept no/where.csv", "does not exist"),
        (f"{LINE} --alpha 1", "below 1"),
        (f"{LINE} --set depth=3", "no parameter 'depth'"),
        (f"{LINE} --network mlp --set network__depth=3", "no parameter 'network__depth'"),
        (f"{LINE} --set epochs=3", "set twice"),
        (f"{LINE} --set margin=wide", "'yang' or 'pleiss'"),
        (f"{LINE} --set trust=nobody", "nobody"),
        (f"{LINE} --random", "--kept"),
    ],
)
def test_user_errors_are_one_message_without_a_traceback(line, message):
    result = run(line, 1)
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not Path("ranking.csv").exists()
