"""Results of DeepEval: a test run as saved to its results folder, or the JSON of what `evaluate` returns.

The worker is the `evaluationModel` of a metric (or the metric's name), the question the metric, the task the test case,
and the label pass or fail. A metric that ended with an error has no score: DeepEval counts it as a failure, here it is
an abstention of the judge.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crowdwise.io.json_records import AnswerCollector, check_type, choose_question, first_field, load_json
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

CASES = ("testCases", "conversationalTestCases", "test_results")  # the last is what `evaluate` returns
WRAPPER = "testRunData"

Record = dict[str, Any]


def read_deepeval(
    path: Path, *, question: str | None = None, worker: str | None = None, choose_side: ChooseColumns | None = None
) -> RawColumns:
    """Read the verdicts of one metric; `worker` names the field of a metric that holds the judge."""
    cases = list(_cases(path))
    results = [(case, where, result) for where, case in cases for result in _results(case, where)]
    name = choose_question((str(result.get("name")) for *_, result in results), question)
    repeated = {task for task, count in Counter(_name(case, where) for where, case in cases).items() if count > 1}
    out = AnswerCollector(choose_side)
    for case, where, result in results:
        if str(result.get("name")) != name:
            continue
        task = _name(case, where)
        if task in repeated:
            task = f"{task}/{case.get('order', case.get('index'))}"
        fields = [worker] if worker else ["evaluationModel", "evaluation_model", "name"]
        judge = first_field(result, fields, "worker", f"a metric of {where}")
        failed = result.get("error") is not None or result.get("score") is None
        verdict = None if failed else "pass" if result.get("success") else "fail"
        out.verdict(task, judge, verdict, {"text": case.get("actualOutput", case.get("actual_output")), **case})
    return out.raw()


def _cases(path: Path) -> Iterator[tuple[str, Record]]:
    """Yield the test cases with their position in words."""
    document = check_type(load_json(path), dict, "the file")
    run = check_type(document.get(WRAPPER, document), dict, f"{WRAPPER!r}")
    for key in CASES:
        for number, case in enumerate(check_type(run.get(key) or [], list, repr(key))):
            where = f"case {number} of {key!r} (counted from 0)"
            yield where, check_type(case, dict, where)


def _results(case: Record, where: str) -> list[Record]:
    results = check_type(case.get("metricsData", case.get("metrics_data")) or [], list, f"'metricsData' of {where}")
    return [check_type(result, dict, f"'metricsData' of {where}") for result in results]


def _name(case: Record, where: str) -> str:
    return check_type(case.get("name"), str, f"'name' of {where}")
