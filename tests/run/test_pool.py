"""Fits of a run in parallel processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import crowdwise as cw
from crowdwise._core.child_processes import parallel
from crowdwise.choose import checkpoint
from crowdwise.errors import UnwritableError
from crowdwise.run import run
from crowdwise.run.inputs import RunOptions, read_inputs

METHODS = ["one-coin", "raykar"]
SCRIPT = """
import sys
from tests.run.test_pool import crowd, run, METHODS
answers, X = crowd()
run(answers, sys.argv[1], features=X, method=METHODS, folds=3, n_jobs=2)
"""


def crowd():
    answers = cw.simulate.simulate(40, n_workers=8, n_classes=2, answers_per_task=3, seed=4)
    return answers, np.eye(4)[answers.truth] + np.random.default_rng(0).normal(size=(40, 4))


def content(folder):
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    return {name: file.read_bytes() for name, file in files.items() if name != "times.json"}


def test_parallel_fits_give_the_same_files_as_serial_ones(tmp_path, monkeypatch):
    monkeypatch.setattr("crowdwise.run.steps.fit.find_spec", lambda name: None)  # no WAUM: importing torch is slow
    (answers, X), results = crowd(), []
    with patch("crowdwise.run.steps.fit.parallel", wraps=parallel) as pool:
        for n_jobs in (2, 1):
            folder = tmp_path / str(n_jobs) / "run"
            results.append(content(run(answers, folder, features=X, method=METHODS, folds=2, n_jobs=n_jobs).path))
    assert [call.args for call in pool.call_args_list] == [(2,), (1,)]
    assert results[0] == results[1] and {"model.safetensors", "tasks.csv"} <= set(results[0])


def test_only_runs_with_features_fit_in_parallel_by_default(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    answers, X = crowd()
    data = read_inputs(answers, X, None, None, False, None, None, None)
    assert RunOptions().with_defaults(data).n_jobs == 3
    assert RunOptions().with_defaults(data._replace(X=None)).n_jobs == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_child_processes_end_after_their_run_is_killed(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    out = tmp_path / "run"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(out)], env=environment, start_new_session=True)
    while not list((out / ".work" / "choose").glob("*")):
        assert process.poll() is None
        time.sleep(0.02)
    assert workers_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    until = time.monotonic() + 60
    while (left := workers_of(process.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left


def workers_of(session):
    """Pool processes of a session that have received work; the others have not loaded our code and write nothing."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            numbers = (folder / "stat").read_text().rpartition(")")[2].split()
            ours = int(numbers[3]) == session and numbers[0] != "Z" and "popen_loky" in (folder / "cmdline").read_text()
            if ours and "pyarrow" in (folder / "maps").read_text():
                found.append(int(folder.name))
        except OSError:  # the process has ended
            continue
    return found


def test_a_full_disk_stops_the_run_instead_of_failing_the_methods(tmp_path, monkeypatch):
    def full(path, outcome):
        raise UnwritableError(f"{path} cannot be written: no space left on device.")

    monkeypatch.setattr(checkpoint, "write", full)
    with pytest.raises(UnwritableError, match="no space left"):
        run(crowd()[0], tmp_path / "run", method=["one-coin"])
    assert not (tmp_path / "run" / "metrics.json").exists()
