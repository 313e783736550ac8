"""`crowdwise fit`."""

import json
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdwise as cw
from crowdwise.cli.fit import progress_text
from crowdwise.io import write
from crowdwise.learn.methods.crowdlayer import CrowdLayer
from tests.helpers.learn_commands import FILES, FIT, names, renamed, rows_of, run

pytestmark = pytest.mark.usefixtures("folder")


def test_fit_writes_the_model_of_the_library(digits):
    X, answers = digits
    shown = run(f"{FIT} --set kind=vw --seed 3").stdout
    model = CrowdLayer("vw", epochs=2, random_state=3).fit(X, answers)
    assert names("model") == FILES
    assert names(".") == ["X.npy", "answers.csv", "gold.csv", "model", "truth.csv"]
    np.testing.assert_array_equal(cw.load("model/model.safetensors").predict_proba(X), model.predict_proba(X))
    labels = rows_of("model/labels.csv")
    assert [int(row["task"]) for row in labels] == answers.tasks.tolist()
    assert [int(row["label"]) for row in labels] == model.labels_.tolist()
    assert [float(row["confidence"]) for row in labels] == pytest.approx(model.proba_.max(axis=1).tolist())
    facts = json.loads(Path("model/model.json").read_text())
    assert facts["method"] == "crowdlayer"
    assert (facts["parameters"]["kind"], facts["parameters"]["epochs"]) == ("vw", 2)
    assert facts["history"] == model.history_
    assert facts["class_names"] == answers.classes.tolist()
    assert (facts["tasks"], facts["answers"]) == (150, answers.n_answers)
    for text in ("150 tasks", "crowdlayer, 2 epochs, loss", "model in", "model/labels.csv", "features"):
        assert text in shown


def test_a_repeated_fit_writes_the_same_bytes():
    run(FIT)
    run(FIT.replace("model", "again"))
    for name in FILES:
        assert Path("model", name).read_bytes() == Path("again", name).read_bytes()


def test_json_has_the_scores_of_the_library(digits):
    result = run(f"{FIT} --truth truth.csv --json")
    output = json.loads(result.stdout)
    assert list(output["scores"]) == ["majority-vote", "crowdlayer"]
    assert output["scores"] == json.loads(Path("model/model.json").read_text())["scores"]
    model = CrowdLayer(epochs=2).fit(*digits)
    assert output["scores"]["crowdlayer"]["accuracy"] == pytest.approx((model.codes_ == digits[1].truth).mean())
    assert output["written"] == {"model": "model", "labels": "model/labels.csv"}
    assert result.stderr == ""
    lines = run(f"{FIT} --truth truth.csv").stdout.splitlines()
    assert [line.split()[0] for line in lines[-2:]] == ["majority-vote", "crowdlayer"]


def test_gold_is_used_and_not_scored():
    output = json.loads(run(f"{FIT} -m aggregated --gold gold.csv --truth truth.csv --json").stdout)
    assert output["scores"]["aggregated"]["n_tasks"] == 100
    known = {row["task"]: row["label"] for row in rows_of("gold.csv")}
    assert {row["task"]: row["label"] for row in rows_of("model/labels.csv")[:50]} == known
    result = run(f"{FIT} -m aggregated --gold truth.csv --truth truth.csv --json")
    assert "Nothing to score" in result.stderr
    assert "scores" not in json.loads(result.stdout)
    assert "gold" in run(f"{FIT} -m crowdlayer --gold gold.csv", 1).stderr  # it infers no labels to hold fixed


def test_nested_parameters_are_set():
    run(f"{FIT} -m 'aggregated(dawid-skene)' --network mlp --set network__hidden=7 --set truth__max_iter=300 --seed 5")
    model = cw.load("model/model.safetensors")
    assert (model.network.hidden, model.truth.max_iter) == (7, 300)
    assert (model.random_state, model.truth.random_state) == (5, 5)
    assert isinstance(model.truth_, cw.DawidSkene)


def test_parameters_of_a_learner_inside_a_framework_are_set():
    run(f"{FIT} -m 'dasc(waum(conal))' --network mlp --set base__base__network__hidden=7 --set iterations=1 --seed 5 "
        "--set soft=yes --set redistribute=no")  # fmt: skip
    model = cw.load("model/model.safetensors")
    assert (model.iterations, model.soft, model.redistribute) == (1, True, False)
    assert (model.base.base.epochs, model.base.base.network.hidden) == (2, 7)
    assert (model.random_state, model.base.random_state, model.base.base.random_state) == (5, 5, 5)
    run(f"{FIT} -m 'dasc(majority-vote)' --set iterations=1")
    assert cw.load("model").base.epochs == 2  # a network on the labels of the vote
    output = run(f"{FIT} -m 'dasc(crowdlayer)' --set epoch=3", 1).stderr
    assert "no parameter 'epoch'. Did you mean base__epochs" in output.replace("\n", " ")


def test_a_fit_resumes_from_its_checkpoint():
    run(FIT.replace("--epochs 2", "--epochs 4"))
    straight = Path("model/labels.csv").read_bytes()
    run(f"{FIT.replace('--epochs 2', '--epochs 4')} --checkpoint model/state")  # in a folder that exists
    assert Path("model/state").exists()
    again = run(f"{FIT.replace('--epochs 2', '--epochs 4')} --checkpoint model/state --json")
    assert len(json.loads(again.stdout)["history"]) == 4
    assert Path("model/labels.csv").read_bytes() == straight
    assert "belongs to other data or settings" in run(f"{FIT} --checkpoint model/state", 1).stderr


# Matching rows to tasks


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_tables_are_matched_by_id(digits, suffix):
    X, _ = digits
    write(renamed(digits, lambda task: f"img{task}"), "answers.csv")
    order = np.random.default_rng(0).permutation(150)
    columns = {f"f{i}": X[order, i] for i in range(64)}
    table = pa.table({"task": [f"img{i}" for i in order], **columns})
    table = pa.concat_tables([table, pa.table({"task": ["stranger"], **dict.fromkeys(columns, X[:1, 0])})])
    (write if suffix == "csv" else pq.write_table)(table, f"X.{suffix}")
    result = run(f"fit answers.csv -x X.{suffix} -o model -m crowdlayer --epochs 2")
    assert "1 rows or images of X." in result.stderr
    ids = sorted(f"img{task}" for task in range(150))
    expected = CrowdLayer(epochs=2).fit(X[[int(i[3:]) for i in ids]], cw.read("answers.csv", tasks=ids))
    assert [int(row["label"]) for row in rows_of("model/labels.csv")] == expected.labels_.tolist()
    run(f"predict model X.{suffix} -o predictions.csv")
    predicted = rows_of("predictions.csv")
    assert [row["task"] for row in predicted] == [*(f"img{i}" for i in order), "stranger"]
    assert [int(row["label"]) for row in predicted[:-1]] == expected.predict(X[order]).tolist()


def test_task_ids_are_row_numbers_if_there_are_more_rows_than_tasks(digits):
    X, answers = digits
    write(answers[np.arange(20, 140)].with_truth(None), "answers.csv")
    result = run(f"{FIT} --json")
    assert "150 rows for 120 tasks: task ids are used as row numbers" in result.stderr
    expected = CrowdLayer(epochs=2).fit(X[20:140], answers[np.arange(20, 140)])
    np.testing.assert_array_equal(cw.load("model/model.safetensors").proba_, expected.proba_)


def test_rows_are_matched_in_the_order_of_the_ids(digits):
    write(renamed(digits, lambda task: f"{task:04}x"), "answers.csv")
    assert "matched to the tasks in order ('0000x', '0001x', '0002x', ..., '0149x')" in run(FIT).stderr
    assert [int(row["label"]) for row in rows_of("model/labels.csv")] == CrowdLayer(epochs=2).fit(
        *digits
    ).labels_.tolist()


def test_a_wrong_number_of_rows_is_rejected(digits):
    X, _ = digits
    np.save("X.npy", X[:149])
    assert "X.npy has 149 rows; the answers have 150 tasks" in run(FIT, 1).stderr
    np.save("X.npy", np.concatenate([X, X]))
    write(renamed(digits, lambda task: f"img{task}"), "answers.csv")
    assert "X.npy has 300 rows; the answers have 150 tasks" in run(FIT, 1).stderr
    write(renamed(digits, lambda task: task + 200), "answers.csv")
    assert "X.npy has 300 rows; the answers have 150 tasks" in run(FIT, 1).stderr
    X[3, 0] = np.nan
    np.save("X.npy", X)
    X[3, 0] = 0
    assert "NaN" in run(FIT, 1).stderr


def test_splits_of_an_npz_file_can_be_named(digits):
    X, _ = digits
    np.savez("X.npz", X_train=X, X_test=X[:5])
    run(f"{FIT.replace('X.npy', 'X.npz::train')}")
    run("predict model X.npz::test -o predictions.csv")
    assert len(rows_of("predictions.csv")) == 5


# The folder of the model


def test_other_files_in_the_folder_are_kept():
    Path("model").mkdir()
    Path("model/notes.txt").write_text("mine")
    run(FIT)
    run(f"{FIT} --seed 1")  # replaces the model
    assert names("model") == [*FILES, "notes.txt"]
    assert Path("model/notes.txt").read_text() == "mine"
    assert json.loads(Path("model/model.json").read_text())["parameters"]["random_state"] == 1


@pytest.mark.parametrize(
    ("name", "text"), [("labels.csv", "task,label\n"), ("model.json", '{"a": 1}'), ("model.json", "[")]
)
def test_files_that_do_not_belong_to_a_model_are_not_replaced(name, text):
    Path("model").mkdir()
    Path("model", name).write_text(text)
    assert f"model holds {name} that do not belong to a model" in run(FIT, 1).stderr
    assert names("model") == [name]
    assert Path("model", name).read_text() == text


def test_a_failed_fit_leaves_nothing(monkeypatch):
    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(CrowdLayer, "save", fail)
    before = names(".")
    assert "disk full" in run(FIT, 1).stderr
    assert names(".") == before


def test_folders_are_created_and_files_are_rejected():
    run(FIT.replace("--out model", "--out runs/today/model/"))
    assert names("runs/today/model") == FILES
    assert "answers.csv is named twice" in run(FIT.replace("--out model", "--out answers.csv"), 1).stderr
    Path("file").touch()
    assert "is a file" in run(FIT.replace("--out model", "--out file"), 1).stderr
    assert "not a writable folder" in run(FIT.replace("--out model", "--out file/model"), 1).stderr


# The progress bar


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"epoch": 1, "epochs": 500, "loss": 2.0}, ("Fitting x, epoch 1, loss 2, 17 min left", 1, 500)),
        (
            {"iteration": 2, "iterations": 4, "bound": -1234.5},
            ("Fitting x, iteration 2, bound -1.23e+03, 4 s left", 2, 4),
        ),
        ({"phase": "warm"}, ("Fitting x", None, None)),
        ({}, ("Fitting x", None, None)),
    ],
)
def test_progress_text_of_a_record(record, shown):
    assert progress_text("x", record, 2.0) == shown


def test_every_epoch_advances_the_progress_bar(monkeypatch):
    seen = []
    monkeypatch.setattr("crowdwise.cli.fit.progress", lambda _: nullcontext(lambda *step: seen.append(step)))
    run(FIT)
    assert [step[1:] for step in seen] == [(1, 2), (2, 2)]
    assert seen[1][0].startswith("Fitting crowdlayer, epoch 2, loss ")
    assert seen[1][0].endswith("0 s left")
