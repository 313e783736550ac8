"""The runner: only missing cells are computed, failures are reported, the time left is estimated."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from crowdwise import datasets
from crowdwise._core.atomic_io import exclusive_access
from crowdwise.errors import BusyError, CrowdwiseError
from reproduction.catalogue import EXPERIMENTS, FAMILIES
from reproduction.cells import Cell
from reproduction.runner import Progress, check_ready, data_of, missing, run
from reproduction.store import Store

WORKS = Cell("digits", "MV-DL", "digits", (0,), quick=True)
FAILS = Cell("digits", "MV-DL", "nowhere", (0,), quick=True)


def stamp(cell: Cell) -> str:
    return FAMILIES[cell.family].stamp(cell._replace(problem="digits"))


def families() -> dict[str, object]:
    """The real family, with stamps for a problem that does not exist."""
    return {"digits": FAMILIES["digits"]._replace(stamp=stamp)}


def test_finished_and_repeated_cells_are_not_missing(tmp_path: Path) -> None:
    store = Store(tmp_path)
    other = WORKS._replace(method="DS-DL")
    store.put(WORKS, stamp(WORKS), [{"last": 1.0, "seconds": 1.0}])
    assert missing([WORKS, other, other], FAMILIES, store) == [other]
    store.put(WORKS, "another stamp", [{"last": 1.0, "seconds": 1.0}])
    assert missing([WORKS, other], FAMILIES, store) == [WORKS, other]


def test_cells_are_computed_and_stored_and_failures_named(tmp_path: Path) -> None:
    store, seen = Store(tmp_path), []
    report = lambda progress: seen.append((progress.done, progress.last))  # noqa: E731
    progress = run([WORKS, FAILS], families(), store, jobs=1, report=report)  # type: ignore[arg-type]
    assert progress.total == 2
    assert seen[0] == (0, None)  # before the first cell
    assert [done for done, _ in seen] == [0, 1, 2]
    assert {cell for _, cell in seen[1:]} == {WORKS, FAILS}
    assert list(progress.failed) == [FAILS]
    assert "nowhere" in progress.failed[FAILS]
    (figures,) = Store(tmp_path).get(WORKS, stamp(WORKS))  # type: ignore[misc]
    assert 30 < figures["last"] <= figures["oracle"] <= 100
    assert progress.left == 0
    again = run([WORKS], families(), store, jobs=1)  # type: ignore[arg-type]
    assert again.total == 0


@pytest.mark.skipif(os.name != "posix", reason="there are no locks elsewhere")
def test_second_run_in_the_same_folder_is_refused_unless_nothing_is_missing(tmp_path: Path) -> None:
    store, before = Store(tmp_path), threading.active_count()
    with exclusive_access(tmp_path):
        with pytest.raises(BusyError, match=rf"{tmp_path.name} is in use by process {os.getpid()} on"):
            run([WORKS], families(), store, jobs=1)  # type: ignore[arg-type]
        assert threading.active_count() <= before  # nothing was started; threads of other tests may have ended
        store.put(WORKS, stamp(WORKS), [{"last": 1.0, "seconds": 1.0}])
        assert run([WORKS], families(), store, jobs=1).total == 0  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs exit codes of signals")
def test_stopped_run_does_not_wait_for_running_cells(tmp_path: Path) -> None:
    started: list[multiprocessing.process.BaseProcess] = []

    def stop(progress: Progress) -> None:
        if progress.done:
            started.extend(set(multiprocessing.active_children()) - before)
            raise KeyboardInterrupt

    before = set(multiprocessing.active_children())
    with pytest.raises(KeyboardInterrupt):
        run([FAILS, WORKS], families(), Store(tmp_path), jobs=1, report=stop)  # type: ignore[arg-type]
    while any(process.exitcode is None for process in started):  # the pool's own thread collects the exit code too
        time.sleep(0.05)
    assert [process.exitcode for process in started] == [-signal.SIGTERM]


def test_time_left_is_estimated_from_cells_of_the_same_kind_or_else_all() -> None:
    progress = Progress(total=10, jobs=2)
    assert progress.left is None
    progress.spent = {("a", "p"): [10.0, 20.0], ("b", "p"): [60.0]}
    progress.waiting = {("a", "p"): 2, ("c", "p"): 1}
    assert progress.left == pytest.approx((2 * 15 + 30) / 2)


def test_data_set_of_every_problem_is_known() -> None:
    problems = {problem for experiment in EXPERIMENTS.values() for problem in experiment.problems}
    assert {data_of(problem) for problem in problems} <= {None, *datasets.names()}


def test_missing_data_sets_are_named_once_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CROWDWISE_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    cells, store = EXPERIMENTS["dasc-table2"].cells(2), Store(tmp_path / "out")
    with pytest.raises(CrowdwiseError) as raised:
        check_ready(cells, FAMILIES, store)
    for name in ("labelme", "music", "cifar10h"):
        assert str(raised.value).count(f"{name} was not found") == 1
    assert not (tmp_path / "out").exists()
    for cell in cells:
        store.put(cell, FAMILIES["dasc"].stamp(cell), [])
    check_ready(cells, FAMILIES, store)  # finished cells need no data
