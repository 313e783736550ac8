"""The command line, in process and as a user's shell sees it."""

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
from crowdwise.cli.options import settings
from crowdwise.errors import ParameterError
from crowdwise.evaluate import summarise
from crowdwise.io import write
from tests.helpers.bench_cells import fill

COMMANDS = {info.callback.__name__: info for info in app.registered_commands}


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(300, n_workers=12, n_classes=3, class_balance=3, seed=4)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, crowd):
    """An empty folder with what the examples in --help need."""
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


def label_studio(task, said, gold=None):
    def annotation(worker, choice, truth):
        value = {"type": "choices", "from_name": "animal", "to_name": "image", "value": {"choices": [choice]}}
        return {"completed_by": worker, "ground_truth": truth, "was_cancelled": False, "result": [value]}

    annotations = [annotation(worker, choice, False) for worker, choice in said.items()]
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
    """Two folds for the run of the demo, in this process."""
    monkeypatch.setattr(crowdwise.run, "run", partial(crowdwise.run.run, folds=2, n_jobs=1))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_ends_with_an_example_that_runs(name, monkeypatch, few_folds):
    monkeypatch.setattr(demo, "COMPARED", ("majority-vote", "raykar"))  # the whole of it has a test of its own
    shown = " ".join(run(f"{name} --help").stdout.split())
    example = COMMANDS[name].epilog
    if name == "bench":  # computing is tested with the command
        fill(Path("crowdwise-bench"), "digits", 1, quick=True)
    if name == "predict":
        run(COMMANDS["fit"].epilog.removeprefix("Example: crowdwise "))
    if name in ("report", "compare", "feedback"):
        for folder in ("runs/monday", "runs/today"):
            run(f"run answers.csv --method one-coin --out {folder}")
    assert shown.endswith(example)
    assert example.startswith(f"Example: crowdwise {name}")
    run(example.removeprefix("Example: crowdwise "))


def test_help_is_quick():
    """No heavy library is imported before a command runs."""
    heavy = "{'numpy', 'numba', 'sklearn', 'pyarrow', 'scipy', 'pandas'}"
    code = f"import sys, crowdwise.cli; print({heavy} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


# aggregate


def test_aggregate_writes_what_the_library_finds(crowd):
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


def test_aggregate_json(crowd):
    result = run(
        "aggregate answers.csv --method one-coin --set max_iter=200 --seed 3 --truth truth.csv --json -o l.parquet"
    )
    told = json.loads(result.stdout)
    assert (told["tasks"], told["workers"], told["answers"], told["classes"]) == (300, 12, crowd.n_answers, 3)
    assert told["parameters"]["max_iter"] == 200
    assert told["parameters"]["random_state"] == 3
    assert told["written"] == {"labels": "l.parquet"}
    assert 0 <= told["confident_share"] <= 1
    assert list(told["scores"]) == ["majority-vote", "one-coin"]
    model = cw.OneCoin(max_iter=200, random_state=3).fit(crowd)
    assert told["scores"]["one-coin"]["accuracy"] == pytest.approx((model.codes_ == crowd.truth).mean())
    check = cw.OneCoin(max_iter=200, random_state=3).check_against_vote(crowd)
    assert told["check"]["difference"] == pytest.approx(check.difference)
    assert told["check"]["supported"] == check.supported


def test_aggregate_shows_scores_beside_the_vote():
    shown = run("aggregate answers.csv --truth truth.csv -o labels.csv --no-check").stdout
    names = [line.split()[0] for line in shown.splitlines() if line.startswith(("majority-vote ", "dawid-skene "))]
    assert names == ["majority-vote", "dawid-skene"]
    assert "Held-out" not in shown


def test_gold_is_held_fixed_and_not_scored(crowd):
    told = json.loads(run("aggregate answers.csv --gold gold.csv --truth truth.csv -o labels.csv --json").stdout)
    assert told["scores"]["dawid-skene"]["n_tasks"] == 200
    assert [int(row["label"]) for row in rows_of("labels.csv")[:100]] == crowd.truth[:100].tolist()
    result = run("aggregate answers.csv --gold truth.csv --truth truth.csv -o labels.csv --json")
    assert "scores" not in json.loads(result.stdout)
    assert "Nothing to score" in result.stderr
    run("aggregate answers.csv --method gold-vote --gold gold.csv -o labels.csv")


def test_known_labels_may_name_other_tasks_and_classes():
    Path("answers.csv").write_text("task,worker,label\na,1,x\na,2,x\nb,1,y\nb,2,x\n")
    Path("truth.csv").write_text("task,truth\na,z\nb,y\nc,x\n")
    told = json.loads(run("aggregate answers.csv --truth truth.csv --json").stdout)
    assert told["classes"] == 2  # what is only scored does not touch the fit
    assert len(told["scores"]["dawid-skene"]["per_class"]) == 3
    assert told["removed"] == {"known labels of tasks without answers": 1}
    assert told["scores"]["majority-vote"]["n_tasks"] == 2
    Path("truth.csv").write_text("task,truth\nother,x\n")
    assert "none of its 1 tasks is among the answers" in run("aggregate answers.csv --truth truth.csv", 1).stderr


@pytest.mark.parametrize("line", [
    "aggregate answers.csv -o answers.csv", "aggregate answers.csv -o l.csv --workers l.csv",
    "aggregate answers.csv --truth truth.csv -o truth.csv", "convert answers.csv answers.csv",
    "simulate -o new.csv --truth ./new.csv",
])  # fmt: skip
def test_nothing_is_written_over(line):
    run("simulate -o answers.csv --truth truth.csv --tasks 20")
    before = Path("answers.csv").read_text()
    assert "named twice" in run(line, 1).stderr
    assert Path("answers.csv").read_text() == before


def test_more_classes_than_usual():
    rows = [f"{t},{w},label {t}" for t in range(1100) for w in "ab"]
    Path("many.csv").write_text("task,worker,label\n" + "\n".join(rows) + "\n")
    assert "--max-classes" in run("inspect many.csv", 1).stderr
    run("inspect many.csv --max-classes 2000")


def test_policies_are_reported():
    Path("bad.csv").write_text("item,who,said\n1,a,x\n1,a,y\n2,a,\n2,b,y\n1,b,y\n")
    columns = "--task item --worker who --label said"
    assert "nulls" in run(f"aggregate bad.csv {columns}", 1).stderr
    assert "duplicates" in run(f"aggregate bad.csv {columns} --nulls drop", 1).stderr
    result = run(f"aggregate bad.csv {columns} --nulls drop --duplicates last --json")
    assert sorted(json.loads(result.stdout)["removed"].values()) == [1, 1]
    shown = run(f"aggregate bad.csv {columns} --nulls drop --duplicates last").stdout
    assert shown.count("dropped") == 2


def test_several_files():
    run("aggregate answers.csv -o all.csv --no-check")
    lines = Path("answers.csv").read_text().splitlines(keepends=True)
    Path("part1.csv").write_text("".join(lines[:301]))
    Path("part2.csv").write_text("".join([lines[0], *lines[301:]]))
    run("aggregate part1.csv part2.csv -o parts.csv --no-check")
    assert Path("parts.csv").read_text() == Path("all.csv").read_text()


def test_unsupported_and_unchecked_are_said():
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


def test_inspect(crowd):
    shown = run("inspect answers.csv").stdout
    assert str(summarise(crowd.with_truth(None))) in shown
    told = json.loads(run("inspect answers.csv --json").stdout)
    assert told["n_answers"] == crowd.n_answers
    assert told["alpha"] == pytest.approx(summarise(crowd).alpha)


def test_convert_keeps_everything(crowd):
    run("convert answers.csv answers.parquet")
    assert cw.read("answers.parquet") == crowd.with_truth(None)
    run("convert export.json out.csv --truth known.csv")
    assert Path("out.csv").read_text() == "task,worker,label\n1,7,Cat\n1,8,Dog\n2,7,Dog\n"
    assert Path("known.csv").read_text() == "task,label\n1,Cat\n"
    told = json.loads(run("convert export.json out.csv --json").stdout)
    assert told["written"] == {"answers": "out.csv"}
    assert cw.read("out.csv").truth.tolist() == [0, -1]
    assert "no known labels" in run("convert answers.csv out.csv --truth known.csv", 1).stderr


def test_simulate_is_the_library_s(crowd):
    run("simulate -o made.csv --truth known.csv --tasks 300 --workers 12 --classes 3 --balance 3 --seed 4")
    assert cw.read("made.csv") == crowd.with_truth(None)
    assert [int(row["label"]) for row in rows_of("known.csv")] == crowd.truth.tolist()
    run("simulate -o made.csv --tasks 300 --workers 12 --classes 3 --balance 3 --seed 4")
    assert cw.read("made.csv") == crowd
    assert "long-tail" in run("simulate -o made.csv --balance huge", 1).stderr
    run("simulate -o made.csv --difficulty 1.5", 2)


def test_methods():
    shown = run("methods").stdout
    told = json.loads(run("methods --json").stdout)["methods"]
    assert [row["name"] for row in told] == [method.name for method in cw.methods()]
    for method in cw.methods():
        assert f"\n{method.name} " in shown
    assert max(map(len, shown.splitlines())) <= 100


def test_demo(few_folds):
    told = json.loads(run("demo --json").stdout)
    accuracy = {row["name"]: row["scores"]["accuracy"] for row in told["methods"]}
    assert told["workers"] == 40 and Path(told["written"]["run"], "report.html").is_file()
    assert set(accuracy) == set(demo.COMPARED)
    assert accuracy["dawid-skene"] > accuracy["majority-vote"]
    assert accuracy[told["method"]] > accuracy["majority-vote"]
    assert told["unseen"]["tasks"] == 1797 - told["tasks"]
    assert told["unseen"]["balanced_accuracy"] > 0.5


# Mistakes


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("aggregate nowhere.csv", "no file 'nowhere.csv'"),
        ("inspect nowhere.csv --json", "no file 'nowhere.csv'"),
        ("aggregate answers.csv --method dawid", "Did you mean dawid-skene"),
        ("aggregate answers.csv --set maxiter=3", "no parameter 'maxiter'. Did you mean max_iter? Its parameters are"),
        ("aggregate answers.csv --set max_iter", "expected NAME=VALUE"),
        ("aggregate answers.csv --set max_iter=0", "max_iter=0"),
        ("aggregate answers.csv --set max_iter=abc", "max_iter='abc': use a whole number"),
        ("aggregate answers.csv --method mmsr --set tol=x", "tol='x'"),
        ("aggregate answers.csv --out labels.xlsx", ".parquet"),
        ("aggregate answers.csv --out no/where.csv", "no folder 'no'"),
        ("aggregate answers.csv --label nothing", "no column 'nothing'"),
        ("aggregate answers.csv --format tarot", "tarot"),
        ("aggregate answers.csv --method gold-vote", "gold"),
        ("convert answers.csv answers.xyz", ".parquet"),
    ],
)
def test_mistakes_end_in_words(line, words):
    result = run(line, 1)
    assert words in result.stderr
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    "line",
    ["nonsense", "aggregate", "aggregate answers.csv --duplicates maybe", "simulate", "simulate -o a.csv --tasks 0"],
)
def test_wrong_usage(line):
    assert run(line, 2).stdout == ""


def test_brackets_are_no_markup():
    rows = [f"{task},{worker},[link]\n" for task in range(5) for worker in ("[bold]x", "y")]
    Path("[red]a.csv").write_text("task,worker,label\n" + "".join(rows))
    assert "[red]nowhere.csv" in run("inspect '[red]nowhere.csv'", 1).stderr
    assert "[link]" in run("inspect '[red]a.csv'").stdout
    assert "[red]b.csv" in run("aggregate '[red]a.csv' -o '[red]b.csv'").stdout


def test_settings_are_read_as_values():
    given = settings(["a=1", "b=0.5", "c=True", "d=none", "e=diagonal", "f=[[1, 0], [0, 1]]", "g=a=b"])
    assert given == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "diagonal", "f": [[1, 0], [0, 1]], "g": "a=b"}
    with pytest.raises(ParameterError, match="NAME=VALUE"):
        settings(["=3"])


# As a shell sees it


def shell(line, **options):
    command = [sys.executable, "-m", "crowdwise", *shlex.split(line)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_pipes_get_plain_text():
    result = shell(
        "aggregate answers.csv -o labels.csv --truth truth.csv", env={**os.environ, "TERM": "xterm-256color"}
    )
    assert result.returncode == 0
    assert "\x1b" not in result.stdout + result.stderr
    assert result.stderr == ""
    assert not any(line.endswith(" ") for line in result.stdout.splitlines())


def test_json_stands_alone_on_stdout():
    result = shell("aggregate answers.csv --set max_iter=2 --json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["method"] == "dawid-skene"
    assert "note:" in result.stderr


def test_exit_codes_and_debug():
    assert shell("--version").stdout == f"crowdwise {cw.__version__}\n"
    assert shell("aggregate").returncode == 2
    result = shell("inspect nowhere.csv")
    assert (result.returncode, result.stdout) == (1, "")
    for line in ("inspect nowhere.csv --debug", "--debug inspect nowhere.csv"):
        result = shell(line)
        assert result.returncode == 1
        assert "Traceback" in result.stderr


def test_reader_may_stop_early():
    line = f"{shlex.quote(sys.executable)} -m crowdwise inspect answers.csv --json | head -1"
    result = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert result.stdout == "{\n"
    assert "Traceback" not in result.stderr


def test_terminal_gets_a_bar_on_stderr_only():
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "crowdwise", "simulate", "-o", "made.csv", "--json"]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=follower, env=env, check=True)
    os.close(follower)
    drawn = os.read(leader, 100_000).decode()
    os.close(leader)
    assert json.loads(done.stdout)["tasks"] == 1000
    assert "Simulating" in drawn
