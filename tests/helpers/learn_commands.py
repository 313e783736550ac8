"""Commands and readers for the tests of `crowdwise fit` and `crowdwise predict`."""

import csv
import shlex
from pathlib import Path

import pyarrow as pa
from typer.testing import CliRunner

from crowdwise.cli import app

FIT = "fit answers.csv --features X.npy --method crowdlayer --out model --epochs 2"
FILES = ["labels.csv", "model.json", "model.safetensors"]


def run(line, code=0):
    result = CliRunner().invoke(app, shlex.split(line))
    assert result.exit_code == code, result.output
    return result


def rows_of(file):
    with Path(file).open(newline="") as stream:
        return list(csv.DictReader(stream))


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def renamed(digits, name):
    """Return the answers with other task ids, as a table."""
    table = digits[1].with_truth(None).to_arrow()
    ids = pa.array([name(task) for task in table.column("task").to_pylist()])
    return table.set_column(0, "task", ids)
