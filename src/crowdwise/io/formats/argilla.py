"""Argilla records, as exported to JSON, JSON lines or Parquet (Hugging Face data sets).

Argilla 2 has three parallel lists per question: `q.responses`, `q.responses.users` and `q.responses.status`. Argilla 1
has one list under the question's name, of objects `{user_id, value, status}`. Only submitted responses count; drafts
and discarded responses are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crowdwise.errors import FormatError
from crowdwise.io.files import is_parquet
from crowdwise.io.json_records import AnswerCollector, check_type, choose_question, first_field, read_json_records
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

SUFFIX = ".responses"


def read_argilla(
    path: Path, *, question: str | None = None, task: str | None = None, choose_side: ChooseColumns | None = None
) -> RawColumns:
    """Read one question of an export; the task is the field `id` unless another is named."""
    records = list(_records(path))
    name = choose_question((q for _, record in records for q in questions_of(record)), question)
    out = AnswerCollector(choose_side)
    for where, record in records:
        for worker, value, status in _responses(record, name, where):
            if status == "submitted":
                task_id = first_field(record, [task] if task else ["id", "external_id"], "task", where)
                out.answer(task_id, worker, value, record)
            else:
                out.skip("responses that were not submitted")
    return out.raw()


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    if not is_parquet(path):
        yield from read_json_records(path)
        return
    import pyarrow.parquet as pq  # only here: the detection of formats imports this module

    from crowdwise.io.formats.parquet import check_rows
    from crowdwise.io.parquet_pages import check_pages, read_texts_once

    with pq.ParquetFile(path) as file:
        check_rows(file, 100 * len(file.schema_arrow.names))  # as Python objects
        check_pages(path, file)
    for number, record in enumerate(read_texts_once(path).to_pylist()):
        yield f"row {number} (counted from 0)", record


def questions_of(record: dict[str, Any]) -> list[str]:
    """Return the names of the questions that a record has responses to."""
    return [
        name.removesuffix(SUFFIX) for name, value in record.items() if name.endswith(SUFFIX) or _is_version_1(value)
    ]


def _is_version_1(value: Any) -> bool:
    responses = value if isinstance(value, list) else []
    return any(isinstance(response, dict) and {"user_id", "value"} <= {*response} for response in responses)


def _responses(record: dict[str, Any], question: str, where: str) -> Iterator[tuple[Any, Any, Any]]:
    """Yield (worker, value, status) of each response."""
    if question + SUFFIX not in record:
        for response in check_type(record.get(question) or [], list, f"{question!r} of {where}"):
            response = check_type(response, dict, f"{question!r} of {where}")
            yield response.get("user_id"), response.get("value"), response.get("status")
        return
    keys = [question + SUFFIX, f"{question}{SUFFIX}.users", f"{question}{SUFFIX}.status"]
    values, users, status = (check_type(record.get(key) or [], list, f"{key!r} of {where}") for key in keys)
    if not len(values) == len(users) == len(status):
        message = (
            f"{where}: {len(values)} responses, {len(users)} users and {len(status)} statuses; these must be equal."
        )
        raise FormatError(message)
    yield from zip(users, values, status, strict=True)
