"""`crowdwise run`, `report` and `compare`."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise._core.installation import install_command
from crowdwise.cli import app
from crowdwise.run import Run

QUICK = "--method one-coin --method dawid-skene"


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(240, n_workers=10, n_classes=3, answers_per_task=3, seed=6)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, crowd):
    monkeypatch.chdir(tmp_path)
    cw.write(crowd.with_truth(None), "answers.csv")
    rows = [f"{task},{label}\n" for task, label in zip(crowd.tasks, crowd.truth, strict=True)]
    Path("gold.csv").write_text("task,label\n" + "".join(rows))
    return tmp_path


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def test_run_prints_the_result_and_its_files(crowd):
    result = run(f"run answers.csv {QUICK} --truth gold.csv --out runs/today")
    result_run = Run("runs/today")
    for sentence in result_run.metrics["words"]:
        assert sentence in " ".join(result.stdout.split()) or sentence in result.stdout
    assert "runs/today/labels.csv" in result.stdout and "runs/today/report.html" in result.stdout
    assert f"{result_run.metrics['method']} *" in result.stdout
    assert f"{result_run.metrics['truth']['accuracy']:.3f}" in result.stdout
    assert "[2/6] Comparing methods" in result.stderr
    entry = result_run.config["inputs"][0]
    assert entry["role"] == "answers" and entry["bytes"] == Path("answers.csv").stat().st_size


def test_run_equals_that_of_the_library(crowd):
    output = json.loads(run(f"run answers.csv {QUICK} --out typed --json").stdout)
    result_run = cw.run.run(crowd.with_truth(None), "called", method=["one-coin", "dawid-skene"])
    assert output["counts"] == result_run.metrics["counts"] and output["method"] == result_run.metrics["method"]
    assert Path("typed/labels.csv").read_bytes() == Path("called/labels.csv").read_bytes()
    assert output["seconds"] and output["written"] == {"run": "typed"}


def test_default_folders_of_runs_are_numbered():
    for place in ("runs/answers", "runs/answers-2"):
        assert json.loads(run("run answers.csv --method one-coin --json").stdout)["written"]["run"] == place


def test_features_texts_and_times_reach_the_run(crowd):
    np.save("X.npy", np.eye(3)[crowd.truth] + np.random.default_rng(0).normal(0, 0.3, (crowd.n_tasks, 3)))
    table = crowd.with_truth(None).to_arrow()
    texts = [f"a text, number {task}" for task in table.column("task").to_pylist()]
    table = table.append_column("words", [texts]).append_column("seconds", [[5.0] * table.num_rows])
    cw.write(table, "long.csv")
    run("run long.csv --features X.npy --text words --method raykar --folds 2 --jobs 1 --out out")
    result_run = Run("out")
    row = result_run.tasks.slice(0, 1).to_pylist()[0]
    assert row["text"] == f"a text, number {row['task']}"
    assert set(result_run.workers.column("seconds").to_pylist()) == {5.0}
    assert result_run.classifier.predict(np.eye(3)).tolist() == [0, 1, 2]


def test_joint_em_is_the_default_and_uses_the_declared_class_prior(crowd):
    np.save("X.npy", np.eye(3)[crowd.truth] + np.random.default_rng(0).normal(0, 0.3, (crowd.n_tasks, 3)))
    common = "--features X.npy --method one-coin --method joint-em --folds 2 --jobs 1"
    result = run(f"run answers.csv {common} --out out")
    assert Run("out").metrics["choice"]["default"] == Run("out").metrics["method"] == "joint-em"
    assert "The labels come from joint-em, the default method. None of the 2 alternatives beat it" in result.stdout
    assert np.array_equal(cw.load("out/model.safetensors").predict(np.eye(3)), [0, 1, 2])
    assert "the default" in Path("out/report.html").read_text()
    Path("shares.json").write_text('{"0": 0.98, "1": 0.01, "2": 0.01}')
    alone = common.replace("--method one-coin", "")
    result = run(f"run answers.csv {alone} --class-prior shares.json --out declared")
    assert Run("declared").config["options"]["class_prior"] == {"0": 0.98, "1": 0.01, "2": 0.01}
    assert "contradict the declared class_prior" in " ".join(result.output.split())


def test_resume_needs_the_option_and_the_same_settings():
    run(f"run answers.csv {QUICK} --out out")
    assert "--resume" in run(f"run answers.csv {QUICK} --out out", 1).stderr
    again = json.loads(run(f"run answers.csv {QUICK} --out out --resume --json").stdout)
    assert again["method"] == Run("out").metrics["method"]
    assert "accept was 0.9, now it is 0.8" in run(f"run answers.csv {QUICK} --out out --resume --accept 0.8", 1).stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run nowhere.csv", "no file 'nowhere.csv'"),
        ("run answers.csv --method nonsense", "no method 'nonsense'"),
        ("run answers.csv --method crowdlayer", "learns from features"),
        ("run answers.csv --text missing", "missing"),
        ("run answers.csv --truth answers.csv --out answers.csv", "named twice"),
        ("run answers.csv --features nowhere.npy", "nowhere.npy"),
        ("run answers.csv --accept 2", "accept"),
        ("run answers.csv --class-prior balanced", "joint-em"),
        ("run answers.csv --class-prior 0=much", "--class-prior 0=much: expected balanced"),
        ("run answers.csv --class-prior nowhere.json", "--class-prior nowhere.json: expected balanced"),
        ("report nowhere", "No run folder"),
        ("report .", "no metrics.json"),
        ("compare nowhere nowhere", "No run folder"),
    ],
)
def test_user_errors_are_one_message_without_a_traceback(line, message):
    result = run(line, 1)
    assert message in result.stderr and "Traceback" not in result.output
    assert not Path("runs").exists()


def test_report_can_be_rewritten_and_written_elsewhere():
    run("run answers.csv --method one-coin --out out")
    first = Path("out/report.html").read_bytes()
    Path("out/report.html").unlink()
    run("report out")
    assert Path("out/report.html").read_bytes() == first
    output = json.loads(run("report out --out elsewhere.html --json").stdout)
    assert Path("elsewhere.html").read_bytes() == first and output["bytes"] == len(first)
    assert ".html" in run("report out --out elsewhere.pdf", 1).stderr


def test_compare_shows_what_changed():
    run("run answers.csv --method majority-vote --truth gold.csv --out before")
    run("run answers.csv --method dawid-skene --truth gold.csv --out after")
    shown = run("compare before after --out changed.csv").stdout
    output = json.loads(run("compare before after --json").stdout)
    old, new = Run("before").labels, Run("after").labels
    differ = np.array(old.column("label")) != np.array(new.column("label"))
    assert len(output["changed"]) == differ.sum() > 0
    assert f"{differ.sum():,} of 240 labels changed" in shown and "from majority-vote to dawid-skene" in shown
    assert sum(sum(row.values()) for row in output["verdicts"].values()) == 240
    assert len(Path("changed.csv").read_text().splitlines()) == differ.sum() + 1
    for pair, runs in ((output["known"], "truth"), (output["expected"], None)):
        for value, name in zip(pair, ("before", "after"), strict=True):
            figures = Run(name).metrics
            assert value == pytest.approx(figures["truth"]["accuracy"] if runs else figures["expected_accuracy"])
    assert f"{output['known'][1]:.1%} after" in shown and "points" in shown
    same = json.loads(run("compare after after --json").stdout)
    assert same["changed"] == [] and same["n_new"] == same["n_gone"] == 0


def test_runs_without_a_common_task_cannot_be_compared(crowd):
    run("run answers.csv --method one-coin --out one")
    table = crowd.with_truth(None).to_arrow()
    cw.write(table.set_column(0, "task", [[task + 1000 for task in table.column("task").to_pylist()]]), "others.csv")
    run("run others.csv --method one-coin --out two")
    assert "no task in common" in run("compare one two", 1).stderr


def test_runs_without_a_common_class_cannot_be_compared(crowd):
    run("run answers.csv --method one-coin --out one")
    table = crowd.with_truth(None).to_arrow()
    cw.write(table.set_column(2, "label", [[f"c{label}" for label in table.column("label").to_pylist()]]), "others.csv")
    run("run others.csv --method one-coin --out two")
    assert "no class in common" in run("compare one two", 1).stderr


def test_only_common_tasks_are_compared(crowd):
    run("run answers.csv --method one-coin --out all --truth gold.csv")
    cw.write(crowd[np.arange(120)].with_truth(None), "half.csv")
    run("run half.csv --method one-coin --out half --truth gold.csv")
    output = json.loads(run("compare all half --json").stdout)
    assert output["n_common"] == 120 and output["n_gone"] == 120
    right = np.array(Run("all").labels.column("label")) == np.array(Run("all").labels.column("truth"))
    assert output["known"][0] == pytest.approx(right[:120].mean())


def test_without_the_chart_library_a_run_says_at_the_start_that_the_report_has_no_charts(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = run("run answers.csv --method one-coin --out out")
    assert result.stderr.index("The report will have no charts") < result.stderr.index("[1/6]")
    assert install_command("report") in result.stderr
    assert "no charts" in Path("out/report.html").read_text("utf-8")


def test_progress_lines_show_step_and_time_left(monkeypatch):
    monkeypatch.setattr("crowdwise.cli.run.INTERVAL", 0)
    lines = run(f"run answers.csv {QUICK} --out out").stderr.splitlines()
    assert any(line.startswith("[2/6] Comparing methods: dawid-skene, ") and "left" in line for line in lines)
    assert [line[:5] for line in lines if line.startswith("[")] == sorted(
        line[:5] for line in lines if line.startswith("[")
    )


def test_known_labels_of_other_tasks_are_counted(crowd):
    with Path("gold.csv").open("a") as file:
        file.write("9999,1\n9998,2\n")
    result = run("run answers.csv --method one-coin --out out --truth gold.csv")
    assert "2 known labels" in result.stderr or "2 " in " ".join(Run("out").metrics["notes"])
    assert any("Left out: 2" in note for note in Run("out").metrics["notes"])


def test_shells_complete_commands_and_methods():
    environment = os.environ | {"_CROWDWISE_COMPLETE": "complete_bash", "COMP_CWORD": "4"}
    command = [sys.executable, "-c", "from crowdwise.cli import main; main()"]
    environment["COMP_WORDS"] = "crowdwise run answers.csv --method dawid"
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
    assert out.split() == ["dawid-skene"]
    environment |= {"COMP_WORDS": "crowdwise comp", "COMP_CWORD": "1"}
    out = subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout
    assert out.split() == ["compare", "compare-methods"]


def test_wrong_labels_stand_beside_the_known_ones(crowd):
    truth = dict(zip(map(str, crowd.tasks), map(str, crowd.classes[crowd.truth]), strict=True))
    shown = run("run answers.csv --truth gold.csv --out scored --method one-coin")
    assert "Some wrong labels beside the known ones, the most confident first:" in shown.stdout
    made = Run("scored")
    labels = {str(row["task"]): (str(row["label"]), row["confidence"]) for row in made.labels.to_pylist()}
    wrong = made.metrics["wrong"]
    assert 0 < len(wrong) <= 5
    for row in wrong:
        assert (row["label"], row["confidence"]) == labels[row["task"]] and row["known"] == truth[row["task"]]
        assert row["label"] != row["known"]
    most = max(confidence for task, (label, confidence) in labels.items() if label != truth[task])
    assert wrong[0]["confidence"] == most
    Path("some.csv").write_text("".join(Path("gold.csv").read_text().splitlines(keepends=True)[:61]))
    shown = run("run answers.csv --gold some.csv --out corrected --method one-coin")
    assert "before gold corrected them" in shown.stdout
    wrong, labels = Run("corrected").metrics["wrong"], Run("corrected").labels.to_pylist()
    labels = {str(row["task"]): str(row["label"]) for row in labels}
    assert wrong and all(row["label"] != row["known"] == truth[row["task"]] == labels[row["task"]] for row in wrong)


def test_a_run_without_features_has_no_classifier():
    run("run answers.csv --out plain --method majority-vote")
    np.save("X.npy", np.eye(3))
    assert "no classifier, because the run had no features" in run("predict plain X.npy --out p.csv", code=1).stderr
