"""Processes that end with the one that gave them work, be it gone before they begin."""

import platform
import subprocess
import sys

import pytest

CHILD = """
import os, sys, time
from crowdwise._core.child_processes import exit_with_parent
number = os.getpid() if sys.argv[1] == "own" else int(sys.argv[1])
exit_with_parent((number, sys.argv[2]))
time.sleep(1.0 if len(sys.argv) > 3 else 100.0)
"""


def ended(*arguments):
    return subprocess.run([sys.executable, "-c", CHILD, *map(str, arguments)], timeout=60, check=False).returncode


def test_work_for_a_process_that_is_gone_is_not_begun():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert ended(gone.pid, platform.node()) == 1


@pytest.mark.parametrize(("parent", "machine"), [("own", platform.node()), (2**22 + 1, "another machine")])
def test_oneself_and_other_machines_are_not_watched(parent, machine):
    assert ended(parent, machine, "briefly") == 0
