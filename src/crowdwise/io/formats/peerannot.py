"""peerannot's answers.json: `{"task": {"worker": label}}`, or the same with workers as outer keys.

The two look alike, so the format has to be named. JSON keys are text; they become integers if all of them are integers.
"""

from __future__ import annotations

from pathlib import Path

from crowdwise.io.json_records import AnswerCollector, check_type, load_json
from crowdwise.io.raw_columns import RawColumns, text_ids


def read_by_task(path: Path) -> RawColumns:
    """Read task -> worker -> label."""
    return _read(path, tasks_outside=True)


def read_by_worker(path: Path) -> RawColumns:
    """Read worker -> task -> label."""
    return _read(path, tasks_outside=False)


def _read(path: Path, *, tasks_outside: bool) -> RawColumns:
    out = AnswerCollector()
    for outer, inner in check_type(load_json(path, keys_are_ids=True), dict, "the file").items():
        for key, label in check_type(inner, dict, f"the value of {outer!r}").items():
            out.answer(*((outer, key) if tasks_outside else (key, outer)), label)
    raw = out.raw()
    raw.columns.update(task=text_ids(out.task), worker=text_ids(out.worker))
    return raw
