from __future__ import annotations

import json

import pytest

from crowdwise import errors
from crowdwise.io import read


def annotation(worker, **content):
    return {"workerId": worker, "annotationData": {"content": json.dumps(content)}}


def test_an_output_manifest(put, rows):
    label = {"label": "Response 2"}
    records = [
        {
            "source": "s1",
            "my-job": {
                "annotationsFromAllWorkers": [annotation("w1", response=label), annotation("w2", response=label)]
            },
        },
        {"source": "s2", "annotationsFromAllWorkers": [annotation("w1", response={"label": "Response 1"})]},
    ]
    answers = read(put("output.manifest", records, lines=True))
    assert rows(answers) == [("s1", "w1", "Response 2"), ("s1", "w2", "Response 2"), ("s2", "w1", "Response 1")]


def test_a_question_must_be_chosen(put, rows):
    file = put(
        "a.json",
        [{"source-ref": "s", "annotationsFromAllWorkers": [annotation("w", one={"label": "x"}, two={"label": "y"})]}],
    )
    with pytest.raises(errors.QuestionError, match="'one', 'two'"):
        read(file)
    assert rows(read(file, question="two")) == [("s", "w", "y")]


@pytest.mark.parametrize(
    "annotation",
    [3, {}, {"annotationData": 3}, {"annotationData": {"content": "{"}}, {"annotationData": {"content": "3"}}],
)
def test_unexpected_structures_are_rejected(put, annotation):
    with pytest.raises(errors.FormatError):
        read(put("a.json", [{"source": "s", "annotationsFromAllWorkers": [annotation]}]))
