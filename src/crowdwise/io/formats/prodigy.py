"""Prodigy's JSON lines (experimental: composed from documented fields, not seen in a public export of choices).

The task is `_input_hash`, the worker `_annotator_id` (or `_session_id`). With `options` the answer is the one in
`accept`; rejected and ignored records are left out. Without them the record asks whether its `label` fits: that label
is the question and the classes are accept and reject. A session without a name has a timestamp for a worker, a new one
each time: such records are left out unless `worker=` names the field to go by.
"""

from __future__ import annotations

import re
from pathlib import Path

from crowdwise.io.json_records import AnswerCollector, choose_question, first_field, read_json_lines
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

_TIMESTAMP = re.compile(r"(.*-)?(\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d|\d{10}(\d{3})?)")
_CHOICE = "choice"


def read_prodigy(
    path: Path, *, question: str | None = None, worker: str | None = None, choose_side: ChooseColumns | None = None
) -> RawColumns:
    """One question of an export."""
    records = list(read_json_lines(path))
    asked = [_CHOICE if "accept" in r or "options" in r else str(r.get("label")) for _, r in records]
    chosen = choose_question(asked, question)
    out = AnswerCollector(choose_side)
    names = [worker] if worker else ["_annotator_id", "_session_id"]
    for (line, record), about in zip(records, asked, strict=True):
        if about != chosen:
            out.add_other(next((record[name] for name in names if record.get(name) is not None), None), record)
            continue
        answer = record.get("answer")
        who = first_field(record, names, "worker", f"line {line}")
        if answer not in ("accept", "reject") or (about == _CHOICE and answer == "reject"):
            out.skip(f"records answered {answer!r}")
            out.add_other(who, record)
        elif worker is None and _TIMESTAMP.fullmatch(str(who)):
            out.skip("records of unnamed sessions (worker='_annotator_id' keeps them, a worker a session)")
        else:
            task = first_field(record, ["_input_hash"], "task", f"line {line}")
            out.answer(task, who, record.get("accept") if about == _CHOICE else answer, record)
    return out.raw()
