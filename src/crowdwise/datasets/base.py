"""The `Dataset` that `load` returns, what a data set's own file declares, and how arrays are read from files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.datasets.download import RemoteFile
from crowdwise.errors import FormatError

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set, ready for `fit(X, answers)`.

    Attributes
    ----------
    name : str
        The name passed to `load`.
    answers : Answers or None
        Answers to the training tasks, with `truth` (codes, -1 if unknown); None if the data set has no crowd.
    truth : array or None
        The class of each training task; None for tasks whose class is unknown.
    classes : array
        The classes, in the order of `answers.classes`.
    X : (tasks, features) float32 array or None
        Rows follow `answers.tasks`.
    X_valid, truth_valid, X_test, truth_test : arrays or None
        Further tasks, without answers.
    images : mapping of split to EncodedImages, or None
        Pass `images["train"]` as X or as the images of a run, which decode them (needs Pillow). Rows follow
        `answers.tasks`.
    texts : mapping of column to array, or None
        Rows follow `answers.tasks`.
    extra : mapping of name to array
        Arrays that only this data set has; see the docstring of its file.
    licence, source : str
        The authors, the terms of use and what to cite; and where the data comes from.
    """

    name: str
    answers: Answers | None
    truth: Array | None
    classes: Array
    X: Array | None = None
    X_valid: Array | None = None
    truth_valid: Array | None = None
    X_test: Array | None = None
    truth_test: Array | None = None
    images: Mapping[str, EncodedImages] | None = None
    texts: Mapping[str, Array] | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)
    licence: str = ""
    source: str = ""

    @property
    def splits(self) -> dict[str, tuple[Array | None, Array | None]]:
        """(X, truth) of "train" and, where the data set has them, of "valid" and "test"."""
        others = {"valid": (self.X_valid, self.truth_valid), "test": (self.X_test, self.truth_test)}
        return {"train": (self.X, self.truth)} | {name: pair for name, pair in others.items() if pair[1] is not None}

    @property
    def sizes(self) -> dict[str, int]:
        """Number of tasks in each split, and of features, classes, workers and answers."""
        sizes = {name: len(truth) for name, (_, truth) in self.splits.items() if truth is not None}
        sizes["features"] = 0 if self.X is None else self.X.shape[1]
        sizes["classes"] = len(self.classes)
        if self.answers is not None:
            sizes |= {"workers": self.answers.n_workers, "answers": self.answers.n_answers}
        return sizes

    def __repr__(self) -> str:
        sizes = self.sizes
        tasks = ", ".join(f"{sizes[name]} {name}" for name in self.splits)
        rest = [f"{sizes[what]} {what}" for what in ("features", "workers", "answers", "classes") if sizes.get(what)]
        rest += [what for what in ("images", "texts") if getattr(self, what) is not None]
        return f"Dataset({self.name!r}: tasks {tasks}; {', '.join([*rest, *self.extra])})"


@dataclass(frozen=True)
class DatasetEntry:
    """What a data set's own file declares about it."""

    load: Callable[[Path], Dataset]
    licence: str
    source: str
    needs: tuple[str, ...] = ()  # files that must be in its folder
    files: tuple[RemoteFile, ...] = ()  # the original files; empty where converting them takes more than a few lines
    prepare: Callable[[Path, Path], None] | None = None  # converts the folder of original files to ours
    by_hand: str = ""  # instructions, where the data cannot be downloaded


@dataclass(frozen=True, eq=False)
class EncodedImages:
    """Images as JPEG or PNG bytes, one after the other: image i is `data[offsets[i]:offsets[i + 1]]`.

    `open_features`, `encode_images` and `run` accept it and decode the images. Indexing with a number returns the bytes
    of one image, with a slice of consecutive images their `EncodedImages`.

    >>> images = EncodedImages(np.frombuffer(b"onetwothree", np.uint8), np.array([0, 3, 6, 11]))
    >>> len(images), images[1], images[1:][1]
    (3, b'two', b'three')
    """

    data: Array  # (bytes,) uint8
    offsets: Array  # (images + 1,) integers

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                message = "EncodedImages can only be sliced with step 1."
                raise IndexError(message)
            return EncodedImages(self.data, self.offsets[start : max(start, stop) + 1])
        number = range(len(self))[index]
        return self.data[self.offsets[number] : self.offsets[number + 1]].tobytes()


class LazyImages(Mapping[str, EncodedImages]):
    """The images of each split, read from their file on first access.

    Parameters
    ----------
    file : Path
        An npz file.
    keys : mapping of split to pair of str
        The names of the arrays with the bytes and the offsets of the images.
    """

    def __init__(self, file: Path, keys: Mapping[str, tuple[str, str]]) -> None:
        self._file, self._keys = file, keys
        self._loaded: dict[str, EncodedImages] = {}

    def __getitem__(self, split: str) -> EncodedImages:
        if split not in self._loaded:
            self._loaded[split] = EncodedImages(*load_arrays(self._file, *self._keys[split]))
        return self._loaded[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def load_arrays(file: Path, *names: str) -> list[Array]:
    """Load arrays of an npz file by name; the error for a damaged file names it."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            return [stored[name] for name in names]
    except KeyError as error:
        message = f"{file} has no array {error.args[0]!r}. Replace the file with an intact copy."
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        message = f"{file} is damaged ({error}). Replace it with an intact copy, or delete it and download it again."
    raise FormatError(message)


def require_valid(valid: bool, file: Path, problem: str) -> None:
    """Raise a FormatError that states the problem unless the file is valid."""
    if not valid:
        message = f"{file}: {problem}. Replace the file with an intact copy, or delete it and download it again."
        raise FormatError(message)


def decode_classes(file: Path, name: str, codes: Array, classes: Array, n_tasks: int) -> Array:
    """Return the class of each code in an array of a file; the error for an invalid code names it."""
    valid = codes.shape == (n_tasks,) and codes.dtype.kind in "iu"
    require_valid(
        valid, file, f"{name} is {codes.dtype} of shape {codes.shape}, not one code for each of {n_tasks} tasks"
    )
    for row in np.flatnonzero((codes < 0) | (codes >= len(classes)))[:1]:
        require_valid(False, file, f"{name}[{row}] is {codes[row]}, but class codes range from 0 to {len(classes) - 1}")
    named: Array = classes[codes]
    return named


def as_feature_matrix(file: Path, X: Array) -> Array:
    """Return stored features as a contiguous float32 matrix."""
    require_valid(X.ndim == 2, file, f"features have shape {X.shape}, not (tasks, features)")
    return np.ascontiguousarray(X, dtype=np.float32)
