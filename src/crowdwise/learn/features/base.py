"""What every kind of features can do, and how rows are matched to tasks by name."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from crowdwise._core.memory import available, gigabytes
from crowdwise.answers.encoding import preview
from crowdwise.errors import FeaturesError, TooLargeError

Array = np.ndarray[Any, np.dtype[Any]]
CELLS = 1 << 20  # numbers in a block of rows: 2,048 rows of 512
COPIES = 20  # bytes for each number of X read whole: itself, and in double precision at mean 0 and deviation 1
CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency


class Features(ABC):
    """Features of tasks, read as they are needed.

    Attributes
    ----------
    n_rows : int
        Number of tasks.
    shape : tuple of int
        Shape of one task, for example (512,) or (3, 150, 150): images have their channels first.
    tasks : array or None
        Ids of the rows as text, where the source names them (a table, a folder).
    columns : tuple of str or None
        Names of the features, where the source has them (a table, a data frame).
    n_ignored : int
        Rows or files of the source that belong to none of the tasks.
    match_note : str or None
        How the rows of a file were matched to the tasks, where a user should check it.
    """

    n_rows: int
    shape: tuple[int, ...]
    tasks: Array | None = None
    columns: tuple[str, ...] | None = None
    n_ignored: int = 0
    match_note: str | None = None

    @abstractmethod
    def rows(self, index: Array) -> Array:
        """Some rows, (len(index), *shape), float32 and C-contiguous."""

    def select(self, index: Array) -> Features:
        """Return features of some rows, in any order, read as they are needed."""
        return SomeRows(self, index)

    def together(self, size: int) -> int:
        """How many rows to hold at a time where `size` are wanted: fewer when rows are long."""
        return max(1, min(size, CELLS // int(np.prod(self.shape))))

    def _content(self) -> tuple[Any, ...]:
        """What a fingerprint covers: every row."""
        array = getattr(self, "array", None)
        if array is None:
            content = hashlib.sha256()
            for part in self._encoded_rows():
                content.update(part)
            array = content.hexdigest()
        return (self.n_rows, self.shape, array)

    def _encoded_rows(self) -> Iterator[bytes]:
        """The bytes of all rows."""
        for block in self.blocks():
            yield block.tobytes()

    def blocks(self, size: int = 4096) -> Iterator[Array]:
        """All rows in order, `size` at most at a time. They may be views of X: not to be written to."""
        size = self.together(size)
        for start in range(0, self.n_rows, size):
            yield self.rows(np.arange(start, min(start + size, self.n_rows)))

    def lines(self) -> Iterator[Array]:
        """What `matrix` holds, in blocks: for what takes lines of numbers, and need not see them all at once."""
        for block in self.blocks():
            yield block.reshape(len(block), -1)

    def matrix(self) -> Array:
        """All rows, each as one line of numbers, (n_rows, features), in memory."""
        self.require_room()
        out = np.empty((self.n_rows, int(np.prod(self.shape))), np.float32)
        done = 0
        for block in self.blocks(256):
            out[done : done + len(block)] = block.reshape(len(block), -1)
            done += len(block)
        return out

    def require_room(self) -> None:
        """Refuse to be read whole where that, with what models make of it, does not fit: the system would end us."""
        needed, free = COPIES * self.n_rows * float(np.prod(self.shape)), available()
        if needed > free:
            message = (
                f"X, {self.n_rows:,} rows of {int(np.prod(self.shape)):,} numbers, takes {gigabytes(needed)} in memory "
                f"with what is made of it, and {gigabytes(free)} are free: this method reads all of X. Take one that "
                f"trains a network, such as crowdlayer or aggnet, which reads a batch at a time; or fewer features."
            )
            raise TooLargeError(message)

    def check(self, tasks: Array | None = None) -> None:  # noqa: B027 (most kinds have nothing to check)
        """Refuse values that no model can use; `tasks` are the ids to name rows by."""


class SomeRows(Features):
    """Some rows of other features, in any order, each as often as it is named."""

    def __init__(self, features: Features, source: Array) -> None:
        self._features, self._source = features, source
        self.n_rows, self.shape = len(source), features.shape

    def rows(self, index: Array) -> Array:
        """Some rows."""
        return self._features.rows(self._source[index])

    def check(self, tasks: Array | None = None) -> None:
        """Check all rows of the other features."""
        self._features.check()


class MoreRows(Features):
    """Rows of other features, and after them rows of an array."""

    def __init__(self, features: Features, more: Array) -> None:
        self._features, self._more = features, more  # (more, *shape) float32
        self.n_rows, self.shape = features.n_rows + len(more), features.shape

    def rows(self, index: Array) -> Array:
        """Some rows."""
        own = index < self._features.n_rows
        out = np.empty((len(index), *self.shape), np.float32)
        out[own] = self._features.rows(index[own])
        out[~own] = self._more[index[~own] - self._features.n_rows]
        return out


def scaled(images: Array) -> Array:
    """Images of bytes, (n, height, width, channels) or channels first, as float32 in [0, 1], channels first.

    >>> scaled(np.full((1, 2, 4, 3), 255, np.uint8)).shape
    (1, 3, 2, 4)
    """
    if channels_last(images.shape[1:]):
        images = images.transpose(0, 3, 1, 2)
    return np.divide(images, np.float32(255), dtype=np.float32, order="C")


def channels_last(shape: tuple[int, ...]) -> bool:
    """Whether bytes of this shape are (height, width, channels)."""
    return shape[-1] in CHANNELS or shape[0] not in CHANNELS


def from_tensor(tensor: Any) -> Array:
    """A torch tensor as an array, without torch; numpy has no bfloat16."""
    tensor = tensor.detach().cpu()
    return np.asarray((tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy())


def require_numbers(array: Array) -> None:
    """Refuse what is not a table (or stack) of numbers, and say why."""
    if array.ndim < 2:
        message = (
            f"X has {array.ndim} dimension{'' if array.ndim == 1 else 's'}, shape {array.shape}: rows are tasks and "
            f"columns features. Use X.reshape(-1, 1) for one feature a task, X.reshape(1, -1) for one task."
        )
        if array.dtype.kind in "UT" or (array.dtype == object and array.size and isinstance(array.flat[0], str)):
            message = "X holds texts, not numbers: use crowdwise.learn.features.encoders.encode_texts(X)."
        raise FeaturesError(message)
    if array.dtype.kind not in "biuf":
        why = f"values of type {array.dtype}"
        if array.dtype == object:
            numbers = (bool, int, float, np.number)
            odd = (place for place, value in np.ndenumerate(array) if not isinstance(value, numbers))
            place = next(odd, (0, 0))
            why = f"Python objects (at row {place[0]}, column {place[1]}: {array[place]!r:.60})"
        message = f"X holds {why}, not numbers. Take that out or encode it, then X.astype('float32')."
        raise FeaturesError(message)
    if 0 in array.shape[1:]:
        message = f"X has no features, shape {array.shape}: give each task at least one."
        raise FeaturesError(message)


def refuse_rows(bad: Array, n_rows: int, tasks: Array | None) -> None:
    """Name the first rows that hold NaN or infinity, if there are any."""
    if len(bad):
        named = f"rows {preview(bad)}, counted from 0" if tasks is None else f"tasks {preview(tasks[bad])}"
        message = (
            f"{len(bad)} of {n_rows} rows of X hold values that are NaN, infinite or beyond float32: {named}. "
            f"Fill them (sklearn.impute.SimpleImputer, numpy.nan_to_num) or leave these tasks out."
        )
        raise FeaturesError(message)
