"""Child processes that exit when their parent does, even if the parent is killed.

A pool starts its processes before it has work for them. A parent that is killed in between would leave them idle for
minutes, so `parallel` makes every process watch its parent before it waits for work, and jobs in processes that
somebody else started (`joblib.parallel_config`) call `exit_with_parent` first. The parent is polled: the signal that
Linux sends to children (PR_SET_PDEATHSIG) comes when the *thread* that started them ends, and only there.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from joblib import Parallel
from joblib.parallel import LokyBackend, get_active_backend

from crowdwise._core.registry import Method, adopt, own_methods

POLL_SECONDS = 0.2  # between checks that the parent is alive
Process = tuple[int, str]  # process id, host name


def current_process() -> Process:
    """Return the id of this process, for its children to pass to `exit_with_parent`."""
    return os.getpid(), platform.node()


@cache
def exit_with_parent(parent: Process) -> None:
    """Make this process exit soon after its parent has ended: nobody waits for its result then.

    Call it in the child. In the parent itself, or on another machine, it does nothing.
    """
    pid, host = parent
    if pid != os.getpid() and host == platform.node():
        original_ppid = os.getppid()
        if not _is_alive(pid):
            os._exit(1)
        threading.Thread(target=_exit_when_gone, args=(pid, original_ppid), daemon=True).start()


def parallel(n_jobs: int) -> Any:
    """Return a `joblib.Parallel` that yields results in order, and whose processes exit with this one."""
    active, _ = get_active_backend()
    backend = _WatchingBackend() if type(active) is LokyBackend else None  # None: the one that the user selected
    return Parallel(n_jobs=n_jobs, backend=backend, return_as="generator")


class _WatchingBackend(LokyBackend):
    """joblib's default backend, with processes that watch their parent from the start and know the user's methods."""

    def configure(self, *arguments: Any, **named: Any) -> Any:
        named |= {"initializer": _start_child, "initargs": (current_process(), own_methods())}
        return super().configure(*arguments, **named)


def _start_child(parent: Process, own: tuple[Method, ...]) -> None:
    exit_with_parent(parent)
    adopt(own)


def _exit_when_gone(pid: int, original_ppid: int) -> None:
    """Poll until the process is gone or this one has been handed to another parent, then exit."""
    while os.getppid() == original_ppid and _is_alive(pid):
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _is_alive(pid: int) -> bool:
    """Return whether the process exists and, where /proc shows it, has not ended (a zombie waits for its parent)."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except OSError:  # it exists but belongs to another user, or there is no /proc
        return True
