"""Merge two sets of answers, and attach known labels to one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.columns import column_reader, is_frame, recognise
from crowdwise.answers.encoding import as_arrow, decode_dictionary, lookup
from crowdwise.answers.lookalikes import warn_of_lookalikes
from crowdwise.answers.rows import Array, Duplicates, as_weights, check_ids, sort_rows
from crowdwise.errors import CrowdwiseError, UnknownIdError

if TYPE_CHECKING:
    from crowdwise.answers.codes import AnswerCodes


def merge(
    ours: AnswerCodes, theirs: AnswerCodes, *, pseudo: bool, weight: float | None, duplicates: Duplicates
) -> dict[str, Any]:
    """Return the fields of the merged answers. New ids are appended, so the codes of `ours` do not change."""
    columns = (("task_ids", "task"), ("worker_ids", "worker"), ("class_ids", "label"))
    tables, codes = [], []
    for ids, name in columns:
        table, position = _union(getattr(ours, ids), getattr(theirs, ids), name)
        tables.append(table)
        codes.append(np.concatenate([getattr(ours, name), position[getattr(theirs, name)]]))
    sizes = ours.n_answers, theirs.n_answers
    added_weight = theirs.weight if weight is None else as_weights(np.full(sizes[1], weight), sizes[1])
    added_pseudo = np.ones(sizes[1], bool) if pseudo else theirs.pseudo
    fields = sort_rows(
        codes,
        tables,
        weight=_concatenate(ours.weight, added_weight, sizes, fill=1.0),
        pseudo=_concatenate(ours.pseudo, added_pseudo, sizes, fill=False),
        truth=_merge_truth(ours, theirs, tables),
        duplicates=duplicates,
        removed=dict(Counter(ours.removed) + Counter(theirs.removed)),
    )
    abstentions = dict(Counter(ours.abstentions) + Counter(theirs.abstentions))
    known = theirs if ours.truth is None else ours
    return {**fields, "abstentions": abstentions, "truth_is_gold": known.truth_is_gold}


def _union(ours: pa.Array, theirs: pa.Array, what: str) -> tuple[pa.Array, Array]:
    """Return our table with their new ids appended, and the position of each of their ids in it."""
    if ours.equals(theirs):
        return ours, np.arange(len(ours), dtype=np.int32)
    if ours.type != theirs.type:
        lookup(theirs, ours, what)  # raises, naming both types
    new = theirs.filter(pc.invert(pc.is_in(theirs, value_set=ours)))
    table = pa.concat_arrays([ours, new])
    return table, lookup(theirs, table, what)


def _concatenate(ours: Array | None, theirs: Array | None, sizes: tuple[int, int], *, fill: float) -> Array | None:
    """Concatenate two arrays, filling in for one that is None; None if both are."""
    if ours is None and theirs is None:
        return None
    parts = [np.full(n, fill) if a is None else a for a, n in zip((ours, theirs), sizes, strict=True)]
    return np.concatenate(parts)


def _merge_truth(ours: AnswerCodes, theirs: AnswerCodes, tables: list[pa.Array]) -> Array | None:
    """Return the known labels of both in codes of the merged tables; where both know a task, ours is used."""
    if ours.truth is None and theirs.truth is None:
        return None
    truth = np.full(len(tables[0]), ours.unknown, np.int32 if isinstance(ours.unknown, int) else np.float64)
    if theirs.truth is not None:
        known = theirs.truth
        if isinstance(ours.unknown, int):  # a code, which may have changed
            known = np.append(lookup(theirs.class_ids, tables[2], "class"), -1)[known]
        truth[lookup(theirs.task_ids, tables[0], "task")] = known
    if ours.truth is not None:
        known = ours.is_known(ours.truth)
        truth[: ours.n_tasks][known] = ours.truth[known]
    return truth


def as_pair(truth: Any, convert: Callable[[Any, str], pa.Array] = as_arrow) -> Any:
    """Return a mapping, pandas Series or data frame of task to class as a pair (tasks, classes), others unchanged.

    `convert` turns a column of a data frame into Arrow.
    """
    if isinstance(truth, Mapping):
        return list(truth.keys()), list(truth.values())
    if is_frame(truth):
        names, column = column_reader(truth)
        found = recognise(names, task=None, label="truth" if "truth" in names else None)
        tasks, labels = (convert(column(found[role]), role) for role in ("task", "label"))
        return tasks.filter(labels.is_valid()), labels.filter(labels.is_valid())
    if hasattr(truth, "iloc") and hasattr(truth, "to_numpy"):
        return truth.index.to_numpy(), truth.to_numpy()
    return truth


def truth_codes(answers: AnswerCodes, truth: Any) -> Array:
    """Return known labels (mapping, pair of columns, or codes) as int32 codes in task order, -1 where unknown."""
    truth = as_pair(truth)
    if isinstance(truth, tuple):
        rows = lookup(check_ids(truth[0], "task", distinct=False), answers.task_ids, "task")
        known = np.full(answers.n_tasks, -1, np.int32)
        known[rows] = lookup(decode_dictionary(as_arrow(truth[1], "class")), answers.class_ids, "class")
        return known
    codes = np.asarray(truth)
    if codes.shape != (answers.n_tasks,) or codes.dtype.kind not in "iu":
        message = (
            f"truth of shape {codes.shape} and type {codes.dtype}: pass a mapping of task to class, or "
            f"{answers.n_tasks} integer codes (one per task, -1 where unknown)."
        )
        raise CrowdwiseError(message)
    if len(codes) and (codes.min() < -1 or codes.max() >= answers.n_classes):
        message = f"truth codes run from {codes.min()} to {codes.max()}, outside -1..{answers.n_classes - 1}."
        raise UnknownIdError(message)
    return codes.astype(np.int32)


def with_truth(answers: AnswerCodes, truth: Any, *, ignore_unknown: bool) -> dict[str, Any]:
    """Return the fields that change when known labels are attached; a class that nobody chose is appended."""
    if truth is None:
        return {"truth": None, "truth_is_gold": False}
    truth = as_pair(truth)
    changed: dict[str, Any] = {"truth_is_gold": False}
    if isinstance(truth, tuple):
        tasks, labels = (decode_dictionary(as_arrow(truth[i], what)) for i, what in enumerate(("task", "class")))
        if ignore_unknown and tasks.type == answers.task_ids.type:
            known = pc.is_in(tasks, value_set=answers.task_ids)
            n_unknown = len(tasks) - pc.sum(known, min_count=0).as_py()
            tasks, labels = tasks.filter(known), labels.filter(known)
            if n_unknown:
                changed["removed"] = {**answers.removed, "known labels of tasks without answers": n_unknown}
        if labels.type == answers.class_ids.type:
            changed["class_ids"], _ = _union(answers.class_ids, pc.unique(labels), "class")
            if len(changed["class_ids"]) > answers.n_classes:
                warn_of_lookalikes(changed["class_ids"], "class")
        truth = tasks, labels
    return {**changed, "truth": truth_codes(replace(answers, **changed), truth)}
