"""A small file system for tests of a full disk."""

import os
import shutil
import subprocess
import time
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size="128k"):
    """Mount a small disk on a folder; skip the test where that is not possible."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "crowdwise", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a disk needs root: full disks are NOT tested")
    try:
        yield folder
    finally:
        for _ in range(100):  # a process in the folder may be about to end
            if not (failed := subprocess.run(["umount", str(folder)], check=False).returncode):
                break
            time.sleep(0.1)
        assert not failed, "another process is still using the disk"


def fill_up(disk, free_bytes):
    """Fill the disk up to so many free bytes."""
    (disk / "ballast").unlink(missing_ok=True)
    stat = os.statvfs(disk)
    (disk / "ballast").write_bytes(bytes(stat.f_bavail * stat.f_frsize - free_bytes))


def make_room(disk):
    """Delete the ballast and enlarge the disk."""
    (disk / "ballast").unlink()
    subprocess.run(["mount", "-o", "remount,size=16m", str(disk)], check=True)
