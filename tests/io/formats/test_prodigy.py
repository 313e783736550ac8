from __future__ import annotations

import pytest

from crowdwise import errors
from crowdwise.io import read


def choice(task, worker, *accept, answer="accept", **fields):
    return {
        "text": "...", "_input_hash": task, "_task_hash": 5, "options": [{"id": "A"}, {"id": "B"}],
        "accept": list(accept), "answer": answer, "_timestamp": 17, "_annotator_id": worker, "_session_id": worker,
    } | fields  # fmt: skip


def binary(task, worker, label, answer):
    return {
        "text": "...",
        "label": label,
        "_input_hash": task,
        "_task_hash": 6,
        "answer": answer,
        "_session_id": worker,
    }


def test_choices_among_options(put, rows):
    records = [
        choice(-91, "db-ann", "A"), choice(-91, "db-bob", "B"), choice(12, "db-bob"),
        choice(13, "db-ann", answer="ignore"), choice(13, "db-bob", "A", answer="reject"),
        choice(14, "db-2024-02-06_10-57-29", "A"), choice(14, "1707211049", "B"),
    ]  # fmt: skip
    file = put("export.jsonl", records, lines=True)
    answers = read(file, nulls="drop")
    assert rows(answers) == [(-91, "db-ann", "A"), (-91, "db-bob", "B")]
    unnamed = "records of unnamed sessions (worker='_annotator_id' keeps them, one worker per session)"
    assert answers.removed == {
        "rows with a missing value": 1, "records answered 'ignore'": 1,
        "records answered 'reject'": 1, unnamed: 2,
    }  # fmt: skip
    assert read(file, worker="_annotator_id", nulls="drop").n_workers == 4


def test_accept_or_reject(put, rows):
    records = [
        binary(1, "ann", "SPORT", "accept"),
        binary(1, "bob", "SPORT", "reject"),
        binary(2, "ann", "SPORT", "ignore"),
    ]
    answers = read(put("a.jsonl", records, lines=True))
    assert rows(answers) == [(1, "ann", "accept"), (1, "bob", "reject")]
    assert answers.removed == {"records answered 'ignore'": 1}
    file = put("b.jsonl", [*records, binary(1, "ann", "FOOD", "reject")], lines=True)
    with pytest.raises(errors.QuestionError, match="'SPORT', 'FOOD'"):
        read(file)
    assert rows(read(file, question="FOOD")) == [(1, "ann", "reject")]


def test_records_without_a_worker_are_rejected(put):
    record = {key: value for key, value in choice(1, "w", "A").items() if key not in ("_annotator_id", "_session_id")}
    with pytest.raises(errors.FormatError, match="'_annotator_id' or '_session_id' for the worker"):
        read(put("a.jsonl", [record], lines=True))


def test_an_export_of_unnamed_sessions_is_empty(put):
    with pytest.raises(errors.EmptyError, match=r"1 dropped .records of unnamed sessions"):
        read(put("a.jsonl", [choice(1, "2024-02-06_10-57-29", "A")], lines=True))
