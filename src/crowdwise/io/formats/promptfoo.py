"""Results of promptfoo (`promptfoo eval -o results.json` or `.jsonl`): the verdicts of language models as judges.

Either model-graded assertions (`llm-rubric`, ...) are the judges, or the providers are. `worker=` says which; by
default, the assertions are if there are any.

    worker="assertion"   the worker is the assertion's provider (else its metric, else its type), the label pass or
                         fail; `question=` restricts them to a metric or type. A task is a reply: the test, with the
                         provider and prompt if there are several, and the number of the rubric if a test has several
    worker="provider"    the worker is the provider (with the prompt if there are several), the label its output or, for
                         an object, the field `question=`; the value of an `equals` assertion is the known label

A test is named by its number, or by the variable `task=`. A grader's output without a verdict, an error and an empty
output are abstentions of the judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from crowdwise.errors import FormatError, ParameterError
from crowdwise.io.files import read_head
from crowdwise.io.json_records import AnswerCollector, check_type, first_field, load_json, read_json_lines
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

JUDGES = ("assertion", "provider")
MODEL_GRADED = {  # types of assertions in which a model judges the output; also with the prefix not-
    "llm-rubric", "g-eval", "agent-rubric", "search-rubric", "trajectory:goal-success", "model-graded-closedqa",
    "model-graded-factuality", "factuality", "answer-relevance", "context-faithfulness", "context-recall",
    "context-relevance", "conversation-relevance", "pi",
}  # fmt: skip
NOT_PARSED = ("Could not extract", "Could not parse", "Invalid JSON", "No output", "API error", "Grading error")
ERROR = 2  # failureReason of a test in which the provider failed

Record = dict[str, Any]


def read_promptfoo(
    path: Path,
    *,
    question: str | None = None,
    task: str | None = None,
    worker: str | None = None,
    choose_side: ChooseColumns | None = None,
) -> RawColumns:
    """Read the verdicts of one file of results."""
    if worker not in (None, *JUDGES):
        message = f"worker={worker!r}: the judges in promptfoo's results are each 'assertion' or each 'provider'."
        raise ParameterError(message)
    records = list(_records(path))
    graded = [list(_graded(record, where)) for where, record in records]
    out = AnswerCollector(choose_side)
    if (worker or ("assertion" if any(graded) else "provider")) == "assertion":
        _read_assertions(out, records, graded, question, task)
    else:
        _read_providers(out, records, question, task)
    return out.raw()


def _read_assertions(
    out: AnswerCollector, records: list[tuple[str, Record]], graded: list[list[Record]], question: str | None,
    task: str | None,
) -> None:  # fmt: skip
    """Add the verdicts of model-graded assertions."""
    names = _reply_names(records)
    several = len(set(names)) > 1
    found = {name for results in graded for result in results for name in _questions(result)}
    if question is not None and question not in found:
        message = f"no model-graded assertion has the metric or type {question!r}; the file has {sorted(found)}."
        raise FormatError(message)
    for (where, record), name, results in zip(records, names, graded, strict=True):
        test = _test(record, task, where)
        reply = f"{name}/{test}" if several else test
        results = [result for result in results if question is None or question in _questions(result)]
        rubrics = list(dict.fromkeys(_rubric(result) for result in results))
        for result in results:
            item = reply if len(rubrics) == 1 else f"{reply}/{rubrics.index(_rubric(result)) + 1}"
            verdict = None if _is_failed(result) else "pass" if result.get("pass") else "fail"
            out.verdict(item, _grader(result["assertion"]), verdict, _fields(record))
        if not results:
            out.skip("results without a model-graded assertion")


def _read_providers(
    out: AnswerCollector, records: list[tuple[str, Record]], question: str | None, task: str | None
) -> None:
    """Add the outputs of the providers."""
    for (where, record), judge in zip(records, _reply_names(records), strict=True):
        test = _test(record, task, where)
        response = record.get("response")
        output = response.get("output") if isinstance(response, dict) else None
        if isinstance(output, dict):
            field = question or (next(iter(output)) if len(output) == 1 else None)
            if field is None:
                message = f"{where}: the output has the fields {list(output)}; choose one with question= (--question)."
                raise FormatError(message)
            output = output.get(field)
        out.verdict(test, judge, None if record.get("failureReason") == ERROR else output, _fields(record))
        for result in _components(record, where):
            assertion = result["assertion"]
            if assertion.get("type") == "equals" and isinstance(assertion.get("value"), (str, int, float)):
                out.target(test, str(assertion["value"]))


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield the result of each test and provider, with its position in words."""
    lines = read_head(path).lstrip().splitlines()
    if path.name.removesuffix(".gz").endswith(".jsonl") or (len(lines) > 1 and lines[0].rstrip().endswith("}")):
        yield from ((f"line {number}", record) for number, record in read_json_lines(path))
        return
    document = check_type(load_json(path), dict, "the file")
    results = document.get("results")
    if isinstance(results, dict):
        results = results.get("results")
    for number, record in enumerate(check_type(results, list, "'results.results'")):
        where = f"result {number} (counted from 0)"
        yield where, check_type(record, dict, where)


def _components(record: Record, where: str) -> Iterator[Record]:
    """Yield the result of each assertion; those inside a set of assertions, too."""
    pending = [record.get("gradingResult")]
    while pending:
        result = pending.pop(0)
        if isinstance(result, dict):
            parts = check_type(result.get("componentResults") or [], list, f"'componentResults' of {where}")
            pending += parts
            if isinstance(result.get("assertion"), dict) and not parts:
                yield result


def _graded(record: Record, where: str) -> Iterator[Record]:
    for result in _components(record, where):
        if str(result["assertion"].get("type")).removeprefix("not-") in MODEL_GRADED:
            yield result


def _questions(result: Record) -> list[str]:
    assertion = result["assertion"]
    return [str(assertion[name]) for name in ("metric", "type") if assertion.get(name)]


def _rubric(result: Record) -> str:
    return str(result["assertion"].get("value"))


def _grader(assertion: Mapping[str, Any]) -> str:
    """Return the name of the model that judges."""
    provider = assertion.get("provider")
    if isinstance(provider, dict):
        provider = provider.get("label") or provider.get("id")
    name = provider if isinstance(provider, str) and provider else assertion.get("metric") or assertion["type"]
    return str(name)


def _is_failed(result: Record) -> bool:
    """Return whether the grader gave no verdict; promptfoo counts this as not passed."""
    details = result.get("metadata")
    if result.get("error") or (isinstance(details, dict) and details.get("graderError")):
        return True
    return not isinstance(result.get("pass"), bool) or str(result.get("reason")).startswith(NOT_PARSED)


def _provider(record: Record, where: str) -> str:
    provider = record.get("provider")
    if isinstance(provider, dict):
        provider = provider.get("label") or provider.get("id")
    return check_type(provider, str, f"'provider' of {where}")


def _prompt(record: Record) -> str:
    prompt = record.get("prompt")
    return str(prompt.get("label") or prompt.get("raw")) if isinstance(prompt, dict) else str(record.get("promptId"))


def _reply_names(records: list[tuple[str, Record]]) -> list[str]:
    """Return what gave each reply: the provider, with the prompt if it had several."""
    pairs = [(_provider(record, where), _prompt(record)) for where, record in records]
    count = Counter(provider for provider, _ in set(pairs))
    return [f"{provider}/{prompt}" if count[provider] > 1 else provider for provider, prompt in pairs]


def _test(record: Record, task: str | None, where: str) -> Any:
    """Return the id of the test: its number, or the variable `task`."""
    if task is None:
        return first_field(record, ["testIdx"], "task", where)
    return first_field(check_type(record.get("vars"), dict, f"'vars' of {where}"), [task], "task", where)


def _fields(record: Record) -> dict[str, Any]:
    """Return the side fields of a result: the output as text, and the variables."""
    response, variables = record.get("response"), record.get("vars")
    fields = dict(variables) if isinstance(variables, dict) else {}
    return {"text": response.get("output") if isinstance(response, dict) else None, **fields}
