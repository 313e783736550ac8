"""Mechanical Turk's batch results: CSV, one row per assignment.

The task is the HIT (or the column named with `task=`, such as `Input.url`) and the worker is `WorkerId`. Each
`Answer.*` column is a question. `truth=` names a column with known labels. Rejected assignments are left out.
"""

from __future__ import annotations

from pathlib import Path

from crowdwise.answers.columns import recognise
from crowdwise.io.formats.delimited import answered_rows, header, read_cells
from crowdwise.io.json_records import choose_question
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

PREFIX = "Answer."


def read_mturk(
    path: Path,
    *,
    question: str | None = None,
    task: str | None = None,
    truth: str | None = None,
    choose_side: ChooseColumns | None = None,
    multiline: bool = False,
) -> RawColumns:
    """Read one question of a batch."""
    names = header(path, ",")
    name = choose_question((n.removeprefix(PREFIX) for n in names if n.startswith(PREFIX)), question, PREFIX)
    found = {"task": task or "HITId", "worker": "WorkerId", "label": PREFIX + name}
    if truth is not None:
        found["truth"] = truth
    if "AssignmentStatus" in names:
        found["status"] = "AssignmentStatus"
    found = recognise(names, **found) | (choose_side(names) if choose_side else {})
    cells = read_cells(path, ",", found, multiline=multiline)
    return answered_rows(path, ",", cells, found, keep_status=("SUBMITTED", "APPROVED"))
