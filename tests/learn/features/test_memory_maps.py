"""Features on disk that do not fit in memory."""

import mmap
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import crowdwise as cw
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
for model in models:  # imports and compilation do not count
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
    """A sparse file of 400 MB with some rows written."""
    path = tmp_path_factory.mktemp("mapped") / "X.npy"
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(5_000, 20_000))
    X[::100] = np.random.default_rng(0).normal(size=(50, 20_000))
    X.flush()
    return path


@pytest.mark.slow  # depends on the memory of the machine
@pytest.mark.skipif(sys.platform != "linux", reason="needs RLIMIT_DATA")
def test_networks_fit_features_four_times_the_memory_and_others_refuse(mapped):
    environment = {**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", FIT, str(mapped)]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 0, run.stderr
    first, *fitted, last = run.stdout.splitlines()
    assert first == "limited"
    assert fitted == [f"{name} (5000, 3) (5000,)" for name in ("CrowdLayer", "DASC", "WAUM")]
    assert re.search(r"Raykar this method reads all of X .* needs 2.0 GB of memory .* 0.\d GB are free", last)


class CountedRows:
    """A dataset that records how many rows are read at a time."""

    def __init__(self, array):
        self.array, self.counts = array, []

    def __len__(self):
        return len(self.array)

    def __getitem__(self, i):
        return self.array[i]

    def __getitems__(self, index):
        self.counts.append(len(index))
        return [self.array[i] for i in index]


def test_networks_read_features_in_batches_and_blocks(monkeypatch):
    monkeypatch.setattr(base, "CELLS", 30 * 4)  # blocks of 30 rows
    monkeypatch.setattr(base.Features, "matrix", None)
    answers = cw.simulate.simulate(200, n_workers=10, n_classes=3, answers_per_task=2)
    rows = CountedRows(np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32))
    cw.CrowdLayer(network="logistic", epochs=1, batch_size=20).fit(rows, answers).predict(rows)
    assert sum(rows.counts) >= 3 * 200  # to standardise, to train, to predict
    assert max(rows.counts) == 30


@pytest.fixture
def large_map(tmp_path, monkeypatch):
    """A memory map that counts as too large for memory, and its values."""
    monkeypatch.setattr(arrays, "available", lambda: 1.0)
    values = np.random.default_rng(0).normal(size=(300, 700)).astype(np.float32)
    np.save(tmp_path / "X.npy", values)
    return np.load(tmp_path / "X.npy", mmap_mode="r"), values


def test_rows_of_a_large_map_are_prefetched(large_map, monkeypatch):
    """Rows in any order, with repetitions, of a view: as from memory. The requests cover these rows and few others."""
    X, values = large_map
    advised = []
    pages = type("Pages", (), {"madvise": lambda self, what, start, length: advised.append((start, length))})()
    part = X[40:290]
    index = np.array([200, 3, 4, 5, 3, 249, 0])
    for view, expected in ((X, values), (part, values[40:290]), (part[::2], values[40:290:2])):
        rows = index % len(view)
        np.testing.assert_array_equal(open_features(view).rows(rows), expected[rows])
    monkeypatch.setattr(X, "_mmap", pages)
    arrays.prefetch_rows(arrays.find_memory_map(part), np.asarray(part), np.array([3, 3, 4, 5, 200]))
    row, head = 700 * 4, X.offset
    for (start, length), (first, end) in zip(advised, [(43, 46), (240, 241)], strict=True):
        assert start % mmap.PAGESIZE == 0
        assert start <= head + first * row < start + mmap.PAGESIZE
        assert start + length == head + end * row


def test_blocks_of_long_rows_have_few_rows(monkeypatch):
    monkeypatch.setattr(base, "CELLS", 50)
    X = np.arange(240.0).reshape(12, 20)
    features = open_features(X)
    assert features.block_size(1000) == 2
    assert [len(block) for block in features.blocks()] == [2] * 6
    np.testing.assert_array_equal(np.concatenate(list(features.blocks())), X)
    np.testing.assert_array_equal(
        np.concatenate(list(base.SomeRows(features, np.array([5, 1])).matrix_blocks())), X[[5, 1]]
    )
    assert len(list(features.matrix_blocks())) == 1  # X is in memory


def test_reading_all_rows_without_enough_memory_is_rejected(large_map, monkeypatch):
    X, values = large_map
    np.testing.assert_array_equal(open_features(X).matrix(), values)
    monkeypatch.setattr(base, "available", lambda: 1e6)
    with pytest.raises(TooLargeError, match=r"reads all of X \(300 rows of 700 numbers.*crowdlayer"):
        open_features(X).matrix()
    assert open_features(values).matrix() is not None  # already in memory
