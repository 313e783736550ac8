"""Test runs have the structure that deepeval 4.3.1 writes."""

from __future__ import annotations

import pytest

from crowdwise import errors
from crowdwise.io import read, read_with_side_columns


def metric(judge, passed, name="Correctness [GEval]", **more):
    return {"name": name, "threshold": 0.5, "success": passed, "score": 0.9, "evaluationModel": judge} | more


def case(name, *metrics, order=0):
    return {
        "name": name,
        "input": "q",
        "actualOutput": f"reply of {name}",
        "metricsData": list(metrics),
        "order": order,
    }


def run(*cases):
    return {"testCases": list(cases), "conversationalTestCases": [], "metricsScores": []}


def test_a_test_run(put, rows):
    error = {"error": "Evaluation LLM outputted an invalid JSON.", "score": None}
    answers, side = read_with_side_columns(
        put("run.json", run(case("c0", metric("a", True), metric("b", False)), case("c1", metric("a", False, **error),
                                                                                    metric("b", True))))
    )  # fmt: skip
    assert rows(answers) == [("c0", "a", "pass"), ("c0", "b", "fail"), ("c1", "b", "pass")]
    assert answers.abstentions == {"a": 1}  # which DeepEval counts as a failure
    assert side.texts.tolist() == ["reply of c0", "reply of c1"]
    assert rows(read(put("latest.json", {"testRunData": run(case("c0", metric("a", True)))}))) == [("c0", "a", "pass")]


def test_what_evaluate_returns(put, rows):
    result = {"name": "Style", "success": True, "score": 1.0, "evaluation_model": None}
    file = put("result.json", {"test_results": [{"name": "c0", "metrics_data": [result]}], "confident_link": None})
    assert rows(read(file)) == [("c0", "Style", "pass")]


def test_metrics_are_questions_and_equal_names_different_cases(put, rows):
    two = run(case("c", metric("a", True), metric("a", False, "Tone")), case("c", metric("a", False), order=1))
    file = put("run.json", two)
    with pytest.raises(errors.QuestionError, match=r"'Correctness \[GEval\]', 'Tone'"):
        read(file)
    assert rows(read(file, question="Correctness [GEval]")) == [("c/0", "a", "pass"), ("c/1", "a", "fail")]


@pytest.mark.parametrize("cases", [[3], [{"name": "c", "metricsData": 3}], [{"name": "c", "metricsData": [3]}],
                                   [{"metricsData": [metric("a", True)]}]])  # fmt: skip
def test_unexpected_structures_are_rejected(put, cases):
    with pytest.raises(errors.FormatError):
        read(put("run.json", run(*cases)))
