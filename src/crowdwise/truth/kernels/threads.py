"""Compiled loops on several threads.

A kernel is a compiled function `kernel(first, end, ...)` over rows (or chunks of rows) that releases the GIL; `run`
gives each thread some of the rows. numba's own parallel loops take three times as long to compile and stall when
another process needs a core. These do neither, and several fits can run at once in threads of one process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import pairwise
from typing import Any

from numba import njit

from crowdwise.errors import ParameterError

_PARTS_PER_THREAD = 4  # so that a thread that finishes early finds more work
_MIN_ANSWERS = 300_000  # with fewer answers, starting threads costs more time than it saves
_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel that releases the GIL; the compiled code is cached on disk."""
    return njit(cache=True, nogil=True, error_model="numpy")(function)


def available() -> int:
    """Return the number of threads to use: CROWDWISE_THREADS, or one for each core this process may run on."""
    setting = os.environ.get("CROWDWISE_THREADS", "")
    if setting:
        if not setting.isdecimal() or int(setting) < 1:
            message = f"CROWDWISE_THREADS={setting!r}: set it to a number of threads, 1 or more, or unset it."
            raise ParameterError(message)
        return int(setting)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def use_threads(n: int | None) -> Iterator[None]:
    """Use n threads inside this block (None: all available). Results do not depend on it."""
    token = _threads.set(n)
    try:
        yield
    finally:
        _threads.reset(token)


def threads_for(n_answers: int) -> Any:
    """Return the context for a fit on this many answers: one thread for small fits unless `use_threads` is active."""
    return use_threads(_threads.get() or (1 if n_answers < _MIN_ANSWERS else None))


def run(kernel: Callable[..., None], n: int, *arguments: Any, parts: int | None = None) -> None:
    """Call `kernel(first, end, *arguments)` on ranges that together cover 0..n, in several threads."""
    threads = _threads.get() or available()
    if threads == 1 or n < 2:
        kernel(0, n, *arguments)
        return
    parts = min(n, threads * _PARTS_PER_THREAD) if parts is None else parts
    edges = [n * part // parts for part in range(parts + 1)]
    pool = _pool(os.getpid(), threads)
    tasks = [pool.submit(kernel, first, end, *arguments) for first, end in pairwise(edges)]
    for task in tasks:
        task.result()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """The thread pool of this process; keyed by process, as a forked child needs its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="crowdwise")
