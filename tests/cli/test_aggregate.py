"""`crowdwise aggregate`, the small commands, help and errors: in this process and in a shell."""

import csv
import json
import os
import pty
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdwise as cw
import crowdwise.run
from crowdwise.cli import app, demo
from crowdwise.cli.method_options import settings
from crowdwise.errors import ParameterError
from crowdwise.evaluate import summarise
from crowdwise.io import write

COMMANDS = {info.callback.__name__.replace("_", "-"): info for info in app.registered_commands}


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(300, n_workers=12, n_classes=3, class_balance=3, seed=4)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, crowd):
    """Work in a new folder with the files that the examples in --help use."""
    monkeypatch.chdir(tmp_path)
    write(crowd.with_truth(None), "answers.csv")
    rows = [f"{task},{label}\n" for task, label in zip(crowd.tasks, crowd.truth, strict=True)]
    Path("truth.csv").write_text("task,label\n" + "".join(rows))
    Path("gold.csv").write_text("task,label\n" + "".join(rows[:100]))
    np.save("X.npy", np.eye(3)[crowd.truth])
    Path("export.json").write_text(
        json.dumps([label_studio(1, {7: "Cat", 8: "Dog"}, gold="Cat"), label_studio(2, {7: "Dog"})])
    )
    return tmp_path


def label_studio(task, choices, gold=None):
    def annotation(worker, choice, truth):
        value = {"type": "choices", "from_name": "animal", "to_name": "image", "value": {"choices": [choice]}}
        return {"completed_by": worker, "ground_truth": truth, "was_cancelled": False, "result": [value]}

    annotations = [annotation(worker, choice, False) for worker, choice in choices.items()]
    return {"id": task, "annotations": annotations + ([annotation(1, gold, True)] if gold else []), "data": {}}


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def rows_of(file):
    with Path(file).open(newline="") as stream:
        return list(csv.DictReader(stream))


# Help


@pytest.fixture
def few_folds(monkeypatch):
    """Run the demo with two folds, in this process."""
    monkeypatch.setattr(crowdwise.run, "run", partial(crowdwise.run.run, folds=2, n_jobs=1))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_an_example(name):
    example = COMMANDS[name].epilog
    assert example.startswith(f"Example: crowdwise {name}")
    assert " ".join(run(f"{name} --help").stdout.split()).endswith(example)


def test_examples_in_help_run(monkeypatch, few_folds):
    """In one folder, one after the other: later examples use the files that earlier ones wrote."""
    monkeypatch.setattr(demo, "COMPARED", ("majority-vote", "raykar"))  # test_demo has all of them
    run("run answers.csv --method one-coin --out runs/monday")
    last = ("convert", "simulate")  # they replace answers.csv, truth.csv and gold.csv
    for name in [*(name for name in COMMANDS if name not in last), *last]:
        line = COMMANDS[name].epilog.removeprefix("Example: crowdwise ")
        run({"run": f"{line} --method one-coin --folds 2", "rank": f"{line} --epochs 2"}.get(name, line))


def test_help_imports_no_heavy_library():
    heavy = "{'numpy', 'numba', 'sklearn', 'pyarrow', 'scipy', 'pandas'}"
    code = f"import sys, crowdwise.cli; print({heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


# aggregate


def test_aggregate_writes_the_labels_of_the_library(crowd):
    shown = run("aggregate answers.csv --out labels.csv --workers workers.csv").stdout
    model = cw.DawidSkene().fit(crowd)
    labels, workers = rows_of("labels.csv"), rows_of("workers.csv")
    assert [int(row["label"]) for row in labels] == model.labels_.tolist()
    assert [float(row["confidence"]) for row in labels] == pytest.approx(model.proba_.max(axis=1).tolist())
    assert len(workers) == 12
    assert sum(int(row["answers"]) for row in workers) == crowd.n_answers
    for text in (
        "300 tasks",
        "dawid-skene",
        "converged",
        "labels.csv",
        "workers.csv",
        "confidence above 0.9",
        "Held-out",
    ):
        assert text in shown


def test_aggregate_json_has_the_figures_of_the_library(crowd):
    result = run(
        "aggregate answers.csv --method one-coin --set max_iter=200 --seed 3 --truth truth.csv --json -o l.parquet"
    )
    output = json.loads(result.stdout)
    assert (output["tasks"], output["workers"], output["answers"], output["classes"]) == (300, 12, crowd.n_answers, 3)
    assert output["parameters"]["max_iter"] == 200
    assert output["parameters"]["random_state"] == 3
    assert output["written"] == {"labels": "l.parquet"}
    assert 0 <= output["confident_share"] <= 1
    assert list(output["scores"]) == ["majority-vote", "one-coin"]
    model = cw.OneCoin(max_iter=200, random_state=3).fit(crowd)
    assert output["scores"]["one-coin"]["accuracy"] == pytest.approx((model.codes_ == crowd.truth).mean())
    check = cw.OneCoin(max_iter=200, random_state=3).check_against_vote(crowd)
    assert output["check"]["difference"] == pytest.approx(check.difference)
    assert output["check"]["supported"] == check.supported


def test_aggregate_shows_scores_next_to_majority_vote():
    shown = run("aggregate answers.csv --truth truth.csv -o labels.csv --no-check").stdout
    names = [line.split()[0] for line in shown.splitlines() if line.startswith(("majority-vote ", "dawid-skene "))]
    assert names == ["majority-vote", "dawid-skene"]
    assert "Held-out" not in shown


def test_gold_is_held_fixed_and_not_scored(crowd):
    output = json.loads(run("aggregate answers.csv --gold gold.csv --truth truth.csv -o labels.csv --json").stdout)
    assert output["scores"]["dawid-skene"]["n_tasks"] == 200
    assert [int(row["label"]) for row in rows_of("labels.csv")[:100]] == crowd.truth[:100].tolist()
    result = run("aggregate answers.csv --gold truth.csv --truth truth.csv -o labels.csv --json")
    assert "scores" not in json.loads(result.stdout)
    assert "Nothing to score" in result.stderr
    run("aggregate answers.csv --method gold-vote --gold gold.csv -o labels.csv")


def test_known_labels_may_name_other_tasks_and_classes():
    Path("answers.csv").write_text("task,worker,label\na,1,x\na,2,x\nb,1,y\nb,2,x\n")
    Path("truth.csv").write_text("task,truth\na,z\nb,y\nc,x\n")
    output = json.loads(run("aggregate answers.csv --truth truth.csv --json").stdout)
    assert output["classes"] == 2  # classes that only the truth has do not change the fit
    assert len(output["scores"]["dawid-skene"]["per_class"]) == 3
    assert output["removed"] == {"known labels of tasks without answers": 1}
    assert output["scores"]["majority-vote"]["n_tasks"] == 2
    Path("truth.csv").write_text("task,truth\nother,x\n")
    assert "none of its 1 tasks occurs in the answers" in run("aggregate answers.csv --truth truth.csv", 1).stderr


@pytest.mark.parametrize("line", [
    "aggregate answers.csv -o answers.csv", "aggregate answers.csv -o l.csv --workers l.csv",
    "aggregate answers.csv --truth truth.csv -o truth.csv", "convert answers.csv answers.csv",
    "simulate -o new.csv --truth ./new.csv",
])  # fmt: skip
def test_input_files_are_not_overwritten(line):
    run("simulate -o answers.csv --truth truth.csv --tasks 20")
    before = Path("answers.csv").read_text()
    assert "named twice" in run(line, 1).stderr
    assert Path("answers.csv").read_text() == before


def test_many_classes_need_max_classes():
    rows = [f"{t},{w},label {t}" for t in range(1100) for w in "ab"]
    Path("many.csv").write_text("task,worker,label\n" + "\n".join(rows) + "\n")
    assert "--as-classes" in run("inspect many.csv", 1).stderr
    assert "--max-classes" in run("inspect many.csv --as-classes", 1).stderr
    run("inspect many.csv --as-classes --max-classes 2000")


def test_dropped_rows_are_reported():
    Path("bad.csv").write_text("item,who,choice\n1,a,x\n1,a,y\n2,a,\n2,b,y\n1,b,y\n")
    columns = "--task item --worker who --label choice"
    assert "nulls" in run(f"aggregate bad.csv {columns}", 1).stderr
    assert "duplicates" in run(f"aggregate bad.csv {columns} --nulls drop", 1).stderr
    result = run(f"aggregate bad.csv {columns} --nulls drop --duplicates last --json")
    assert sorted(json.loads(result.stdout)["removed"].values()) == [1, 1]
    shown = run(f"aggregate bad.csv {columns} --nulls drop --duplicates last").stdout
    assert shown.count("dropped") == 2


def test_several_files_are_read_as_one():
    run("aggregate answers.csv -o all.csv --no-check")
    lines = Path("answers.csv").read_text().splitlines(keepends=True)
    Path("part1.csv").write_text("".join(lines[:301]))
    Path("part2.csv").write_text("".join([lines[0], *lines[301:]]))
    run("aggregate part1.csv part2.csv -o parts.csv --no-check")
    assert Path("parts.csv").read_text() == Path("all.csv").read_text()


def test_a_check_with_too_few_answers_is_reported():
    Path("one.csv").write_text("task,worker,label\n1,a,x\n2,b,y\n")
    result = run("aggregate one.csv -o labels.csv --json")
    assert json.loads(result.stdout)["check"] is None
    assert "Not compared with majority vote: too few tasks have two answers" in result.stderr
    assert "too few tasks have two answers" in run("aggregate one.csv --check", 1).stderr


def test_warnings_become_notes():
    result = run("aggregate answers.csv --set max_iter=2 --set tol=1e-9 -o labels.csv --json")
    assert json.loads(result.stdout)["converged"] is False
    assert result.stderr.count("note: DawidSkene stopped after max_iter=2") == 1


# The other commands


def test_inspect_shows_the_summary(crowd):
    shown = run("inspect answers.csv").stdout
    assert str(summarise(crowd.with_truth(None))) in shown
    output = json.loads(run("inspect answers.csv --json").stdout)
    assert output["n_answers"] == crowd.n_answers
    assert output["alpha"] == pytest.approx(summarise(crowd).alpha)


def test_convert_keeps_answers_and_truth(crowd):
    run("convert answers.csv answers.parquet")
    assert cw.read("answers.parquet") == crowd.with_truth(None)
    run("convert export.json out.csv --truth known.csv")
    assert Path("out.csv").read_text() == "task,worker,label\n1,7,Cat\n1,8,Dog\n2,7,Dog\n"
    assert Path("known.csv").read_text() == "task,label\n1,Cat\n"
    output = json.loads(run("convert export.json out.csv --json").stdout)
    assert output["written"] == {"answers": "out.csv"}
    assert cw.read("out.csv").truth.tolist() == [0, -1]
    assert "no known labels" in run("convert answers.csv out.csv --truth known.csv", 1).stderr


def test_simulate_writes_the_crowd_of_the_library(crowd):
    run("simulate -o new.csv --truth known.csv --tasks 300 --workers 12 --classes 3 --balance 3 --seed 4")
    assert cw.read("new.csv") == crowd.with_truth(None)
    assert [int(row["label"]) for row in rows_of("known.csv")] == crowd.truth.tolist()
    run("simulate -o new.csv --tasks 300 --workers 12 --classes 3 --balance 3 --seed 4")
    assert cw.read("new.csv") == crowd
    assert "long-tail" in run("simulate -o new.csv --balance huge", 1).stderr
    run("simulate -o new.csv --difficulty 1.5", 2)


def test_methods_are_listed():
    shown = run("methods").stdout
    output = json.loads(run("methods --json").stdout)["methods"]
    assert [row["name"] for row in output] == [method.name for method in cw.methods()]
    for method in cw.methods():
        assert f"\n{method.name} " in shown
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.slow
def test_demo_scores_every_method_and_unseen_digits(few_folds):
    output = json.loads(run("demo --json").stdout)
    accuracy = {row["name"]: row["scores"]["accuracy"] for row in output["methods"]}
    assert output["workers"] == 40 and Path(output["written"]["run"], "report.html").is_file()
    assert set(accuracy) == set(demo.COMPARED)
    assert accuracy["dawid-skene"] > accuracy["majority-vote"]
    assert accuracy[output["method"]] > accuracy["majority-vote"]
    assert output["unseen"]["tasks"] == 1797 - output["tasks"]
    assert output["unseen"]["balanced_accuracy"] > 0.5


# Errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("aggregate nowhere.csv", "no file 'nowhere.csv'"),
        ("inspect nowhere.csv --json", "no file 'nowhere.csv'"),
        ("aggregate answers.csv --method dawid", "Did you mean dawid-skene"),
        ("aggregate answers.csv --set maxiter=3", "no parameter 'maxiter'. Did you mean max_iter? Its parameters are"),
        ("aggregate answers.csv --set max_iter", "expected NAME=VALUE"),
        ("aggregate answers.csv --set max_iter=0", "max_iter=0"),
        ("aggregate answers.csv --set max_iter=abc", "max_iter='abc': use an integer"),
        ("aggregate answers.csv --method mmsr --set tol=x", "tol='x'"),
        ("aggregate answers.csv --out labels.xlsx", ".parquet"),
        ("aggregate answers.csv --out no/where.csv", "the folder 'no' does not exist"),
        ("aggregate answers.csv --label nothing", "no column 'nothing'"),
        ("aggregate answers.csv --format tarot", "tarot"),
        ("aggregate answers.csv --method gold-vote", "gold"),
        ("convert answers.csv answers.xyz", ".parquet"),
    ],
)
def test_user_errors_are_one_message_without_a_traceback(line, message):
    result = run(line, 1)
    assert message in result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "line",
    ["nonsense", "aggregate", "aggregate answers.csv --duplicates maybe", "simulate", "simulate -o a.csv --tasks 0"],
)
def test_wrong_usage_exits_with_2(line):
    assert run(line, 2).stdout == ""


def test_brackets_are_not_markup():
    rows = [f"{task},{worker},[link]\n" for task in range(5) for worker in ("[bold]x", "y")]
    Path("[red]a.csv").write_text("task,worker,label\n" + "".join(rows))
    assert "[red]nowhere.csv" in run("inspect '[red]nowhere.csv'", 1).stderr
    assert "[link]" in run("inspect '[red]a.csv'").stdout
    assert "[red]b.csv" in run("aggregate '[red]a.csv' -o '[red]b.csv'").stdout


def test_settings_are_parsed_as_values():
    parsed = settings(["a=1", "b=0.5", "c=True", "d=none", "e=diagonal", "f=[[1, 0], [0, 1]]", "g=a=b"])
    assert parsed == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "diagonal", "f": [[1, 0], [0, 1]], "g": "a=b"}
    with pytest.raises(ParameterError, match="NAME=VALUE"):
        settings(["=3"])


# In a shell


def shell(line, **options):
    command = [sys.executable, "-m", "crowdwise", *shlex.split(line)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_output_to_a_pipe_is_plain_text():
    result = shell(
        "aggregate answers.csv -o labels.csv --truth truth.csv", env={**os.environ, "TERM": "xterm-256color"}
    )
    assert result.returncode == 0
    assert "\x1b" not in result.stdout + result.stderr
    assert result.stderr == ""
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def test_json_is_alone_on_stdout():
    result = shell("aggregate answers.csv --set max_iter=2 --json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["method"] == "dawid-skene"
    assert "note:" in result.stderr


def test_exit_codes_and_traceback_with_debug():
    assert shell("--version").stdout == f"crowdwise {cw.__version__}\n"
    assert shell("aggregate").returncode == 2
    result = shell("inspect nowhere.csv")
    assert (result.returncode, result.stdout) == (1, "")
    for line in ("inspect nowhere.csv --debug", "--debug inspect nowhere.csv"):
        result = shell(line)
        assert result.returncode == 1
        assert "Traceback" in result.stderr


def test_a_closed_pipe_is_not_an_error():
    line = f"{shlex.quote(sys.executable)} -m crowdwise inspect answers.csv --json | head -1"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert result.stdout == "{\n"
    assert "Traceback" not in result.stderr


def test_progress_bar_is_drawn_on_stderr_only():
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "crowdwise", "simulate", "-o", "new.csv", "--json"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, env=env, check=True)
    os.close(follower)
    drawn = os.read(leader, 100_000).decode()
    os.close(leader)
    assert json.loads(done.stdout)["tasks"] == 1000
    assert "Simulating" in drawn


def test_the_folder_of_a_run_is_not_taken_for_answers():
    Path("finished").mkdir()
    Path("finished/metrics.json").write_text("{}")
    assert "finished is the folder of a run" in run("aggregate finished", code=1).output
