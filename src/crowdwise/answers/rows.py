"""Turn columns into canonical rows: validated, encoded, sorted by task then worker, duplicates resolved.

The result is the fields of an `Answers`; nothing else in the library has to validate them again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from crowdwise.answers.columns import cast_column
from crowdwise.answers.encoding import (
    MAX_SHOWN,
    as_arrow,
    check_no_nulls,
    decode_dictionary,
    encode,
    encode_dictionary,
    short_repr,
    starts,
    type_name,
)
from crowdwise.answers.lookalikes import warn_of_lookalikes
from crowdwise.errors import (
    DuplicateError,
    EmptyError,
    FormatError,
    IdTypeError,
    WeightError,
)

Array = np.ndarray[Any, np.dtype[Any]]
Duplicates = Literal["error", "first", "last", "vote"]
Nulls = Literal["error", "drop"]
# column, known truth, name of the column, number of tasks
EncodeValues = Callable[[pa.Array, pa.Array | None, str, int], tuple[Array, pa.Array]]
_ROLES = ("task", "worker", "label")
LARGEST_WEIGHT = 1e6  # with larger weights, sums in floating point would lose the other answers


def check_ids(ids: Any, what: str, *, distinct: bool = True) -> pa.Array:
    """Return declared ids as an Arrow id table; missing ids, and repeated ones if `distinct`, are errors."""
    table = decode_dictionary(as_arrow(ids, what))
    check_no_nulls(table, what)
    if distinct and len(pc.unique(table)) < len(table):
        message = f"the {what} table contains an id twice; list each id once."
        raise DuplicateError(message)
    return table


def as_weights(values: Any, n_answers: int) -> Array:
    """Return weights as float64; negative, missing and very large ones are errors."""
    weight = np.asarray(as_floats(values), dtype=np.float64)
    if weight.shape != (n_answers,):
        message = f"weights of shape {weight.shape} for {n_answers} answers; pass one per answer."
        raise WeightError(message)
    bad = np.flatnonzero(~((weight >= 0) & (weight <= LARGEST_WEIGHT)))
    if len(bad):
        message = (
            f"invalid weight {weight[bad[0]]} at row {bad[0]} (and {len(bad) - 1} more). Use weights from 0 to "
            f"{LARGEST_WEIGHT:g}, for example by dividing them all by the largest."
        )
        raise WeightError(message)
    return weight


def as_flags(values: Any, n_answers: int) -> Array:
    """Return the flags of pseudo answers as bools; a missing flag is False."""
    flags = as_arrow(values, "pseudo")
    if not pa.types.is_boolean(flags.type) or len(flags) != n_answers:
        message = (
            f"the column pseudo has {len(flags)} values of type {type_name(flags.type)} for {n_answers} answers; pass "
            "true or false for each answer."
        )
        raise FormatError(message)
    return flags.fill_null(False).to_numpy(zero_copy_only=False)


def as_floats(values: Any) -> Array:
    """Return values of an Arrow column or any sequence as numpy floats; a missing one becomes NaN."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return np.asarray(cast_column(values, "weight", "weight"))
    if hasattr(values, "to_list") and str(getattr(values, "dtype", "")) in ("Int128", "UInt128"):  # polars
        values = values.to_list()
    try:
        if np.iscomplexobj(values):
            problem = "they are complex"
            raise TypeError(problem)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        message = f"the weights are not numbers: {error}"
        raise WeightError(message) from None


def as_arrow_columns(values: dict[str, Any], convert: Callable[[Any, str], pa.Array]) -> dict[str, pa.Array]:
    """Return columns as Arrow arrays, tasks and workers dictionary encoded. `values` is emptied to free memory.

    Converting Python objects to Arrow holds the GIL and hashing does not, so one column is hashed while the next one
    is converted. With ten million rows of strings this saves a second in four.
    """
    columns = {}
    with ThreadPoolExecutor(1) as pool:
        for role in list(values):
            array = convert(values.pop(role), role)
            is_hashed = role in ("task", "worker") and not pa.types.is_null(array.type)
            columns[role] = pool.submit(encode_dictionary, array) if is_hashed else array
    return {role: column if isinstance(column, pa.Array) else column.result() for role, column in columns.items()}


def assemble(
    arrays: dict[str, pa.Array],
    names: Mapping[str, str],
    weight: Array | None,
    pseudo: Array | None,
    *,
    tasks: Any,
    workers: Any,
    duplicates: Duplicates,
    nulls: Nulls,
    removed: dict[str, int],
    abstentions: Mapping[Any, int],
    encode_values: EncodeValues,
    encode_truth: Callable[[pa.Array, str, Array, pa.Array, pa.Array], Array],
) -> dict[str, Any]:
    """Validate, encode and sort the columns. `arrays` is emptied: each column is freed as soon as it has codes.

    `encode_values` and `encode_truth` encode the values of answers and the known truth, which depend on the kind.
    """
    n_rows = len(arrays["task"])
    for role in arrays:
        if len(arrays[role]) != n_rows:
            n = len(arrays[role])
            message = f"{n_rows} tasks but {n} entries in {names[role]!r}; all columns must have the same length."
            raise FormatError(message)
    if nulls == "drop" and any(arrays[role].null_count for role in _ROLES):
        complete = pc.and_(pc.and_(*(arrays[role].is_valid() for role in _ROLES[:2])), arrays["label"].is_valid())
        keep = complete.to_numpy(zero_copy_only=False)
        abstentions = count_abstentions(arrays, abstentions)
        arrays |= {role: array.filter(complete) for role, array in arrays.items()}
        weight = None if weight is None else weight[keep]
        pseudo = None if pseudo is None else pseudo[keep]
        removed["rows with a missing value"] = removed.get("rows with a missing value", 0) + int((~keep).sum())
    if not len(arrays["task"]):
        dropped = "; ".join(f"{count} dropped ({reason})" for reason, count in removed.items())
        message = f"no answers{': ' + dropped if dropped else ' in the table: it has no rows'}."
        raise EmptyError(message)
    for role in _ROLES:
        check_no_nulls(arrays[role], names[role])
    known = arrays.get("truth")
    codes, ids = [], []
    for role, declared in (("task", tasks), ("worker", workers)):
        coded, table = encode(arrays.pop(role), role, None if declared is None else check_ids(declared, role))
        warn_of_lookalikes(table, role)
        codes.append(coded)
        ids.append(table)
    coded, table = encode_values(arrays.pop("label"), known, names["label"], len(ids[0]))
    codes.append(coded)
    ids.append(table)
    task_ids, _, values = ids
    del coded  # so that sorting can free the last column
    text_ids = pa.types.is_large_string(task_ids.type)
    tasks_reordered = bool(tasks is None and text_ids and not _in_order_of_appearance(codes[0]))
    truth = None if known is None else encode_truth(known, names["truth"], codes[0], task_ids, values)
    fields = sort_rows(codes, ids, weight=weight, pseudo=pseudo, truth=truth, duplicates=duplicates, removed=removed)
    return {**fields, "abstentions": dict(abstentions), "tasks_reordered": tasks_reordered}


def count_abstentions(arrays: Mapping[str, pa.Array], earlier: Mapping[Any, int]) -> dict[Any, int]:
    """Return the number of rows of each worker that lack only the label, added to earlier counts."""
    asked = pc.and_(arrays["task"].is_valid(), arrays["worker"].is_valid())
    silent = arrays["worker"].filter(pc.and_(asked, arrays["label"].is_null()))
    return dict(Counter(earlier) + Counter(decode_dictionary(silent).to_pylist()))


def all_classes(label: pa.Array, known: pa.Array) -> pa.Array:
    """Return the sorted classes of the labels and the known labels; a class may occur only in the latter."""
    distinct = [pc.unique(decode_dictionary(column.drop_null())) for column in (label, known)]
    distinct = [part for part in distinct if len(part)]
    if len({part.type for part in distinct}) > 1:
        label_type, known_type = (type_name(part.type) for part in distinct)
        message = f"labels are {label_type} and known labels {known_type}; convert one of the columns."
        raise IdTypeError(message)
    classes = pc.unique(pa.concat_arrays(distinct))
    return classes.take(pc.sort_indices(classes))


def check_one_truth(clash: Array, rows: Array, name: str, task: Array, task_ids: pa.Array) -> None:
    """Raise an error if the column of known truth contradicts itself; `clash` (rows,) marks the rows that differ."""
    if clash.any():
        row = rows[clash][0]
        message = (
            f"column {name!r} gives task {short_repr(task_ids[int(task[row])].as_py())} two known labels "
            f"(row {row}). A task has only one; fix the column."
        )
        raise DuplicateError(message)


def sort_rows(
    codes: list[Array],
    tables: Sequence[pa.Array],
    *,
    weight: Array | None,
    pseudo: Array | None,
    truth: Array | None,
    duplicates: Duplicates,
    removed: dict[str, int],
) -> dict[str, Any]:
    """Sort codes of (task, worker, label) by task, then worker, and resolve duplicates. `codes` is emptied."""
    task_ids, worker_ids, class_ids = tables
    order, state = None, _order_state(*codes[:2])
    if state == _UNSORTED:
        order = _sort(codes, len(task_ids))
        state = _order_state(*codes[:2])
    task, worker, label = codes
    codes.clear()
    keep = None
    if state == _REPEATED:
        repeated = np.flatnonzero((task[1:] == task[:-1]) & (worker[1:] == worker[:-1])) + 1
        if duplicates == "error":
            cases = repeated[np.insert(np.diff(repeated) > 1, 0, True)][:MAX_SHOWN]  # a third answer is the same case
            shown = ", ".join(
                f"worker {short_repr(worker_ids[int(worker[i])].as_py())} on "
                f"task {short_repr(task_ids[int(task[i])].as_py())}"
                for i in cases
            )
            first = (repeated[0] - 1, repeated[0]) if order is None else (order[repeated[0] - 1], order[repeated[0]])
            message = (
                f"{len(repeated)} answers repeat an answer of the same worker to the same task: {shown} (first: rows "
                f"{first[0]} and {first[1]}). Keep one of each with duplicates='last' (--duplicates last); "
                f"'first' and 'vote' are possible, too."
            )
            raise DuplicateError(message)
        keep = _resolve_duplicates(task, worker, label, duplicates == "first", duplicates == "last")
        removed["answers a worker gave twice"] = removed.get("answers a worker gave twice", 0) + len(task) - len(keep)
        task, worker, label = task[keep], worker[keep], label[keep]
    rest = []
    for array in (weight, pseudo):
        if array is not None:
            array = array if order is None else array[order]
            array = array if keep is None else array[keep]
        rest.append(array)
    return {
        "task": task, "worker": worker, "label": label,
        "task_ids": task_ids, "worker_ids": worker_ids, "class_ids": class_ids,
        "weight": rest[0], "pseudo": rest[1], "truth": truth, "removed": removed,
    }  # fmt: skip


_SORTED, _REPEATED, _UNSORTED = 0, 1, 2


def _sort(codes: list[Array], n_tasks: int) -> Array:
    """Sort the columns of task, worker and label in place in their list; return the original row of each row."""
    task, worker, label = codes
    begin = starts(task, n_tasks)  # (tasks + 1,)
    order = np.empty(len(task), np.int32 if len(task) <= np.iinfo(np.int32).max else np.int64)
    codes[1:] = np.empty_like(worker), np.empty_like(label)
    _group_by_task(task, worker, label, begin.copy(), order, *codes[1:])
    del task, worker, label
    codes[0] = np.repeat(np.arange(n_tasks, dtype=np.int32), np.diff(begin))
    _sort_by_worker(begin, order, *codes[1:])
    return order


_INSERTION_SORT_ROWS = 32  # up to so many rows, insertion sort is faster


@njit(cache=True, nogil=True)
def _group_by_task(
    task: Array, worker: Array, label: Array, place: Array, order: Array, workers: Array, labels: Array
) -> None:
    """Group rows by task, in their original order; `place` is the position of the next row of each task."""
    for i in range(task.shape[0]):
        to = place[task[i]]
        place[task[i]] = to + 1
        order[to], workers[to], labels[to] = i, worker[i], label[i]


@njit(cache=True, nogil=True)
def _sort_by_worker(begin: Array, order: Array, worker: Array, label: Array) -> None:
    """Sort the rows of each task by worker; the sort is stable."""
    for t in range(begin.shape[0] - 1):
        first, end = begin[t], begin[t + 1]
        if end - first > _INSERTION_SORT_ROWS:
            rank = np.argsort(worker[first:end], kind="mergesort")
            order[first:end] = order[first:end][rank]
            worker[first:end] = worker[first:end][rank]
            label[first:end] = label[first:end][rank]
            continue
        for i in range(first + 1, end):
            w, answer, row = worker[i], label[i], order[i]
            j = i
            while j > first and worker[j - 1] > w:
                worker[j], label[j], order[j] = worker[j - 1], label[j - 1], order[j - 1]
                j -= 1
            worker[j], label[j], order[j] = w, answer, row


@njit(cache=True)
def _in_order_of_appearance(codes: Array) -> bool:
    """Return whether the codes first appear in the order 0, 1, 2, ..."""
    following = 0
    for code in codes:
        if code > following:
            return False
        following += code == following
    return True


@njit(cache=True)
def _order_state(task: Array, worker: Array) -> int:
    """Return whether rows increase by (task, worker), increase with repeats, or are unsorted."""
    state = 0
    for i in range(1, task.shape[0]):
        if task[i] < task[i - 1] or (task[i] == task[i - 1] and worker[i] < worker[i - 1]):
            return 2
        if task[i] == task[i - 1] and worker[i] == worker[i - 1]:
            state = 1
    return state


@njit(cache=True)
def _resolve_duplicates(task: Array, worker: Array, label: Array, first: bool, last: bool) -> Array:
    """Return a row per run of equal (task, worker): the first, the last, or the first with the most frequent label."""
    n = task.shape[0]
    keep = np.empty(n, np.int64)
    n_keep = 0
    i = 0
    while i < n:
        j = i + 1
        while j < n and task[j] == task[i] and worker[j] == worker[i]:
            j += 1
        chosen = i
        if last:
            chosen = j - 1
        elif not first:
            most = 0
            for a in range(i, j):
                votes = 0
                for b in range(i, j):
                    votes += label[b] == label[a]
                if votes > most:
                    most, chosen = votes, a
        keep[n_keep] = chosen
        n_keep += 1
        i = j
    return keep[:n_keep]
