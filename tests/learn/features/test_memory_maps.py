"""Features on disk that memory does not hold: under a limit on memory, and read in the order of the disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from crowdwise.errors import TooLargeError
from crowdwise.learn.features import arrays, base, open_features

SRC = Path(__file__).parents[3] / "src"

FIT = """
import resource, sys, warnings
import numpy as np
import crowdwise as cw
from crowdwise.learn.network.architectures import MLP
warnings.simplefilter("ignore", cw.errors.CrowdwiseWarning)
options = dict(network=MLP(4), epochs=1, batch_size=64)
models = [cw.CrowdLayer(n_models=2, select="held_out", **options), cw.DASC(cw.AnnoReg(**options), iterations=1),
          cw.WAUM(**options), cw.Raykar(max_iter=1)]

def crowd(n):
    return cw.simulate.simulate(n, n_workers=10, n_classes=3, answers_per_task=2)

path = sys.argv[1]
X = np.load(path, mmap_mode="r")
answers, small = crowd(len(X)), np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
for model in models:  # what is imported and compiled is not counted
    model.fit(small, crowd(200)).predict(small)
used = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmData")) * 1024
limit = used + 100 * 1024 * 1024
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
try:
    X + 1
except MemoryError:
    print("limited")
for model in models:
    try:
        model.fit(path, answers)
        print(type(model).__name__, model.proba_.shape, model.predict(path).shape)
    except cw.errors.TooLargeError as error:
        print(type(model).__name__, error)
"""


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """400 MB on disk, most of it a hole in the file, with some rows written."""
    path = tmp_path_factory.mktemp("mapped") / "X.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(5_000, 20_000))
    X[::100] = np.random.default_rng(0).normal(size=(50, 20_000))
    X.flush()
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="needs the limit on data that Linux keeps")
def test_four_times_the_memory(mapped):
    """Networks go through; what reads all of X says so, and what to do, before the system ends it."""
    environment = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FIT, str(mapped)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    first, *fitted, last = run.stdout.splitlines()
    assert first == "limited"  # the limit is one
    assert fitted == [f"{name} (5000, 3) (5000,)" for name in ("CrowdLayer", "DASC", "WAUM")]
    assert re.search(r"Raykar .* takes 2.0 GB in memory .* and 0.\d GB are free: this method reads all of X", last)


@pytest.fixture
def far(tmp_path, monkeypatch):
    """A memory map that memory is taken not to hold, and its numbers."""
    monkeypatch.setattr(arrays, "available", lambda: 1.0)
    values = np.random.default_rng(0).normal(size=(300, 700)).astype(np.float32)
    np.save(tmp_path / "X.npy", values)
    return np.load(tmp_path / "X.npy", mmap_mode="r"), values


def test_rows_of_a_far_map(far, monkeypatch):
    """In any order, twice, of a part: as from memory. Each row that is wanted is announced, and few others."""
    X, values = far
    advised = []
    pages = type("Pages", (), {"madvise": lambda self, what, start, length: advised.append((start, length))})()
    part = X[40:290]
    index = np.array([200, 3, 4, 5, 3, 249, 0])
    for given, plain in ((X, values), (part, values[40:290]), (part[::2], values[40:290:2])):
        which = index % len(given)
        np.testing.assert_array_equal(open_features(given).rows(which), plain[which])
    monkeypatch.setattr(X, "_mmap", pages)
    arrays.prefetch_rows(arrays.find_memory_map(part), np.asarray(part), np.array([3, 3, 4, 5, 200]))
    row, head = 700 * 4, X.offset
    for (start, length), (first, end) in zip(advised, [(43, 46), (240, 241)], strict=True):
        assert start % 4096 == 0
        assert start <= head + first * row < start + 4096
        assert start + length == head + end * row


def test_blocks_of_long_rows_are_short(monkeypatch):
    monkeypatch.setattr(base, "CELLS", 50)
    X = np.arange(240.0).reshape(12, 20)
    features = open_features(X)
    assert features.block_size(1000) == 2
    assert [len(block) for block in features.blocks()] == [2] * 6
    np.testing.assert_array_equal(np.concatenate(list(features.blocks())), X)
    np.testing.assert_array_equal(
        np.concatenate(list(base.SomeRows(features, np.array([5, 1])).matrix_blocks())), X[[5, 1]]
    )
    assert len(list(features.matrix_blocks())) == 1  # it is in memory


def test_reading_all_is_refused_where_there_is_no_room(far, monkeypatch):
    X, values = far
    np.testing.assert_array_equal(open_features(X).matrix(), values)
    monkeypatch.setattr(base, "available", lambda: 1e6)
    with pytest.raises(TooLargeError, match=r"300 rows of 700 numbers.*reads all of X.*crowdlayer"):
        open_features(X).matrix()
    assert open_features(values).matrix() is not None  # it is there already
