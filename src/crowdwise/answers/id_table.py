"""Ids that come a part at a time: a code for each row at once, and the distinct ids kept, each stored once.

Arrow encodes a column that is there as a whole. Of a hundred million text ids the column alone is two gigabytes, its
table of hashes another one, and neither is wanted afterwards. Here a part is forgotten as soon as it has its codes:

    letters  all distinct ids end to end, as bytes (an integer is its 8 bytes)
    ends     where each of them begins and ends: id c is letters[ends[c]:ends[c + 1]]
    slots    open addressing: 32 bits of an id's hash above its code, -1 where nobody is

The hash is SipHash-1-3 with a key that each table draws for itself: were it known, ids could be made up that all have
one hash, and each would be compared with all before it. Codes follow the order in which ids came, never the hash.
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

_FULL = 0.7  # share of the slots that may be taken: beyond that, searches become long
MAX_CODES = np.iinfo(np.int32).max


class IdTable:
    """Distinct ids in the order in which they first came.

    Parameters
    ----------
    kind : pyarrow.DataType
        int64 or large_string: what all parts are of.

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
        self._letters, self._ends = np.empty(0, np.uint8), np.zeros(1, np.int64)
        self._slots = np.full(1024, -1, np.int64)
        self._key = np.frombuffer(os.urandom(16), np.uint64)

    def __len__(self) -> int:
        return self._count

    def add(self, part: pa.Array) -> Codes:
        """Codes of a part's rows, (rows,); -1 for a missing value."""
        part = part.cast(self.kind)
        valid = part.is_valid().to_numpy(zero_copy_only=False) if part.null_count else np.empty(0, bool)
        if pa.types.is_int64(self.kind):
            data = part.fill_null(0).to_numpy().view(np.uint8)
            ends = np.arange(0, len(data) + 8, 8)
        else:
            ends, data = text_buffers(part)
        self._make_room(len(part), int(ends[-1] - ends[0]))
        codes = np.empty(len(part), np.int32)
        room = self._slots, self._ends, self._letters
        self._count = _add(_hashes(ends, data, self._key), ends, data, valid, *room, self._count, codes)
        return codes

    @property
    def table(self) -> pa.Array:
        """The ids: row c is the one of code c."""
        letters = self._letters[: self._ends[self._count]]
        if pa.types.is_int64(self.kind):
            return pa.array(letters.view(np.int64))
        ends = self._ends[: self._count + 1]
        return pa.Array.from_buffers(self.kind, self._count, [None, pa.py_buffer(ends), pa.py_buffer(letters)])

    def _make_room(self, n_rows: int, n_bytes: int) -> None:
        """Room for a part of which every id is new."""
        most = self._count + n_rows
        if most > MAX_CODES:
            message = f"over {MAX_CODES:,} rows and distinct ids; split the data."
            raise TooLargeError(message)
        self._ends = _grown(self._ends, self._count + 1, most + 1)
        used = int(self._ends[self._count])
        self._letters = _grown(self._letters, used, used + n_bytes)
        if most > _FULL * len(self._slots):
            size = 1 << int(most / _FULL).bit_length()
            slots = np.full(size, -1, np.int64)
            _move(self._slots, slots)
            self._slots = slots


def _grown(array: Array, used: int, needed: int) -> Array:
    """The array, or a copy of what is used of it with room to spare: pages never written take no memory."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[:used] = array[:used]
    return larger


@njit(cache=True, nogil=True)
def _hashes(ends: Array, data: Array, key: Array) -> Array:
    """32 bits for each id of a part, in the upper half of 64."""
    hashes = np.empty(ends.shape[0] - 1, np.int64)
    for i in range(hashes.shape[0]):
        first, size = ends[i], ends[i + 1] - ends[i]
        a, b = key[0] ^ np.uint64(0x736F6D6570736575), key[1] ^ np.uint64(0x646F72616E646F6D)
        c, d = key[0] ^ np.uint64(0x6C7967656E657261), key[1] ^ np.uint64(0x7465646279746573)
        for start in range(0, size + 1, 8):  # words of 8 bytes; the last has the size in its upper one
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
    b, d = _turned(b, 13) ^ a, _turned(d, 16) ^ c
    a = _turned(a, 32)
    a, c = a + d, c + b
    d, b = _turned(d, 21) ^ a, _turned(b, 17) ^ c
    return a, b, _turned(c, 32), d


@njit(cache=True, nogil=True, inline="always")
def _turned(word: Any, bits: int) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)
def _add(hashes: Array, ends: Array, data: Array, valid: Array, slots: Array, known: Array, letters: Array, count: int,
         codes: Array) -> int:  # fmt: skip
    """Fill the codes of a part's rows, store what is new, and give the number of distinct ids."""
    mask = slots.shape[0] - 1
    for i in range(codes.shape[0]):
        if valid.shape[0] and not valid[i]:
            codes[i] = -1
            continue
        first, size = ends[i], ends[i + 1] - ends[i]
        at = (hashes[i] >> 32) & mask
        while True:
            slot = slots[at]
            if slot == -1:
                slots[at] = hashes[i] | count
                begin = known[count]
                for j in range(size):
                    letters[begin + j] = data[first + j]
                known[count + 1] = begin + size
                codes[i] = count
                count += 1
                break
            if slot >> 32 == hashes[i] >> 32:
                code = slot & 0x7FFFFFFF
                begin = known[code]
                same = known[code + 1] - begin == size
                j = 0
                while same and j < size:
                    same = letters[begin + j] == data[first + j]
                    j += 1
                if same:
                    codes[i] = code
                    break
            at = (at + 1) & mask
    return count


@njit(cache=True, nogil=True)
def _move(old: Array, slots: Array) -> None:
    """Put the ids of the old slots into new ones."""
    mask = slots.shape[0] - 1
    for slot in old:
        if slot != -1:
            at = (slot >> 32) & mask
            while slots[at] != -1:
                at = (at + 1) & mask
            slots[at] = slot
