"""Torch in forked processes."""

import multiprocessing
import os
import subprocess
import sys

import pytest

SCRIPT = """
import os
from crowdwise.learn.network.torch_support import torch
torch.set_num_threads(2)
child = os.fork()
if child == 0:
    os._exit(torch.get_num_threads())
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.get_num_threads())
"""


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system has no fork")
def test_forked_process_computes_on_one_thread_because_torch_hangs_on_several():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=1200)
    assert done.stdout.split() == ["1", "2"]
