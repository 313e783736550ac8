"""A full disk, and folders that may not be written to: one line that names the place and the remedy, and it goes on."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.helpers.kills import damaged, finish, jobs, left_over, make_inputs, start
from tests.helpers.small_disk import fill_up, make_room, small_disk

NOBODY = 65534
ROOM = {"aggregate": 2_000, "fit": 40_000, "run": 20_000}  # bytes: only for the beginning
PLACES = {
    "aggregate": "labels.csv", "fit": "state.safetensors", "run": r"choose/fit-\w+.safetensors",
}  # fmt: skip


@pytest.fixture
def home():
    """A folder that every user may look into."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    make_inputs(folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def disk(home):
    """A small disk of its own."""
    with small_disk(home / "disk") as folder:
        yield folder


def said_by(job, folder, user=None):
    """How a command ends, and the last line it says."""
    process = start(job, folder, user)
    process.join()
    lines = folder.with_suffix(".said.txt").read_text().splitlines()
    assert not any("Traceback" in line for line in lines), lines
    return process.exitcode, lines[-1]


@pytest.mark.parametrize("name", list(ROOM))
def test_a_full_disk_is_said_and_with_room_it_goes_on(name, home, disk):
    job, unbroken = jobs(home)[name], home / "unbroken"
    unbroken.mkdir()
    finish(job, unbroken)
    fill_up(disk, ROOM[name])
    code, line = said_by(job, disk)
    assert code == 1 and re.search(
        rf"{PLACES[name]} cannot be written: no space left on device\. Free disk space", line
    ), line
    assert name == "aggregate" or line.endswith("goes on from there.")
    make_room(disk)
    assert not damaged(disk) and set(left_over(disk)) <= {"out/.work"}
    finish(job, disk)
    assert job.results(disk) == job.results(unbroken)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize(("name", "place"), [("aggregate", "labels.csv"), ("fit", "out"), ("run", "out")])
def test_a_folder_one_may_not_write_to_is_refused_before_the_work(name, place, home):
    folder = home / "closed"
    folder.mkdir(mode=0o755)
    folder.with_suffix(".said.txt").touch()
    code, line = said_by(jobs(home)[name], folder, NOBODY)
    assert code == 1 and line.startswith(f"error: {place} cannot be written: ") and "you may" in line
    assert list(folder.iterdir()) == []
