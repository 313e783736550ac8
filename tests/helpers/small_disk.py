"""A small disk of its own, to be filled up."""

import os
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size="128k"):
    """Mount one on a folder; where that cannot be done the test is skipped."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "crowdwise", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no disk can be mounted here (only root may): full disks are NOT tested")
    try:
        yield folder
    finally:
        for _ in range(100):  # a process that stands there may be about to end
            if not (left := subprocess.run(["umount", str(folder)], check=False).returncode):
                break
            time.sleep(0.1)
        assert not left, "somebody still works there"


def fill_up(disk, room):
    """Leave so many bytes."""
    (disk / "ballast").unlink(missing_ok=True)
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize - room))


def make_room(disk):
    """Much of it."""
    (disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
