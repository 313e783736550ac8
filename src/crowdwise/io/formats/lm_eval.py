"""Samples of the lm-evaluation-harness, as `lm_eval --log_samples` writes them: one file per model and task.

The worker is the model: `model_name` in the results file of the same date, else the name of the folder. The task is
`doc_id`, the known label `target`, and the question the filter that extracted the answer, if there are several.

    generated answer     the label is the filtered response; `[invalid]` and an empty one are abstentions
    multiple choice      the label is the choice with the highest log-likelihood: its text if all tasks have the same
                         choices, else its number

A results file contains only averages; it is replaced by the sample files of the same date. Reading several tasks puts
the task's name before the id.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crowdwise.errors import FormatError
from crowdwise.io.json_records import (
    AnswerCollector,
    as_label,
    check_type,
    choose_question,
    first_field,
    load_json,
    read_json_lines,
)
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

DATE = r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d+)?"
SAMPLES, RESULTS = re.compile(rf"samples_(.+)_({DATE})\.jsonl"), re.compile(rf"results_({DATE})\.json")
INVALID = "[invalid]"  # the harness writes this where a filter found nothing

Record = dict[str, Any]


def sample_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files with each results file replaced by the samples of its date, each file once."""
    out: list[Path] = []
    for path in paths:
        found = RESULTS.fullmatch(path.name)
        if found is None:
            out.append(path)
            continue
        files = sorted(path.parent.glob(f"samples_*_{found[1]}.jsonl"))
        if not files:
            message = (
                f"{path}: a results file contains only averages, and there are no sample files (samples_*.jsonl) next "
                f"to it. Run lm_eval with --log_samples."
            )
            raise FormatError(message)
        out += files
    return list(dict.fromkeys(out))


def read_lm_eval(
    path: Path,
    *,
    question: str | None = None,
    task: str | None = None,
    worker: str | None = None,
    choose_side: ChooseColumns | None = None,
) -> RawColumns:
    """Read the samples of one file.

    `task` names a field of the document to use instead of `doc_id`, and `worker` a field of the sample that holds the
    model, if somebody has put the samples of several models into one file.
    """
    records = list(read_json_lines(path))
    name = choose_question((str(record.get("filter")) for _, record in records), question)
    records = [(line, record) for line, record in records if str(record.get("filter")) == name]
    choices = [_choices(record, f"line {line}") for line, record in records]
    fixed = all(each == choices[0] for each in choices) and len(set(choices[0])) == len(choices[0])
    model = _model(path) if worker is None else None
    out = AnswerCollector(choose_side)
    for (line, record), options in zip(records, choices, strict=True):
        where = f"line {line}"
        doc = check_type(record.get("doc"), dict, f"'doc' of {where}")
        task_id = doc.get(task) if task else record.get("doc_id")
        if task_id is None:
            message = f"{where} has no {f'field {task!r} in its doc' if task else 'doc_id'}."
            raise FormatError(message)
        names = list(options) if fixed else [str(number) for number in range(len(options))]
        label, target = _answer(record, names, where), record.get("target")
        if names and isinstance(target, str) and target.isdecimal() and int(target) < len(names):
            target = names[int(target)]
        if isinstance(target, str) and target.strip():
            out.target(task_id, target.strip())
        judge = model or first_field(record, [str(worker)], "worker", where)
        out.verdict(task_id, judge, label, {"text": _prompt(record), **doc})
    named = SAMPLES.fullmatch(path.name)
    return out.raw(scope=named[1] if named else None)


def _requests(record: Record, where: str) -> list[tuple[Any, Any]]:
    """Return the context and continuation of each request; those without context only normalise the others."""
    arguments = check_type(record.get("arguments") or {}, dict, f"'arguments' of {where}")
    pairs = [(each.get("arg_0"), each.get("arg_1")) for each in arguments.values() if isinstance(each, dict)]
    half = len(pairs) // 2
    return pairs[:half] if half and all(context == "" for context, _ in pairs[half:]) else pairs


def _choices(record: Record, where: str) -> tuple[str, ...]:
    """Return the choices of a multiple-choice task, none for other tasks."""
    requests = _requests(record, where)
    if len(requests) < 2 or not all(isinstance(continuation, str) for _, continuation in requests):
        return ()
    return tuple(continuation.strip() for _, continuation in requests)


def _answer(record: Record, choices: list[str], where: str) -> str | None:
    """Return the label, or None if the model gave none."""
    responses = check_type(record.get("filtered_resps"), list, f"'filtered_resps' of {where}")
    if not choices:
        if len(responses) != 1 or isinstance(responses[0], list):
            message = f"{where} has {len(responses)} responses, or a likelihood instead of text: it is not a verdict."
            raise FormatError(message)
        return None if responses[0] == INVALID else as_label(responses[0])
    try:
        likelihood = [float(response[0]) for response in responses[: len(choices)]]
    except (TypeError, ValueError, LookupError):
        likelihood = []
    if len(likelihood) < len(choices) or any(value != value for value in likelihood):
        return None
    return choices[likelihood.index(max(likelihood))]


def _prompt(record: Record) -> Any:
    requests = _requests(record, "")
    return requests[0][0] if requests else None


def _model(path: Path) -> str:
    """Return the name of the model whose samples these are."""
    named = SAMPLES.fullmatch(path.name)
    results = path.with_name(f"results_{named[2]}.json") if named else None
    if results is not None and results.is_file():
        name = check_type(load_json(results), dict, str(results)).get("model_name")
        if isinstance(name, str) and name:
            return name
    return path.resolve().parent.name
