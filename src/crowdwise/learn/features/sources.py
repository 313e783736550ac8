"""Opening features: from anything a user may pass as X to `Features`, matched to the answers."""

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
from crowdwise.learn.features.datasets import DatasetFeatures, dataset_of
from crowdwise.learn.features.matching import match_by_row, warn_of_order
from crowdwise.learn.features.pictures import folder_pictures, joined_pictures
from crowdwise.learn.features.tables import file_features, frame_features, is_frame


def open_features(X: Any, answers: Answers | None = None) -> Features:
    """Open features of any kind, reading no more than needed, and check their values.

    Parameters
    ----------
    X : array, memory map, sparse matrix, data frame, tensor, dataset, torch DataLoader, path or Features
        One row per task, in the order of `answers.tasks`. Of a DataLoader, the rows of its dataset are read; its
        batches, their order and its processes are not used. A uint8 array with four dimensions holds images (n, height,
        width, channels), which are converted to [0, 1] with channels first. A path is a `.npy` or `.npz` file
        (`file.npz::train` selects one of several arrays), a `.csv` or `.parquet` table with a column of task ids, or a
        folder of images. Tables with ids and folders are matched to the tasks by id. A `.npy` or `.npz` file may have
        more rows than there are tasks if the task ids are row numbers, counted from 0.
    answers : Answers, optional
        The answers whose tasks the rows are matched to.

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
    """Open features like `open_features`, without checking their values."""
    features = _recognise(X, answers)
    if answers is not None and features.n_rows != answers.n_tasks:
        message = (
            f"X has {features.n_rows:,} rows; the answers have {answers.n_tasks:,} tasks. Pass one row per task, in "
            f"the order of answers.tasks."
        )
        raise FeaturesError(message)
    if answers is not None and features is not X and features.tasks is None:
        warn_of_order(answers)
    return features


def _recognise(X: Any, answers: Answers | None) -> Features:
    """Return the features of an object, by its kind."""
    if isinstance(X, Features):
        return X
    if isinstance(X, (str, os.PathLike)):
        return _from_path(X, answers)
    if scipy.sparse.issparse(X):
        return SparseFeatures(X)
    if is_frame(X):
        return frame_features(X, answers)
    if hasattr(X, "data") and hasattr(X, "offsets"):  # images of a data set: datasets.base.EncodedImages
        return joined_pictures(X.data, X.offsets)
    if hasattr(X, "dataset") and hasattr(X, "collate_fn"):  # torch's DataLoader
        X = dataset_of(X)
    if hasattr(X, "tensors"):  # torch's TensorDataset: the first tensor is x
        X = X.tensors[0]
    if hasattr(X, "detach"):  # a tensor
        X = from_tensor(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    if isinstance(X, (list, tuple)) and _holds_numbers(X):
        X = _stack(X)
    if hasattr(X, "__array__"):
        return ArrayFeatures(X if isinstance(X, np.ndarray) else np.asarray(X))
    if hasattr(X, "__len__") and hasattr(X, "__getitem__") and not isinstance(X, Mapping):
        return DatasetFeatures(X)
    message = (
        f"X is of type {type(X).__name__}. Pass an array, a memory map, a data frame, a path, or a dataset with "
        f"__len__ and __getitem__."
    )
    raise FeaturesError(message)


def _holds_numbers(rows: Any) -> bool:
    """Whether a list holds plain rows, rather than images, tensors or (x, ...)."""
    first = rows[0] if len(rows) else 0.0
    if isinstance(first, tuple):
        first = first[0] if len(first) and isinstance(first[0], (int, float, np.number)) else None
    return isinstance(first, (np.ndarray, str, int, float, np.number, list))


def _stack(rows: Any) -> Array:
    try:
        return np.asarray(rows)
    except ValueError:
        message = "the rows of X differ in length. Pass the same number of features for each task."
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
        message = f"no file or folder {str(path)!r} (the current folder is {Path.cwd()})."
        raise FormatError(message)
    if split is not None and path.suffix != ".npz":
        message = f"{path}: only .npz files have several arrays to select from with '::{split}'."
        raise FeaturesError(message)
    with file_errors(path):
        if path.is_dir():
            return folder_pictures(path, answers)
        if path.suffix == ".npy":
            return ArrayFeatures(_load(path, "r"))
        if path.suffix == ".npz":
            with _load(path) as arrays, _report_damage():
                return _from_npz(arrays, split)
        if path.suffix in (".csv", ".tsv", ".parquet") or path.name.endswith((".csv.gz", ".tsv.gz")):
            return file_features(path, answers)
        message = "unknown kind of features. Pass a .npy, .npz, .csv, .tsv or .parquet file, or a folder of images."
        raise FormatError(message)


def _load(path: Path, mode: Any = None) -> Any:
    try:
        with _report_damage():
            return np.load(path, mmap_mode=mode, allow_pickle=False)
    except ValueError as error:
        if isinstance(error, CrowdwiseError) or ("pickle" not in str(error) and "Python objects" not in str(error)):
            raise
        message = "not a plain numpy file, or one with Python objects, which are not loaded. Save X.astype('float32')."
        raise FeaturesError(message) from None


@contextmanager
def _report_damage() -> Iterator[None]:
    """Turn the errors that numpy raises on a damaged header into FormatError."""
    try:
        yield
    except (SyntaxError, TokenError, TypeError, KeyError) as error:
        message = f"the header of the numpy file is damaged: {error}"
        raise FormatError(message) from None


def _from_npz(arrays: Mapping[str, Array], split: str | None) -> Features:
    """Return the features in an `.npz` file.

    They are the array `X` (`X_train` for a split), encoded images `jpeg` and `offsets`, or the only array.
    """
    names = list(arrays)
    ending = "" if split is None else f"_{split}"
    if f"jpeg{ending}" in names and f"offsets{ending}" in names:
        return joined_pictures(arrays[f"jpeg{ending}"], arrays[f"offsets{ending}"])
    named = [name for name in (f"X{ending}", split) if name in names]
    if not named and split is None and len(names) == 1:
        named = names
    if not named:
        splits = [name.partition("_")[2] for name in names if name.startswith(("X_", "jpeg_"))]
        advice = f"Select a split with 'file.npz::{splits[0]}'" if splits else "Save the features as X"
        listed = f" (splits: {', '.join(splits)})" if splits else ""
        message = f"cannot tell which array holds the features: {', '.join(names)}{listed}. {advice}."
        raise FeaturesError(message)
    return ArrayFeatures(_read_array(arrays, named[0]))


def _read_array(arrays: Mapping[str, Array], name: str) -> Array:
    size, free = arrays.zip.getinfo(f"{name}.npy").file_size, available()  # type: ignore[attr-defined]
    if size > free:
        message = f"array {name} needs {gigabytes(size)} of memory; {gigabytes(free)} are free. Save it as .npy."
        raise TooLargeError(message)
    try:
        return arrays[name]
    except ValueError:
        message = f"array {name} contains Python objects, which are not loaded. Save X.astype('float32')."
        raise FeaturesError(message) from None
