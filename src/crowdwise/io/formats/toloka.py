"""Toloka's results: TSV, one row per task of an assignment.

The task is `ASSIGNMENT:task_id`, or the only `INPUT:` column, or the column named with `task=`. The worker is
`ASSIGNMENT:worker_id`. Each `OUTPUT:*` column is a question, and `GOLDEN:*` its known label on control tasks, which is
gold. Rows without an assignment belong to the next row that has one. Rejected, skipped and expired assignments are left
out.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers.columns import recognise
from crowdwise.errors import MissingColumnError
from crowdwise.io.formats.delimited import answered_rows, header, read_cells
from crowdwise.io.json_records import choose_question
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

PREFIX = "OUTPUT:"
WORKER = "ASSIGNMENT:worker_id"


def read_toloka(
    path: Path,
    *,
    question: str | None = None,
    task: str | None = None,
    choose_side: ChooseColumns | None = None,
    multiline: bool = False,
) -> RawColumns:
    """Read one question of a pool."""
    names = header(path, "\t")
    name = choose_question((n.removeprefix(PREFIX) for n in names if n.startswith(PREFIX)), question, PREFIX)
    found = {"task": task or _task(names), "worker": WORKER, "label": PREFIX + name}
    extra = {"truth": f"GOLDEN:{name}", "status": "ASSIGNMENT:status", "assignment": "ASSIGNMENT:assignment_id"}
    found = recognise(names, **found, **{role: column for role, column in extra.items() if column in names})
    found |= choose_side(names) if choose_side else {}
    cells = read_cells(path, "\t", found, multiline=multiline)
    if "assignment" in cells:
        unassigned = cells.pop("assignment").is_null()
        for role in cells.keys() & {"worker", "status", "started", "ended"}:
            own = cells[role].cast(pa.large_string())
            following = pc.if_else(unassigned, pc.fill_null_backward(own), pa.scalar(None, pa.large_string()))
            cells[role] = pc.coalesce(own, following).dictionary_encode()
    raw = answered_rows(path, "\t", cells, found, keep_status=("SUBMITTED", "APPROVED", "ACCEPTED"))
    return replace(raw, gold="truth" in found)


def _task(names: list[str]) -> str:
    if "ASSIGNMENT:task_id" in names:
        return "ASSIGNMENT:task_id"
    inputs = [name for name in names if name.startswith("INPUT:")]
    if len(inputs) != 1:
        message = (
            f"no column ASSIGNMENT:task_id, and {len(inputs)} INPUT: columns ({', '.join(inputs)}). Name the task "
            "column with task= (--task)."
        )
        raise MissingColumnError(message)
    return inputs[0]
