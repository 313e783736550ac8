"""`crowdwise fit` on several processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

import crowdwise as cw
from crowdwise.cli import app, distributed
from crowdwise.errors import LostProcessError, ParameterError
from crowdwise.io import write

FIT = ["fit", "answers.csv", "--features", "X.npy", "--method", "crowdlayer", "--network", "mlp"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("distributed")
    X, answers = cw.simulate.digits_crowd()
    np.save(folder / "X.npy", X[:150].astype(np.float32))
    write(answers[np.arange(150)].with_truth(None), folder / "answers.csv")
    return folder


def crowdwise(folder, *arguments, python=(sys.executable,)):
    command = [*python, "-m", "crowdwise", *FIT, *arguments]
    options = {"cwd": folder, "env": {**os.environ, "OMP_NUM_THREADS": "1"}, "text": True}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def rank_of(pid):
    return int(re.search(rb"\0RANK=(\d+)", Path(f"/proc/{pid}/environ").read_bytes())[1])


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:  # it has ended
        return False


def wait_for(file, process):
    """Wait until a file exists; fail with the output of the process if that ends before."""
    while not file.exists():
        if process.poll() is not None:
            pytest.fail(f"ended with {process.returncode} before {file.name} was written: {process.communicate()}")
        time.sleep(0.01)


def listening(pid):
    """Return the addresses at which a process accepts connections."""
    own = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed in the meantime
            own.add(str(each.readlink()))
    tables = [Path(f"/proc/{pid}/net/{name}").read_text() for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table.splitlines()]
    return [line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in own]


LOOPBACK = "0100007F"  # 127.0.0.1 as /proc writes it
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
LONG = ["--epochs", "100", "--checkpoint"]
ENDLESS = ["--epochs", "1000000", "--checkpoint"]  # ends only when it is killed


@needs_proc
@pytest.mark.slow
def test_a_killed_process_ends_the_fit_and_the_same_command_resumes(folder):
    """The result equals that of an uninterrupted fit with torchrun, to the bit."""
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")
    complete = crowdwise(folder, *LONG, "complete.safetensors", "--out", "complete", "--json", python=torchrun)
    fit = crowdwise(folder, *LONG, "state.safetensors", "--out", "model", "--processes", "2")
    state = folder / "state.safetensors"
    wait_for(state, fit)
    children = children_of(fit.pid)
    os.kill(next(child for child in children if rank_of(child) == 1), signal.SIGKILL)
    out, error = fit.communicate(timeout=1200)
    assert fit.returncode == 1
    assert out == ""
    assert error.startswith("error: Process 1 (of 0 to 1) was killed (SIGKILL: out of memory?), so the others were")
    assert "saved in state.safetensors" in " ".join(error.split())
    assert "Traceback" not in error
    assert not any(map(alive, children))
    assert not (folder / "model").exists()
    assert list(folder.glob("*.partial")) == []
    out, error = complete.communicate(timeout=1200)
    assert json.loads(out)["processes"] == 2, error  # only the first process prints
    at = time.time()
    fit = crowdwise(folder, *LONG, "state.safetensors", "--out", "model", "--processes", "2")
    out, error = fit.communicate(timeout=1200)
    assert fit.returncode == 0, error
    assert out.splitlines()[2].endswith(" s on 2 processes")
    first, second = (load_file(folder / name / "model.safetensors") for name in ("complete", "model"))
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_array_equal(second[name], value, err_msg=name)
    assert state.stat().st_mtime > at
    histories = [json.loads((folder / name / "model.json").read_text())["history"] for name in ("complete", "model")]
    assert histories[0] == histories[1]


@needs_proc
def test_processes_listen_on_loopback_only_and_end_with_a_killed_launcher(folder):
    fit = crowdwise(folder, *ENDLESS, "endless.safetensors", "--out", "endless", "--processes", "2")
    try:
        wait_for(folder / "endless.safetensors", fit)
        children = children_of(fit.pid)
        assert len(children) == 2
        addresses = [address for child in children for address in listening(child)]
        assert addresses and set(addresses) == {LOOPBACK}
    finally:
        fit.kill()
        fit.communicate()
    until = time.monotonic() + 600
    while any(map(alive, children)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, children))


# In one process


def run(line, code):
    result = CliRunner().invoke(app, line)
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def one_of_two(monkeypatch, folder):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")


def test_zero_processes_are_rejected(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert "--processes" in run([*FIT, "--out", "model", "--processes", "0"], 2)


def test_one_process_runs_the_usual_fit(folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = json.loads(
        CliRunner().invoke(app, [*FIT, "--out", "one", "--epochs", "1", "--processes", "1", "--json"]).stdout
    )
    assert result["processes"] == 1


@pytest.mark.usefixtures("one_of_two")
@pytest.mark.parametrize("method", ["crowdlab", "adaptive-difficulty"])
def test_methods_without_a_network_are_rejected(method):
    options = ["--features", "X.npy", "--out", "model", "--method", method]
    output = run(["fit", "answers.csv", *options], 1)
    assert f"{method} does not train a network" in output
    assert ("--network mlp" in output) == (method != "crowdlab")


@pytest.mark.usefixtures("one_of_two")
def test_processes_must_match_torchrun():
    assert "--processes 3, but 2 processes were started" in run([*FIT, "--out", "model", "--processes", "3"], 1)


@pytest.mark.usefixtures("one_of_two")
def test_commands_other_than_fit_are_rejected():
    assert "`crowdwise methods` runs in one process" in run(["methods"], 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--features nothere.npy", "no file or folder 'nothere.npy'"),
        ("nothere.csv", "no file 'nothere.csv'"),
        ("--gold nothere.csv", "no file 'nothere.csv'"),
        ("--set lr=banana", "lr='banana'"),
        ("--method completed(crowdlayer) --set lr=banana", "lr='banana'"),
        ("--set learning_rate=1", "no parameter 'learning_rate'"),
        ("--set batch_size=8", "9 processes cannot share a batch of 8 tasks"),
        ("--processes 151 --set batch_size=200", "151 processes cannot share a batch"),
        ("--method crowdlab", "--network is an option of network learners"),
        ("--out X.npy", "X.npy is named twice"),
    ],
)
def test_user_errors_are_found_before_processes_start(folder, monkeypatch, options, message):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert message in run([*FIT, "--out", "model", "--processes", "9", *options.split()], 1)


def test_an_error_of_all_processes_is_printed_once(capfd):
    assert distributed.launch(3, ["methods"], None) == 1
    output = capfd.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "error: `crowdwise methods` runs in one process, but 3 were started. Only `fit` can share its work."
    ]


def test_errors_take_precedence_over_lost_processes(monkeypatch, tmp_path):
    monkeypatch.setenv(distributed.LAUNCHED, str(tmp_path))
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank, error in enumerate(map(LostProcessError, ("gone", "away", "lost"))):
        monkeypatch.setenv("RANK", str(rank))
        distributed.report_error(error)
    assert distributed._messages(tmp_path) == ["gone"]
    monkeypatch.setenv("RANK", "3")
    distributed.report_error(ParameterError("lr"))
    assert distributed._messages(tmp_path) == ["lr"]


@pytest.mark.parametrize("fails", ["lr", "", None])
def test_a_failed_process_waits_for_the_error_of_the_other(monkeypatch, tmp_path, fails):
    """The second of two processes fails a little after the first, or is killed, or never ends."""
    monkeypatch.setattr(distributed, "ENDING", 0.2 if fails is None else 600)
    lost = SimpleNamespace(poll=lambda: 1)
    polls = []

    def poll():
        polls.append(1)
        if len(polls) < 3 or fails is None:
            return None
        (tmp_path / "error-000001").write_text(fails)
        return 1 if fails else -9

    codes = distributed._wait([lost, SimpleNamespace(poll=poll)], tmp_path)
    assert codes == [1, {"lr": 1, "": -9, None: None}[fails]]


def test_rank_0_reports_an_error_under_torchrun(one_of_two, monkeypatch, capsys):
    monkeypatch.setattr(distributed, "PATIENCE", 0)
    distributed.report_error(ParameterError("lr"))
    assert capsys.readouterr().err == "error: lr\n"
    monkeypatch.setenv("RANK", "1")
    distributed.report_error(ParameterError("lr"))
    assert capsys.readouterr().err == "error in process 1 of 2: lr\n"
    distributed.report_error(LostProcessError("gone"))
    assert capsys.readouterr().err == ""


def test_only_rank_0_prints(one_of_two, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "1")
    with distributed.participation("fit"):
        print("from rank 1")
    assert capsys.readouterr().out == ""


def test_message_of_a_killed_process_explains_how_to_resume(tmp_path):
    assert "Use --checkpoint FILE" in distributed.killed_message(0, signal.SIGTERM, 2, None)
    assert "No epoch was complete yet" in distributed.killed_message(0, signal.SIGTERM, 2, tmp_path / "state")


def test_threads_are_divided_among_the_processes(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    assert [each["OMP_NUM_THREADS"] for each in distributed._environments(3)] == ["2"] * 3
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert distributed._environments(3)[2]["OMP_NUM_THREADS"] == "5"
