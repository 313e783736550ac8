"""Compute the missing cells in parallel processes. A finished cell is stored at once and never computed again."""

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
    "pixels": "dogs_vs_cats",
    "leaves": "truth/leaves",
}  # data sets whose problems have another name


@dataclass
class Progress:
    """The progress of a run."""

    total: int
    jobs: int
    done: int = 0
    spent: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # seconds by method and problem
    waiting: dict[tuple[str, str], int] = field(default_factory=dict)
    last: Cell | None = None
    failed: dict[Cell, str] = field(default_factory=dict)

    @property
    def left(self) -> float | None:
        """Seconds left, estimated from finished cells of the same method and problem, or else from all."""
        every = [s for seconds in self.spent.values() for s in seconds]
        if not every:
            return None
        usual = sum(every) / len(every)
        means = {kind: sum(seconds) / len(seconds) for kind, seconds in self.spent.items()}
        return sum(n * means.get(kind, usual) for kind, n in self.waiting.items()) / self.jobs


Report = Callable[[Progress], None]


def missing(cells: Iterable[Cell], families: dict[str, Family], store: Store) -> list[Cell]:
    """Return the unfinished cells in order, each once."""
    return [
        cell for cell in dict.fromkeys(cells) if store.get(cell, families[cell.family].stamp(cell)) is None
    ]  # fmt: skip


def data_of(problem: str) -> str | None:
    """Return the data set that a problem is made from, or None if it is simulated.

    >>> data_of("music@40"), data_of("cifar10h-103"), data_of("heavy-2"), data_of("gaussian-paper")
    ('music', 'cifar10h', 'cifar10h', None)
    """
    name = problem.partition("@")[0].partition("-")[0]
    return None if name == "gaussian" else DATA.get(name, name)


def check_ready(cells: Iterable[Cell], families: dict[str, Family], store: Store) -> None:
    """Raise before anything is computed if data sets are missing or the folder is not writable."""
    todo = missing(cells, families, store)
    lacking = []
    for name in dict.fromkeys(data_of(cell.problem) for cell in todo):
        try:
            if name is not None:
                load(name)
        except CrowdwiseError as error:
            lacking.append(str(error))
    if lacking:
        raise CrowdwiseError("\n".join(["data sets are missing, so nothing was computed.", *lacking]))
    if todo:
        store.open()


def run(
    cells: Iterable[Cell],
    families: dict[str, Family],
    store: Store,
    *,
    jobs: int,
    report: Report = lambda progress: None,
) -> Progress:
    """Compute the missing cells; `report` is called before the first cell and after each.

    Meanwhile, other runs in the same folder are refused. A cell that fails is listed in `failed` with its error, and
    the others are still computed. After a stopped or killed run, the next one computes the unfinished cells.
    """
    todo = missing(cells, families, store)
    progress = Progress(len(todo), jobs)
    for cell in todo:
        kind = (cell.method, cell.problem)
        progress.waiting[kind] = progress.waiting.get(kind, 0) + 1
    if todo:
        with exclusive_access(store.folder):
            _compute(todo, families, store, progress, report)
    return progress


def _compute(todo: list[Cell], families: dict[str, Family], store: Store, progress: Progress, report: Report) -> None:
    """Compute these cells in child processes."""
    jobs = progress.jobs
    report(progress)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # several threads per process would compete for the cores
    context = multiprocessing.get_context("spawn")
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=exit_with_parent, initargs=(current_process(),))
    try:
        running: dict[Future[tuple[list[Figures], float]], Cell] = {}
        ahead = iter(todo)
        while True:
            while len(running) < jobs + 1 and (following := next(ahead, None)) is not None:  # one is waiting
                with _sigint_blocked():
                    running[pool.submit(compute, following)] = following
            if not running:
                break
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for job in finished:
                _take(job, running.pop(job), families, store, progress)
                report(progress)
    except BaseException:  # stopped: do not wait for running cells
        for process in set(multiprocessing.active_children()) - others:
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Start child processes that ignore Ctrl-C, which a terminal sends to all of them; this process gets it later."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def compute(cell: Cell) -> tuple[list[Figures], float]:
    """Return the figures of a cell that some experiment shows, and the seconds it took; runs in a child process.

    The `seconds` of a seed are processor seconds, including loading data and evaluation. They estimate the time on a
    free core even if the machine is busy.
    """
    from crowdwise.learn.network.torch_support import torch
    from reproduction.catalogue import FAMILIES, figures_shown

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # tiny gradients of confident networks slow processors down tenfold
    start, used = time.perf_counter(), time.process_time()
    measured, shown = FAMILIES[cell.family].run(cell), figures_shown(cell)
    seconds = (time.process_time() - used) / len(measured)
    figures = [{"seconds": seconds, **{name: seed[name] for name in seed if name in shown}} for seed in measured]
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
        message = f"a process died while computing {cell.key} or another cell, perhaps for lack of memory. Rerun."
        raise CrowdwiseError(message) from None
    except Exception as error:  # the other cells must not be lost
        progress.failed[cell] = f"{type(error).__name__}: {error}"
        return
    progress.spent.setdefault(kind, []).append(seconds)
    store.put(cell, families[cell.family].stamp(cell), figures)
