"""Two sets of answers made one, and known labels attached to a set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.encoding import as_arrow, lookup
from crowdwise.answers.rows import Array, Duplicates, as_weights, id_table, sort_rows
from crowdwise.errors import CrowdwiseError, UnknownIdError

if TYPE_CHECKING:
    from crowdwise.answers.codes import Codes


def merge(ours: Codes, theirs: Codes, *, pseudo: bool, weight: float | None, duplicates: Duplicates) -> dict[str, Any]:
    """Fields of the answers of both; ids new to ours are appended, so the codes of ours do not change."""
    columns = (("task_ids", "task"), ("worker_ids", "worker"), ("class_ids", "label"))
    tables, codes = [], []
    for ids, name in columns:
        table, position = _union(getattr(ours, ids), getattr(theirs, ids), name)
        tables.append(table)
        codes.append(np.concatenate([getattr(ours, name), position[getattr(theirs, name)]]))
    sizes = ours.n_answers, theirs.n_answers
    added_weight = theirs.weight if weight is None else as_weights(np.full(sizes[1], weight), sizes[1])
    added_pseudo = np.ones(sizes[1], bool) if pseudo else theirs.pseudo
    return sort_rows(
        codes,
        tables,
        weight=_joined(ours.weight, added_weight, sizes, fill=1.0),
        pseudo=_joined(ours.pseudo, added_pseudo, sizes, fill=False),
        truth=_joined_truth(ours, theirs, tables),
        duplicates=duplicates,
        removed=dict(Counter(ours.removed) + Counter(theirs.removed)),
    )


def _union(ours: pa.Array, theirs: pa.Array, what: str) -> tuple[pa.Array, Array]:
    """Our table with their new ids appended, and the position of each of theirs in it."""
    if ours.equals(theirs):
        return ours, np.arange(len(ours), dtype=np.int32)
    if ours.type != theirs.type:
        lookup(theirs, ours, what)  # raises, naming both types
    new = theirs.filter(pc.invert(pc.is_in(theirs, value_set=ours)))
    table = pa.concat_arrays([ours, new])
    return table, lookup(theirs, table, what)


def _joined(ours: Array | None, theirs: Array | None, sizes: tuple[int, int], *, fill: float) -> Array | None:
    """One array of ours and theirs, the missing one filled in; None when both are."""
    if ours is None and theirs is None:
        return None
    parts = [np.full(n, fill) if a is None else a for a, n in zip((ours, theirs), sizes, strict=True)]
    return np.concatenate(parts)


def _joined_truth(ours: Codes, theirs: Codes, tables: list[pa.Array]) -> Array | None:
    """Known labels of both, in codes of the merged tables; where both know a task, ours counts."""
    if ours.truth is None and theirs.truth is None:
        return None
    truth = np.full(len(tables[0]), -1, np.int32)
    if theirs.truth is not None:
        class_code = np.append(lookup(theirs.class_ids, tables[2], "class"), -1)
        truth[lookup(theirs.task_ids, tables[0], "task")] = class_code[theirs.truth]
    if ours.truth is not None:
        truth[: ours.n_tasks] = np.where(ours.truth >= 0, ours.truth, truth[: ours.n_tasks])
    return truth


def _as_columns(truth: Any) -> Any:
    """A mapping of task to class, or a pandas Series indexed by task, as a pair (tasks, classes); the rest as it is."""
    if isinstance(truth, Mapping):
        return list(truth.keys()), list(truth.values())
    if hasattr(truth, "iloc") and hasattr(truth, "to_numpy"):
        return truth.index.to_numpy(), truth.to_numpy()
    return truth


def truth_codes(answers: Codes, truth: Any) -> Array:
    """Known labels (mapping, pair of columns, or codes) as int32 codes in task order, -1 where unknown."""
    truth = _as_columns(truth)
    if isinstance(truth, tuple):
        rows = lookup(id_table(truth[0], "task", distinct=False), answers.task_ids, "task")
        known = np.full(answers.n_tasks, -1, np.int32)
        known[rows] = lookup(as_arrow(truth[1], "class"), answers.class_ids, "class")
        return known
    codes = np.asarray(truth)
    if codes.shape != (answers.n_tasks,) or codes.dtype.kind not in "iu":
        message = (
            f"truth is a mapping of task to class, or {answers.n_tasks} integer codes (one a task, -1 where unknown); "
            f"this has shape {codes.shape} and type {codes.dtype}."
        )
        raise CrowdwiseError(message)
    if len(codes) and (codes.min() < -1 or codes.max() >= answers.n_classes):
        message = f"truth codes run from {codes.min()} to {codes.max()}, outside -1..{answers.n_classes - 1}."
        raise UnknownIdError(message)
    return codes.astype(np.int32)


def with_truth(answers: Codes, truth: Any, *, ignore_unknown: bool) -> dict[str, Any]:
    """Changed fields that attach known labels; a class nobody chose is appended to the table."""
    if truth is None:
        return {"truth": None}
    truth = _as_columns(truth)
    changed: dict[str, Any] = {}
    if isinstance(truth, tuple):
        tasks, labels = as_arrow(truth[0], "task"), as_arrow(truth[1], "class")
        if ignore_unknown and tasks.type == answers.task_ids.type:
            known = pc.is_in(tasks, value_set=answers.task_ids)
            left_out = len(tasks) - pc.sum(known).as_py()
            tasks, labels = tasks.filter(known), labels.filter(known)
            if left_out:
                changed["removed"] = {**answers.removed, "known labels of tasks without answers": left_out}
        if labels.type == answers.class_ids.type:
            changed["class_ids"], _ = _union(answers.class_ids, pc.unique(labels), "class")
        truth = tasks, labels
    return {**changed, "truth": truth_codes(replace(answers, **changed), truth)}
