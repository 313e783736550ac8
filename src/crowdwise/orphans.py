"""Processes that end with the one that started them."""

from __future__ import annotations

import os
import threading
import time
from functools import cache

OFTEN = 0.2  # seconds between looks


@cache
def end_with(parent: int) -> None:
    """Let this process end soon after the one that started it is gone, killed perhaps: nobody waits for its work then.

    Called in a child, with the number of the parent; in the parent itself, or on another machine, nothing happens.
    """
    if os.getppid() == parent and os.getpid() != parent:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(OFTEN)
    os._exit(1)
