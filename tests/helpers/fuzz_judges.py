"""Random files of the tools that evaluate language models, together with the verdicts that a reader must find in them.

Each file also contains verdicts that could not be parsed, which must not become answers.
"""

from __future__ import annotations

import io
import json
import zipfile
from random import Random
from typing import Any

from crowdwise.io.json_records import as_label

Row = tuple[Any, Any, Any]  # task, worker, label
Written = tuple[str, bytes, dict[str, Any], Any]


def inspect_log(rows: list[Row], draw: Random) -> Written:
    """A log of Inspect with one scorer per judge; a judge who did not answer could not be parsed."""
    rows = _verdicts(rows)
    judges = list(dict.fromkeys(worker for _, worker, _ in rows))
    samples = []
    for number, task in enumerate(dict.fromkeys(row[0] for row in rows)):
        given = {worker: label for t, worker, label in rows if t == task}
        scores = {
            f"model_graded_qa{position or ''}": {
                "value": given.get(judge, draw.choice((None, float("nan")))), "answer": "reply",
                "metadata": {"grading": [{"role": "user", "content": "?"}, {"role": "assistant", "model": judge}]},
            }
            for position, judge in enumerate(judges)
        }  # fmt: skip
        samples.append({"id": task, "epoch": 1, "input": f"question {number}", "target": "", "scores": scores})
    head = {"version": 2, "status": "success", "eval": {"task": "t", "model": "m", "scorers": []}}
    if draw.random() < 0.5:
        return "log.json", json.dumps({**head, "samples": samples}).encode(), {}, rows
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as packed:
        packed.writestr(zipfile.ZipInfo("header.json"), json.dumps(head))
        for number, sample in enumerate(samples):
            packed.writestr(zipfile.ZipInfo(f"samples/{number}_epoch_1.json"), json.dumps(sample))
    return "log.eval", out.getvalue(), {}, rows


def promptfoo(rows: list[Row], draw: Random) -> Written:
    """Results of promptfoo with providers as judges, or with one assertion per judge."""
    if draw.random() < 0.5:
        rows = _verdicts(rows)
        results = [_result(task, worker, {"output": label}) for task, worker, label in rows]
        if draw.random() < 0.3:
            results.append(_result(rows[0][0], "nobody", {"error": "rate limit"}) | {"failureReason": 2})
    else:
        rows = [(task, worker, draw.choice(("pass", "fail"))) for task, worker, _ in _verdicts(rows)]
        results = []
        for task in dict.fromkeys(row[0] for row in rows):
            parts = [_component(worker, label == "pass") for t, worker, label in rows if t == task]
            if draw.random() < 0.3:
                parts.append({**_component("nobody", False), "metadata": {"graderError": True}})
            results.append(_result(task, "m", {"output": "reply"}) | {"gradingResult": {"componentResults": parts}})
    if draw.random() < 0.5:
        return "results.jsonl", "\n".join(map(json.dumps, results)).encode(), {}, rows
    return "results.json", json.dumps({"evalId": "e", "results": {"version": 3, "results": results}}).encode(), {}, rows


def deepeval(rows: list[Row], draw: Random) -> Written:
    """A test run of DeepEval; test cases have names."""
    rows = [(str(task), worker, draw.choice(("pass", "fail"))) for task, worker, _ in _verdicts(rows)]
    cases = []
    for number, task in enumerate(dict.fromkeys(row[0] for row in rows)):
        results = [
            {"name": "Correctness [GEval]", "success": label == "pass", "score": 0.5, "evaluationModel": worker}
            for t, worker, label in rows
            if t == task
        ]
        if draw.random() < 0.3:
            results.append({"name": "Correctness [GEval]", "success": False, "error": "x", "evaluationModel": "nobody"})
        cases.append({"name": task, "input": "q", "actualOutput": "a", "metricsData": results, "order": number})
    run = {"testCases": cases, "conversationalTestCases": []}
    return "run.json", json.dumps(draw.choice((run, {"testRunData": run}))).encode(), {}, rows


def lm_eval(rows: list[Row], draw: Random) -> Written:
    """Samples of several models in one file, with generated answers or choices."""
    rows = _verdicts(rows)
    choices = sorted({label for *_, label in rows} | {"another"})
    generated = draw.random() < 0.5
    lines = []
    for task, worker, label in rows:
        sample = {"doc_id": task, "doc": {"x": 1}, "filter": "none", "target": "", "model": worker}
        if generated:
            sample |= {"arguments": {"gen_args_0": {"arg_0": "p", "arg_1": {}}}, "filtered_resps": [label]}
        else:
            sample["arguments"] = {f"gen_args_{i}": {"arg_0": "p", "arg_1": f" {c}"} for i, c in enumerate(choices)}
            sample["filtered_resps"] = [[str(-1.0 - (choice != label)), "False"] for choice in choices]
        lines.append(json.dumps(sample))
    if generated and draw.random() < 0.5:
        lines.append(json.dumps({**json.loads(lines[0]), "model": "nobody", "filtered_resps": ["[invalid]"]}))
    return "samples.jsonl", "\n".join(lines).encode(), {"worker": "model"}, rows


def _verdicts(rows: list[Row]) -> list[Row]:
    """Return the answers with workers and labels as judges have them, as text; an empty label becomes "?"."""
    return [(task, str(worker), as_label(label) or "?") for task, worker, label in rows]


def _result(task: Any, provider: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"testIdx": task, "promptIdx": 0, "promptId": "p", "provider": {"id": provider}, "response": response,
            "vars": {"q": "x"}, "success": True}  # fmt: skip


def _component(judge: str, passed: bool) -> dict[str, Any]:
    assertion = {"type": "llm-rubric", "value": "is polite", "provider": judge}
    return {"assertion": assertion, "pass": passed, "score": float(passed), "reason": "fine"}
