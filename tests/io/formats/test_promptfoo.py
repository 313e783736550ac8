"""Results have the structure that promptfoo 0.121 writes."""

from __future__ import annotations

import pytest

from crowdwise import errors
from crowdwise.io import read, read_with_side_columns


def graded(provider, passed, value="is polite", **more):
    assertion = {"type": "llm-rubric", "value": value, "provider": provider} | more.pop("assertion", {})
    return {"assertion": assertion, "pass": passed, "score": float(passed), "reason": "fine", "metadata": {}} | more


def result(test, provider, output, *components, prompt="p", **more):
    return {
        "testIdx": test, "promptIdx": 0, "promptId": prompt, "provider": {"id": "file.js", "label": provider},
        "prompt": {"raw": "Reply", "label": prompt}, "response": {"output": output}, "vars": {"id": f"t{test}"},
        "success": True, "failureReason": 0, "gradingResult": {"pass": True, "componentResults": list(components)},
    } | more  # fmt: skip


def document(*results):
    return {"evalId": "eval-x", "results": {"version": 3, "prompts": [], "results": list(results), "stats": {}}}


def test_assertions_are_the_judges(put, rows):
    lost = graded("a", False, reason="Could not extract JSON from llm-rubric response", metadata={"graderError": True})
    same = {"pass": True, "assertion": {"type": "icontains", "value": "hello"}}
    answers, side = read_with_side_columns(
        put("r.json", document(result(0, "x", "hi", graded("a", True), graded({"id": "b"}, False), same),
                               result(1, "x", "yo", lost, graded({"id": "b"}, True))))
    )  # fmt: skip
    assert rows(answers) == [(0, "a", "pass"), (0, "b", "fail"), (1, "b", "pass")]
    assert answers.abstentions == {"a": 1}
    assert side.texts.tolist() == ["hi", "yo"]


def test_replies_and_rubrics_are_different_tasks(put, rows):
    many = document(
        result(0, "x", "hi", graded("a", True), graded("a", False, value="is short")),
        result(0, "y", "yo", graded("a", True)),
    )
    assert rows(read(put("r.json", many))) == [("x/0/1", "a", "pass"), ("x/0/2", "a", "fail"), ("y/0", "a", "pass")]


def test_a_metric_is_a_question(put, rows):
    style, facts = ({"metric": metric} for metric in ("style", "facts"))
    file = put("r.json", document(result(0, "x", "hi", graded("a", True, assertion=style),
                                         graded("a", False, value="is true", assertion=facts))))  # fmt: skip
    assert rows(read(file, question="facts")) == [(0, "a", "fail")]
    with pytest.raises(errors.FormatError, match=r"metric or type 'tone'.*'facts'"):
        read(file, question="tone")


def test_providers_are_the_judges(put, rows):
    equals = {"pass": True, "assertion": {"type": "equals", "value": "yes"}}
    lines = [
        result(0, "owl", "yes", equals), result(0, "fox", {"verdict": "no"}), result(1, "fox", " yes\n"),
        result(1, "owl", None, failureReason=2, error="rate limit"),
    ]  # fmt: skip
    file = put("r.jsonl", lines, lines=True)
    answers = read(file, task="id")
    assert rows(answers) == [("t0", "fox", "no"), ("t0", "owl", "yes"), ("t1", "fox", "yes")]
    assert answers.abstentions == {"owl": 1}
    assert answers.truth.tolist() == [1, -1]


def test_a_provider_with_two_prompts_is_two_judges(put):
    file = put("r.json", document(result(0, "owl", "yes", prompt="p"), result(0, "owl", "no", prompt="q")))
    assert read(file).workers.tolist() == ["owl/p", "owl/q"]


def test_an_output_with_several_fields_needs_a_question(put, rows):
    file = put("r.json", document(result(0, "owl", {"verdict": "no", "reason": "x"})))
    with pytest.raises(errors.FormatError, match=r"result 0 .*choose one with question="):
        read(file)
    assert rows(read(file, question="verdict")) == [(0, "owl", "no")]


@pytest.mark.parametrize(
    "results", [[3], [{"provider": 3}], [{"provider": "x"}], [result(0, "x", "y") | {"provider": []}]]
)
def test_unexpected_structures_are_rejected(put, results):
    with pytest.raises(errors.FormatError):
        read(put("r.json", document(*results)))
