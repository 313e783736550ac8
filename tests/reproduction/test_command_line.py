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

from crowdwise.cli import app
from reproduction import EXPERIMENTS
from tests.helpers.bench_cells import fill

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


def command(pid: int) -> str:
    """How a process was started."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_every_experiment_is_listed() -> None:
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 0
    for name in NAMES:
        assert name in EXPERIMENTS
        assert name in result.stdout
    listed = json.loads(CliRunner().invoke(app, ["bench", "--json"]).stdout)["experiments"]
    assert [each["name"] for each in listed] == list(EXPERIMENTS)
    assert all(each["title"] and each["cells"] for each in listed)


def test_a_show_of_nothing_writes_nothing(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["bench", "dasc-table2", "--show", "--out", str(tmp_path / "none")])
    assert result.exit_code == 0
    assert "no cell is finished" in result.stderr
    assert not (tmp_path / "none").exists()


def test_fewer_seeds_are_shown_but_not_written_over_more(tmp_path: Path) -> None:
    fill(tmp_path, "digits", 2)
    fill(tmp_path, "digits", 1)
    shown = ["bench", "digits", "--show", "--out", str(tmp_path), "--seeds"]
    assert CliRunner().invoke(app, [*shown, "2"]).exit_code == 0
    before = files(tmp_path)
    assert str(tmp_path / "digits.json") in before
    result = CliRunner().invoke(app, [*shown, "1"])
    assert result.exit_code == 0
    assert "MV-DL" in result.stdout
    assert "2 seeds where this has 1" in result.stderr
    assert files(tmp_path) == before


def test_without_altair_the_rest_is_printed_and_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "digits", 1)
    monkeypatch.setitem(sys.modules, "altair", None)
    result = CliRunner().invoke(app, ["bench", "digits", "--seeds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0
    assert "MV-DL" in result.stdout
    assert "digits.csv" in result.stdout
    assert "crowdwise[plots]" in result.stderr
    assert (tmp_path / "digits.json").exists()


def test_a_folder_that_cannot_be_written_to_is_found_before_computing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["bench", "digits", "--quick", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "cannot hold the results" in result.stderr
    assert "cells" not in result.stderr


def test_missing_data_is_said_once_and_nothing_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["bench", "waum-table1", "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    for name in ("labelme", "music"):
        assert result.stderr.count(f"{name} was not found") == 1
    assert not (tmp_path / "out").exists()


def test_names_of_data_and_methods_are_whole_in_a_pipe(tmp_path: Path) -> None:
    fill(tmp_path, "difficulty-tables", 1)
    result = CliRunner().invoke(app, ["bench", "difficulty-tables", "--show", "--seeds", "1", "--out", str(tmp_path)])
    assert result.exit_code == 0
    experiment = EXPERIMENTS["difficulty-tables"]
    for name in (*experiment.problems, *experiment.methods):
        assert name in result.stdout
    assert "\N{HORIZONTAL ELLIPSIS}" not in result.stdout


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_ctrl_c_ends_all_processes_with_a_message_alone(tmp_path: Path) -> None:
    run = subprocess.Popen(
        bench("digits", "--quick", "--jobs", "1", "--out", str(tmp_path)),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert run.stderr is not None
    assert run.stderr.readline() == "0/5 cells\n"
    for _ in range(400):
        if workers := [pid for pid in children(run.pid) if "spawn_main" in command(pid)]:
            break
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does
    said = run.communicate(timeout=30)[1]
    assert run.returncode == 130
    assert "stopped by Ctrl-C. What is finished is kept in" in said
    assert "the same command goes on" in said
    assert not list(tmp_path.rglob(".*"))
    assert "Traceback" not in said
    assert workers
    assert not any(alive(pid) for pid in workers)


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
    fill(tmp_path, "digits", 1, "ceiling", "CrowdLayer", "CrowdLayer + DASC", quick=True)
    before = cells.read_text()
    first = subprocess.Popen(
        bench(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    for _ in range(1200):
        if cells.read_text() != before or first.poll() is not None:
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
    assert len(kept) > 3

    second = CliRunner().invoke(app, ["bench", *words])
    assert second.exit_code == 0
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
