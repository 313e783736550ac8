"""Features that are numbers already: arrays in memory, memory maps, sparse matrices."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from crowdwise._core.memory import available
from crowdwise.errors import FeaturesError
from crowdwise.learn.features.base import (
    CHANNELS,
    Array,
    Features,
    channels_last,
    reject_rows,
    require_numbers,
    scale_images,
)

LARGEST = np.finfo(np.float32).max
CELLS = 1 << 20  # looked at together when values are checked: little enough to stay in the cache


class ArrayFeatures(Features):
    """An array of numbers, rows along its first axis.

    In memory it is made float32 once (and not copied if it is). Memory maps and images of bytes (uint8 with four
    dimensions) stay as they are, and just the rows asked for are converted. Of a map that memory cannot keep, the
    system is told of all rows that are wanted before the first is read: it fetches them side by side, and nothing else.

    >>> ArrayFeatures(np.array([[1, 2], [3, 4]])).rows(np.array([1]))
    array([[3., 4.]], dtype=float32)
    """

    def __init__(self, array: Array) -> None:
        require_numbers(array)
        self._array = np.asarray(array)
        self._map = find_memory_map(array)
        self._mapped = self._map is not None
        self._far = self._map is not None and array.nbytes > available() / 2
        self._images = array.dtype == np.uint8 and array.ndim == 4
        if (
            array.ndim == 4
            and not self._images
            and array.shape[3] in CHANNELS
            and min(array.shape[1:3]) > max(CHANNELS)
        ):
            message = (
                f"X has rows of shape {array.shape[1:]}, which looks like images with channels last. Networks take "
                f"them first: X.transpose(0, 3, 1, 2); or give bytes (uint8) as they are."
            )
            raise FeaturesError(message)
        self.n_rows, *shape = array.shape
        if self._images and channels_last(tuple(shape)):
            shape = [shape[2], shape[0], shape[1]]
        self.shape = tuple(shape)

    def rows(self, index: Array) -> Array:
        """Some rows."""
        if self._far and len(index) > 1:
            order = np.argsort(index)
            prefetch_rows(self._map, self._array, index[order])
            found = self._converted(self._source[index[order]])  # in the order of the disk
            out = np.empty_like(found)
            out[order] = found
            return out
        return self._converted(self._source[index])

    def blocks(self, size: int = 4096) -> Iterator[Array]:
        """All rows in order: views where nothing has to be converted."""
        size = self.block_size(size)
        for start in range(0, self.n_rows, size):
            yield self._converted(self._source[start : start + size])

    def matrix_blocks(self) -> Iterator[Array]:
        """What `matrix` holds: at once where X is in memory so."""
        if self._mapped or self._images:
            yield from super().matrix_blocks()
        else:
            yield self.matrix()

    def matrix(self) -> Array:
        """All rows, each as one line of numbers; float64 stays so."""
        if self._mapped or self._images:
            return super().matrix()
        array = self._array if self._array.dtype == np.float64 else self._source
        return array.reshape(self.n_rows, int(np.prod(self.shape)))

    def check(self, tasks: Array | None = None) -> None:
        """Refuse NaN and infinity, block by block."""
        reject_rows(_not_finite(self._array), self.n_rows, tasks)

    @property
    def array(self) -> Array | None:
        """All rows as float32 (n_rows, *shape) where they are in memory so, else None: batches index it directly."""
        return None if self._mapped or self._images or not self._source.flags.writeable else self._source

    @cached_property
    def _source(self) -> Array:
        as_is = self._mapped or self._images
        return self._array if as_is else np.ascontiguousarray(self._array, dtype=np.float32)

    def _converted(self, batch: Array) -> Array:
        if self._images:
            return scale_images(batch)
        batch = np.ascontiguousarray(batch, dtype=np.float32)
        return batch if batch.flags.writeable else batch.copy()  # torch does not take read-only memory


class SparseFeatures(Features):
    """A scipy sparse matrix, made dense row by row."""

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or matrix.shape[1] == 0:
            message = f"a sparse X has tasks as rows and numbers as columns; this is {matrix!r}."
            raise FeaturesError(message)
        self._rows = matrix.tocsr()
        self.n_rows, self.shape = matrix.shape[0], (matrix.shape[1],)

    def rows(self, index: Array) -> Array:
        """Some rows."""
        chosen = self._rows[index]
        return chosen.astype(np.float32).toarray(order="C")

    def check(self, tasks: Array | None = None) -> None:
        """Refuse NaN and infinity among the values stored."""
        at = _not_finite(self._rows.data[:, None])
        bad = np.unique(np.searchsorted(self._rows.indptr, at, side="right") - 1)
        reject_rows(bad, self.n_rows, tasks)


def find_memory_map(array: Any) -> Any:
    """The memory map that an array is, or is a view of; None where it is none."""
    found = None
    while array is not None:
        found = array if isinstance(array, np.memmap) else found  # the last is the one that holds the file
        array = getattr(array, "base", None)
    return found


def prefetch_rows(whole: Any, array: Array, rows: Array) -> None:
    """Tell the system which rows (increasing) of a view of a memory map are read next; runs of them at once."""
    pages: Any = getattr(whole, "_mmap", None)
    if not hasattr(pages, "madvise") or not array.flags.c_contiguous:
        return
    length = array.strides[0]
    first = array.ctypes.data - whole.ctypes.data + whole.offset % mmap.ALLOCATIONGRANULARITY  # within the map
    ends = np.flatnonzero(np.diff(rows, append=rows[-1] + 2) > 1)
    begins = np.append(0, ends[:-1] + 1)
    start = first + rows[begins] * length
    stop = first + (rows[ends] + 1) * length
    start -= start % mmap.PAGESIZE
    for a, b in zip(start.tolist(), stop.tolist(), strict=True):
        pages.madvise(mmap.MADV_WILLNEED, a, b - a)


def _not_finite(array: Array) -> Array:
    """Rows with a value that is NaN, infinite, or too large for float32."""
    bad: list[Array] = [np.empty(0, np.int64)]
    step = max(1, CELLS // int(np.prod(array.shape[1:])))
    for start in range(0, len(array) if array.dtype.kind == "f" else 0, step):
        block = array[start : start + step]
        if not (block.min() >= -LARGEST and block.max() <= LARGEST):  # either is NaN if any value is
            wrong = ~(np.abs(block) <= LARGEST)
            bad.append(start + np.flatnonzero(wrong.reshape(len(block), -1).any(axis=1)))
    return np.concatenate(bad)
