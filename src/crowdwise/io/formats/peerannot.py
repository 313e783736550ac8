"""peerannot's answers.json: `{"task": {"worker": label}}`, or the same with workers outside.

The two cannot be told apart by looking, so the format has to be named. Keys are text in JSON: they become integers when
all of them are.
"""

from __future__ import annotations

from pathlib import Path

from crowdwise.io.json_records import AnswerCollector, check_type, load_json
from crowdwise.io.raw_columns import RawColumns, text_ids


def read_by_task(path: Path) -> RawColumns:
    """Task -> worker -> label."""
    return _read(path, tasks_outside=True)


def read_by_worker(path: Path) -> RawColumns:
    """Worker -> task -> label."""
    return _read(path, tasks_outside=False)


def _read(path: Path, *, tasks_outside: bool) -> RawColumns:
    out = AnswerCollector()
    for outer, inner in check_type(load_json(path, keys_are_ids=True), dict, "the file").items():
        for key, label in check_type(inner, dict, f"what stands under {outer!r}").items():
            out.answer(*((outer, key) if tasks_outside else (key, outer)), label)
    raw = out.raw()
    raw.columns.update(task=text_ids(out.task), worker=text_ids(out.worker))
    return raw
