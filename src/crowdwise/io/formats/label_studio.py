"""Label Studio's JSON export (the full one; its CSV and JSON_MIN drop annotations).

A record is a task with its `annotations`; the worker is `completed_by`, a number or an object with one; the answer is
in `result`, under the name of the question (`from_name`). Cancelled annotations are skips and are left out; those
marked `ground_truth` are known labels, not answers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crowdwise.errors import FormatError
from crowdwise.io.json_records import AnswerCollector, check_type, choose_question, first_field, read_json_records
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

# Where each kind of result that is a choice among classes keeps it; boxes, spans and free text are none.
_VALUES = {"choices": "choices", "rating": "rating", "pairwise": "selected"}


def read_label_studio(
    path: Path, *, question: str | None = None, choose_side: ChooseColumns | None = None
) -> RawColumns:
    """One question of an export."""
    annotations = [
        (where, first_field(record, ["id"], "task", where), record, check_type(annotation, dict, where))
        for where, record in read_json_records(path)
        for annotation in check_type(record.get("annotations"), list, f"'annotations' of {where}")
    ]
    found = [(*entry, _results(entry[3], entry[0])) for entry in annotations]
    kinds = {str(result.get("type")) for *_, results in found for result in results}
    questions = [
        str(result.get("from_name"))
        for *_, results in found
        for result in results
        if str(result.get("type")) in _VALUES
    ]
    if kinds and not questions:
        message = f"the results are of type {', '.join(sorted(kinds))}; answers are {', '.join(_VALUES)}."
        raise FormatError(message)
    if not found:
        return AnswerCollector().raw()
    name = choose_question(questions, question)
    out = AnswerCollector(choose_side)
    for where, task, record, annotation, results in found:
        if annotation.get("was_cancelled"):
            out.skip("annotations the worker cancelled (was_cancelled)")
            continue
        label = _label(results, name, where)
        if annotation.get("ground_truth"):
            out.gold(task, label)
        else:
            out.answer(task, _worker(annotation.get("completed_by")), label, _fields(record, annotation))
    return out.raw()


def _results(annotation: dict[str, Any], where: str) -> list[dict[str, Any]]:
    what = f"'result' of {where}"
    return [check_type(result, dict, what) for result in check_type(annotation.get("result") or [], list, what)]


def _label(results: list[dict[str, Any]], question: str, where: str) -> list[Any]:
    """All that was chosen for the question."""
    chosen: list[Any] = []
    for result in results:
        if str(result.get("from_name")) == question and str(result.get("type")) in _VALUES:
            value = check_type(result.get("value"), dict, f"'value' of {where}").get(_VALUES[str(result["type"])])
            chosen += value if isinstance(value, list) else [value]
    return chosen


def _fields(record: dict[str, Any], annotation: dict[str, Any]) -> dict[str, Any]:
    """What stands beside an answer."""
    data = record.get("data")
    inputs = {f"data.{name}": value for name, value in data.items()} if isinstance(data, dict) else {}
    return {**inputs, "lead_time": annotation.get("lead_time")}


def _worker(completed_by: Any) -> Any:
    """The number where there is one: an export may hold both shapes."""
    if isinstance(completed_by, dict):
        return completed_by.get("id", completed_by.get("email"))
    return completed_by
