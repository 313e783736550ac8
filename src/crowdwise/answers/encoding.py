"""Encode columns of ids as integer codes.

A column becomes `codes` (int32, one per row) and a table of its distinct ids. The table is sorted, so the codes depend
on the content of the column and never on the order of its rows. Arrow does the hashing: it is nearly twice as fast as
pandas on ten million strings, and keeps ids compact (strings never become Python objects).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from crowdwise.errors import IdTypeError, NullError, UnknownIdError

Codes = np.ndarray[tuple[int], np.dtype[np.int32]]

# Up to here, each float represents exactly one integer; the next one, 2**53, may have been 2**53 + 1.
LARGEST_EXACT = {"halffloat": 2.0**11 - 1, "float": 2.0**24 - 1, "double": 2.0**53 - 1}
MAX_ID_LENGTH = 80  # characters of an id that an error shows
MAX_SHOWN = 3  # rows or ids that an error lists


def preview(values: Sequence[Any] | np.ndarray, total: int | None = None) -> str:
    """Return the first few values as text: "'a', 'b', 'c' and 5 more".

    >>> preview([1, 2, 3, 4, 5])
    '1, 2, 3 and 2 more'
    """
    shown = [v.item() if isinstance(v, np.generic) else v for v in values[:MAX_SHOWN]]
    rest = (len(values) if total is None else total) - len(shown)
    return ", ".join(map(short_repr, shown)) + (f" and {rest} more" if rest > 0 else "")


def short_repr(value: Any) -> str:
    """Return the `repr` of a value for messages, truncated if it is long.

    >>> short_repr("cat"), len(short_repr("x" * 1000))
    ("'cat'", 80)
    """
    text = repr(value)
    return text if len(text) <= MAX_ID_LENGTH else f"{text[: MAX_ID_LENGTH - 4]}...{text[-1]}"


def as_arrow(values: Any, what: str) -> pa.Array:
    """Return ids of any origin as one Arrow array of int64, string or bool; nulls are kept.

    Floats with integer values become integers, since data frames turn integers with gaps into floats.
    """
    if isinstance(values, pa.ChunkedArray):
        if _is_text(values.type):  # before combining: a plain string array is limited to 2 GB
            values = values.cast(pa.large_string())
        array = combine_chunks(values)
    elif isinstance(values, pa.Array):
        array = values
    elif isinstance(values, np.ndarray) and values.dtype.kind in "USOT":
        array = _from_objects(values.tolist(), what)
    elif hasattr(values, "to_arrow"):  # polars
        try:
            array = as_arrow(values.to_arrow(), what)
        except pa.ArrowInvalid:  # 128-bit integers
            array = _from_objects(values.to_list(), what)
    else:
        try:
            array = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeEncodeError):
            array = _from_objects(list(values), what)
    return _canonical(array, what)


def combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return the chunks of a column as one array.

    >>> chunks = [pa.array([letter]).dictionary_encode() for letter in "ab"]
    >>> combine_chunks(pa.chunked_array(chunks)).indices
    <pyarrow.lib.Int32Array object at ...>
    [
      0,
      1
    ]
    """
    if not column.num_chunks:
        return pa.nulls(0, column.type)  # Arrow up to version 21 cannot combine an empty list of dictionaries
    if pa.types.is_dictionary(column.type):
        if any(chunk.dictionary.null_count for chunk in column.chunks):  # Arrow cannot unify these
            return pa.chunked_array([chunk.dictionary_decode() for chunk in column.chunks]).combine_chunks()
        column = column.unify_dictionaries()
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type for messages.

    >>> type_name(pa.dictionary(pa.int32(), pa.large_string())), type_name(pa.int8())
    ('text', 'integers')
    """
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if _is_text(kind):
        return "text"
    if pa.types.is_integer(kind):
        return "integers"
    if pa.types.is_floating(kind):
        return "numbers"
    return "booleans" if pa.types.is_boolean(kind) else str(kind)


def _from_objects(values: list[Any], what: str) -> pa.Array:
    try:
        return pa.array(values, from_pandas=True)
    except UnicodeEncodeError as error:
        message = f"the {what} id {error.object[:60]!r} contains a lone surrogate, which is not valid text. Fix the id."
        raise IdTypeError(message) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        kinds = sorted({type(v).__name__ for v in values if v is not None})
        row = next((i for i, v in enumerate(values) if type(v) is not type(values[0])), None)
        problem = (
            "are not all 64-bit integers or text"
            if row is None
            else f"mix types (row {row}: {short_repr(values[row])})"
        )
        message = (
            f"the {what} ids ({', '.join(kinds)}) {problem}. Convert the column to one type, as with .astype(str)."
        )
        raise IdTypeError(message) from None


def _canonical(array: pa.Array, what: str) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
        try:
            array.validate(full=True)  # rows that point outside the dictionary would read and write any memory
        except pa.ArrowInvalid as error:
            message = f"the {what} ids are an invalid Arrow array: {error}."
            raise IdTypeError(message) from None
        values = array.dictionary
        if values.null_count or pa.types.is_floating(values.type):  # rows that point to a null or NaN are missing
            return _canonical(array.dictionary_decode(), what)
        return array
    if pa.types.is_integer(kind):
        if pa.types.is_uint64(kind) and len(array) and pc.max(array).as_py() > np.iinfo(np.int64).max:
            message = f"the {what} ids hold integers above 2**63; convert the column to strings."
            raise IdTypeError(message)
        return array.cast(pa.int64())
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return array
    if _is_text(kind):
        return array.cast(pa.large_string())
    if pa.types.is_floating(kind):
        array, exact = array.cast(pa.float64()), LARGEST_EXACT[str(kind)]
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float64()), array)
        integral = pc.and_(pc.less_equal(pc.abs(array), exact), pc.equal(pc.floor(array), array))
        bad = np.flatnonzero(~integral.fill_null(True).to_numpy(zero_copy_only=False))
        if len(bad):
            message = (
                f"the {what} ids are fractional numbers, or too large for a float to represent exactly (row "
                f"{bad[0]}: {array[int(bad[0])].as_py()!r}). Ids are integers, strings or booleans: round the column, "
                f"or read it as text."
            )
            raise IdTypeError(message)
        return array.cast(pa.int64())
    message = (
        f"the {what} ids are of type {kind}. Ids are integers, strings or booleans: convert the column, "
        f"for example with .astype(str)."
    )
    raise IdTypeError(message)


def check_no_nulls(array: pa.Array, column: str) -> None:
    """Raise a `NullError` that lists the first rows with a missing id."""
    if array.null_count:
        rows = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
        message = (
            f"column {column!r} is empty in {len(rows)} of {len(array)} rows (rows {preview(rows)}, counted from 0). "
            f"Fill them in, or drop those rows with nulls='drop' (--nulls drop), which reports how many were dropped."
        )
        raise NullError(message)


def encode_dictionary(array: pa.Array) -> pa.Array:
    """Return the ids as a dictionary array."""
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def decode_dictionary(array: pa.Array) -> pa.Array:
    """Return the ids as a plain array."""
    return _canonical(array.dictionary_decode(), "class") if pa.types.is_dictionary(array.type) else array


def encode(array: pa.Array, what: str, table: pa.Array | None = None) -> tuple[Codes, pa.Array]:
    """Return the codes of an array without nulls, and the sorted table of its distinct ids.

    If `table` is passed, its order is kept and an id outside it is an error.

    >>> codes, table = encode(pa.array(["b", "a", "b"]), "task")
    >>> codes.tolist(), table.to_pylist()
    ([1, 0, 1], ['a', 'b'])
    """
    encoded = encode_dictionary(array)
    distinct, indices = _canonical(encoded.dictionary, what), encoded.indices.to_numpy(zero_copy_only=False)  # (rows,)
    used = used_codes(indices, len(distinct))
    if not used.all():  # the dictionary of the input may contain ids that no row uses
        distinct = distinct.filter(pa.array(used))
        indices = take_by_code(np.cumsum(used, dtype=np.int32) - np.int32(1), indices)
    if table is None:
        order = sorted_order(distinct)
        table = distinct.take(pa.array(order))
        rank = np.empty(len(order), np.int32)
        new = _differs_from_previous(table)
        rank[order] = np.cumsum(new, dtype=np.int32) - np.int32(1)
        table = table if new.all() else table.filter(pa.array(new))
    else:
        rank = lookup(distinct, table, what, indices)
    return take_by_code(rank, indices), table


def _differs_from_previous(ids: pa.Array) -> np.ndarray:
    """Return which of the sorted ids differ from the one before: a dictionary from elsewhere may list an id twice."""
    if len(ids) < 2:
        return np.ones(len(ids), bool)
    return np.insert(pc.not_equal(ids[1:], ids[:-1]).to_numpy(zero_copy_only=False), 0, True)


def sorted_order(ids: pa.Array) -> np.ndarray:
    """Return the positions that sort distinct ids.

    Texts are compared by the 8 bytes after their common prefix, and only ties by their full length. Comparing full
    texts takes seven times as long on ten million of them.

    >>> sorted_order(pa.array(["task_10", "task_9", "task_1"], pa.large_string())).tolist()
    [2, 0, 1]
    """
    if not pa.types.is_large_string(ids.type) or len(ids) < 2:
        return pc.sort_indices(ids).to_numpy()
    keys = _leading_bytes(*text_buffers(ids))
    order = np.argsort(keys)
    same = np.diff(keys[order]) == 0
    tied = np.append(same, False) | np.insert(same, 0, False)
    if tied.any():
        rows = order[tied]
        order[tied] = rows[pc.sort_indices(ids.take(pa.array(rows))).to_numpy()]
    return order


def text_buffers(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the offsets (rows + 1,) of texts (large_string), and the bytes they refer to."""
    _, offsets, data = texts.buffers()
    data_bytes = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if not len(texts):
        return np.zeros(1, np.int64), data_bytes
    return np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1], data_bytes


@njit(cache=True, nogil=True)
def _leading_bytes(offsets: np.ndarray, data_bytes: np.ndarray) -> np.ndarray:
    """Return the 8 bytes after the common prefix of each text, as numbers that sort like the texts."""
    n = offsets.shape[0] - 1
    common = offsets[1] - offsets[0] if n else 0
    for i in range(1, n):
        common = min(common, offsets[i + 1] - offsets[i])
        for j in range(common):
            if data_bytes[offsets[i] + j] != data_bytes[offsets[0] + j]:
                common = j
                break
    keys = np.zeros(n, np.uint64)
    for i in range(n):
        first = offsets[i] + common
        for j in range(8):
            byte = data_bytes[first + j] if first + j < offsets[i + 1] else 0
            keys[i] = (keys[i] << np.uint64(8)) | np.uint64(byte)
    return keys


def take_by_code(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return `values[codes]` without the copy of the codes to 64 bits that numpy makes."""
    out = np.empty(len(codes), values.dtype)
    _fill_by_code(values, codes, out)
    return out


@njit(cache=True, nogil=True)
def _fill_by_code(values: np.ndarray, codes: np.ndarray, out: np.ndarray) -> None:
    for i in range(codes.shape[0]):
        out[i] = values[codes[i]]


@njit(cache=True, nogil=True)
def used_codes(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Return a mask (n_codes,) of the codes that occur."""
    used = np.zeros(n_codes, np.bool_)
    for i in range(codes.shape[0]):
        used[codes[i]] = True
    return used


def lookup(ids: pa.Array, table: pa.Array, what: str, indices: np.ndarray | None = None) -> Codes:
    """Return the position of each id in a table; an unknown id is an error that lists the first rows."""
    if ids.type != table.type:
        message = (
            f"the {what} ids are {type_name(ids.type)}, but the declared ids are {type_name(table.type)} (for example "
            f"{preview(ids.to_pylist())} and {preview(table.to_pylist())}). Convert one of them."
        )
        raise IdTypeError(message)
    position = pc.index_in(ids, value_set=table)
    if position.null_count:
        unknown = ids.filter(position.is_null())
        where = ""
        if indices is not None:
            missing = position.is_null().to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(missing[indices])
            where = f" (rows {preview(rows)}, counted from 0)"
        message = (
            f"unknown {what}: {preview(unknown.to_pylist())}{where}. Known ids are {preview(table.to_pylist())}. "
            f"Declare it, or remove those rows."
        )
        raise UnknownIdError(message)
    return position.to_numpy(zero_copy_only=False).astype(np.int32)


def to_numpy(table: pa.Array) -> np.ndarray:
    """Return an id table as a numpy array of int64, bool, or object for strings."""
    return table.to_numpy(zero_copy_only=False)


def stable_order(keys: np.ndarray, n_keys: int) -> np.ndarray:
    """Return row numbers sorted by key, rows of equal key in their original order; int32 where that suffices.

    This is a counting sort, linear in rows plus keys, which a comparison sort cannot be.

    >>> stable_order(np.array([1, 0, 1, 0]), 2).tolist()
    [1, 3, 0, 2]
    """
    order = np.empty(len(keys), np.int32 if len(keys) <= np.iinfo(np.int32).max else np.int64)
    _fill_order(keys, starts(keys, n_keys), order)
    return order


@njit(cache=True, nogil=True)
def _fill_order(keys: np.ndarray, place: np.ndarray, order: np.ndarray) -> None:
    for i in range(keys.shape[0]):
        order[place[keys[i]]] = i
        place[keys[i]] += 1


@njit(cache=True, nogil=True)
def starts(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Return where the run of each code begins in sorted codes: run c is `starts[c]:starts[c + 1]`."""
    out = np.zeros(n_codes + 1, np.int64)
    for i in range(codes.shape[0]):
        out[codes[i] + 1] += 1
    for c in range(n_codes):
        out[c + 1] += out[c]
    return out


def runs(starts: np.ndarray, selected: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions starts[i]:starts[i + 1] of each selected i, concatenated, and their indices in `selected`.

    >>> [part.tolist() for part in runs(np.array([0, 2, 5]), np.array([1, 0]))]
    [[2, 3, 4, 0, 1], [0, 0, 0, 1, 1]]
    """
    length = starts[selected + 1] - starts[selected]
    end = np.cumsum(length)
    owner = np.repeat(np.arange(len(selected)), length)
    return np.arange(len(owner)) + np.repeat(starts[selected] - (end - length), length), owner
