"""Nothing of a fit stays behind: no model, no data, no file, no thread. The long runs: `make bench-leaks`."""

import gc
import importlib.util
import sys
import tracemalloc
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import crowdwise as cw
from every_method import FEWEST, LEARNERS, TRUTH, crowd, fitted

ROOT = Path(__file__).parents[1]
CALLS = 20


@pytest.fixture(scope="module")
def leaks():
    """The benchmark, as a module."""
    spec = importlib.util.spec_from_file_location("leaks", ROOT / "benchmarks" / "leaks.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["leaks"] = module
    spec.loader.exec_module(module)
    return module


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


@pytest.mark.parametrize("name", WORKS)
def test_a_process_does_not_grow(leaks, name, tmp_path):
    """No file, no thread, and less than 1 kB of Python's memory a call, once caches of libraries are full."""
    work = leaks.work(name, tmp_path)
    work()
    tracemalloc.start()
    try:
        for _ in range(4):
            work()
        before, used = leaks.look(), [tracemalloc.get_traced_memory()[0]]
        for _ in range(2):
            for _ in range(CALLS):
                work()
            after = leaks.look()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    for what in ("files", "threads", "tasks"):
        assert after[what] <= before[what]
    assert min(np.diff(used)) < 1000 * CALLS


def test_a_leak_is_seen(leaks, tmp_path):
    kept = []
    (tmp_path / "file").touch()
    # 40 MB: as much is never taken from what the process has freed before
    for leak in (lambda: np.ones(5_000_000), lambda: (tmp_path / "file").open()):
        assert leaks.leaks(leaks.grown(lambda leak=leak: kept.append(leak()), 5))
    for file in kept:
        if hasattr(file, "close"):
            file.close()
    assert not leaks.leaks(leaks.grown(lambda: np.ones(5_000_000), 5))
    assert set(TRUTH + LEARNERS) <= set(leaks.WORKS)
