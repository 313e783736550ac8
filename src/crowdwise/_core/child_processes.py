"""Child processes that exit when their parent does, even if the parent is killed."""

from __future__ import annotations

import os
import platform
import threading
import time
from functools import cache

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
        threading.Thread(target=_exit_when_gone, args=(pid, os.getppid()), daemon=True).start()


def _exit_when_gone(pid: int, original_ppid: int) -> None:
    """Poll until the process is gone or this one has been handed to another parent, then exit."""
    while os.getppid() == original_ppid and _is_alive(pid):
        time.sleep(POLL_SECONDS)
    os._exit(1)


def _is_alive(pid: int) -> bool:
    """Return whether the process exists; a zombie counts as alive."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it exists, but belongs to another user
        return True
    return True
