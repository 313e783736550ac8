"""SageMaker Ground Truth, a custom job's output manifest (experimental: one public sample was found).

Each line is a task with `annotationsFromAllWorkers`, at the top or under the name of the labelling job; the answer is
JSON inside a string, `annotationData.content`, where each question holds its `label`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crowdwise.errors import FormatError
from crowdwise.io.json_records import AnswerCollector, check_type, choose_question, first_field, read_json_records
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

KEY = "annotationsFromAllWorkers"
TIME = "timeSpentInSeconds"


def read_ground_truth(
    path: Path, *, question: str | None = None, task: str | None = None, choose_side: ChooseColumns | None = None
) -> RawColumns:
    """One question; the task is `datasetObjectId`, `source-ref` or `source` unless another field is named."""
    names = [task] if task else ["datasetObjectId", "source-ref", "source"]
    found = [
        (first_field(record, names, "task", where), annotation, record, _content(annotation, where))
        for where, record in read_json_records(path)
        for annotation in annotations_of(record, where)
    ]
    name = choose_question((q for *_, content in found for q in content), question)
    out = AnswerCollector(choose_side)
    for task_id, annotation, record, content in found:
        fields = {**record, TIME: annotation.get(TIME)}
        out.answer(task_id, annotation.get("workerId"), content.get(name), fields)
    return out.raw()


def annotations_of(record: dict[str, Any], where: str) -> Iterator[dict[str, Any]]:
    """What each worker said of a task."""
    for holder in (record, *record.values()):
        if isinstance(holder, dict) and KEY in holder:
            yield from (
                check_type(a, dict, f"{KEY} of {where}") for a in check_type(holder[KEY], list, f"{KEY} of {where}")
            )


def _content(annotation: dict[str, Any], where: str) -> dict[str, Any]:
    """Question -> label."""
    what = f"'annotationData.content' of {where}"
    data = check_type(annotation.get("annotationData"), dict, f"'annotationData' of {where}")
    try:
        content = check_type(json.loads(check_type(data.get("content"), str, what)), dict, what)
    except json.JSONDecodeError as error:
        message = f"{what} is not JSON: {error}."
        raise FormatError(message) from None
    return {name: value.get("label") if isinstance(value, dict) else value for name, value in content.items()}
