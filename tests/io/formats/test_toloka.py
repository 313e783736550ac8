from __future__ import annotations

import pytest

from crowdwise import errors
from crowdwise.io import read

HEADER = [
    "INPUT:url", "OUTPUT:code", "GOLDEN:code", "HINT:text", "HINT:default_language", "ASSIGNMENT:link",
    "ASSIGNMENT:assignment_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:status", "ASSIGNMENT:started",
]  # fmt: skip


def results(*rows, header=HEADER):
    lines = ["\t".join(header), *("\t".join(row.get(name, "") for name in header) for row in rows)]
    return "\n".join(lines) + "\n"


def row(url, code, assignment="", worker="", status="", golden=""):
    return {
        "INPUT:url": url, "OUTPUT:code": code, "GOLDEN:code": golden, "ASSIGNMENT:assignment_id": assignment,
        "ASSIGNMENT:worker_id": worker, "ASSIGNMENT:status": status,
    }  # fmt: skip


ROWS = [
    row("u1", "OK"),  # has the assignment a1
    row("u2", "BAD", golden="OK"),  # also a1
    row("u3", "OK", "a1", "w1", "APPROVED"),
    {},  # a blank row between assignments
    row("u1", "BAD"),  # has the assignment a2, which was rejected
    row("u2", "OK", "a2", "w2", "REJECTED", golden="OK"),
    row("u1", "BAD", "a3", "w3", "SUBMITTED"),
    row("u2", "", "a4", "w4", "SKIPPED"),
]


def test_pool_results(put, rows):
    answers = read(put("results.tsv", results(*ROWS)))
    assert rows(answers) == [("u1", "w1", "OK"), ("u1", "w3", "BAD"), ("u2", "w1", "BAD"), ("u3", "w1", "OK")]
    assert answers.truth.tolist() == answers.marked_gold.tolist() == [-1, 1, -1]
    assert answers.removed == {"rows without an answer in 'OUTPUT:code'": 2, "answers with status REJECTED": 2}


def test_the_task_id_column_is_preferred(put, rows):
    header = [*HEADER, "INPUT:text", "ASSIGNMENT:task_id"]
    entry = row("u1", "OK", "a", "w", "APPROVED") | {"INPUT:text": "t", "ASSIGNMENT:task_id": "0001"}
    file = put("results.tsv", results(entry, header=header))
    assert rows(read(file)) == [("0001", "w", "OK")]
    assert rows(read(file, task="INPUT:text")) == [("t", "w", "OK")]
    file = put("more.tsv", results(entry, header=header[:-1]))
    with pytest.raises(errors.MissingColumnError, match=r"2 INPUT: columns \(INPUT:url, INPUT:text\)"):
        read(file)


def test_a_question_must_be_chosen(put, rows):
    file = put("results.tsv", results(ROWS[2] | {"OUTPUT:size": "9"}, header=[*HEADER, "OUTPUT:size"]))
    with pytest.raises(errors.QuestionError, match="'code', 'size'"):
        read(file)
    for question in ("size", "OUTPUT:size"):
        assert rows(read(file, question=question)) == [("u3", "w1", 9)]


def test_rows_without_an_assignment_are_rejected(put):
    with pytest.raises(errors.NullError, match=r"'ASSIGNMENT:worker_id' is empty in 1 of 2 rows \(lines 3\)"):
        read(put("results.tsv", results(ROWS[2], row("u9", "OK"))))


def test_two_known_labels_of_a_task_are_rejected(put):
    twice = [row("u", "OK", "a", "w", "APPROVED", "OK"), row("u", "OK", "b", "v", "APPROVED", "BAD")]
    with pytest.raises(errors.DuplicateError, match="'u' two known labels"):
        read(put("results.tsv", results(*twice)))
