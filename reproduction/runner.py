"""Compute the cells that are missing, in parallel processes; a finished one is kept at once and never repeated."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field

from crowdwise._core.atomic_io import exclusive_access
from crowdwise._core.child_processes import current_process, exit_with_parent
from crowdwise.datasets import load
from crowdwise.errors import CrowdwiseError
from reproduction.cells import Cell, Family, Figures
from reproduction.store import Store

DATA = {
    "heavy": "cifar10h",
    "gisette_like": "usps",
    "dogs": "dogs_vs_cats",
    "leaves": "truth/leaves",
}  # of problems that have another name


@dataclass
class Progress:
    """How far a run is."""

    total: int
    jobs: int
    done: int = 0
    spent: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # seconds of cells by method and problem
    waiting: dict[tuple[str, str], int] = field(default_factory=dict)
    last: Cell | None = None
    failed: dict[Cell, str] = field(default_factory=dict)

    @property
    def left(self) -> float | None:
        """Seconds that are left, by the cells that are finished: of the same method and problem, or of all."""
        every = [s for seconds in self.spent.values() for s in seconds]
        if not every:
            return None
        usual = sum(every) / len(every)
        means = {kind: sum(seconds) / len(seconds) for kind, seconds in self.spent.items()}
        return sum(n * means.get(kind, usual) for kind, n in self.waiting.items()) / self.jobs


Told = Callable[[Progress], None]


def missing(cells: Iterable[Cell], families: dict[str, Family], store: Store) -> list[Cell]:
    """Cells that are not finished, each once, in order."""
    return [
        cell for cell in dict.fromkeys(cells) if store.get(cell, families[cell.family].stamp(cell)) is None
    ]  # fmt: skip


def data_of(problem: str) -> str:
    """The data set that a problem is made of.

    >>> data_of("music@40"), data_of("cifar10h-103"), data_of("heavy-2")
    ('music', 'cifar10h', 'cifar10h')
    """
    name = problem.partition("@")[0].partition("-")[0]
    return DATA.get(name, name)


def ready(cells: Iterable[Cell], families: dict[str, Family], store: Store) -> None:
    """Refuse what would fail before it is begun: where data is missing, or the folder cannot be written to."""
    todo = missing(cells, families, store)
    lacking = []
    for name in dict.fromkeys(data_of(cell.problem) for cell in todo):
        try:
            load(name)
        except CrowdwiseError as error:
            lacking.append(str(error))
    if lacking:
        raise CrowdwiseError("\n".join(["nothing is computed, for data is missing.", *lacking]))
    if todo:
        store.open()


def run(
    cells: Iterable[Cell], families: dict[str, Family], store: Store, *, jobs: int, told: Told = lambda progress: None
) -> Progress:
    """Compute what is missing; `told` is called before the first cell and after each.

    While it lasts, other runs in the same folder are refused. A cell that fails is named in `failed` with its error,
    and the others go on. When the run is stopped or killed, the next one computes what was not finished.
    """
    todo = missing(cells, families, store)
    progress = Progress(len(todo), jobs)
    for cell in todo:
        kind = (cell.method, cell.problem)
        progress.waiting[kind] = progress.waiting.get(kind, 0) + 1
    if todo:
        with exclusive_access(store.folder):
            _compute(todo, families, store, progress, told)
    return progress


def _compute(todo: list[Cell], families: dict[str, Family], store: Store, progress: Progress, told: Told) -> None:
    """Compute these cells in processes of their own."""
    jobs = progress.jobs
    told(progress)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes of several threads each would stall one another
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=exit_with_parent, initargs=(current_process(),))
    try:
        running: dict[Future[tuple[list[Figures], float]], Cell] = {}
        ahead = iter(todo)
        while True:
            while len(running) < jobs + 1 and (following := next(ahead, None)) is not None:  # one more than run
                with _undisturbed():
                    running[pool.submit(compute, following)] = following
            if not running:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for job in finished:
                _take(job, running.pop(job), families, store, progress)
                told(progress)
    except BaseException:  # stopped: nobody waits for the cells that run
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ctrl-C on a terminal reaches all its processes: those that start in here never hear it, and this one later."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def compute(cell: Cell) -> tuple[list[Figures], float]:
    """The figures of a cell, and how long it took; in a process of its own.

    The `seconds` of a seed are those of the processor, data and looking included: on a busy machine too, they say how
    long a free core takes.
    """
    from crowdwise.learn.network.torch_support import torch
    from reproduction.catalogue import FAMILIES

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # sure networks have gradients so small that processors take ten times as long
    start, used = time.perf_counter(), time.process_time()
    figures = FAMILIES[cell.family].run(cell)
    for each in figures:
        each["seconds"] = (time.process_time() - used) / len(figures)
    return figures, time.perf_counter() - start


def _take(
    job: Future[tuple[list[Figures], float]], cell: Cell, families: dict[str, Family], store: Store, progress: Progress
) -> None:
    kind = (cell.method, cell.problem)
    progress.done += 1
    progress.waiting[kind] -= 1
    progress.last = cell
    try:
        figures, seconds = job.result()
    except BrokenProcessPool:
        message = f"a process died while it computed {cell.key} or its neighbour (was memory short?): run it again."
        raise CrowdwiseError(message) from None
    except Exception as error:  # of one cell: the others are not to be lost
        progress.failed[cell] = f"{type(error).__name__}: {error}"
        return
    progress.spent.setdefault(kind, []).append(seconds)
    store.put(cell, families[cell.family].stamp(cell), figures)
