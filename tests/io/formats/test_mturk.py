from __future__ import annotations

import pytest

from crowdwise import errors
from crowdwise.io import read

HEADER = [
    "HITId", "HITTypeId", "Title", "Description", "Keywords", "Reward", "CreationTime", "MaxAssignments",
    "RequesterAnnotation", "AssignmentDurationInSeconds", "AutoApprovalDelayInSeconds", "Expiration",
    "NumberOfSimilarHITs", "LifetimeInSeconds", "AssignmentId", "WorkerId", "AssignmentStatus", "AcceptTime",
    "SubmitTime", "AutoApprovalTime", "ApprovalTime", "RejectionTime", "RequesterFeedback", "WorkTimeInSeconds",
    "LifetimeApprovalRate", "Last30DaysApprovalRate", "Last7DaysApprovalRate", "Input.url", "Input.gold",
    "Answer.sentiment.label", "Approve", "Reject",
]  # fmt: skip


def batch(*rows, header=HEADER):
    lines = [",".join(f'"{name}"' for name in header)]
    lines += [",".join(f'"{row.get(name, "")}"' for name in header) for row in rows]
    return "\n".join(lines) + "\n"


def row(hit, worker, answer, status="Approved", **fields):
    return {"HITId": hit, "WorkerId": worker, "AssignmentStatus": status, "Answer.sentiment.label": answer} | fields


ROWS = [
    row("H1", "W1", "good", **{"Input.url": "u1", "Input.gold": "good", "Description": "a, b\nc"}),
    row("H1", "W2", "bad", "Submitted", **{"Input.url": "u1", "Input.gold": "good"}),
    row("H2", "W1", "bad", "Rejected", **{"Input.url": "u2"}),
    row("H2", "W2", "", **{"Input.url": "u2"}),
    row("H2", "W3", "bad", **{"Input.url": "u2"}),
]


def test_batch_results(put, rows):
    answers = read(put("batch.csv", batch(*ROWS)))
    assert rows(answers) == [("H1", "W1", "good"), ("H1", "W2", "bad"), ("H2", "W3", "bad")]
    assert answers.removed == {
        "answers with status Rejected": 1,
        "rows without an answer in 'Answer.sentiment.label'": 1,
    }
    assert answers.workers.tolist() == ["W1", "W2", "W3"]


def test_task_and_truth_from_input_columns(put, rows):
    answers = read(put("batch.csv", batch(*ROWS)), task="Input.url", truth="Input.gold")
    assert rows(answers)[0] == ("u1", "W1", "good")
    assert answers.truth.tolist() == [1, -1]


def test_a_question_must_be_chosen(put, rows):
    header = [*HEADER, "Answer.colour"]
    file = put("batch.csv", batch(row("H1", "W1", "good", **{"Answer.colour": "3"}), header=header))
    with pytest.raises(errors.QuestionError, match=r"2 questions: 'sentiment.label', 'colour'"):
        read(file)
    for question in ("colour", "Answer.colour"):
        assert rows(read(file, question=question)) == [("H1", "W1", 3)]
    with pytest.raises(errors.QuestionError, match="no question 'shape'"):
        read(file, question="shape")


def test_a_missing_worker_is_reported_with_its_line(put):
    with pytest.raises(errors.NullError, match=r"'WorkerId' is empty in 1 of 2 rows \(lines 5\)"):
        read(put("batch.csv", batch(*ROWS[:1], ROWS[2], row("H2", "", "bad"))))


def test_several_batches_are_combined(put, tmp_path):
    put("batch1.csv", batch(*ROWS))
    put("batch2.csv", batch(row("H3", "W1", "good"), row("H3", "W2", "bad", "Rejected")))
    answers = read(str(tmp_path / "batch*.csv"))
    assert answers.n_tasks == 3
    assert answers.removed["answers with status Rejected"] == 2
