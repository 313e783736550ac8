"""`python -m reproduction`: the list, tables, errors, and what a killed run leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from reproduction import EXPERIMENTS
from reproduction.__main__ import RESULTS, app
from tests.helpers.bench_cells import fill

ROOT = Path(__file__).parents[2]


def call(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "reproduction", *words]


def children(pid: int) -> list[int]:
    """Return the processes started by a process."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def is_alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_list_names_every_experiment() -> None:
    result = call()
    assert result.exit_code == 0
    assert all(name in result.stdout for name in EXPERIMENTS)
    listed = json.loads(call("--json").stdout)["experiments"]
    assert [each["name"] for each in listed] == list(EXPERIMENTS)
    assert all(each["title"] and each["cells"] for each in listed)


def test_results_are_stored_in_the_repository_by_default() -> None:
    assert Path("reproduction/results") == RESULTS
    assert list((ROOT / RESULTS).glob("*.csv"))


def test_show_prints_every_row_without_computing(tmp_path: Path) -> None:
    fill(tmp_path, "difficulty-tables", 1)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = call("difficulty-tables", "--show", "--seeds", "1", "--out", str(tmp_path))
    assert result.exit_code == 0
    experiment = EXPERIMENTS["difficulty-tables"]
    for name in (*experiment.problems, *experiment.methods):
        assert name in result.stdout
    assert "\N{HORIZONTAL ELLIPSIS}" not in result.stdout  # names are not cut off in a pipe
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_show_without_results_says_so_and_creates_no_folder(tmp_path: Path) -> None:
    result = call("dasc-table2", "--show", "--out", str(tmp_path / "none"))
    assert result.exit_code == 0
    assert "dasc-table2: no results in" in result.stderr
    assert not (tmp_path / "none").exists()


def test_complete_experiment_is_printed_and_drawn(tmp_path: Path) -> None:
    pytest.importorskip("vl_convert")
    fill(tmp_path, "digits", 1)
    words = ("digits", "--seeds", "1", "--out", str(tmp_path))
    printed = json.loads(call(*words, "--json").stdout)["experiments"][0]
    assert [line["mean"] for line in printed["lines"]] == [80.0] * 4
    result = call(*words, "--figures", str(tmp_path / "figures"))
    assert "cells computed" not in result.stdout
    assert (tmp_path / "figures" / "digits.svg").read_text().startswith("<svg")


def test_unwritable_folder_is_reported_before_computing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = call("digits", "--quick", "--out", str(tmp_path / "file"))
    assert result.exit_code == 1
    assert "Choose another folder with --out" in result.stderr


@pytest.mark.parametrize("name", ["dasc-table", "nothing-like-it"])
def test_unknown_name_ends_in_a_message_with_a_hint(name: str) -> None:
    result = call(name)
    assert result.exit_code == 1
    assert name in result.stderr
    assert "dasc-table2" in result.stderr


def test_every_method_of_every_experiment_can_be_built() -> None:
    for experiment in EXPERIMENTS.values():
        for quick in (False, True):
            cells = experiment.cells(2, quick=quick)
            assert cells
            assert all(experiment.family.stamp(cell) for cell in cells)
        same = [each for each in EXPERIMENTS.values() if each.family.name == experiment.family.name]
        for method, problem, *_ in experiment.published:
            assert any(method in each.methods and problem in each.problems for each in same), (method, problem)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_ctrl_c_ends_all_processes_with_a_message_and_no_traceback(tmp_path: Path) -> None:
    run = subprocess.Popen(
        command("digits", "--quick", "--jobs", "1", "--out", str(tmp_path)), cwd=ROOT,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert run.stderr is not None
    assert run.stderr.readline() == "0/5 cells\n"
    workers: list[int] = []
    while not workers and run.poll() is None:
        workers = [pid for pid in children(run.pid) if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    message = run.communicate()[1]
    assert run.returncode == 130
    assert "Rerun the command to resume." in message
    assert "Traceback" not in message
    assert not list(tmp_path.rglob(".*"))
    assert workers
    assert not any(is_alive(pid) for pid in workers)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_killed_run_leaves_no_processes_and_resumes(tmp_path: Path) -> None:
    words = ("digits", "--quick", "--jobs", "1", "--out", str(tmp_path))
    stored = tmp_path / "digits-quick.csv"
    fill(tmp_path, "digits", 1, "ceiling", "CrowdLayer", "CrowdLayer + DASC", quick=True)
    before = stored.read_text()
    first = subprocess.Popen(
        command(*words), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while stored.read_text() == before and first.poll() is None:
        time.sleep(0.05)
    workers = children(first.pid)
    os.kill(first.pid, signal.SIGKILL)  # its child processes have to end by themselves
    first.wait()
    while any(is_alive(pid) for pid in workers):
        time.sleep(0.05)
    assert workers
    rows = stored.read_text().splitlines()[1:]
    assert len(rows) > 3
    second = call(*words)
    assert second.exit_code == 0
    assert f"/{5 - len(rows)} cells" in second.stderr
    after = stored.read_text().splitlines()[1:]
    assert set(rows) < set(after)
    assert len(after) == 5
