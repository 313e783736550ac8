"""`Features`, the interface of all kinds of features, and the helpers they share."""

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
COPIES = 20  # bytes per number when all of X is read: float32, float64, and standardised float64
CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency


class Features(ABC):
    """Features of tasks, read as needed. A kind of features sets the attributes and implements `rows`.

    Attributes
    ----------
    n_rows : int
        Number of tasks.
    shape : tuple of int
        Shape of one row, for example (512,) or (3, 150, 150); images have channels first.
    tasks : array or None
        Ids of the rows as text, if the source has them (a table, a folder).
    columns : tuple of str or None
        Names of the features, if the source has them (a table, a data frame).
    n_ignored : int
        Number of rows or files of the source that belong to no task.
    match_note : str or None
        How rows of a file were matched to tasks, if the user should check it.
    """

    n_rows: int
    shape: tuple[int, ...]
    tasks: Array | None = None
    columns: tuple[str, ...] | None = None
    n_ignored: int = 0
    match_note: str | None = None

    @abstractmethod
    def rows(self, index: Array) -> Array:
        """Return some rows, (len(index), *shape), float32 and C-contiguous."""

    def select(self, index: Array) -> Features:
        """Return features of some rows, in any order, read as they are needed."""
        return SomeRows(self, index)

    def block_size(self, size: int) -> int:
        """Return how many rows to hold at a time: `size`, or fewer if rows are long."""
        return max(1, min(size, CELLS // int(np.prod(self.shape))))

    def _content(self) -> tuple[Any, ...]:
        """Return what a fingerprint covers: the shape and all rows."""
        array = getattr(self, "array", None)
        if array is None:
            content = hashlib.sha256()
            for part in self._encoded_rows():
                content.update(part)
            array = content.hexdigest()
        return (self.n_rows, self.shape, array)

    def _encoded_rows(self) -> Iterator[bytes]:
        """Yield the bytes of all rows."""
        for block in self.blocks():
            yield block.tobytes()

    def blocks(self, size: int = 4096) -> Iterator[Array]:
        """Yield all rows in order, at most `size` at a time. Blocks may be views of X: do not write to them."""
        size = self.block_size(size)
        for start in range(0, self.n_rows, size):
            yield self.rows(np.arange(start, min(start + size, self.n_rows)))

    def matrix_blocks(self) -> Iterator[Array]:
        """Yield the rows of `matrix` in blocks, for code that takes flat rows but does not need all of them at once."""
        for block in self.blocks():
            yield block.reshape(len(block), -1)

    def matrix(self) -> Array:
        """Return all rows, flattened, (n_rows, features), in memory."""
        self.require_memory()
        out = np.empty((self.n_rows, int(np.prod(self.shape))), np.float32)
        done = 0
        for block in self.blocks(256):
            out[done : done + len(block)] = block.reshape(len(block), -1)
            done += len(block)
        return out

    def require_memory(self) -> None:
        """Raise TooLargeError if all of X, with the copies that models make, does not fit in memory."""
        needed, free = COPIES * self.n_rows * float(np.prod(self.shape)), available()
        if needed > free:
            message = (
                f"this method reads all of X ({self.n_rows:,} rows of {int(np.prod(self.shape)):,} numbers), which "
                f"needs {gigabytes(needed)} of memory with its copies; {gigabytes(free)} are free. Use fewer features, "
                f"or a method that trains a network, such as crowdlayer or aggnet, and reads one batch at a time."
            )
            raise TooLargeError(message)

    def check(self, tasks: Array | None = None) -> None:  # noqa: B027 (most kinds have nothing to check)
        """Raise FeaturesError if values cannot be used; `tasks` are ids to name rows by in the message."""


class SomeRows(Features):
    """Some rows of other features, in any order, with repetitions."""

    n_rows: int

    def __init__(self, features: Features, source: Array) -> None:
        self._features, self._source = features, source
        self.n_rows, self.shape = len(source), features.shape

    def rows(self, index: Array) -> Array:
        """Some rows."""
        return self._features.rows(self._source[index])

    def check(self, tasks: Array | None = None) -> None:
        """Check all rows of the underlying features."""
        self._features.check()


class MoreRows(Features):
    """Rows of other features, followed by rows of an array."""

    n_rows: int

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


def scale_images(images: Array) -> Array:
    """Convert uint8 images (n, height, width, channels), or channels first, to float32 in [0, 1], channels first.

    >>> scale_images(np.full((1, 2, 4, 3), 255, np.uint8)).shape
    (1, 3, 2, 4)
    """
    if channels_last(images.shape[1:]):
        images = images.transpose(0, 3, 1, 2)
    return np.divide(images, np.float32(255), dtype=np.float32, order="C")


def channels_last(shape: tuple[int, ...]) -> bool:
    """Whether a uint8 image of this shape is (height, width, channels)."""
    return shape[-1] in CHANNELS or shape[0] not in CHANNELS


def from_tensor(tensor: Any) -> Array:
    """Convert a torch tensor to an array without importing torch; bfloat16, which numpy lacks, becomes float32."""
    tensor = tensor.detach().cpu()
    return np.asarray((tensor.float() if "bfloat16" in str(tensor.dtype) else tensor).numpy())


def require_numbers(array: Array) -> None:
    """Raise FeaturesError unless the array holds numbers, one row per task."""
    if array.ndim < 2:
        message = (
            f"X has {array.ndim} dimension{'' if array.ndim == 1 else 's'}, shape {array.shape}; rows must be tasks "
            f"and columns features. Use X.reshape(-1, 1) for one feature per task, X.reshape(1, -1) for one task."
        )
        if array.dtype.kind in "UT" or (array.dtype == object and array.size and isinstance(array.flat[0], str)):
            message = "X contains text, not numbers. Use crowdwise.learn.features.encoders.encode_texts(X)."
        raise FeaturesError(message)
    if array.dtype.kind not in "biuf":
        content = f"values of type {array.dtype}"
        if array.dtype == object:
            numbers = (bool, int, float, np.number)
            invalid = (position for position, value in np.ndenumerate(array) if not isinstance(value, numbers))
            at = next(invalid, (0, 0))
            content = f"Python objects (at row {at[0]}, column {at[1]}: {array[at]!r:.60})"
        message = f"X contains {content}, not numbers. Remove or encode them, then use X.astype('float32')."
        raise FeaturesError(message)
    if 0 in array.shape[1:]:
        message = f"X has no features (shape {array.shape}). Pass at least one per task."
        raise FeaturesError(message)


def reject_rows(bad: Array, n_rows: int, tasks: Array | None) -> None:
    """Raise FeaturesError that names the first of the bad rows, which contain NaN or infinity."""
    if len(bad):
        named = f"rows {preview(bad)}, counted from 0" if tasks is None else f"tasks {preview(tasks[bad])}"
        message = (
            f"{len(bad)} of {n_rows} rows of X contain values that are NaN, infinite or too large for float32: {named}"
            f". Replace them (sklearn.impute.SimpleImputer, numpy.nan_to_num) or remove these tasks."
        )
        raise FeaturesError(message)
