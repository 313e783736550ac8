"""`crowdwise aggregate --engine spark`, as a user's shell sees it; the driver killed and started again."""

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


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, answers):
    monkeypatch.chdir(tmp_path)
    table = answers.to_arrow()
    Path("answers").mkdir()
    for i in range(2):
        pq.write_table(table.slice(i * 180, 180), f"answers/{i}.parquet")
    return tmp_path


def run(line, code=0):
    """Java keeps the folder that it was started in: ours is spelt out."""
    result = CliRunner().invoke(app, shlex.split(line.replace("./", f"{Path.cwd()}/")))
    assert result.exit_code == code, result.output
    return result


def labels_of(folder):
    table = pq.read_table(folder).sort_by("task")
    return table["task"].to_pylist(), table["label"].to_pylist(), np.array(table["proba"].to_pylist())


def assert_same_labels(folder, local):
    task, label, proba = labels_of(folder)
    assert task == local.tasks_.tolist() and label == local.labels_.tolist()
    np.testing.assert_allclose(proba, local.proba_, atol=1e-8)


def test_a_full_disk_is_said_and_with_room_it_goes_on(spark, answers, folder):
    """First there is no room for the parameters, then for them and some tables, then for all."""
    line = f"aggregate ./answers {ON_SPARK} -m dawid-skene --set max_iter=2 --set tol=0 --parts 1 --resume"
    line += " --checkpoint ./disk/state -o ./disk/out"
    with small_disk(folder / "disk") as disk:
        fill_up(disk, 6_000)
        said = run(line, 1).stderr
        assert re.search(r"state\.safetensors cannot be written: no space left on device\. Free disk space", said), said
        assert "--resume" not in said  # nothing is there to go on from
        fill_up(disk, 45_000)
        said = run(line, 1).stderr
        assert re.search(r"no space left on device, where tables go .* Make room there", said), said
        assert "What is learned is kept in" in said and "--resume goes on" in said
        there = {path.name for path in (disk / "out").iterdir()}
        assert "labels" in there and "fit" not in there and not any(name.startswith(".") for name in there)
        make_room(disk)
        run(line)
        assert_same_labels(disk / "out" / "labels", cw.DawidSkene(max_iter=2, tol=0).fit(answers))


def test_results_are_those_of_one_machine(spark, answers, capsys):
    local = cw.DawidSkene(max_iter=3, tol=0).fit(answers)
    known = dict(zip(local.tasks_[::2].tolist(), [*local.labels_[2::2].tolist(), "cat"], strict=True))
    lines = ["task,truth", "nobody,cat", *(f"{task},{label}" for task, label in known.items())]
    Path("truth.csv").write_text("\n".join(lines))
    Path("gold.csv").write_text("\n".join(lines[:20]))
    settings = "-m dawid-skene --set max_iter=3 --set tol=0 --truth ./truth.csv --gold ./gold.csv --no-check"
    told = json.loads(run(f"aggregate './answers/*.parquet' {ON_SPARK} {settings} -o ./out --json").stdout)
    expected = json.loads(run(f"aggregate {' '.join(map(str, Path('answers').iterdir()))} {settings} --json").stdout)
    local.fit(answers, dict(list(known.items())[:18]))
    for name, figures in expected["scores"].items():
        for score in SCORES:
            assert told["scores"][name][score] == pytest.approx(figures[score]), (name, score)
    assert_same_labels("out/labels", local)
    assert {name: told[name] for name in ("tasks", "workers", "answers", "classes", "iterations", "removed")} == {
        "tasks": 120, "workers": 11, "answers": 360, "classes": 3, "iterations": 3,
        "removed": {"known label is of a task nobody answered": 1},
    }  # fmt: skip
    assert told["engine"] == "spark" and told["master"] == "local[2]" and told["parameters"]["max_iter"] == 3
    assert told["confident_share"] == pytest.approx((local.proba_.max(axis=1) > 0.9).mean())
    assert sorted(told["written"]) == sorted(path.name for path in Path("out").iterdir())
    refused = run(f"aggregate ./answers {ON_SPARK} -m majority-vote -o ./out", 1).stderr
    assert "holds results already (labels)" in refused and "--overwrite" in refused
    show({**told, "written": {}})
    assert "--out results/ keeps them" in capsys.readouterr().err


def test_bad_rows_are_counted_and_written_aside(spark):
    rows = ["item,worker,label", "a,1,x", "a,2,y", "b,1,x", "b,1,y", "b,2,y", ",1,x", "c,2,"]
    Path("answers.csv").write_text("\n".join(rows))
    command = f"aggregate ./answers.csv {ON_SPARK} -m majority-vote"
    assert "1 where the label is missing" in run(f"{command} --bad error", 1).stderr
    assert "--duplicates first" in run(command, 1).stderr
    shown = run(f"{command} --duplicates last -o ./out")
    assert "dropped" in shown.stdout and "1 where the task is missing" in shown.stdout
    assert "4 by 2 workers to 2 tasks" in shown.stdout and "labels in" in shown.stdout
    aside = pq.read_table("out/rejected").to_pylist()
    assert sorted((row["reason"], row["worker"]) for row in aside) == [
        ("label is missing", 2), ("task is missing", 1), ("worker gave this task another answer", 1),
    ]  # fmt: skip


def test_workers_have_the_names_of_one_machine_and_no_table_says_who_they_are(spark, answers, folder):
    rows = [f"{t},quokka-{w},{c}" for t, w, c in zip(answers.task, answers.worker, answers.label, strict=True)]
    Path("said.csv").write_text("\n".join(["task,worker,label", *rows, "7,quokka-1,", "8,,2"]))
    run(f"aggregate ./said.csv {ON_SPARK} -m one-coin --bad aside -o ./out --pseudonymise ./key")
    run("aggregate said.csv -m one-coin --nulls drop --no-check --workers workers.parquet --pseudonymise key")
    names = pq.read_table("workers.parquet")["worker"].to_pylist()
    assert sorted(pq.read_table("out/workers")["worker"].to_pylist()) == sorted(names) and len(names) == 11
    rejected = sorted(pq.read_table("out/rejected").to_pylist(), key=lambda row: row["task"])
    assert rejected[0]["worker"] in names and rejected[1]["worker"] is None
    for table in (place for place in Path("out").iterdir() if place.is_dir()):
        assert "quokka" not in str(pq.read_table(table).to_pylist())
    twice = run(f"aggregate ./said.csv ./said.csv {ON_SPARK} -m one-coin --pseudonymise ./key", code=1)
    assert "worker 'w-" in twice.output and "quokka" not in twice.output


def test_text_files_are_read_as_on_one_machine(spark):
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


def test_what_a_user_can_mend_is_said_without_a_traceback(spark):
    assert "Path does not exist" in run(f"aggregate ./nowhere.parquet {ON_SPARK}", 1).stderr
    assert "no column 'item' for the task" in run(f"aggregate ./answers {ON_SPARK} --task item", 1).stderr
    assert "there already" in run("aggregate ./answers --engine spark --master local[1]", 1).stderr
    Path("numbers.csv").write_text("task,worker,label\n1,a,x\n2,a,y\n")
    Path("gold.csv").write_text("task,truth\n1,x\nfoo,y\n")
    told = run(f"aggregate ./numbers.csv {ON_SPARK} --gold ./gold.csv", 1).stderr
    assert told.startswith("error: ") and "gold.csv: 'foo' where 'task' of the answers is of type bigint" in told


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--engine spark --workers w.csv", "--workers is not for --engine spark"),
        ("--engine spark --question q", "crowdwise convert"),
        ("--engine spark --nulls drop", "--bad says"),
        ("--engine spark --check", "--check is not for"),
        ("--engine spark -o labels.csv", "into a folder"),
        ("--engine spark -o answers/results", "lies in answers"),
        ("--engine spark -o ./answers/results", "lies in answers"),
        ("--engine spark --truth nothere.csv", "there is no file 'nothere.csv'"),
        ("--engine spark --resume", "--resume goes with --checkpoint"),
        ("--engine spark --checkpoint s3a://bucket/state", "no address"),
        ("--engine spark --checkpoint state -m majority-vote", "majority-vote does not"),
        ("--engine spark --checkpoint answers/0.parquet/state", "not a directory"),
        ("--engine spark --format toloka", "Spark reads parquet, csv, tsv and jsonl"),
        ("--engine spark more.csv", "different formats"),
        ("--engine spark -m ebcc", "ebcc does not run on Spark; these do: majority-vote"),
        ("--engine spark --set max_iters=4", "Did you mean max_iter"),
        ("--engine spark --spark-conf spark.executor.memory", "expected NAME=VALUE"),
        ("--master local[2]", "--master is not for --engine local: it goes with --engine spark"),
        ("--checkpoint here", "--checkpoint is not for"),
        ("--resume", "--resume is not for"),
        ("--bad error", "--bad is not for"),
        ("--spark-conf a=b", "--spark-conf is not for"),
        ("--overwrite", "--overwrite is not for"),
        ("--parts 2", "--parts is not for"),
        ("--broadcast-limit 2", "--broadcast-limit is not for"),
    ],
)
def test_options_that_would_be_ignored_are_refused_by_name(options, said):
    assert said in run(f"aggregate answers {options}", 1).stderr


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on_to_the_same_result(answers, folder):
    """On the joined path, which has more to lose: blocks of matrices on disk, beside the parameters."""
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
        while driver.poll() is None and iterations_in(state) < 1:
            time.sleep(0.01)
        assert driver.poll() is None, Path("log").read_text()
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
    assert iterations_in(state) < n and not Path("out/fit").exists()
    assert not left_behind(folder)  # Java ends by itself when its driver is gone
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "" and f"{n} iterations" in done.stdout  # Spark's own messages are kept away
    local = cw.DawidSkene(max_iter=n, tol=0).fit(answers)
    np.testing.assert_allclose(pq.read_table("out/fit")["bounds"][0].as_py(), local.history_, rtol=1e-12)
    task, label, proba = labels_of("out/labels")
    assert task == local.tasks_.tolist() and label == local.labels_.tolist()
    np.testing.assert_allclose(proba, local.proba_, atol=1e-12)


def iterations_in(state):
    try:
        with safe_open(state, framework="numpy") as opened:
            return len(json.loads(opened.metadata()["state"])["history"])
    except FileNotFoundError:
        return 0
