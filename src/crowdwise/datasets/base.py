"""What `load` gives back, what a data set's file says of itself, and how arrays are read from files."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.datasets.download import File
from crowdwise.errors import FormatError

if TYPE_CHECKING:
    from crowdwise.learn.features.pictures import Pictures

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set, ready for `fit(X, answers)`.

    Attributes
    ----------
    name : str
        As given to `load`.
    answers : Answers or None
        Answers to the training tasks, with `truth` (codes, -1 unknown); None where no crowd was asked.
    truth : array or None
        Class of each training task; None stands where it is unknown.
    classes : array
        The classes, those of `answers` in their order.
    X : (tasks, features) float32 array or None
        Rows follow `answers.tasks`.
    X_valid, truth_valid, X_test, truth_test : arrays or None
        Further tasks, without answers.
    images : mapping of split to Pictures, or None
        Decoded as they are asked for; needs Pillow.
    texts : mapping of column to array, or None
        Rows follow `answers.tasks`.
    extra : mapping of name to array
        What this data set alone has; see the docstring of its file.
    licence, source : str
        Who made the data, on what terms, what to cite; and where it comes from.
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
    images: Mapping[str, Pictures] | None = None
    texts: Mapping[str, Array] | None = None
    extra: Mapping[str, Array] = field(default_factory=dict)
    licence: str = ""
    source: str = ""

    @property
    def splits(self) -> dict[str, tuple[Array | None, Array | None]]:
        """(X, truth) of "train" and, where there are such tasks, of "valid" and "test"."""
        others = {"valid": (self.X_valid, self.truth_valid), "test": (self.X_test, self.truth_test)}
        return {"train": (self.X, self.truth)} | {name: pair for name, pair in others.items() if pair[1] is not None}

    @property
    def sizes(self) -> dict[str, int]:
        """How many tasks each split has, and how many features, classes, workers and answers there are."""
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
    """What a data set's own file says of it."""

    load: Callable[[Path], Dataset]
    licence: str
    source: str
    needs: tuple[str, ...] = ()  # files that must be in its folder
    files: tuple[File, ...] = ()  # the originals; none where they cannot be turned into ours in a few lines
    prepare: Callable[[Path, Path], None] | None = None  # from the folder of originals to ours
    by_hand: str = ""  # what to do where there is nothing to fetch


class LazyPictures(Mapping[str, "Pictures"]):
    """Pictures of each split, read from their file when first asked for.

    Parameters
    ----------
    file : Path
        An npz file.
    keys : mapping of split to pair of str
        Which of its arrays hold the bytes of the images, end to end, and where each begins.
    """

    def __init__(self, file: Path, keys: Mapping[str, tuple[str, str]]) -> None:
        self._file, self._keys = file, keys
        self._read: dict[str, Pictures] = {}

    def __getitem__(self, split: str) -> Pictures:
        from crowdwise.learn.features.pictures import joined_pictures

        if split not in self._read:
            self._read[split] = joined_pictures(*arrays(self._file, *self._keys[split]))
        return self._read[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def arrays(file: Path, *names: str) -> list[Array]:
    """Some arrays of an npz file; a damaged one is named."""
    try:
        with np.load(file, allow_pickle=False) as stored:
            return [stored[name] for name in names]
    except KeyError as error:
        message = f"{file} has no array {error.args[0]!r}: replace the file by a whole copy."
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        message = f"{file} is damaged ({error}): replace it by a whole copy, or delete it and fetch it again."
    raise FormatError(message)


def expect(fits: bool, file: Path, otherwise: str) -> None:
    """Refuse a file that is not as it should be, saying how it is."""
    if not fits:
        message = f"{file}: {otherwise}: replace the file by a whole copy, or delete it and fetch it again."
        raise FormatError(message)


def classes_of(file: Path, name: str, codes: Array, classes: Array, n_tasks: int) -> Array:
    """Classes by their codes, an array of a file; a code that stands for none is named."""
    fits = codes.shape == (n_tasks,) and codes.dtype.kind in "iu"
    expect(fits, file, f"{name} is {codes.dtype} of shape {codes.shape}, not a code for each of {n_tasks} tasks")
    for row in np.flatnonzero((codes < 0) | (codes >= len(classes)))[:1]:
        expect(False, file, f"{name}[{row}] is {codes[row]}, but codes of classes go from 0 to {len(classes) - 1}")
    named: Array = classes[codes]
    return named


def rows_of(file: Path, X: Array) -> Array:
    """Features as float32, whatever they were stored as."""
    expect(X.ndim == 2, file, f"features have shape {X.shape}, not (tasks, features)")
    return np.ascontiguousarray(X, dtype=np.float32)
