"""In every CSV file that a command writes, no cell is a spreadsheet formula, and ids are restored exactly."""

from __future__ import annotations

import csv
import re
import shlex
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app
from crowdwise.io import read, write
from crowdwise.run import Run

NAMES = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1", "'=x", '=HYPERLINK("a,b")']
pytestmark = pytest.mark.filterwarnings(
    "ignore::crowdwise.errors.LookalikeWarning"
)  # three of them differ only in white space
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def run(line: str) -> None:
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == 0, result.output


def cells(file: Path) -> list[str]:
    with file.open(newline="", encoding="utf-8") as stream:
        return [cell for row in csv.reader(stream) for cell in row]


@pytest.fixture
def answers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = cw.simulate.simulate(40, n_workers=10, n_classes=4, answers_per_task=3, seed=1)
    tasks = [f"{NAMES[t % 10]}{t}" for t in made.task]
    renamed = cw.Answers.from_arrays(tasks, [NAMES[w] for w in made.worker], [NAMES[c] for c in made.label])
    write(renamed, "answers.parquet")
    np.save("X.npy", np.random.default_rng(0).normal(size=(40, 3)))
    return renamed


def test_no_cell_is_a_formula_and_ids_are_restored(answers):
    run("run answers.parquet --out run -m dawid-skene --folds 2 --jobs 1")
    run("run answers.parquet --out again -m majority-vote --folds 2 --jobs 1")
    run("compare run again --out changed.csv")
    run("aggregate answers.parquet -m one-coin -o labels.csv --workers workers.csv --no-check")
    run("next answers.parquet -b 5 -o next.csv")
    run("feedback run --all -o told.csv")
    run("convert answers.parquet answers.csv")
    run("fit answers.parquet -x X.npy -o model -m crowdlayer --epochs 1")
    run("predict model X.npy -o predicted.csv --proba")
    files = [*Path().glob("*.csv"), *Path().glob("*/*.csv")]
    assert len(files) >= 15
    for file in files:
        found = cells(file)
        assert len(found) > 4
        bad = [cell for cell in found if cell[:1] in tuple("=+-@\t\r\n＝＋－＠") and not NUMBER.fullmatch(cell)]
        assert not [cell for cell in bad if cell], file
    assert read("answers.csv", multiline=True) == answers
    made = Run("run")
    assert sorted(made.workers["worker"].to_pylist()) == sorted(NAMES)
    assert sorted(made.tasks["task"].to_pylist()) == answers.tasks.tolist()
    assert set(made.next["worker"].to_pylist()) <= set(NAMES)
    assert pa.array(made.tasks["text"]).null_count == 40
