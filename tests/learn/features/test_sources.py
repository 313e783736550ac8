import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from crowdwise import Answers
from crowdwise.errors import FeaturesError
from crowdwise.learn.features import Features, open_features

torch = pytest.importorskip("torch")
RNG = np.random.default_rng(0)
NUMBERS = RNG.integers(-9, 9, (7, 3)).astype(np.float64)
BYTES = RNG.integers(0, 256, (5, 6, 5, 3), dtype=np.uint8)


def answers_for(tasks):
    return Answers.from_arrays(tasks, ["w"] * len(tasks), ["x", *["y"] * (len(tasks) - 1)], tasks=tasks)


class Rows:
    """A dataset that is independent of torch."""

    def __init__(self, rows):
        self.listed = rows

    def __len__(self):
        return len(self.listed)

    def __getitem__(self, i):
        return self.listed[i]


class RowsByBatch(Rows):
    def __getitems__(self, index):
        return [self.listed[i] for i in index]

    def __getitem__(self, i):
        raise AssertionError(i)


def mapped(path, array):
    np.save(path, array)
    return np.load(path, mmap_mode="r")


KINDS = {
    "float64": lambda path, x: x,
    "float32": lambda path, x: x.astype(np.float32),
    "float16": lambda path, x: x.astype(np.float16),
    "int8": lambda path, x: x.astype(np.int8),
    "big-endian": lambda path, x: x.astype(">f8"),
    "columns first": lambda path, x: np.asfortranarray(x),
    "every other row": lambda path, x: np.repeat(x, 2, axis=0)[::2],
    "lists": lambda path, x: x.tolist(),
    "list of arrays": lambda path, x: list(x),
    "list of tuples": lambda path, x: [tuple(row) for row in x],
    "list of pairs": lambda path, x: [(row, "label") for row in x],
    "map": lambda path, x: mapped(path / "x.npy", x),
    "map of float32": lambda path, x: mapped(path / "x.npy", x.astype(np.float32)),
    "map, columns first": lambda path, x: mapped(path / "x.npy", np.asfortranarray(x)),
    "path": lambda path, x: mapped(path / "x.npy", x) is not None and path / "x.npy",
    "npz": lambda path, x: np.savez(path / "x.npz", X=x, y=np.ones(len(x))) or str(path / "x.npz"),
    "npz of one": lambda path, x: np.savez_compressed(path / "x.npz", x) or path / "x.npz",
    "npz split": lambda path, x: np.savez(path / "x.npz", X_a=x, X_b=[1]) or f"{path / 'x.npz'}::a",
    "pandas": lambda path, x: pd.DataFrame(x, index=range(len(x), 0, -1)),
    "pandas, mixed": lambda path, x: pd.DataFrame(x).astype({0: "Int64", 1: object}),
    "polars": lambda path, x: pl.DataFrame(x),
    "arrow": lambda path, x: pa.table(pd.DataFrame(x)),
    "csr": lambda path, x: scipy.sparse.csr_array(x),
    "coo": lambda path, x: scipy.sparse.coo_matrix(x),
    "masked": lambda path, x: np.ma.masked_array(x),
    "tensor": lambda path, x: torch.tensor(x, requires_grad=True),
    "bfloat16": lambda path, x: torch.tensor(x, dtype=torch.bfloat16),
    "TensorDataset": lambda path, x: torch.utils.data.TensorDataset(torch.tensor(x), torch.ones(len(x))),
    "DataLoader": lambda path, x: torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(torch.tensor(x), torch.ones(len(x))), batch_size=2, shuffle=True
    ),
    "Subset": lambda path, x: torch.utils.data.Subset(Rows([*x, None]), range(len(x))),
    "dataset of x": lambda path, x: Rows(x),
    "dataset of pairs": lambda path, x: Rows([(torch.tensor(row), "label") for row in x]),
    "dataset of lists": lambda path, x: Rows(x.tolist()),
    "dataset with __getitems__": lambda path, x: RowsByBatch(x),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_the_same_rows(kind, tmp_path):
    features = open_features(KINDS[kind](tmp_path, NUMBERS), answers_for(list("abcdefg")))
    assert isinstance(features, Features)
    assert (features.n_rows, features.shape) == (7, (3,))
    index = np.array([6, 0, 0, -2], dtype=np.int16)
    rows = features.rows(index)
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, NUMBERS[index])
    assert features.rows(np.array([], np.int64)).shape == (0, 3)
    blocks = list(features.blocks(4))
    assert [block.shape for block in blocks] == [(4, 3), (3, 3)]
    assert all(block.dtype == np.float32 and block.flags.writeable and block.flags.c_contiguous for block in blocks)
    np.testing.assert_array_equal(np.concatenate(blocks), NUMBERS)
    np.testing.assert_array_equal(features.matrix(), NUMBERS)
    with pytest.raises(IndexError):
        features.rows(np.array([7]))
    assert open_features(features) is features


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(NUMBERS)


@pytest.mark.parametrize(
    ("options", "match"),
    [({"sampler": torch.utils.data.SubsetRandomSampler([0, 2])}, r"selects rows \(SubsetRandomSampler"),
     ({"sampler": torch.utils.data.RandomSampler(NUMBERS, replacement=True)}, "selects rows"),
     ({"collate_fn": list}, "its own collate_fn"), ({"dataset": Stream()}, "over a stream")],
)  # fmt: skip
def test_loaders_that_change_rows_are_rejected(options, match):
    loader = torch.utils.data.DataLoader(**{"dataset": Rows(NUMBERS), **options})
    with pytest.raises(FeaturesError, match=match):
        open_features(loader)


def test_arrays_in_memory_are_not_copied_needlessly(tmp_path):
    single = NUMBERS.astype(np.float32)
    assert np.shares_memory(open_features(single).matrix(), single)
    assert np.shares_memory(next(open_features(single).blocks()), single)
    double = open_features(NUMBERS)
    assert np.shares_memory(double.matrix(), NUMBERS)
    assert next(double.blocks()).base is next(double.blocks()).base  # converted once
    features = open_features(mapped(tmp_path / "x.npy", NUMBERS))
    assert features.matrix().dtype == np.float32
    assert isinstance(features._source.base, np.memmap)


def test_a_view_of_a_memory_map_is_read_from_disk(tmp_path):
    view = np.asarray(mapped(tmp_path / "x.npy", NUMBERS))[1:][:, :2]
    features = open_features(view)
    assert np.shares_memory(features._source, view)
    np.testing.assert_array_equal(features.rows(np.array([1])), NUMBERS[[2], :2])


@pytest.mark.parametrize("kind", ["array", "map", "dataset", "tensors first"])
def test_uint8_arrays_with_four_dimensions_are_images(kind, tmp_path):
    features = open_features(
        {
            "array": BYTES,
            "map": mapped(tmp_path / "x.npy", BYTES),
            "dataset": Rows(BYTES),
            "tensors first": torch.tensor(BYTES).permute(0, 3, 1, 2),
        }[kind]
    )
    assert features.shape == (3, 6, 5)
    expected = BYTES.transpose(0, 3, 1, 2) / np.float32(255)
    rows = features.rows(np.array([3, 1]))
    assert rows.dtype == np.float32
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(rows, expected[[3, 1]])
    np.testing.assert_array_equal(np.concatenate(list(features.blocks(2))), expected)
    np.testing.assert_array_equal(features.matrix(), expected.reshape(5, -1))


def test_other_uint8_arrays_are_numbers():
    assert open_features(BYTES[:, 0, :, 0]).matrix().max() > 1


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.arange(3.0), r"1 dimension, shape \(3,\).*reshape\(-1, 1\)"),
        (np.array([[1, "a"]], dtype=object), "row 0, column 1: 'a'"),
        (np.array([[1, 2]], dtype=object), r"Python objects .*astype\('float32'\)"),
        (np.array([[1j]]), "complex128"),
        (["a text", "another"], "encode_texts"),
        (pd.Series(["a text"]), "encode_texts"),
        ([[1, 2], [3]], "differ in length"),
        (np.empty((3, 0)), r"no features \(shape \(3, 0\)\)"),
        (pd.DataFrame({"a": [1.0], "colour": ["red"], "shape": ["o"]}), "column 'colour', 'shape'.*'red'"),
        (pl.DataFrame({"a": [1.0], "colour": ["red"]}), "column 'colour' .*string.*'red'"),
        (pd.DataFrame([[1, "a"]], columns=["a", "a"]), "Duplicate column names"),
        (scipy.sparse.csr_array(np.array([[1j]])), "sparse X"),
        (Rows([]), "empty Rows"),
        (Rows([{"pixels": 1}]), "dict with 'pixels'"),
        (Rows([np.ones(2), np.ones(3)]), r"\(2,\), \(3,\)"),
        ({"a": [1]}, "X is of type dict"),
        (3, "X is of type int"),
    ],
)
def test_invalid_features_are_rejected_with_a_reason(X, message):
    with pytest.raises(FeaturesError, match=message):
        open_features(X).rows(np.arange(2))


def test_the_number_of_rows_must_equal_the_number_of_tasks():
    with pytest.raises(FeaturesError, match="X has 7 rows; the answers have 3 tasks"):
        open_features(NUMBERS, answers_for(["a", "b", "c"]))
    with pytest.raises(FeaturesError, match=r"7 rows.* 3 tasks"):
        open_features(open_features(NUMBERS), answers_for(["a", "b", "c"]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
@pytest.mark.parametrize("kind", ["float64", "map", "npz", "pandas", "csr", "polars", "tensor", "masked"])
def test_rows_with_values_that_are_not_finite_are_named(kind, value, tmp_path, monkeypatch):
    broken = np.tile(NUMBERS, (100, 1))
    broken[[5, 17, 17, 400, 699], [0, 1, 2, 0, 2]] = value
    monkeypatch.setattr("crowdwise.learn.features.arrays.CELLS", 60)  # several blocks
    X = KINDS[kind](tmp_path, broken)
    with pytest.raises(FeaturesError, match=r"4 of 700 rows .*rows 5, 17, 400 and 1 more, counted from 0"):
        open_features(X)
    with pytest.raises(FeaturesError, match="tasks 't5', 't17', 't400' and 1 more"):
        open_features(X, answers_for([f"t{i}" for i in range(700)]))


def test_missing_values_in_frames_are_rejected():
    for frame in (
        pd.DataFrame({"a": pd.array([1, None], "Int64"), "b": [True, False]}),
        pl.DataFrame({"a": [1, None]}),
    ):
        with pytest.raises(FeaturesError, match="rows 1, counted"):
            open_features(frame)
    with pytest.raises(FeaturesError, match="rows 0, counted"):
        open_features(np.ma.masked_array([[1, 2]], mask=[[True, False]]))


def test_opening_features_does_not_import_torch():
    code = "import sys, crowdwise.learn.features, crowdwise.learn.features.encoders; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_float_images_with_channels_last_are_rejected():
    with pytest.raises(FeaturesError, match="transpose"):
        open_features(np.zeros((2, 8, 8, 3), np.float32))
    assert open_features(np.zeros((2, 8, 8, 3), np.uint8)).shape == (3, 8, 8)


def test_frames_indexed_by_task_are_matched_by_id():
    answers = Answers.from_arrays(["a", "b"], ["w", "w"], ["x", "y"])
    frame = pd.DataFrame({"size": [2.0, 1.0]}, index=["b", "a"])
    assert open_features(frame, answers).matrix().tolist() == [[1.0], [2.0]]
    plain = pd.DataFrame({"size": [2.0, 1.0]}, index=["p", "q"])  # not task ids: rows in order
    assert open_features(plain, answers).matrix().tolist() == [[2.0], [1.0]]
