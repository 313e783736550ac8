"""Processes that end with the one that started them."""

from __future__ import annotations

import os
import platform
import threading
import time
from functools import cache

OFTEN = 0.2  # seconds between looks
Process = tuple[int, str]  # its number, and the machine


def current_process() -> Process:
    """What a child is told of its parent."""
    return os.getpid(), platform.node()


@cache
def exit_with_parent(parent: Process) -> None:
    """Let this process end soon after the one that gave it work is gone, killed perhaps: nobody waits for it then.

    Called in a child; in the parent itself, or on another machine, nothing happens.
    """
    number, machine = parent
    if number != os.getpid() and machine == platform.node():
        threading.Thread(target=_watch, args=(number, os.getppid()), daemon=True).start()


def _watch(parent: int, above: int) -> None:
    while os.getppid() == above and _alive(parent):
        time.sleep(OFTEN)
    os._exit(1)


def _alive(process: int) -> bool:
    """Whether there is such a process, or one that has ended and nobody has waited for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's
        return True
    return True
