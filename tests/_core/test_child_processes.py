"""Child processes exit when their parent has ended."""

import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import pytest

from crowdwise._core.child_processes import parallel

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


KILLED_WHILE_THE_POOL_STARTS = """
import os, pathlib, signal, sys
from joblib import delayed
from joblib.externals.loky.backend import popen_loky_posix
from crowdwise._core.child_processes import parallel

launch = popen_loky_posix.Popen._launch

def launch_and_die(self, process):
    launch(self, process)
    pathlib.Path(sys.argv[1]).write_text(str(self.pid))
    os.kill(os.getpid(), signal.SIGKILL)  # the process has started and no work has been sent

popen_loky_posix.Popen._launch = launch_and_die
list(parallel(2)(delayed(abs)(i) for i in range(4)))
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_process_of_a_pool_ends_if_its_parent_is_killed_before_it_has_work(tmp_path):
    note = tmp_path / "pid"  # not a pipe, which the process would hold open
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_THE_POOL_STARTS, note], timeout=1200, check=False)
    assert done.returncode == -signal.SIGKILL
    child, until = int(note.read_text()), time.monotonic() + 100  # loky's idle processes end after 300 s
    while _runs(child) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _runs(child)


def _runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_child_of_a_zombie_exits():
    parent = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    parent.stdout.read()  # it has ended, and nobody has waited for it
    while _runs(parent.pid):
        time.sleep(0.01)
    assert exit_code(parent.pid, platform.node()) == 1
    parent.wait()


def test_pools_use_the_backend_that_the_user_selected():
    with joblib.parallel_config(backend="threading"):
        assert "Threading" in type(parallel(2)._backend).__name__
