"""Compiled loops on several threads.

A kernel is a compiled function `kernel(first, end, ...)` over rows (or chunks of rows) that lets go of Python's lock;
`run` gives each thread a part of the rows. numba's own parallel loops take three times as long to compile and stall
when another process wants a core; these do neither, and several fits may run at once in threads of one process.
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

_PARTS_PER_THREAD = 4  # so that a thread that finishes early finds more to do
_WORTH_THREADS = 300_000  # answers; below that, waking threads costs more than they bring
_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a kernel once, keep it on disk, and run it without Python's lock."""
    return njit(cache=True, nogil=True, error_model="numpy")(function)


def available() -> int:
    """How many threads are used: CROWDWISE_THREADS, or one for each core this process may run on."""
    wanted = os.environ.get("CROWDWISE_THREADS", "")
    if wanted:
        if not wanted.isdecimal() or int(wanted) < 1:
            message = f"CROWDWISE_THREADS={wanted!r}: set it to a number of threads, 1 or more, or not at all."
            raise ParameterError(message)
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def use_threads(n: int | None) -> Iterator[None]:
    """Use n threads inside this block (None: all). Results do not depend on it."""
    token = _threads.set(n)
    try:
        yield
    finally:
        _threads.reset(token)


def threads_for(n_answers: int) -> Any:
    """Block for a fit of this many answers: one thread when more would not pay and none were asked for."""
    return use_threads(_threads.get() or (1 if n_answers < _WORTH_THREADS else None))


def run(kernel: Callable[..., None], n: int, *arguments: Any, parts: int | None = None) -> None:
    """Call `kernel(first, end, *arguments)` for parts of 0..n that together make up the whole."""
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
    """Threads of this process: a forked child makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="crowdwise")
