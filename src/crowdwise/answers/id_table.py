"""A table of distinct ids that grows as ids arrive in parts, and returns a code for each row at once.

Arrow can only encode a complete column. For a hundred million text ids, the column takes two gigabytes and its hash
table another one, and neither is needed afterwards. Here, each part can be freed as soon as its rows have codes:

    data     bytes of all distinct ids, concatenated (8 bytes for an integer)
    offsets  where each id begins: id c is data[offsets[c]:offsets[c + 1]]
    slots    hash table with open addressing: 32 bits of the hash above 32 bits of the code, -1 if empty

The hash is SipHash-1-3 with a random key per table. If the key were known, an attacker could choose ids that
all have the same hash, so that each is compared with all before it. Codes follow the order in which ids arrive.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit

from crowdwise.answers.encoding import Codes, text_buffers
from crowdwise.errors import TooLargeError

Array = np.ndarray[Any, np.dtype[Any]]

_MAX_LOAD = 0.7  # share of the slots in use, beyond which searches become long
MAX_CODES = np.iinfo(np.int32).max


class IdTable:
    """Distinct ids in order of first appearance.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of all parts: int64 or large_string.

    Examples
    --------
    >>> ids = IdTable(pa.large_string())
    >>> ids.add(pa.array(["b", "a"], pa.large_string())).tolist(), ids.add(pa.array(["a", None, "c"])).tolist()
    ([0, 1], [1, -1, 2])
    >>> ids.table.to_pylist()
    ['b', 'a', 'c']
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.kind = kind
        self._count = 0
        self._data, self._offsets = np.empty(0, np.uint8), np.zeros(1, np.int64)
        self._slots = np.full(1024, -1, np.int64)
        self._key = np.frombuffer(os.urandom(16), np.uint64)

    def __len__(self) -> int:
        return self._count

    def add(self, part: pa.Array) -> Codes:
        """Add the ids of a part and return the codes of its rows, (rows,); -1 for a missing id."""
        part = part.cast(self.kind)
        valid = part.is_valid().to_numpy(zero_copy_only=False) if part.null_count else np.empty(0, bool)
        if pa.types.is_int64(self.kind):
            data = part.fill_null(0).to_numpy().view(np.uint8)
            offsets = np.arange(0, len(data) + 8, 8)
        else:
            offsets, data = text_buffers(part)
        self._reserve(len(part), int(offsets[-1] - offsets[0]))
        codes = np.empty(len(part), np.int32)
        storage = self._slots, self._offsets, self._data
        self._count = _add(_hashes(offsets, data, self._key), offsets, data, valid, *storage, self._count, codes)
        return codes

    @property
    def table(self) -> pa.Array:
        """The ids; row c is the id of code c."""
        data = self._data[: self._offsets[self._count]]
        if pa.types.is_int64(self.kind):
            return pa.array(data.view(np.int64))
        offsets = self._offsets[: self._count + 1]
        return pa.Array.from_buffers(self.kind, self._count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])

    def _reserve(self, n_rows: int, n_bytes: int) -> None:
        """Allocate space for a part, assuming that every id is new."""
        max_count = self._count + n_rows
        if max_count > MAX_CODES:
            message = f"more than {MAX_CODES:,} rows and distinct ids; split the data."
            raise TooLargeError(message)
        self._offsets = _grow(self._offsets, self._count + 1, max_count + 1)
        used = int(self._offsets[self._count])
        self._data = _grow(self._data, used, used + n_bytes)
        if max_count > _MAX_LOAD * len(self._slots):
            size = 1 << int(max_count / _MAX_LOAD).bit_length()
            slots = np.full(size, -1, np.int64)
            _rehash(self._slots, slots)
            self._slots = slots


def _grow(array: Array, used: int, needed: int) -> Array:
    """Return the array, or a larger copy with spare space: pages that are never written take no memory."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


@njit(cache=True, nogil=True)
def _hashes(offsets: Array, data: Array, key: Array) -> Array:
    """Return 32 bits of hash for each id of a part, in the upper half of 64 bits."""
    hashes = np.empty(offsets.shape[0] - 1, np.int64)
    for i in range(hashes.shape[0]):
        first, size = offsets[i], offsets[i + 1] - offsets[i]
        a, b = key[0] ^ np.uint64(0x736F6D6570736575), key[1] ^ np.uint64(0x646F72616E646F6D)
        c, d = key[0] ^ np.uint64(0x6C7967656E657261), key[1] ^ np.uint64(0x7465646279746573)
        for start in range(0, size + 1, 8):  # words of 8 bytes; the highest byte of the last one is the size
            word = np.uint64(size) << np.uint64(56) if start + 8 > size else np.uint64(0)
            for j in range(min(8, size - start)):
                word |= np.uint64(data[first + start + j]) << np.uint64(8 * j)
            a, b, c, d = _round(a, b, c, d ^ word)
            a ^= word
        c ^= np.uint64(0xFF)
        for _ in range(3):
            a, b, c, d = _round(a, b, c, d)
        hashes[i] = np.int64((a ^ b ^ c ^ d) & np.uint64(0xFFFFFFFF00000000))
    return hashes


@njit(cache=True, nogil=True, inline="always")
def _round(a: Any, b: Any, c: Any, d: Any) -> Any:
    """One round of SipHash (Aumasson and Bernstein, 2012)."""
    a, c = a + b, c + d
    b, d = _rotate(b, 13) ^ a, _rotate(d, 16) ^ c
    a = _rotate(a, 32)
    a, c = a + d, c + b
    d, b = _rotate(d, 21) ^ a, _rotate(b, 17) ^ c
    return a, b, _rotate(c, 32), d


@njit(cache=True, nogil=True, inline="always")
def _rotate(word: Any, bits: int) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)
def _add(hashes: Array, part_offsets: Array, part_data: Array, valid: Array, slots: Array, offsets: Array, data: Array,
         count: int, codes: Array) -> int:  # fmt: skip
    """Fill the codes of a part's rows, store new ids, and return the number of distinct ids."""
    mask = slots.shape[0] - 1
    for i in range(codes.shape[0]):
        if valid.shape[0] and not valid[i]:
            codes[i] = -1
            continue
        first, size = part_offsets[i], part_offsets[i + 1] - part_offsets[i]
        at = (hashes[i] >> 32) & mask
        while True:
            slot = slots[at]
            if slot == -1:
                slots[at] = hashes[i] | count
                begin = offsets[count]
                for j in range(size):
                    data[begin + j] = part_data[first + j]
                offsets[count + 1] = begin + size
                codes[i] = count
                count += 1
                break
            if slot >> 32 == hashes[i] >> 32:
                code = slot & 0x7FFFFFFF
                begin = offsets[code]
                same = offsets[code + 1] - begin == size
                j = 0
                while same and j < size:
                    same = data[begin + j] == part_data[first + j]
                    j += 1
                if same:
                    codes[i] = code
                    break
            at = (at + 1) & mask
    return count


@njit(cache=True, nogil=True)
def _rehash(old: Array, slots: Array) -> None:
    """Copy the entries of the old slots to a larger hash table."""
    mask = slots.shape[0] - 1
    for slot in old:
        if slot != -1:
            at = (slot >> 32) & mask
            while slots[at] != -1:
                at = (at + 1) & mask
            slots[at] = slot
