"""Labels that an export marks as ground truth, `--gold` and `--families`, in every command that takes them."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app

NAMES = np.array(["no", "yes"])
MARKED = 30  # tasks with a ground truth annotation


@pytest.fixture(scope="module")
def crowd():
    return cw.simulate.simulate(90, n_workers=6, n_classes=2, answers_per_task=4, seed=3)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, crowd):
    monkeypatch.chdir(tmp_path)

    def annotation(worker, label, gold=False):
        result = {"from_name": "q", "to_name": "x", "type": "choices", "value": {"choices": [str(NAMES[label])]}}
        return {"completed_by": int(worker) + 1, "ground_truth": gold, "was_cancelled": False, "result": [result]}

    tasks = []
    for t in range(crowd.n_tasks):
        own = slice(crowd.task_starts[t], crowd.task_starts[t + 1])
        given = [annotation(*pair) for pair in zip(crowd.worker[own], crowd.label[own], strict=True)]
        tasks.append({"id": t, "data": {}, "annotations": given + [annotation(98, crowd.truth[t], True)][: t < MARKED]})
    Path("export.json").write_text(json.dumps(tasks))
    rows = [f"{t},{NAMES[c]}\n" for t, c in enumerate(crowd.truth.tolist())]
    Path("more.csv").write_text("task,label\n" + "".join(rows[20:50]))


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def labels_of(file):
    table = cw.io.reader.read_truth(file)
    return dict(zip(table["task"].to_pylist(), table["label"].to_pylist(), strict=True))


def test_marked_labels_are_gold_in_a_run(crowd):
    shown = run("run export.json --out run --method wawa")
    assert f"the known label of {MARKED} tasks, marked as ground truth. It is used as gold" in shown.stderr
    made = cw.run.Run("run")
    assert made.metrics["trust"]["n_gold"] == MARKED and made.metrics["truth"] is None
    assert made.gold.column("task").to_pylist() == list(range(MARKED))
    assert (made.codes[:MARKED] == crowd.truth[:MARKED]).all()
    run("run export.json --out both --method wawa --gold more.csv")
    assert cw.run.Run("both").metrics["trust"]["n_gold"] == 50
    run("run export.json --out scored --method wawa --gold none")
    scored = cw.run.Run("scored").metrics
    assert scored["trust"]["n_gold"] == 0 and scored["truth"]["tasks"] == MARKED


def test_marked_labels_are_gold_in_other_commands(crowd):
    shown = run("aggregate export.json --out labels.csv")
    assert "used as gold" in shown.stderr and "accuracy" not in shown.stdout
    found = labels_of("labels.csv")
    assert [found[t] for t in range(MARKED)] == NAMES[crowd.truth[:MARKED]].tolist()
    assert "accuracy" in run("aggregate export.json --gold none --out other.csv").stdout
    assert labels_of("other.csv") != found
    plan = json.loads(run("next export.json --gold 5 --json").stdout)
    assert plan["known_gold"] == MARKED


def test_a_file_of_gold_overrules_the_export(crowd):
    Path("wrong.csv").write_text(f"task,label\n0,{NAMES[1 - crowd.truth[0]]}\n")
    run("aggregate export.json --gold wrong.csv --out labels.csv")
    found = labels_of("labels.csv")
    assert found[0] == NAMES[1 - crowd.truth[0]] and found[1] == NAMES[crowd.truth[1]]


def test_families_reach_the_run_under_pseudonyms_too(crowd):
    maker = ["fox", "fox", "fox", "owl", "bear", "cat"]
    cw.write(crowd.with_truth(None), "answers.csv")
    head, *rows = Path("answers.csv").read_text().splitlines()
    rows = [f"{row},{maker[int(row.split(',')[1])]}" for row in rows]
    Path("answers.csv").write_text("\n".join([f"{head},maker", *rows]) + "\n")
    Path("judges.csv").write_text("worker,family\n" + "".join(f"{w},{name}\n" for w, name in enumerate(maker)))
    found = []
    for number, option in enumerate(("maker", "judges.csv", "maker --pseudonymise key")):
        run(f"run answers.csv --method wawa --out run{number} --families {option}")
        (family,) = cw.run.Run(f"run{number}").metrics["trust"]["families"]
        found.append(family)
    assert found[0] == found[1] and found[0]["workers"] == ["0", "1", "2"]
    assert len(found[2]["workers"]) == 3 and all(name.startswith("w-") for name in found[2]["workers"])
    shown = run("run answers.csv --out other --families nobody", code=1)
    assert "no column 'nobody'" in shown.stderr
