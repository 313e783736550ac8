"""Commands stopped by Ctrl-C or SIGTERM: one line that says how to go on, nothing half done, the same result."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.helpers.kills import damaged, finish, jobs, left_over, make_inputs, start

BEGUN = {"run": "out/.work/choose/*", "fit": "state.safetensors", "aggregate": "labels.csv"}
GOES_ON = {
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
    """When a file was written; 0 where it has been renamed since it was seen."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def stopped(job, folder, number):
    """A command that gets a signal once it has written something."""
    folder.with_suffix(".said.txt").unlink(missing_ok=True)
    since, process = time.time(), start(job, folder)
    while process.is_alive() and not any(written(file) >= since for file in folder.glob(BEGUN[job.name])):
        time.sleep(0.002)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)  # as a terminal does
    process.join()
    return process


@pytest.mark.parametrize("name", ["aggregate", "fit", "run"])
def test_stopped_it_says_how_to_go_on_and_does(name, inputs, tmp_path):
    job = jobs(inputs)[name]
    unbroken, folder = tmp_path / "unbroken", tmp_path / name
    unbroken.mkdir()
    folder.mkdir()
    finish(job, unbroken)
    said = folder.with_suffix(".said.txt")
    for number, code, by in ((signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")):
        process = stopped(job, folder, number)
        while process.exitcode == 0:  # on a busy machine it may be done before it is told to stop
            shutil.rmtree(folder)
            folder.mkdir()
            process = stopped(job, folder, number)
        lines = said.read_text().splitlines()
        assert process.exitcode == code, lines
        assert lines[-1] == f"error: stopped by {by}. {GOES_ON[name]}"
        assert not any(word in line for line in lines for word in ("Traceback", "Interrupt", "Aborted"))
        assert not damaged(folder)
        assert [path for path in left_over(folder) if path != "out/.work"] == []
    finish(job, folder)
    assert job.results(folder) == job.results(unbroken)


HALF_MADE = """
import os, signal
from crowdwise.cli.interruption import interruptible

class HalfMade:
    def __init__(self):
        os.kill(os.getpid(), signal.SIGINT)
        self.pointer = 1
    def __del__(self):
        del self.pointer

try:
    with interruptible():
        HalfMade()
except KeyboardInterrupt:
    print("tidied up")
"""


def test_what_was_half_made_when_it_was_stopped_says_nothing():
    """Numba's strings fail to go where they were never whole: their tracebacks stood behind our last line."""
    ended = subprocess.run([sys.executable, "-c", HALF_MADE], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("tidied up\n", "")
