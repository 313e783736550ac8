"""`crowdwise predict`, and user errors with it and with `crowdwise fit`."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import crowdwise as cw
from crowdwise.io import write
from tests.helpers.learn_commands import FIT, renamed, rows_of, run

pytestmark = pytest.mark.usefixtures("folder")


def test_predict_writes_the_predictions_of_the_model(digits):
    X, answers = digits
    run(FIT)
    shown = run("predict model/ X.npy --out predictions.csv --proba").stdout
    model = cw.load("model/model.safetensors")
    rows = rows_of("predictions.csv")
    assert list(rows[0]) == ["task", "label", "confidence", *(f"proba_{c}" for c in answers.classes)]
    assert [int(row["task"]) for row in rows] == list(range(150))
    assert [int(row["label"]) for row in rows] == model.predict(X).tolist()
    proba = np.array([[float(row[f"proba_{c}"]) for c in answers.classes] for row in rows])
    np.testing.assert_allclose(proba, model.predict_proba(X), rtol=1e-12)
    np.testing.assert_allclose([float(row["confidence"]) for row in rows], proba.max(axis=1))
    assert "150" in shown
    output = json.loads(run("predict model/model.safetensors X.npy --out predictions.parquet --json").stdout)
    assert output["tasks"] == sum(output["labels"].values()) == 150
    assert pq.read_table("predictions.parquet").column_names == ["task", "label", "confidence"]


def test_cells_that_look_like_formulas_are_escaped(digits):
    table = renamed(digits, lambda task: f"=cmd{task:03}")
    label = pa.array(["=1+1" if value else "ham" for value in table.column("label").to_pylist()])
    write(table.set_column(2, "label", label), "answers.csv")
    run(FIT)
    pq.write_table(pa.table({"task": ["=cmd0"], **{f"f{i}": [1.0] for i in range(64)}}), "new.parquet")
    run("predict model new.parquet --out predictions.csv --proba")
    row = rows_of("predictions.csv")[0]
    assert row["task"] == "'=cmd0"
    assert row["label"] in ("'=1+1", "ham")
    assert list(row)[3:] == ["proba_=1+1", "proba_ham"]
    assert "'=1+1" in {row["label"] for row in rows_of("model/labels.csv")} | {row["label"]}


def test_predictions_have_the_task_ids_of_the_labels(digits):
    """Integer ids in a table, and files named by them."""
    from PIL import Image

    X, answers = digits
    lines = [f"{t}," + ",".join(f"{v:g}" for v in row) for t, row in zip(answers.tasks, X, strict=True)]
    Path("X.csv").write_text(",".join(["task", *(f"p{i}" for i in range(64))]) + "\n" + "\n".join(lines) + "\n")
    run("fit answers.csv --features X.csv --method crowdlayer --out model --epochs 1")
    run("predict model X.csv --out predictions.csv")
    assert [row["task"] for row in rows_of("predictions.csv")] == [row["task"] for row in rows_of("model/labels.csv")]
    Path("images").mkdir()
    for t, row in zip(answers.tasks, X, strict=True):
        Image.fromarray((row * 15).astype(np.uint8).reshape(8, 8)).save(f"images/{t}.png")
    run("fit answers.csv --features images --method crowdlayer --out pictures --epochs 1")
    run("predict pictures images --out seen.csv")
    assert {row["task"] for row in rows_of("seen.csv")} == {row["task"] for row in rows_of("pictures/labels.csv")}


def test_class_prior_of_new_tasks_is_used(digits):
    X, answers = digits
    run("fit answers.csv --features X.npy --method joint-em --set classifier=lda --set features=plain --out model")
    model = cw.load("model")
    shares = {name: 1.0 + 9.0 * (name == answers.classes[1]) for name in answers.classes.tolist()}
    Path("shares.json").write_text(json.dumps({str(name): share for name, share in shares.items()}))
    written = ",".join(f"{name}={share}" for name, share in shares.items())
    for option, declared in (("balanced", "balanced"), ("shares.json", shares), (written, shares)):
        run(f"predict model X.npy --out predictions.csv --proba --class-prior {option}")
        proba = [[float(row[f"proba_{c}"]) for c in answers.classes] for row in rows_of("predictions.csv")]
        np.testing.assert_allclose(proba, model.set_params(new_class_prior=declared).predict_proba(X), rtol=1e-9)
    assert "a share for each class" in run("predict model X.npy -o p.csv --class-prior 0=1", 1).stderr
    assert "listed twice" in run("predict model X.npy -o p.csv --class-prior 0=1,0=2", 1).stderr
    assert "it is empty" in run("predict model X.npy -o p.csv --class-prior ''", 1).stderr
    output = json.loads(run("predict model X.npy --out predictions.csv --class-prior balanced --json").stdout)
    assert output["class_prior"] == "balanced"
    run(FIT)
    assert "applies to joint-em" in run("predict model X.npy -o p.csv --class-prior balanced", 1).stderr
    assert not Path("p.csv").exists()


def test_predict_accepts_no_tasks(digits):
    run(FIT)
    np.save("none.npy", digits[0][:0])
    assert json.loads(run("predict model none.npy -o predictions.csv --json").stdout)["confident_share"] is None
    assert Path("predictions.csv").read_text() == "task,label,confidence\n"
    run("predict model none.npy -o predictions.csv")


# Errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("fit answers.csv -x X.npy -o m -m dawid-skene", "Run `crowdwise aggregate --method dawid-skene`"),
        ("fit answers.csv -x X.npy -o m -m crowdlayr", "Did you mean crowdlayer"),
        ("fit answers.csv -x X.npy -o m -m 'aggregated(wawa'", "1 opening and 0 closing brackets"),
        ("fit answers.csv -x no.npy -o m", "no file or folder 'no.npy'"),
        ("fit answers.csv -x answers.txt -o m", "no file or folder"),
        ("fit no.csv -x X.npy -o m", "no file 'no.csv'"),
        (
            "fit answers.csv -x X.npy -o m -m crowdlayer --set epoch=3",
            "no parameter 'epoch'. Did you mean epochs? Its parameters are",
        ),
        ("fit answers.csv -x X.npy -o m -m crowdlayer --set network__hidden=3", "no parameter 'network__hidden'"),
        ("fit answers.csv -x X.npy -o m -m crowdlayer --epochs 3 --set epochs=3", "epochs is set twice"),
        ("fit answers.csv -x X.npy -o m -m crowdlayer --set lr=0", "lr=0"),
        ("fit answers.csv -x X.npy -o m -m crowdlayer --network cnn", "CNN needs images"),
        ("fit answers.csv -x X.npy -o m -m crowdlayer --checkpoint X.npy", "named twice"),
        ("fit answers.csv -x X.npy -o m --truth m/labels.csv", "named twice"),
        ("aggregate answers.csv -m crowdlayer", "Run `crowdwise fit --method crowdlayer --features FILE`"),
        ("aggregate answers.csv -m 'aggregated(wawa)'", "fit --method 'aggregated(wawa)' --features"),
        ("predict nowhere X.npy -o p.csv", "no model file 'nowhere'"),
        ("predict . X.npy -o p.csv", "no model file 'model.safetensors'"),
        ("predict answers.csv X.npy -o p.csv", "not a crowdwise model"),
        ("predict nowhere X.npy -o X.npy", "end in .csv"),
        ("predict nowhere table.csv -o ./table.csv", "named twice"),
    ],
)
def test_user_errors_are_one_message_without_a_traceback(line, message):
    result = run(line, 1)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert not Path("m").exists()


def test_unsuitable_models_are_rejected(digits):
    run(FIT)
    np.save("wide.npy", np.zeros((3, 5)))
    assert "rows of shape (5,); the model was fitted on (64,)" in run("predict model wide.npy -o p.csv", 1).stderr
    cw.MajorityVote().fit(digits[1]).save("vote")
    assert "has no classifier" in run("predict vote X.npy -o p.csv", 1).stderr
    Path("model/model.safetensors").write_bytes(b"nothing")
    assert "damaged" in run("predict model X.npy -o p.csv", 1).stderr
    assert not Path("p.csv").exists()


@pytest.mark.parametrize("line", [
    "fit answers.csv", "fit answers.csv -x X.npy", "fit answers.csv -x X.npy -o m --epochs 0",
    "fit answers.csv -x X.npy -o m --network rnn", "predict model", "predict model X.npy",
])  # fmt: skip
def test_wrong_usage_exits_with_2(line):
    assert run(line, 2).stdout == ""
