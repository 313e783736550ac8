"""From whatever a user passes as X to `Features`, checked against the answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import scipy.sparse

from crowdwise._core.memory import available, gigabytes
from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseError, FeaturesError, FormatError, TooLargeError
from crowdwise.io.files import file_errors
from crowdwise.learn.features.arrays import ArrayFeatures, SparseFeatures
from crowdwise.learn.features.base import Array, Features, from_tensor
from crowdwise.learn.features.datasets import DatasetFeatures
from crowdwise.learn.features.matching import match_by_row
from crowdwise.learn.features.pictures import folder_pictures, joined_pictures
from crowdwise.learn.features.tables import file_features, frame_features, is_frame


def open_features(X: Any, answers: Answers | None = None) -> Features:
    """Open features of any kind, without reading more than is needed, and check them.

    Parameters
    ----------
    X : array, memory map, sparse matrix, data frame, tensor, dataset, path or Features
        Rows follow `answers.tasks`. Arrays of bytes with four dimensions are images (n, height, width, channels) and
        come out in [0, 1] with channels first; other arrays are taken as they are. A path is a `.npy` or `.npz` file
        (`file.npz::train` chooses among several arrays), a `.csv` or `.parquet` table with a column of task ids, or a
        folder of images; ids and names of images are matched to the tasks.
    answers : Answers, optional
        Whose tasks the rows must be.

    Examples
    --------
    >>> features = open_features([[1, 2], [3, 4], [5, 6]])
    >>> features.n_rows, features.shape, features.rows(np.array([2, 0])).tolist()
    (3, (2,), [[5.0, 6.0], [1.0, 2.0]])
    """
    features = open_source(X, answers)
    if features is not X:
        features.check(None if answers is None else answers.tasks)
    return features


def open_source(X: Any, answers: Answers | None = None) -> Features:
    """The same without a look at the values."""
    features = _recognise(X, answers)
    if answers is not None and features.n_rows != answers.n_tasks:
        message = (
            f"X has {features.n_rows:,} rows; the answers have {answers.n_tasks:,} tasks. Pass one row per task, in "
            f"the order of answers.tasks."
        )
        raise FeaturesError(message)
    return features


def _recognise(X: Any, answers: Answers | None) -> Features:
    if isinstance(X, Features):
        return X
    if isinstance(X, (str, os.PathLike)):
        return _from_path(X, answers)
    if scipy.sparse.issparse(X):
        return SparseFeatures(X)
    if is_frame(X):
        return frame_features(X, answers)
    if hasattr(X, "tensors"):  # torch's TensorDataset: the first tensor is x
        X = X.tensors[0]
    if hasattr(X, "detach"):  # a tensor
        X = from_tensor(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    if isinstance(X, (list, tuple)) and _holds_numbers(X):
        X = _stacked(X)
    if hasattr(X, "__array__"):
        return ArrayFeatures(X if isinstance(X, np.ndarray) else np.asarray(X))
    if hasattr(X, "__len__") and hasattr(X, "__getitem__") and not isinstance(X, Mapping):
        return DatasetFeatures(X)
    message = (
        f"a {type(X).__name__} is no features: give an array, a memory map, a data frame, a path, or a dataset "
        f"that has a length and rows by number."
    )
    raise FeaturesError(message)


def _holds_numbers(rows: Any) -> bool:
    """Whether a list is one of plain rows, rather than of images, tensors or (x, ...)."""
    first = rows[0] if len(rows) else 0.0
    if isinstance(first, tuple):
        first = first[0] if len(first) and isinstance(first[0], (int, float, np.number)) else None
    return isinstance(first, (np.ndarray, str, int, float, np.number, list))


def _stacked(rows: Any) -> Array:
    try:
        return np.asarray(rows)
    except ValueError:
        message = "the rows of X differ in length: give each task the same number of features."
        raise FeaturesError(message) from None


def _from_path(source: str | os.PathLike[str], answers: Answers | None) -> Features:
    """Open a file or folder; match its rows to the tasks of the answers, if there are any."""
    path, split = Path(source), None
    if "::" in str(source) and not path.exists():
        name, _, split = str(source).rpartition("::")
        path = Path(name)
    features = _open_path(path, split, answers)
    if answers is not None and features.tasks is None:
        return match_by_row(features, answers, str(source))
    if features.n_ignored:
        features.match_note = f"{features.n_ignored:,} rows or images of {source} belong to no task and are ignored."
    return features


def _open_path(path: Path, split: str | None, answers: Answers | None) -> Features:
    if not path.exists():
        message = f"there is no file or folder {str(path)!r} (looked in {Path.cwd()})."
        raise FormatError(message)
    if split is not None and path.suffix != ".npz":
        message = f"{path}: only .npz files hold several arrays to choose from with '::{split}'."
        raise FeaturesError(message)
    with file_errors(path):
        if path.is_dir():
            return folder_pictures(path, answers)
        if path.suffix == ".npy":
            return ArrayFeatures(_load(path, "r"))
        if path.suffix == ".npz":
            with _load(path) as arrays, _damage_named():
                return _from_npz(arrays, split)
        if path.suffix in (".csv", ".tsv", ".parquet") or path.name.endswith((".csv.gz", ".tsv.gz")):
            return file_features(path, answers)
        message = "features come as .npy, .npz, .csv, .tsv or .parquet files, or as a folder of images."
        raise FormatError(message)


def _load(path: Path, mode: Any = None) -> Any:
    try:
        with _damage_named():
            return np.load(path, mmap_mode=mode, allow_pickle=False)
    except ValueError as error:
        if isinstance(error, CrowdwiseError) or ("pickle" not in str(error) and "Python objects" not in str(error)):
            raise
        message = "no plain numpy file, or one of Python objects, which are not loaded: save X.astype('float32')."
        raise FeaturesError(message) from None


@contextmanager
def _damage_named() -> Iterator[None]:
    """What numpy raises on damage: it reads the head of an array as Python's literals, and members by their names."""
    try:
        yield
    except (SyntaxError, TokenError, TypeError, KeyError) as error:
        message = f"the head of the numpy file is damaged: {error}"
        raise FormatError(message) from None


def _from_npz(arrays: Mapping[str, Array], split: str | None) -> Features:
    """The array X, encoded images jpeg and offsets, those of a split (X_train, jpeg_train), or the only array."""
    names = list(arrays)
    ending = "" if split is None else f"_{split}"
    if f"jpeg{ending}" in names and f"offsets{ending}" in names:
        return joined_pictures(arrays[f"jpeg{ending}"], arrays[f"offsets{ending}"])
    named = [name for name in (f"X{ending}", split) if name in names]
    if not named and split is None and len(names) == 1:
        named = names
    if not named:
        splits = [name.partition("_")[2] for name in names if name.startswith(("X_", "jpeg_"))]
        choice = f"choose a split with 'file.npz::{splits[0]}'" if splits else "name the one that holds the features X"
        found = f" (splits: {', '.join(splits)})" if splits else ""
        message = f"which array is meant? There are {', '.join(names)}{found}; {choice}."
        raise FeaturesError(message)
    return ArrayFeatures(_array(arrays, named[0]))


def _array(arrays: Mapping[str, Array], name: str) -> Array:
    size, free = arrays.zip.getinfo(f"{name}.npy").file_size, available()  # type: ignore[attr-defined]
    if size > free:
        message = f"the array {name} unpacks to {gigabytes(size)}, with {gigabytes(free)} free: save it as .npy."
        raise TooLargeError(message)
    try:
        return arrays[name]
    except ValueError:
        message = f"the array {name} holds Python objects, which are not loaded: save X.astype('float32')."
        raise FeaturesError(message) from None
