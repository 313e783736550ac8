"""One thread for BLAS within a fit.

Fits of learners consist of many small matrix products. A second thread adds little to them, and both threads wait for
each other whenever another process uses one of the cores: a fit of a second then takes half a minute.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_inside = 0  # fits in progress, in all threads: the number of threads belongs to the process
_limits: threadpool_limits | None = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread. The last of several overlapping contexts restores the previous number."""
    global _inside, _limits
    with _lock:
        if not _inside:
            _limits = threadpool_limits(1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside and _limits is not None:
                _limits.restore_original_limits()
                _limits = None
