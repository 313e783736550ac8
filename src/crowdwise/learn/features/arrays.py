"""Features that are already numbers: arrays in memory, memory maps, sparse matrices."""

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
CELLS = 1 << 20  # numbers checked at a time: few enough to stay in the processor's cache


class ArrayFeatures(Features):
    """An array of numbers, one row per task along its first axis.

    An array in memory is converted to float32 once (without a copy if it already is). Memory maps and images (uint8
    with four dimensions) are converted row by row, when rows are read. If a memory map is larger than half of the free
    memory, the rows of a batch are prefetched: the system then reads them in parallel, and no others.

    >>> ArrayFeatures(np.array([[1, 2], [3, 4]])).rows(np.array([1]))
    array([[3., 4.]], dtype=float32)
    """

    n_rows: int

    def __init__(self, array: Array) -> None:
        require_numbers(array)
        self._array = np.asarray(array)
        self._map = find_memory_map(array)
        self._mapped = self._map is not None
        self._prefetches = self._map is not None and array.nbytes > available() / 2
        self._images = array.dtype == np.uint8 and array.ndim == 4
        if (
            array.ndim == 4
            and not self._images
            and array.shape[3] in CHANNELS
            and min(array.shape[1:3]) > max(CHANNELS)
        ):
            message = (
                f"X has rows of shape {array.shape[1:]}, which looks like images with channels last. Networks need "
                f"channels first: use X.transpose(0, 3, 1, 2), or pass uint8 images."
            )
            raise FeaturesError(message)
        self.n_rows, *shape = array.shape
        if self._images and channels_last(tuple(shape)):
            shape = [shape[2], shape[0], shape[1]]
        self.shape = tuple(shape)

    def rows(self, index: Array) -> Array:
        """Return some rows."""
        if self._prefetches and len(index) > 1:
            order = np.argsort(index)
            prefetch_rows(self._map, self._array, index[order])
            rows = self._convert(self._source[index[order]])  # in the order of the disk
            out = np.empty_like(rows)
            out[order] = rows
            return out
        return self._convert(self._source[index])

    def blocks(self, size: int = 4096) -> Iterator[Array]:
        """Yield all rows in order, as views if no conversion is needed."""
        size = self.block_size(size)
        for start in range(0, self.n_rows, size):
            yield self._convert(self._source[start : start + size])

    def matrix_blocks(self) -> Iterator[Array]:
        """Yield the rows of `matrix`: in one block if X is in memory as numbers."""
        if self._mapped or self._images:
            yield from super().matrix_blocks()
        else:
            yield self.matrix()

    def matrix(self) -> Array:
        """Return all rows, flattened; float64 stays float64."""
        if self._mapped or self._images:
            return super().matrix()
        array = self._array if self._array.dtype == np.float64 else self._source
        return array.reshape(self.n_rows, int(np.prod(self.shape)))

    def check(self, tasks: Array | None = None) -> None:
        """Raise FeaturesError if there is NaN or infinity."""
        reject_rows(_not_finite(self._array), self.n_rows, tasks)

    @property
    def array(self) -> Array | None:
        """All rows as float32 (n_rows, *shape) if they are in memory in that form, else None."""
        return None if self._mapped or self._images or not self._source.flags.writeable else self._source

    @cached_property
    def _source(self) -> Array:
        unconverted = self._mapped or self._images
        return self._array if unconverted else np.ascontiguousarray(self._array, dtype=np.float32)

    def _convert(self, batch: Array) -> Array:
        if self._images:
            return scale_images(batch)
        batch = np.ascontiguousarray(batch, dtype=np.float32)
        return batch if batch.flags.writeable else batch.copy()  # torch needs writable memory


class SparseFeatures(Features):
    """A scipy sparse matrix, converted to dense rows as needed."""

    n_rows: int

    def __init__(self, matrix: Any) -> None:
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf" or matrix.shape[1] == 0:
            message = f"a sparse X must have tasks as rows and numbers as columns; this is {matrix!r}."
            raise FeaturesError(message)
        self._rows = matrix.tocsr()
        self.n_rows, self.shape = matrix.shape[0], (matrix.shape[1],)

    def rows(self, index: Array) -> Array:
        """Return some rows."""
        return self._rows[index].astype(np.float32).toarray(order="C")

    def check(self, tasks: Array | None = None) -> None:
        """Raise FeaturesError if there is NaN or infinity among the stored values."""
        at = _not_finite(self._rows.data[:, None])
        bad = np.unique(np.searchsorted(self._rows.indptr, at, side="right") - 1)
        reject_rows(bad, self.n_rows, tasks)


def find_memory_map(array: Any) -> Any:
    """Return the memory map that an array is, or is a view of; None if there is none."""
    memory_map = None
    while array is not None:
        memory_map = array if isinstance(array, np.memmap) else memory_map  # the last one holds the file
        array = getattr(array, "base", None)
    return memory_map


def prefetch_rows(memory_map: Any, array: Array, rows: Array) -> None:
    """Advise the system which rows (increasing) of an array, a view of the memory map, are read next."""
    pages: Any = getattr(memory_map, "_mmap", None)
    if not hasattr(pages, "madvise") or not array.flags.c_contiguous:
        return
    length = array.strides[0]
    # Position of the array within the map, in bytes.
    first = array.ctypes.data - memory_map.ctypes.data + memory_map.offset % mmap.ALLOCATIONGRANULARITY
    # Consecutive rows become one request.
    ends = np.flatnonzero(np.diff(rows, append=rows[-1] + 2) > 1)
    begins = np.append(0, ends[:-1] + 1)
    start = first + rows[begins] * length
    stop = first + (rows[ends] + 1) * length
    start -= start % mmap.PAGESIZE
    for a, b in zip(start.tolist(), stop.tolist(), strict=True):
        pages.madvise(mmap.MADV_WILLNEED, a, b - a)


def _not_finite(array: Array) -> Array:
    """Return the rows with a value that is NaN, infinite, or too large for float32."""
    bad: list[Array] = [np.empty(0, np.int64)]
    step = max(1, CELLS // int(np.prod(array.shape[1:])))
    for start in range(0, len(array) if array.dtype.kind == "f" else 0, step):
        block = array[start : start + step]
        if not (block.min() >= -LARGEST and block.max() <= LARGEST):  # both are NaN if any value is
            wrong = ~(np.abs(block) <= LARGEST)
            bad.append(start + np.flatnonzero(wrong.reshape(len(block), -1).any(axis=1)))
    return np.concatenate(bad)
