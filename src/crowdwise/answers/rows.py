"""From checked columns to canonical rows: encoded, sorted by task then worker, answers given twice settled.

Everything here returns the fields of an `Answers`; nothing else in the library has to check them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit

from crowdwise.answers.columns import cast_column
from crowdwise.answers.encoding import (
    SHOWN,
    as_arrow,
    check_no_nulls,
    dictionary,
    encode,
    in_words,
    lookup,
    named,
    preview,
    spelt_out,
    starts,
)
from crowdwise.answers.lookalikes import warn_of_lookalikes
from crowdwise.errors import (
    DuplicateError,
    EmptyError,
    FormatError,
    IdTypeError,
    TooManyClassesError,
    WeightError,
)

Array = np.ndarray[Any, np.dtype[Any]]
Duplicates = Literal["error", "first", "last", "vote"]
Nulls = Literal["error", "drop"]
_ROLES = ("task", "worker", "label")
LARGEST_WEIGHT = 1e6  # beyond, sums over the answers would hold little of all the others


def id_table(ids: Any, what: str, *, distinct: bool = True) -> pa.Array:
    """A declared id table: no gaps, no id twice."""
    table = as_arrow(ids, what)
    check_no_nulls(table, what)
    if distinct and len(pc.unique(table)) < len(table):
        message = f"the {what} table names an id twice; each stands once."
        raise DuplicateError(message)
    return table


def as_weights(values: Any, n_answers: int) -> Array:
    """Weights as float64, refusing negative and missing ones, and those beside which all others vanish."""
    weight = np.asarray(as_floats(values), dtype=np.float64)
    if weight.shape != (n_answers,):
        message = f"{weight.shape} weights for {n_answers} answers; give one each."
        raise WeightError(message)
    bad = np.flatnonzero(~((weight >= 0) & (weight <= LARGEST_WEIGHT)))
    if len(bad):
        message = (
            f"weight {weight[bad[0]]} at row {bad[0]} (and {len(bad) - 1} more); weights are from 0 to "
            f"{LARGEST_WEIGHT:g}: divide them all by the largest."
        )
        raise WeightError(message)
    return weight


def as_flags(values: Any, n_answers: int) -> Array:
    """Marks of pseudo answers as bools; a missing one is False."""
    flags = as_arrow(values, "pseudo")
    if not pa.types.is_boolean(flags.type) or len(flags) != n_answers:
        message = f"the pseudo column holds {len(flags)} {in_words(flags.type)}; give true or false for each answer."
        raise FormatError(message)
    return flags.fill_null(False).to_numpy(zero_copy_only=False)


def as_floats(values: Any) -> Array:
    """Values as numpy floats, from Arrow or any sequence; a missing one becomes NaN."""
    if isinstance(values, (pa.Array, pa.ChunkedArray)):
        return np.asarray(cast_column(values, "weight", "weight"))
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        message = f"the weights are not numbers: {error}"
        raise WeightError(message) from None


def as_columns(values: dict[str, Any]) -> dict[str, pa.Array]:
    """Columns of ids as Arrow, tasks and workers dictionary encoded. `values` is emptied as they are turned.

    Turning Python objects into Arrow holds Python's lock and hashing does not, so one column is hashed while the next
    is turned: at ten million rows of strings that saves a second in four.
    """
    hashed = {}
    with ThreadPoolExecutor(1) as beside:
        for role in list(values):
            array = as_arrow(values.pop(role), role)
            hash_now = role in ("task", "worker") and not pa.types.is_null(array.type)
            hashed[role] = beside.submit(dictionary, array) if hash_now else array
    return {role: column if isinstance(column, pa.Array) else column.result() for role, column in hashed.items()}


def assemble(
    arrays: dict[str, pa.Array],
    names: Mapping[str, str],
    weight: Array | None,
    pseudo: Array | None,
    *,
    tasks: Any,
    workers: Any,
    classes: Any,
    duplicates: Duplicates,
    nulls: Nulls,
    max_classes: int,
    removed: dict[str, int],
) -> dict[str, Any]:
    """Check the columns, encode them, and sort. `arrays` is emptied: a column goes as soon as it has its codes."""
    n_rows = len(arrays["task"])
    for role in arrays:
        if len(arrays[role]) != n_rows:
            n = len(arrays[role])
            message = f"{n_rows} tasks but {n} entries in {names[role]!r}; all columns are of one length."
            raise FormatError(message)
    if nulls == "drop" and any(arrays[role].null_count for role in _ROLES):
        whole = pc.and_(pc.and_(*(arrays[role].is_valid() for role in _ROLES[:2])), arrays["label"].is_valid())
        kept = whole.to_numpy(zero_copy_only=False)
        arrays |= {role: array.filter(whole) for role, array in arrays.items()}
        weight = None if weight is None else weight[kept]
        pseudo = None if pseudo is None else pseudo[kept]
        removed["rows with a missing value"] = removed.get("rows with a missing value", 0) + int((~kept).sum())
    if not len(arrays["task"]):
        left_out = "; ".join(f"{count} left out ({why})" for why, count in removed.items())
        message = f"no answers{': ' + left_out if left_out else ' in the table: it has no rows'}."
        raise EmptyError(message)
    for role in _ROLES:
        check_no_nulls(arrays[role], names[role])
    known = arrays.get("truth")
    if classes is None and known is not None:
        classes = _classes_of_both(arrays["label"], known)
    codes, ids = [], []
    for role, what, given in zip(_ROLES, ("task", "worker", "class"), (tasks, workers, classes), strict=True):
        coded, table = encode(arrays.pop(role), what, None if given is None else id_table(given, what))
        warn_of_lookalikes(table, what)
        codes.append(coded)
        ids.append(table)
    task_ids, _, class_ids = ids
    if len(class_ids) > max_classes:
        message = (
            f"column {names['label']!r} has {len(class_ids):,} distinct values (for example "
            f"{preview(class_ids[:3].to_pylist(), len(class_ids))}): is it the label? Name the column with label=, "
            f"or pass max_classes={len(class_ids)} (--max-classes)."
        )
        raise TooManyClassesError(message)
    del coded  # the last of the columns: sorting lets go of it
    truth = None if known is None else _truth_of_tasks(known, names["truth"], codes[0], task_ids, class_ids)
    return sort_rows(codes, ids, weight=weight, pseudo=pseudo, truth=truth, duplicates=duplicates, removed=removed)


def _classes_of_both(label: pa.Array, known: pa.Array) -> pa.Array:
    """The classes among the labels and among the known ones: a class may occur in the latter alone."""
    distinct = [pc.unique(spelt_out(column.drop_null())) for column in (label, known)]
    distinct = [part for part in distinct if len(part)]
    if len({part.type for part in distinct}) > 1:
        given, true = (in_words(part.type) for part in distinct)
        message = f"labels are {given} and known labels {true}; convert one of the columns."
        raise IdTypeError(message)
    classes = pc.unique(pa.concat_arrays(distinct))
    return classes.take(pc.sort_indices(classes))


def _truth_of_tasks(known: pa.Array, name: str, task: Array, task_ids: pa.Array, class_ids: pa.Array) -> Array:
    """Known class of each task, -1 where unknown, from a column that may say it in any of the task's rows."""
    truth = np.full(len(task_ids), -1, np.int32)
    rows = np.flatnonzero(known.is_valid().to_numpy(zero_copy_only=False))
    if not len(rows):
        return truth
    codes = lookup(spelt_out(known.drop_null()), class_ids, "class")
    truth[task[rows]] = codes
    clash = rows[truth[task[rows]] != codes]
    if len(clash):
        message = (
            f"column {name!r} gives task {named(task_ids[int(task[clash[0]])].as_py())} two known labels "
            f"(row {clash[0]}). A task has one; mend the column."
        )
        raise DuplicateError(message)
    return truth


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
    """Sort codes of (task, worker, label) by task, then worker, and settle answers given twice. `codes` is emptied."""
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
            once = repeated[np.insert(np.diff(repeated) > 1, 0, True)][:SHOWN]  # a third answer is not a new case
            shown = ", ".join(
                f"worker {named(worker_ids[int(worker[i])].as_py())} on task {named(task_ids[int(task[i])].as_py())}"
                for i in once
            )
            first = (repeated[0] - 1, repeated[0]) if order is None else (order[repeated[0] - 1], order[repeated[0]])
            message = (
                f"{len(repeated)} answers are given a second time or more: {shown} (first: rows {first[0]} and "
                f"{first[1]}). Keep one of each with duplicates='first', 'last' or 'vote' (on the command line: "
                f"--duplicates last)."
            )
            raise DuplicateError(message)
        keep = _settle(task, worker, label, duplicates == "first", duplicates == "last")
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
    """Sort columns of task, worker and label in their list; returns which row has come where."""
    task, worker, label = codes
    begin = starts(task, n_tasks)  # (tasks + 1,)
    order = np.empty(len(task), np.int32 if len(task) <= np.iinfo(np.int32).max else np.int64)
    codes[1:] = np.empty_like(worker), np.empty_like(label)
    _to_tasks(task, worker, label, begin.copy(), order, *codes[1:])
    del task, worker, label
    codes[0] = np.repeat(np.arange(n_tasks, dtype=np.int32), np.diff(begin))
    _by_worker(begin, order, *codes[1:])
    return order


_FEW = 32  # rows that are sorted faster by moving them one by one


@njit(cache=True, nogil=True)
def _to_tasks(
    task: Array, worker: Array, label: Array, place: Array, order: Array, workers: Array, labels: Array
) -> None:
    """Put each row among those of its task, in the order in which they come; `place` is where the next one goes."""
    for i in range(task.shape[0]):
        to = place[task[i]]
        place[task[i]] = to + 1
        order[to], workers[to], labels[to] = i, worker[i], label[i]


@njit(cache=True, nogil=True)
def _by_worker(begin: Array, order: Array, worker: Array, label: Array) -> None:
    """Sort the rows of each task by worker, those of one worker staying in order."""
    for t in range(begin.shape[0] - 1):
        first, end = begin[t], begin[t + 1]
        if end - first > _FEW:
            rank = np.argsort(worker[first:end], kind="mergesort")
            order[first:end] = order[first:end][rank]
            worker[first:end] = worker[first:end][rank]
            label[first:end] = label[first:end][rank]
            continue
        for i in range(first + 1, end):
            w, said, row = worker[i], label[i], order[i]
            j = i
            while j > first and worker[j - 1] > w:
                worker[j], label[j], order[j] = worker[j - 1], label[j - 1], order[j - 1]
                j -= 1
            worker[j], label[j], order[j] = w, said, row


@njit(cache=True)
def _order_state(task: Array, worker: Array) -> int:
    """Whether rows increase by (task, worker), increase with repeats, or do neither."""
    state = 0
    for i in range(1, task.shape[0]):
        if task[i] < task[i - 1] or (task[i] == task[i - 1] and worker[i] < worker[i - 1]):
            return 2
        if task[i] == task[i - 1] and worker[i] == worker[i - 1]:
            state = 1
    return state


@njit(cache=True)
def _settle(task: Array, worker: Array, label: Array, first: bool, last: bool) -> Array:
    """One row of each run of equal (task, worker): the first, the last, or the first of the label given most often."""
    n = task.shape[0]
    keep = np.empty(n, np.int64)
    kept = 0
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
        keep[kept] = chosen
        kept += 1
        i = j
    return keep[:kept]
