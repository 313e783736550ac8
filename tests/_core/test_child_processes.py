"""Child processes exit when their parent has ended."""

import platform
import subprocess
import sys

import pytest

CHILD = """
import os, sys, time
from crowdwise._core.child_processes import exit_with_parent
pid = os.getpid() if sys.argv[1] == "own" else int(sys.argv[1])
exit_with_parent((pid, sys.argv[2]))
time.sleep(1.0 if len(sys.argv) > 3 else 100.0)
"""


def exit_code(*arguments):
    return subprocess.run([sys.executable, "-c", CHILD, *map(str, arguments)], timeout=1200, check=False).returncode


def test_child_exits_if_its_parent_has_already_ended():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert exit_code(gone.pid, platform.node()) == 1


@pytest.mark.parametrize(("parent", "machine"), [("own", platform.node()), (2**22 + 1, "another machine")])
def test_own_process_and_other_machines_are_not_watched(parent, machine):
    assert exit_code(parent, machine, "briefly") == 0
