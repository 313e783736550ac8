"""A full disk or a folder without write permission gives one line with the file and the remedy; the job can resume."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.helpers.kills import damaged, finish, jobs, left_over, make_inputs, start
from tests.helpers.small_disk import fill_up, make_room, small_disk

NOBODY = 65534
ROOM = {"aggregate": 2_000, "fit": 40_000, "run": 20_000}  # free bytes: enough for the first files only
PLACES = {
    "aggregate": "labels.csv", "fit": "state.safetensors", "run": r"choose/fit-\w+.safetensors",
}  # fmt: skip


@pytest.fixture
def home():
    """A folder that every user may read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    make_inputs(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def disk(home):
    """A small file system."""
    with small_disk(home / "disk") as folder:
        yield folder


def run_to_end(job, folder, user=None):
    """Return the exit code of a command and the last line of its output."""
    process = start(job, folder, user)
    process.join()
    lines = folder.with_suffix(".said.txt").read_text().splitlines()
    assert not any("Traceback" in line for line in lines), lines
    return process.exitcode, lines[-1]


@pytest.mark.parametrize("name", ["fit", "run", pytest.param("aggregate", marks=pytest.mark.slow)])
def test_a_full_disk_is_reported_and_the_job_resumes(name, home, disk):
    job, unbroken = jobs(home)[name], home / "unbroken"
    unbroken.mkdir()
    finish(job, unbroken)
    fill_up(disk, ROOM[name])
    code, line = run_to_end(job, disk)
    assert code == 1 and re.search(
        rf"{PLACES[name]} cannot be written: no space left on device\. Free disk space", line
    ), line
    assert name == "aggregate" or ("saved in" in line and "Rerun the command" in line)
    make_room(disk)
    assert not damaged(disk) and set(left_over(disk)) <= {"out/.work"}
    finish(job, disk)
    assert job.results(disk) == job.results(unbroken)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("name", "place"), [("aggregate", "labels.csv"), ("fit", "out"), ("run", "out")])
def test_a_folder_without_write_permission_is_rejected_before_the_work(name, place, home):
    folder = home / "closed"
    folder.mkdir(mode=0o755)
    folder.with_suffix(".said.txt").touch()
    code, line = run_to_end(jobs(home)[name], folder, NOBODY)
    assert code == 1 and line.startswith("error: ") and place in line
    assert re.search("no permission to write|not a writable folder|may write to", line), line
    assert list(folder.iterdir()) == []
