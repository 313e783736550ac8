"""Nothing of a fit stays behind: no model, no data, no file, no thread. The long runs: `make bench-leaks`."""

import gc
import importlib.util
import sys
import time
import tracemalloc
import warnings
import weakref
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import crowdwise as cw
from tests.helpers.every_method import FEWEST, LEARNERS, TRUTH, crowd, fitted

ROOT = Path(__file__).parents[2]
CALLS = 20
MOST = 100  # bytes of Python's memory a call


@pytest.fixture(scope="module")
def leaks():
    """The benchmark, as a module."""
    spec = importlib.util.spec_from_file_location("leaks", ROOT / "benchmarks" / "leaks.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["leaks"] = module
    spec.loader.exec_module(module)
    gc.collect()
    gc.freeze()  # what is there already need not be gone through at each look
    with module.small_pools():
        yield module
    gc.unfreeze()


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cw.errors.CrowdwiseWarning)
        yield


@pytest.mark.parametrize("name", [*TRUTH, *LEARNERS])
def test_a_model_and_its_data_die_with_it(name):
    """No cache of the library holds on to what was fitted, or was fitted on."""
    X, answers = crowd(12)
    model = fitted(name, X, answers, FEWEST)
    if name in LEARNERS:
        model.predict_proba(X)
    left = [weakref.ref(thing) for thing in (model, answers, X, model.proba_)]
    del X, answers, model
    gc.collect()
    assert [ref() is None for ref in left] == [True] * 4


WORKS = [
    "dawid-skene", "crowdlayer", "raykar", "read csv", "read parquet", "read jsonl", "write csv",
    "save and load dawid-skene", "save and load crowdlayer",
]  # fmt: skip


def held_more(leaks, work):
    """What a process holds more after `CALLS` of a work: Python's and Arrow's memory in bytes, files, threads."""
    work()
    tracemalloc.start()
    try:
        for _ in range(4):
            work()
        before, after = leaks.look(), leaks.look()  # as many of them before as after
        used = tracemalloc.get_traced_memory()[0]
        for _ in range(CALLS):
            work()
        after = leaks.look()
        used = tracemalloc.get_traced_memory()[0] - used
        for _ in range(20):  # a thread that ends takes a moment
            if after["tasks"] <= before["tasks"]:
                break
            time.sleep(0.05)
            after = leaks.look()
    finally:
        tracemalloc.stop()
    return {"python": used, **{what: after[what] - before[what] for what in ("arrow", "files", "threads", "tasks")}}


def grows(more):
    """Some hundred bytes of Python's come and go with threads, and a pool of Arrow's may begin its one thread late."""
    return (
        more["python"] > MOST * CALLS or more["tasks"] > 1 or any(more[what] for what in ("arrow", "files", "threads"))
    )


@pytest.mark.parametrize("name", WORKS)
def test_a_process_does_not_grow(leaks, name, tmp_path):
    more = held_more(leaks, leaks.work(name, tmp_path))
    assert not grows(more), more


LEAKS = {"python": lambda: bytes(167), "arrow": lambda: pa.nulls(200, pa.int8())}  # of 200 bytes


@pytest.mark.parametrize("where", list(LEAKS))
def test_200_bytes_a_call_are_seen(leaks, where, tmp_path):
    read, kept = leaks.work("read parquet", tmp_path), []
    more = held_more(leaks, lambda: (read(), kept.append(LEAKS[where]())))
    assert grows(more) and more[where] >= 200 * CALLS


def test_a_leak_is_seen(leaks, tmp_path):
    kept = []
    (tmp_path / "file").touch()
    # 40 MB: as much is never taken from what the process has freed before
    for leak in (lambda: np.ones(5_000_000), lambda: (tmp_path / "file").open()):
        assert leaks.leaks(leaks.grown(lambda leak=leak: kept.append(leak()), 5))
    assert leaks.leaks(leaks.grown(lambda: kept.append(object()), 100))
    for file in kept:
        if hasattr(file, "close"):
            file.close()
    assert not leaks.leaks(leaks.grown(lambda: np.ones(5_000_000), 5))
    assert set(TRUTH + LEARNERS) <= set(leaks.WORKS)
