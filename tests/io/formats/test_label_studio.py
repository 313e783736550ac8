from __future__ import annotations

import json

import pytest

from crowdwise import errors
from crowdwise.io import read
from tests.helpers.reading import assert_read_fails


def annotation(worker, *choices, question="label", **fields):
    result = {
        "id": "r",
        "type": "choices",
        "value": {"choices": list(choices)},
        "to_name": "image",
        "from_name": question,
    }
    return {
        "id": 5678, "completed_by": worker, "result": [result], "was_cancelled": False, "ground_truth": False,
    } | fields  # fmt: skip


def task(number, *annotations):
    return {"id": number, "annotations": list(annotations), "data": {"image": "x.jpg"}, "predictions": [{"result": []}]}


def test_a_full_export(put, rows):
    person = {"id": 42, "email": "a@b.c"}
    export = [
        task(1, annotation(person, "Cat"), annotation(7, "Dog"), annotation(8, "Dog", was_cancelled=True)),
        task(2, annotation(42, "Cat"), annotation(1, "Dog", ground_truth=True), annotation(9), annotation(None, "Cat")),
        task(3, annotation(1, "Cat", ground_truth=True)),
        task(5),
    ]
    file = put("export.json", export)
    assert_read_fails(errors.AnswerKindError, r"1 of 4 answers choose no label.*--nulls drop.*--as-classes", file)
    answers = read(file, nulls="drop")
    assert rows(answers) == [(1, 7, "Dog"), (1, 42, "Cat"), (2, 42, "Cat")]
    assert answers.truth.tolist() == [-1, 1]
    assert answers.removed == {
        "cancelled annotations (was_cancelled)": 1,
        "rows with a missing value": 1,
        "answers without a worker": 1,
        "known labels of unanswered tasks": 1,
    }


def test_an_empty_choice_can_be_a_class(put, rows):
    file = put("export.json", [task(1, annotation(7, "Dog"), annotation(8)), task(2, annotation(7), annotation(8))])
    answers = read(file, as_classes=True)
    assert rows(answers) == [(1, 7, "Dog"), (1, 8, "(none)"), (2, 7, "(none)"), (2, 8, "(none)")]


def test_a_single_task_over_several_lines(put):
    assert read(put("one.json", json.dumps(task(1, annotation(7, "Dog")), indent=2))).n_answers == 1


def test_a_question_must_be_chosen(put, rows):
    both = annotation(7, "Cat")
    both["result"] += annotation(7, "big", question="size")["result"]
    both["result"].append({"type": "rectanglelabels", "from_name": "box", "value": {"x": 1}})
    both["result"].append({"type": "rating", "from_name": "stars", "value": {"rating": 4}})
    file = put("export.json", [task(1, both)])
    with pytest.raises(errors.QuestionError, match=r"3 questions: 'label', 'size', 'stars'.*--question.*'label'"):
        read(file)
    assert rows(read(file, question="size")) == [(1, 7, "big")]
    assert rows(read(file, question="stars")) == [(1, 7, 4)]
    with pytest.raises(errors.QuestionError, match="no question 'box'"):
        read(file, question="box")


def test_results_that_are_not_classes_are_rejected(put):
    box = annotation(7) | {"result": [{"type": "rectanglelabels", "from_name": "box", "value": {}}]}
    with pytest.raises(errors.FormatError, match="have the types rectanglelabels; only choices"):
        read(put("export.json", [task(1, box)]))


def test_an_export_without_annotations_is_empty(put):
    with pytest.raises(errors.EmptyError):
        read(put("export.json", [task(1), task(2)]))


def test_two_known_labels_of_a_task_are_rejected(put):
    golds = [annotation(1, "Cat", ground_truth=True), annotation(1, "Dog", ground_truth=True)]
    with pytest.raises(errors.DuplicateError, match="task 1 has two known labels"):
        read(put("export.json", [task(1, *golds)]))


@pytest.mark.parametrize(
    "record",
    [
        {"annotations": []} | {"annotations": [annotation(1, "x")]},
        {"id": 1, "annotations": [3]},
        {"id": 1, "annotations": [annotation(1, "x") | {"result": 3}]},
        {"id": 1, "annotations": [annotation(1, "x") | {"result": [3]}]},
        {"id": {}, "annotations": [annotation(1, "x")]},
        {"id": 1, "annotations": [annotation(["w"], "x")]},
        {
            "id": 1,
            "annotations": [annotation(1, "x") | {"result": [{"type": "choices", "from_name": "q", "value": 3}]}],
        },
        {"id": 1},
    ],
)
def test_unexpected_structures_are_rejected(put, record):
    with pytest.raises(errors.FormatError):
        read(put("export.json", [record]), format="label-studio")
