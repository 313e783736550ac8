"""Texts, images and times in the exports of annotation tools."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import errors
from crowdwise.io import FORMATS, read, read_side_columns
from tests.helpers.reading import known_seconds, notes_with, read_both


def zipped(**members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, records in members.items():
            archive.writestr(f"{name}.jsonl", "\n".join(map(json.dumps, records)))
    return out.getvalue()


def annotation(worker, choice, seconds, **fields):
    result = {"type": "choices", "value": {"choices": [choice]}, "from_name": "q"}
    return {"completed_by": worker, "result": [result], "lead_time": seconds} | fields


LABEL_STUDIO = [
    {
        "id": 1, "data": {"text": "one", "title": "I", "image": "1.jpg"},
        "annotations": [annotation(8, "x", 2.5), annotation(7, "y", 4), annotation(9, "y", 5, was_cancelled=True)],
    },
    {"id": 2, "data": {"text": "two", "title": "II"}, "annotations": [annotation(7, "x", 346193.271)]},
    {"id": 3, "data": {"text": "three"}, "annotations": [annotation(7, "x", "soon"), annotation({"id": 8}, "x", None)]},
]  # fmt: skip


def test_label_studio(put):
    file = put("export.json", LABEL_STUDIO)
    answers, side = read_both(file)
    assert side.texts.tolist() == ["one", "two", "three"]
    assert side.images.tolist() == ["1.jpg", None, None]
    assert known_seconds(answers, side) == {(1, 7): 4, (1, 8): 2.5}
    assert notes_with(side, "left unknown: 2")
    for name in ("title", "data.title"):
        assert read_side_columns(file, answers, text=name).texts.tolist() == ["I", "II", None]
    with pytest.raises(errors.MissingColumnError, match=r"'body'.*'data.text', 'data.title', 'data.image'\."):
        read_side_columns(file, answers, text="body")
    bare = [{**record, "data": None} for record in LABEL_STUDIO]
    assert read_side_columns(put("bare.json", bare), answers).texts is None
    untimed = put("untimed.json", [LABEL_STUDIO[2] | {"annotations": [annotation(7, "x", None)]}])
    assert read_side_columns(untimed, read(untimed)) == (["three"], None, None, ["Texts come from 'data.text'."])


def test_texts_used_by_default_never_fail(put):
    records = [
        {"id": 1, "data": {"text": "a"}, "annotations": [annotation(7, "x", 1)]},
        {"id": 1, "data": {"text": "b"}, "annotations": [annotation(8, "x", 1)]},
        {"id": 2, "data": {"text": ["c", 3]}, "annotations": [annotation(8, "x", 1)]},
        {"id": 3, "data": {"text": "half \ud800"}, "annotations": [annotation(8, "x", 1)]},
    ]
    file = put("export.json", records)
    _, side = read_both(file)
    assert side.texts.tolist() == [None, '["c", 3]', "half ?"]
    assert notes_with(side, "several") == ["Tasks with several texts, which are ignored: 1 (1)."]


def test_label_studio_file_without_answers(put, tmp_path):
    put("p1.json", LABEL_STUDIO)
    empty = [annotation("a@b.c", None, 3), annotation(None, "x", 3), annotation(["w"], None, 3)]
    put("p2.json", [{"id": 4, "data": {"text": "four"}, "annotations": [*empty, *LABEL_STUDIO[1]["annotations"]]}])
    put("p3.json", [{"id": 5, "data": {"other": "five"}, "annotations": []}])
    _, side = read_both(str(tmp_path / "p?.json"), text="text")
    assert side.texts.tolist() == ["one", "two", "three", "four"]


def prodigy(task, worker, at, answer="accept", accept=("A",), **fields):
    return {
        "text": f"text {task}", "_input_hash": task, "_task_hash": 5, "options": [], "accept": list(accept),
        "answer": answer, "_timestamp": at, "_annotator_id": worker,
    } | fields  # fmt: skip


def test_prodigy(put):
    records = [
        prodigy(1, "ann", 1707211000), prodigy(2, "ann", 1707211010, "ignore"), prodigy(3, "ann", 1707211013),
        prodigy(4, "ann", 1707211020, accept=()), prodigy(5, "ann", 1707211024),
        prodigy(1, "bob", 1707211001), prodigy(3, "bob", "late"), prodigy(5, "bob", 1707299999),
        prodigy(6, "2024-02-06_10-57-29", 1707211002),
    ]  # fmt: skip
    file = put("a.jsonl", records, lines=True)
    answers, side = read_both(file, nulls="drop")
    assert side.texts.tolist() == ["text 1", "text 3", "text 5"]
    assert known_seconds(answers, side) == {(3, "ann"): 3, (5, "ann"): 4}  # skipped records took time of their own
    assert notes_with(side, "breaks: 1")
    assert notes_with(side, "unknown: 1")
    assert read_side_columns(file, answers, text="answer").texts.tolist() == ["accept"] * 3


def test_prodigy_questions_share_one_timeline(put):
    def binary(task, label, at):
        record = prodigy(task, "ann", at, label=label)
        return {name: value for name, value in record.items() if name not in ("accept", "options")}

    file = put("a.jsonl", [binary(1, "S", 100), binary(1, "F", 110), binary(2, "S", 112)], lines=True)
    answers = read(file, question="S")
    assert known_seconds(answers, read_side_columns(file, answers, question="S")) == {(2, "ann"): 2}
    with pytest.raises(errors.QuestionError):
        read_side_columns(file, answers)


def test_mturk(put):
    header = ["HITId", "WorkerId", "AssignmentStatus", "WorkTimeInSeconds", "Input.tweet", "Input.image_url",
              "Answer.q"]  # fmt: skip
    lines = [
        "H1,W2,Approved,30,one,u1,x", "H1,W1,Submitted,20,one,u1,y", "H2,W1,Rejected,999,two,u2,x",
        "H2,W2,Approved,,two,u2,y", "H2,W3,Approved,5,two,u2,",
    ]  # fmt: skip
    file = put("batch.csv", "\n".join([",".join(header), *lines]))
    answers = read(file)
    for name in ("tweet", "Input.tweet"):
        side = read_side_columns(file, answers, text=name)
        assert side.texts.tolist() == ["one", "two"]
    assert side.images.tolist() == ["u1", "u2"]
    assert known_seconds(answers, side) == {("H1", "W1"): 20, ("H1", "W2"): 30}
    assert read_side_columns(file, answers).texts is None
    with pytest.raises(errors.MissingColumnError, match=r"'text'.*the file has 'Input.tweet', 'Input.image_url'\."):
        read_side_columns(file, answers, text="text")
    urls = read(file, task="Input.image_url")
    assert read_side_columns(file, urls, task="Input.image_url").images.tolist() == ["u1", "u2"]


def test_toloka(put):
    header = ["INPUT:image", "OUTPUT:q", "ASSIGNMENT:assignment_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:status",
              "ASSIGNMENT:started", "ASSIGNMENT:submitted"]  # fmt: skip
    lines = [
        ["u1", "OK"],  # has the assignment of the next row
        ["u2", "BAD", "a1", "w1", "APPROVED", "2016-04-18T11:54:40.294", "2016-04-18T11:54:49.294"],
        ["u1", "BAD", "a2", "w2", "REJECTED", "2016-04-18T11:54:40", "2016-04-18T11:55:40"],
        ["u2", "OK", "a3", "w3", "SUBMITTED", "2016-04-18T11:54:40", "2016-04-18T11:55:40"],
    ]
    rows = ["\t".join(line + [""] * (len(header) - len(line))) for line in [header, *lines]]
    file = put("results.tsv", "\n".join(rows))
    answers, side = read_both(file, text="image")
    assert side.texts.tolist() == side.images.tolist() == ["u1", "u2"]
    assert known_seconds(answers, side) == {("u1", "w1"): 4.5, ("u2", "w1"): 4.5, ("u2", "w3"): 60}


def test_argilla(put, tmp_path):
    records = [
        {
            "id": f"r{i}", "text": f"text {i}", "body": f"body {i}", "q.responses": ["yes", "no"],
            "q.responses.users": ["u1", "u2"], "q.responses.status": ["submitted", "draft"],
        }
        for i in (2, 1)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    for file in (put("a.json", records), tmp_path / "a.parquet"):
        answers, side = read_both(file)
        assert side.texts.tolist() == ["text 1", "text 2"]
        assert side.seconds is None
        assert read_side_columns(file, answers, text="body").texts.tolist() == ["body 1", "body 2"]


def test_doccano(put):
    ann = [{"id": 2, "text": "two", "label": ["x"]}, {"id": 1, "text": "one", "label": ["y"]}]
    file = put("export.zip", zipped(ann=ann, bob=[{"id": 1, "text": "one", "label": []}]))
    assert read_side_columns(file, read(file, nulls="drop")).texts.tolist() == ["one", "two"]


def test_ground_truth(put):
    def entry(worker, label, **fields):
        return {"workerId": worker, "annotationData": {"content": json.dumps({"q": {"label": label}})}} | fields

    record = {
        "source": "hello",
        "annotationsFromAllWorkers": [entry("w1", "x", timeSpentInSeconds=7.5), entry("w2", "y")],
    }
    file = put("a.manifest", [record], lines=True)
    answers, side = read_both(file, text="source")
    assert side.texts.tolist() == ["hello"]
    assert known_seconds(answers, side) == {("hello", "w1"): 7.5}


def test_formats_without_side_columns(put):
    contents = {
        "peerannot": '{"0": {"1": 1}}', "peerannot-by-worker": '{"0": {"1": 1}}', "matrix": "1 0\n-1 1\n",
        "cleanlab": "id,a,b\n1,0,1\n",
    }  # fmt: skip
    assert contents.keys() == {name for name, form in FORMATS.items() if form.inputs is None}
    for name, content in contents.items():
        file = put("file.txt", content)
        answers = read(file, name)
        assert read_side_columns(file, answers, format=name) == (None, None, None, [])
        with pytest.raises(errors.ParameterError, match=f"the format '{name}' contains no texts"):
            read_side_columns(file, answers, format=name, text="t")


def test_options_the_format_does_not_have_are_rejected(put):
    file = put("a.csv", "task,worker,label\n1,a,x\n")
    with pytest.raises(errors.ParameterError, match="no option question="):
        read_side_columns(file, read(file), question="q")


@pytest.mark.parametrize("form", [None, *FORMATS])
def test_garbage_raises_a_crowdwise_error(put, form):
    answers = read(put("good.csv", "task,worker,label\n1,a,x\n"))
    for content in (np.random.default_rng(0).bytes(5000), b"{}", b"[]", b"[3]", b'{"a": 1}', b"word", b"\x1f\x8b"):
        with pytest.raises(errors.CrowdwiseError):
            read_side_columns(put("a.dat", content), answers, format=form, text="t")
