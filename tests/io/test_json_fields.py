"""Fields of JSONL files: those of all lines are found."""

from __future__ import annotations

import json
from random import Random

import pytest

from crowdwise import errors
from crowdwise.io import json_fields, read
from crowdwise.io.json_fields import find_fields
from crowdwise.io.json_records import read_json_lines


def test_truth_and_weight_that_appear_late_are_read(put):
    rows = [{"task": i, "worker": "a", "label": "xy"[i % 2]} for i in range(1500)]
    rows[1200]["truth"] = "y"
    rows[1300]["weight"] = 0.5
    for row in rows[:1300] + rows[1301:]:
        row["weight"] = 1.0 if row["task"] > 1200 else None
    rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
    content = "\n".join(map(json.dumps, rows))
    with pytest.raises(errors.WeightError, match="weight"):  # most rows have none
        read(put("a.jsonl", content))
    for row in rows:
        row.setdefault("weight", 2)
    answers = read(put("b.jsonl", "\n".join(map(json.dumps, rows))))
    assert answers.truth[1200] == 1 and (answers.truth >= 0).sum() == 1
    assert answers.weight[1300] == 0.5


def test_same_fields_as_parsing_every_line(put, monkeypatch):
    """Names and values with escapes, nesting, nulls and white space; blocks end anywhere."""
    monkeypatch.setattr(json_fields, "FIRST_LINES", 2)
    for number in range(200):
        draw = Random(number)
        monkeypatch.setattr(json_fields, "BLOCK", draw.choice((7, 64, 1 << 20)))
        names = ["task", "a b", 'q"q', "\\", "é", "truth", "x\ny"]
        values = [None, 1, 1.5, True, "text", 'in "quotes": {', {"truth": 1, "deep": [{"k": 2}]}, ["a", {"b": 1}], "\\"]
        rows = [{draw.choice(names): draw.choice(values) for _ in range(draw.randint(1, 3))} for _ in range(12)]
        separators = draw.choice(((",", ":"), (", ", ": "), (" ,\t", "\t: ")))
        lines = [json.dumps(row, ensure_ascii=draw.random() < 0.5, separators=separators) for row in rows]
        file = put("a.jsonl", draw.choice(("\n", "\r\n", "\n\n")).join(lines))
        expected: dict[str, type | None] = {}
        for _, record in read_json_lines(file):
            json_fields._add(expected, record)
        assert find_fields(file) == expected


def test_many_names_are_found_by_parsing(put, monkeypatch):
    monkeypatch.setattr(json_fields, "MAX_NAMES", 8)
    monkeypatch.setattr(json_fields, "FIRST_LINES", 2)
    file = put("a.jsonl", "\n".join(json.dumps({f"field{i}": i}) for i in range(20)))
    assert len(find_fields(file)) == 20
