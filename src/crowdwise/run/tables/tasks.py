"""The table of the tasks by ambiguity: who said what, how far each is trusted, and what the task shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise.ambiguity.ranking import TaskRanker


def task_table(
    ranked: TaskRanker, texts: Sequence[str | None] | np.ndarray[Any, Any] | None, images: Mapping[int, str]
) -> pa.Table:
    """All tasks, the most ambiguous first; lists of workers, labels and trust stand in one cell, as JSON.

    Parameters
    ----------
    ranked : fitted WAUM, or another ranking
    texts : sequence of str, optional
        Of the tasks, in their order.
    images : mapping of a task's place to a file
    """
    table = ranked.ranking()
    order = np.argsort(ranked.scores_, kind="stable").tolist()
    columns = {name: table.column(name) for name in ("task", "rank", "score", "answers")}
    for name in ("workers", "labels"):
        columns[name] = pa.array([json.dumps(row, ensure_ascii=False) for row in table.column(name).to_pylist()])
    trust = ([round(value, 4) for value in row] for row in table.column("trust").to_pylist())
    columns["trust"] = pa.array([json.dumps(row) for row in trust], pa.string())
    columns["text"] = pa.array([None if texts is None else texts[task] for task in order], pa.string())
    columns["image"] = pa.array([images.get(task) for task in order], pa.string())
    return pa.table(columns)
