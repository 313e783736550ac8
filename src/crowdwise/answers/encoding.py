"""From columns of ids to integer codes.

A column becomes `codes` (int32, one per row) and a table of its distinct ids. The table is sorted, so the codes depend
on what the column holds and never on the order of its rows. Arrow does the hashing: nearly twice as
fast as pandas' on ten million strings, and it keeps ids compact (strings are never turned into Python objects).
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

# Up to here a float stands for one whole number alone; the next, 2**53, may have been 2**53 + 1.
EXACT = {"halffloat": 2.0**11 - 1, "float": 2.0**24 - 1, "double": 2.0**53 - 1}
LONGEST = 80  # characters of an id that an error shows
SHOWN = 3  # how many offending rows or ids an error names


def preview(values: Sequence[Any] | np.ndarray, total: int | None = None) -> str:
    """First few values as text: "'a', 'b', 'c' and 5 more".

    >>> preview([1, 2, 3, 4, 5])
    '1, 2, 3 and 2 more'
    """
    shown = [v.item() if isinstance(v, np.generic) else v for v in values[:SHOWN]]
    rest = (len(values) if total is None else total) - len(shown)
    return ", ".join(map(named, shown)) + (f" and {rest} more" if rest > 0 else "")


def named(value: Any) -> str:
    """A value as messages show it: long ones cut short.

    >>> named("cat"), len(named("x" * 1000))
    ("'cat'", 80)
    """
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]}...{text[-1]}"


def as_arrow(values: Any, what: str) -> pa.Array:
    """Ids of any origin as one Arrow array of int64, string or bool, without nulls dropped.

    Floats that are whole numbers become integers: that is what a data frame turns integers with gaps into.
    """
    if isinstance(values, pa.ChunkedArray):
        if _is_text(values.type):  # first, as the pieces together may pass the 2 GB a plain string array can hold
            values = values.cast(pa.large_string())
        array = one_array(values)
    elif isinstance(values, pa.Array):
        array = values
    elif isinstance(values, np.ndarray) and values.dtype.kind in "USOT":
        array = _from_objects(values.tolist(), what)
    elif hasattr(values, "to_arrow"):  # polars
        array = as_arrow(values.to_arrow(), what)
    else:
        try:
            array = pa.array(values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
            array = _from_objects(list(values), what)
    return _canonical(array, what)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """The chunks of a column as one array.

    >>> one_array(pa.chunked_array([pa.array(["a"]).dictionary_encode(), pa.array(["b"]).dictionary_encode()])).indices
    <pyarrow.lib.Int32Array object at ...>
    [
      0,
      1
    ]
    """
    if not column.num_chunks:
        return pa.nulls(0, column.type)  # Arrow up to 21 cannot combine no dictionaries
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def in_words(kind: pa.DataType) -> str:
    """A type as readers of messages call it.

    >>> in_words(pa.dictionary(pa.int32(), pa.large_string())), in_words(pa.int8())
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
        message = (
            f"the {what} id {error.object[:60]!r} holds half a character (a surrogate), which is no text. Mend it."
        )
        raise IdTypeError(message) from None
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        kinds = sorted({type(v).__name__ for v in values if v is not None})
        row = next((i for i, v in enumerate(values) if type(v) is not type(values[0])), None)
        fault = (
            "are not all numbers of 64 bits or text" if row is None else f"mix types (row {row}: {named(values[row])})"
        )
        message = f"the {what} ids, {', '.join(kinds)}, {fault}. Convert the column to one type, such as .astype(str)."
        raise IdTypeError(message) from None


def _canonical(array: pa.Array, what: str) -> pa.Array:
    kind = array.type
    if pa.types.is_dictionary(kind):
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
        array, exact = array.cast(pa.float64()), EXACT[str(kind)]
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, pa.float64()), array)
        whole = pc.and_(pc.less_equal(pc.abs(array), exact), pc.equal(pc.floor(array), array))
        bad = np.flatnonzero(~whole.fill_null(True).to_numpy(zero_copy_only=False))
        if len(bad):
            message = (
                f"the {what} ids are fractional numbers, or so large that a float does not tell them apart (row "
                f"{bad[0]}: {array[int(bad[0])].as_py()!r}). Ids are integers, strings or booleans: round the column, "
                f"or read it as text in the first place."
            )
            raise IdTypeError(message)
        return array.cast(pa.int64())
    message = (
        f"the {what} ids are of type {kind}. Ids are integers, strings or booleans: convert the column, "
        f"for example with .astype(str)."
    )
    raise IdTypeError(message)


def check_no_nulls(array: pa.Array, column: str) -> None:
    """Refuse missing ids, naming the first rows."""
    if array.null_count:
        rows = np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))
        message = (
            f"column {column!r} is empty in {len(rows)} of {len(array)} rows (rows {preview(rows)}, counted from 0). "
            f"Fill them in, or leave those rows out with nulls='drop' (--nulls drop), which counts them."
        )
        raise NullError(message)


def dictionary(array: pa.Array) -> pa.Array:
    """The same ids, dictionary encoded."""
    return array if pa.types.is_dictionary(array.type) else array.dictionary_encode()


def spelt_out(array: pa.Array) -> pa.Array:
    """The same ids, each as itself."""
    return _canonical(array.dictionary_decode(), "class") if pa.types.is_dictionary(array.type) else array


def encode(array: pa.Array, what: str, table: pa.Array | None = None) -> tuple[Codes, pa.Array]:
    """Codes of an array without nulls, and the sorted table of its distinct ids.

    With `table` given, its order is kept and an id outside it is an error.

    >>> codes, table = encode(pa.array(["b", "a", "b"]), "task")
    >>> codes.tolist(), table.to_pylist()
    ([1, 0, 1], ['a', 'b'])
    """
    encoded = dictionary(array)
    distinct, indices = _canonical(encoded.dictionary, what), encoded.indices.to_numpy(zero_copy_only=False)  # (rows,)
    used = present(indices, len(distinct))
    if not used.all():  # a dictionary that came with the data may hold ids no row uses
        distinct = distinct.filter(pa.array(used))
        indices = gather(np.cumsum(used, dtype=np.int32) - np.int32(1), indices)
    if table is None:
        order = sorted_order(distinct)
        table = distinct.take(pa.array(order))
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
    else:
        rank = lookup(distinct, table, what, indices)
    return gather(rank, indices), table


def sorted_order(ids: pa.Array) -> np.ndarray:
    """Positions that sort distinct ids. Texts are told apart by 8 bytes after what all begin with, ties by the whole.

    Comparing whole texts takes seven times as long at ten million of them.

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
    """Where each text (large_string) begins and ends, (rows + 1,), in which bytes."""
    _, ends, data = texts.buffers()
    letters = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    if not len(texts):
        return np.zeros(1, np.int64), letters
    return np.frombuffer(ends, np.int64)[texts.offset : texts.offset + len(texts) + 1], letters


@njit(cache=True, nogil=True)
def _leading_bytes(ends: np.ndarray, letters: np.ndarray) -> np.ndarray:
    """The 8 bytes of each text after what all of them begin with, as a number in the order of the texts."""
    n = ends.shape[0] - 1
    common = ends[1] - ends[0] if n else 0
    for i in range(1, n):
        common = min(common, ends[i + 1] - ends[i])
        for j in range(common):
            if letters[ends[i] + j] != letters[ends[0] + j]:
                common = j
                break
    keys = np.zeros(n, np.uint64)
    for i in range(n):
        first = ends[i] + common
        for j in range(8):
            letter = letters[first + j] if first + j < ends[i + 1] else 0
            keys[i] = (keys[i] << np.uint64(8)) | np.uint64(letter)
    return keys


def gather(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """`values[codes]`, for which numpy would first copy the codes to 64 bits."""
    out = np.empty(len(codes), values.dtype)
    _gather(values, codes, out)
    return out


@njit(cache=True, nogil=True)
def _gather(values: np.ndarray, codes: np.ndarray, out: np.ndarray) -> None:
    for i in range(codes.shape[0]):
        out[i] = values[codes[i]]


@njit(cache=True, nogil=True)
def present(codes: np.ndarray, n_codes: int) -> np.ndarray:
    """Which of the codes occur, (n_codes,)."""
    found = np.zeros(n_codes, np.bool_)
    for i in range(codes.shape[0]):
        found[codes[i]] = True
    return found


def lookup(ids: pa.Array, table: pa.Array, what: str, indices: np.ndarray | None = None) -> Codes:
    """Position of each id in a table; an id that is not there is an error naming the first rows."""
    if ids.type != table.type:
        message = (
            f"the {what} ids are {in_words(ids.type)} where {in_words(table.type)} are declared (for example "
            f"{preview(ids.to_pylist())} against {preview(table.to_pylist())}). Convert one of them."
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
            f"unknown {what}: {preview(unknown.to_pylist())}{where}. Known are {preview(table.to_pylist())}. "
            f"Declare it, or take those rows out."
        )
        raise UnknownIdError(message)
    return position.to_numpy(zero_copy_only=False).astype(np.int32)


def to_numpy(table: pa.Array) -> np.ndarray:
    """An id table as numpy: int64, bool, or object for strings."""
    return table.to_numpy(zero_copy_only=False)


def stable_order(keys: np.ndarray, n_keys: int) -> np.ndarray:
    """Row numbers sorted by key, rows of equal key staying in order; int32 where that suffices.

    A counting sort: cost is linear in rows plus keys, which no comparison sort reaches.

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
    """Where each code's run begins in sorted codes: run c is `starts[c]:starts[c + 1]`."""
    out = np.zeros(n_codes + 1, np.int64)
    for i in range(codes.shape[0]):
        out[codes[i] + 1] += 1
    for c in range(n_codes):
        out[c + 1] += out[c]
    return out


def runs(starts: np.ndarray, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions start[i]:start[i + 1] of each chosen i, laid end to end, and whose each is.

    >>> [part.tolist() for part in runs(np.array([0, 2, 5]), np.array([1, 0]))]
    [[2, 3, 4, 0, 1], [0, 0, 0, 1, 1]]
    """
    length = starts[chosen + 1] - starts[chosen]
    end = np.cumsum(length)
    whose = np.repeat(np.arange(len(chosen)), length)
    return np.arange(len(whose)) + np.repeat(starts[chosen] - (end - length), length), whose
