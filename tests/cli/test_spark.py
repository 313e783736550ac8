"""`crowdwise aggregate --engine spark`, as a user's shell sees it; a killed driver resumes.

The tests that need several cluster jobs are marked slow.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app
from crowdwise.cli.aggregate import SCORES, show
from tests.helpers.small_disk import fill_up, make_room, small_disk
from tests.helpers.spark_session import QUICK, left_behind, need_spark

ON_SPARK = "--engine spark --master local[2]"


@pytest.fixture
def answers(spark_answers):
    return spark_answers


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, answers):
    """Work in an empty folder that holds the answers as two Parquet files."""
    monkeypatch.chdir(tmp_path)
    table = answers.to_arrow()
    Path("answers").mkdir()
    for i in range(2):
        pq.write_table(table.slice(i * 180, 180), f"answers/{i}.parquet")
    return tmp_path


def run(line, code=0):
    """Run a command. Paths become absolute, because Java keeps the folder that it was started in."""
    result = CliRunner().invoke(app, shlex.split(line.replace("./", f"{Path.cwd()}/")))
    assert result.exit_code == code, result.output
    return result


def read_labels(folder):
    table = pq.read_table(folder).sort_by("task")
    return table["task"].to_pylist(), table["label"].to_pylist(), np.array(table["proba"].to_pylist())


def write_known(file, labels):
    """Write known labels, one of them for a task that nobody answered."""
    Path(file).write_text("\n".join(["task,truth", "unanswered,cat", *(f"{t},{c}" for t, c in labels.items())]))


def assert_same_labels(folder, local):
    task, label, proba = read_labels(folder)
    assert task == local.tasks_.tolist() and label == local.labels_.tolist()
    np.testing.assert_allclose(proba, local.proba_, atol=1e-8)


def test_results_equal_those_of_the_local_engine(spark, answers, capsys):
    """One run checks several things: labels, gold, invalid rows, pseudonyms and the summary."""
    rows = [f"{t},quokka-{w},{c}" for t, w, c in answers.to_arrow().to_pandas().itertuples(index=False)]
    Path("answers.csv").write_text("\n".join(["task,worker,label", *rows, "t7,quokka-w1,", "t8,,cat"]))
    clean = cw.read("answers.csv", nulls="drop")
    gold = dict.fromkeys(clean.tasks[:18].tolist(), "cat")
    write_known("gold.csv", gold)
    settings = "-m dawid-skene --set max_iter=1 --set tol=0 --gold ./gold.csv --pseudonymise ./key"
    result = json.loads(run(f"aggregate ./answers.csv {ON_SPARK} {settings} --parts 1 -o ./out --json").stdout)
    run(f"aggregate answers.csv {settings} --nulls drop --no-check --workers workers.parquet")

    local = cw.DawidSkene(max_iter=1, tol=0).fit(clean, gold)
    assert_same_labels("out/labels", local)
    assert {name: result[name] for name in ("tasks", "workers", "answers", "classes", "iterations")} == {
        "tasks": 120, "workers": 11, "answers": 360, "classes": 3, "iterations": 1,
    }  # fmt: skip
    assert result["engine"] == "spark" and result["master"] == "local[2]" and result["parameters"]["max_iter"] == 1
    assert result["confident_share"] == pytest.approx((local.proba_.max(axis=1) > 0.9).mean())
    assert sorted(result["written"]) == sorted(path.name for path in Path("out").iterdir())

    # Invalid rows are counted, and written to a table with the reason.
    assert sorted(result["removed"].values()) == [1, 1, 1]  # two rows, and the gold of a task without answers
    names = pq.read_table("workers.parquet")["worker"].to_pylist()
    rejected = {row["reason"]: row["worker"] for row in pq.read_table("out/rejected").to_pylist()}
    assert rejected.keys() == {"label is missing", "worker is missing"}
    assert rejected["label is missing"] in names and rejected["worker is missing"] is None

    # Workers have the pseudonyms of the local engine, and no table holds their ids.
    assert sorted(pq.read_table("out/workers")["worker"].to_pylist()) == sorted(names) and len(names) == 11
    for table in (place for place in Path("out").iterdir() if place.is_dir()):
        assert "quokka" not in str(pq.read_table(table).to_pylist())

    refused = run(f"aggregate ./answers {ON_SPARK} -m majority-vote -o ./out", 1).stderr
    assert "already holds results (labels)" in refused and "--overwrite" in refused
    show({**result, "written": {}})
    shown = capsys.readouterr()
    assert "1 where the label is missing" in shown.out and "360 by 11 workers to 120 tasks" in shown.out
    assert "Use --out results/ to save them" in shown.err


def test_user_errors_are_reported_without_a_traceback(spark):
    assert "Path does not exist" in run(f"aggregate ./nowhere.parquet {ON_SPARK}", 1).stderr
    assert "no column 'item' for the task" in run(f"aggregate ./answers {ON_SPARK} --task item", 1).stderr
    assert "already active" in run("aggregate ./answers --engine spark --master local[1]", 1).stderr
    Path("numbers.csv").write_text("task,worker,label\n1,a,x\n2,a,y\n")
    Path("gold.csv").write_text("task,truth\n1,x\nfoo,y\n")
    error = run(f"aggregate ./numbers.csv {ON_SPARK} --gold ./gold.csv", 1).stderr
    assert (
        error.startswith("error: ")
        and "gold.csv: the task ids 'foo' differ in type from those of the answers, which are integers" in error
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--engine spark --workers w.csv", "--workers is not available with --engine spark"),
        ("--engine spark --question q", "crowdwise convert"),
        ("--engine spark --nulls drop", "use --bad instead"),
        ("--engine spark --check", "--check is not available"),
        ("--engine spark -o labels.csv", "Name a folder"),
        ("--engine spark -o answers/results", "is inside answers"),
        ("--engine spark -o ./answers/results", "is inside answers"),
        ("--engine spark --truth nothere.csv", "no file 'nothere.csv'"),
        ("--engine spark --resume", "--resume needs --checkpoint"),
        ("--engine spark --checkpoint s3a://bucket/state", "is an address"),
        ("--engine spark --checkpoint state -m majority-vote", "majority-vote does not iterate"),
        ("--engine spark --checkpoint answers/0.parquet/state", "not a directory"),
        ("--engine spark --format toloka", "Spark reads parquet, csv, tsv and jsonl"),
        ("--engine spark more.csv", "different formats"),
        ("--engine spark -m ebcc", "ebcc does not run on Spark. These methods do: majority-vote"),
        ("--engine spark --set max_iters=4", "Did you mean max_iter"),
        ("--engine spark --spark-conf spark.executor.memory", "expected NAME=VALUE"),
        ("--master local[2]", "--master is not available with --engine local: it needs --engine spark"),
        ("--checkpoint here", "--checkpoint is not available"),
        ("--resume", "--resume is not available"),
        ("--bad error", "--bad is not available"),
        ("--spark-conf a=b", "--spark-conf is not available"),
        ("--overwrite", "--overwrite is not available"),
        ("--parts 2", "--parts is not available"),
        ("--broadcast-limit 2", "--broadcast-limit is not available"),
    ],
)
def test_options_of_the_other_engine_are_rejected(options, message):
    assert message in run(f"aggregate answers {options}", 1).stderr


# Slow: several cluster jobs each


@pytest.mark.slow
def test_scores_equal_those_of_the_local_engine(spark, answers):
    fitted = cw.DawidSkene(max_iter=3, tol=0).fit(answers)
    known = dict(zip(fitted.tasks_[::2].tolist(), [*fitted.labels_[2::2].tolist(), "cat"], strict=True))
    write_known("truth.csv", known)
    write_known("gold.csv", dict(list(known.items())[:18]))
    settings = "-m dawid-skene --set max_iter=3 --set tol=0 --truth ./truth.csv --gold ./gold.csv --json"
    result = json.loads(run(f"aggregate './answers/*.parquet' {ON_SPARK} {settings} -o ./out").stdout)
    files = " ".join(map(str, Path("answers").iterdir()))
    expected = json.loads(run(f"aggregate {files} {settings} --no-check").stdout)
    for name, figures in expected["scores"].items():
        for score in SCORES:
            assert result["scores"][name][score] == pytest.approx(figures[score]), (name, score)
    assert_same_labels("out/labels", fitted.fit(answers, dict(list(known.items())[:18])))


@pytest.mark.slow
def test_invalid_rows_and_duplicates_follow_the_options(spark):
    rows = ["item,worker,label", "a,1,x", "a,2,y", "b,1,x", "b,1,y", "b,2,y", ",1,x", "c,2,"]
    Path("answers.csv").write_text("\n".join(rows))
    command = f"aggregate ./answers.csv {ON_SPARK} -m majority-vote"
    assert "1 where the label is missing" in run(f"{command} --bad error", 1).stderr
    assert "--duplicates first" in run(command, 1).stderr
    shown = run(f"{command} --duplicates last -o ./out")
    assert "dropped" in shown.stdout and "1 where the task is missing" in shown.stdout
    assert "4 by 2 workers to 2 tasks" in shown.stdout and "labels in" in shown.stdout
    rejected = pq.read_table("out/rejected").to_pylist()
    assert sorted((row["reason"], row["worker"]) for row in rejected) == [
        ("label is missing", 2), ("task is missing", 1), ("worker gave this task another answer", 1),
    ]  # fmt: skip
    command = f"aggregate ./answers.csv ./answers.csv {ON_SPARK} -m one-coin --pseudonymise ./key"
    assert "worker 'w-" in run(command, 1).stderr


@pytest.mark.slow
def test_text_files_are_read_as_by_the_local_engine(spark):
    Path("answers.tsv").write_text("task\tannotator\tlabel\n1\t07\tTrue\n2\t07\tFalse\n1\t8\tTrue\n2\t8\tFalse\n")
    rows = [(1, "u", "é", 2.0), (1, "v", "x,y", 1.0), (2, "u", "x,y", 0.5)]
    records = [dict(zip(("task", "user", "label", "weight"), row, strict=True)) for row in rows]
    Path("answers.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for file in ("answers.tsv", "answers.jsonl"):
        run(f"aggregate ./{file} {ON_SPARK} -m naive-soft -o ./out --overwrite")
        assert_same_labels("out/labels", cw.NaiveSoft().fit(cw.read(file)))
        workers = pq.read_table("out/workers")["worker"].to_pylist()
        assert sorted(workers) == cw.read(file).workers.tolist()
    Path("answers.csv").write_text("task,worker,label\n'=1,a,x\nb,a,y\n")
    assert "apostrophe" in run(f"aggregate ./answers.csv {ON_SPARK}", 1).stderr


@pytest.mark.slow
def test_a_full_disk_is_reported_and_the_run_resumes(spark, answers, folder):
    """First the parameters do not fit on the disk, then some of the tables."""
    line = f"aggregate ./answers {ON_SPARK} -m dawid-skene --set max_iter=2 --set tol=0 --parts 1 --resume"
    line += " --checkpoint ./disk/state -o ./disk/out"
    with small_disk(folder / "disk") as disk:
        fill_up(disk, 6_000)
        error = run(line, 1).stderr
        assert re.search(r"state\.safetensors cannot be written: no space left on device\. Free disk space", error)
        assert "--resume" not in error  # there is no state to resume from
        fill_up(disk, 45_000)
        error = run(line, 1).stderr
        assert re.search(r"no space left on device, in the output folder .* Free some space", error), error
        assert "The state is saved in" in error and "with --resume to continue" in error
        written = {path.name for path in (disk / "out").iterdir()}
        assert "labels" in written and "fit" not in written and not any(name.startswith(".") for name in written)
        make_room(disk)
        run(line)
        assert_same_labels(disk / "out" / "labels", cw.DawidSkene(max_iter=2, tol=0).fit(answers))


@pytest.mark.slow
def test_a_killed_driver_resumes_to_the_same_result(answers, folder):
    """With joined matrices, which have more to lose: blocks of matrices on disk in addition to the parameters."""
    need_spark()
    n = 4
    command = [
        sys.executable, "-m", "crowdwise", "aggregate", "answers", *shlex.split(ON_SPARK), "--parts", "2",
        "--set", f"max_iter={n}", "--set", "tol=0", "-o", "out", "--checkpoint", "state", "--resume",
        "--broadcast-limit", "54", *(f"--spark-conf={name}={value}" for name, value in QUICK.items()),
    ]  # fmt: skip
    state, environment = Path("state/state.safetensors"), {**os.environ, "SPARK_LOCAL_DIRS": str(folder / "local")}
    with Path("log").open("w") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        while driver.poll() is None and saved_iterations(state) < 1:
            time.sleep(0.01)
        assert driver.poll() is None, Path("log").read_text()
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
    assert saved_iterations(state) < n and not Path("out/fit").exists()
    assert not left_behind(folder)  # Java ends by itself when its driver is gone
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and f"{n} iterations" in done.stdout  # Spark's own messages are suppressed
    local = cw.DawidSkene(max_iter=n, tol=0).fit(answers)
    np.testing.assert_allclose(pq.read_table("out/fit")["bounds"][0].as_py(), local.history_, rtol=1e-12)
    task, label, proba = read_labels("out/labels")
    assert task == local.tasks_.tolist() and label == local.labels_.tolist()
    np.testing.assert_allclose(proba, local.proba_, atol=1e-12)


def saved_iterations(state):
    try:
        with safe_open(state, framework="numpy") as opened:
            return len(json.loads(opened.metadata()["state"])["history"])
    except FileNotFoundError:
        return 0
