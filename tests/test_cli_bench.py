"""`crowdwise bench`: the list, a table, files, going on after a kill, mistakes."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from crowdwise.bench import EXPERIMENTS
from crowdwise.cli import app

NAMES = [
    "dasc-table2", "dasc-sparsity", "dasc-imbalance", "dasc-losses", "dasc-heavy", "crowding-table1",
    "crowding-table2", "crowding-sparsity", "crowding-sensitivity", "waum-table1", "iced-table2", "iced-table3",
    "iced-inference", "difficulty-tables", "difficulty-figures",
]  # fmt: skip


def bench(*words: str) -> list[str]:
    return [sys.executable, "-m", "crowdwise", "bench", *words]


def children(pid: int) -> list[int]:
    """Processes started by a process."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_every_experiment_is_listed() -> None:
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 0
    for name in NAMES:
        assert name in EXPERIMENTS
        assert name in result.stdout


@pytest.mark.parametrize("name", ["dasc-table", "nothing-like-it"])
def test_an_unknown_name_is_refused_with_a_hint(name: str) -> None:
    result = CliRunner().invoke(app, ["bench", name])
    assert result.exit_code == 1
    assert name in result.stderr
    assert "dasc-table2" in result.stderr


def test_every_method_of_every_experiment_can_be_made() -> None:
    for experiment in EXPERIMENTS.values():
        for quick in (False, True):
            cells = experiment.cells(2, quick=quick)
            assert cells
            assert all(experiment.family.stamp(cell) for cell in cells)
        same = [each for each in EXPERIMENTS.values() if each.family.name == experiment.family.name]
        for method, problem, *_ in experiment.published:
            assert any(method in each.methods and problem in each.problems for each in same), (method, problem)


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_killed_run_goes_on_and_a_finished_one_only_prints(tmp_path: Path) -> None:
    words = ("digits", "--quick", "--jobs", "1", "--out", str(tmp_path))
    cells = tmp_path / "cells" / "digits-quick.json"
    first = subprocess.Popen(
        bench(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    for _ in range(1200):
        if cells.exists() or first.poll() is not None:
            break
        time.sleep(0.05)
    workers = children(first.pid)
    os.kill(first.pid, signal.SIGKILL)  # its processes are left to end by themselves
    first.wait()
    for _ in range(200):
        if not any(alive(pid) for pid in workers):
            break
        time.sleep(0.05)
    assert workers
    assert not any(alive(pid) for pid in workers)
    kept = json.loads(cells.read_text())["cells"]
    assert kept

    second = subprocess.run(bench(*words), capture_output=True, text=True, check=True)
    assert f"/{5 - len(kept)} cells" in second.stderr
    for name in kept:
        assert name not in second.stderr
    after = json.loads(cells.read_text())["cells"]
    assert {name: after[name] for name in kept} == kept
    assert len(after) == 5
    assert "MV-DL" in second.stdout

    third = CliRunner().invoke(app, ["bench", *words])
    assert third.exit_code == 0
    assert "cells computed" not in third.stdout
    with (tmp_path / "digits-quick.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["MV-DL", "DS-DL", "CrowdLayer", "CrowdLayer + DASC"]
    saved = json.loads((tmp_path / "digits-quick.json").read_text())
    assert [line["mean"] for line in saved["lines"]] == [float(row["mean"]) for row in rows]
    assert all(line["ceiling"] for line in saved["lines"])

    printed = CliRunner().invoke(app, ["bench", *words, "--json"])
    assert json.loads(printed.stdout)["experiments"][0]["name"] == "digits"
