"""A command stopped by Ctrl-C or SIGTERM explains how to continue, leaves no partial files, and can be completed."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.helpers.kills import damaged, finish, jobs, left_over, make_inputs, start

FIRST_FILES = {"run": "out/.work/choose/*", "fit": "state.safetensors", "aggregate": "labels.csv"}
REMEDY = {
    "run": "Finished steps are saved in out. Rerun the command with --resume to continue.",
    "fit": "The last complete epoch is saved in state.safetensors. Rerun the command to resume.",
    "aggregate": "Completed files are intact. Rerun the command to start over.",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    make_inputs(folder)
    return folder


def written(file):
    """Return when a file was written; 0 if it has been renamed since it was listed."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def interrupt(job, folder, number):
    """Send a command a signal once it has written its first file; return the ended process."""
    folder.with_suffix(".said.txt").unlink(missing_ok=True)
    since, process = time.time(), start(job, folder)
    while process.is_alive() and not any(written(file) >= since for file in folder.glob(FIRST_FILES[job.name])):
        time.sleep(0.002)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)  # as a terminal does
    process.join()
    return process


@pytest.mark.parametrize(
    "name", ["run", pytest.param("aggregate", marks=pytest.mark.slow), pytest.param("fit", marks=pytest.mark.slow)]
)
def test_an_interrupted_command_explains_how_to_continue(name, inputs, tmp_path):
    job = jobs(inputs)[name]
    unbroken, folder = tmp_path / "unbroken", tmp_path / name
    unbroken.mkdir()
    folder.mkdir()
    finish(job, unbroken)
    output = folder.with_suffix(".said.txt")
    for number, code, by in ((signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")):
        process = interrupt(job, folder, number)
        while process.exitcode == 0:  # on a busy machine it may have finished before the signal
            shutil.rmtree(folder)
            folder.mkdir()
            process = interrupt(job, folder, number)
        lines = output.read_text().splitlines()
        assert process.exitcode == code, lines
        assert lines[-1] == f"error: stopped by {by}. {REMEDY[name]}"
        assert not any(word in line for line in lines for word in ("Traceback", "Interrupt", "Aborted"))
        assert not damaged(folder)
        assert [path for path in left_over(folder) if path != "out/.work"] == []
    finish(job, folder)
    assert job.results(folder) == job.results(unbroken)


INTERRUPTED_CONSTRUCTOR = """
import os, signal
from crowdwise.cli.interruption import interruptible

class Incomplete:
    def __init__(self):
        os.kill(os.getpid(), signal.SIGINT)
        self.pointer = 1
    def __del__(self):
        del self.pointer

try:
    with interruptible():
        Incomplete()
except KeyboardInterrupt:
    print("cleaned up")
"""


def test_objects_interrupted_in_their_constructor_print_no_traceback():
    """Destructors of incomplete Numba strings fail, and would print tracebacks after the last line."""
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED_CONSTRUCTOR], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("cleaned up\n", "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("moment", ["imported", "built"])
def test_a_command_that_is_stopped_while_it_starts_says_so_in_one_line(tmp_path, number, code, moment):
    stop = f"import os, time; os.kill(os.getpid(), {int(number)}); time.sleep(100)"
    if moment == "imported":
        (tmp_path / "typer.py").write_text(stop)
    else:
        (tmp_path / "sitecustomize.py").write_text(
            f"import typer.main\ntyper.main.get_command = lambda app: exec({stop!r})"
        )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-m", "crowdwise", "--version"]
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert done.returncode == code
    assert done.stderr.startswith("error: stopped by ") and done.stderr.count("\n") == 1
