from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import errors
from crowdwise.io import read

V2 = [
    {
        "id": "r1", "text": "hello", "q1.responses": ["yes", "no"], "q1.responses.users": ["u1", "u2"],
        "q1.responses.status": ["submitted", None], "q1.suggestion": "yes",
    },
    {
        "id": "r2", "text": "you", "q1.responses": ["no", "yes"], "q1.responses.users": ["u1", "u3"],
        "q1.responses.status": ["submitted", "discarded"], "q1.suggestion": None,
    },
    {"id": "r3", "text": "!", "q1.responses": None, "q1.responses.users": None, "q1.responses.status": None},
]  # fmt: skip

V1 = [
    {"external_id": "e1", "question-1": [{"user_id": "u1", "value": "A", "status": "submitted"}]},
    {
        "external_id": "e2",
        "question-1": [
            {"user_id": "u1", "value": "B", "status": "submitted"},
            {"user_id": "u2", "value": "B", "status": "draft"},
            {"user_id": None, "value": "B", "status": "submitted"},
        ],
    },
    {"external_id": "e3", "question-1": []},
]


def test_version_2_records(put, tmp_path, rows):
    pq.write_table(pa.Table.from_pylist(V2), tmp_path / "a.parquet")
    for file in (put("a.json", V2), put("a.jsonl", V2, lines=True), tmp_path / "a.parquet"):
        answers = read(file)
        assert rows(answers) == [("r1", "u1", "yes"), ("r2", "u1", "no")]
        assert answers.removed == {"responses that were not submitted": 2}


def test_version_1_records(put, tmp_path, rows):
    pq.write_table(pa.Table.from_pylist(V1), tmp_path / "a.parquet")
    for file, form in ((put("a.jsonl", V1, lines=True), None), (tmp_path / "a.parquet", "argilla")):
        answers = read(file, form)
        assert rows(answers) == [("e1", "u1", "A"), ("e2", "u1", "B")]
        assert answers.removed == {"responses that were not submitted": 1, "answers without a worker": 1}


def test_a_question_must_be_chosen(put, rows):
    record = V2[0] | {"q2.responses": [3], "q2.responses.users": ["u1"], "q2.responses.status": ["submitted"]}
    file = put("a.json", [record])
    with pytest.raises(errors.QuestionError, match="'q1', 'q2'"):
        read(file)
    assert rows(read(file, question="q2")) == [("r1", "u1", 3)]


def test_answers_with_several_labels_are_refused_or_classes(put, rows):
    record = V2[0] | {"q1.responses": [["one"], ["one", "two"]], "q1.responses.status": ["submitted", "submitted"]}
    with pytest.raises(errors.AnswerKindError, match="1 of 2 answers have several labels"):
        read(put("a.json", [record]))
    answers = read(put("a.json", [record]), as_classes=True)
    assert rows(answers) == [("r1", "u1", "one"), ("r1", "u2", "one + two")] and not answers.removed
    ranking = V2[0] | {"q1.responses": [[{"rank": 1}], "x"], "q1.responses.status": ["submitted", "submitted"]}
    assert read(put("b.json", [ranking])).removed == {"answers that are objects, not labels": 1}


def test_the_task_field_is_named_or_recognised(put, rows):
    assert rows(read(put("a.json", V2), task="text"))[0] == ("hello", "u1", "yes")
    record = {key: value for key, value in V2[0].items() if key != "id"}
    with pytest.raises(errors.FormatError, match="no field 'id' or 'external_id'"):
        read(put("b.json", [record]))


def test_lists_of_different_lengths_are_rejected(put):
    with pytest.raises(errors.FormatError, match="2 responses, 1 users"):
        read(put("a.json", [V2[0] | {"q1.responses.users": ["u1"]}]))
