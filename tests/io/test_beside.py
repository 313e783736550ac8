"""Texts, images and times, joined to answers by task and worker whatever the file, its order and its faults."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import errors
from crowdwise.io import FORMATS, read, read_beside, write
from crowdwise.io.beside import TIMES

HEADER = ("task", "worker", "label", "tweet", "seconds")
ROWS = [
    (1, "ann", "yes", "one, 'two'", 2.5),
    (1, "bob", "no", "one, 'two'", 4.0),
    (2, "ann", "no", "=three", 8.0),
    (2, "cid", "no", "=three", None),
]


def table(rows=ROWS, header=HEADER):
    return pa.Table.from_pylist([dict(zip(header, row, strict=True)) for row in rows])


def known(answers, beside):
    """(task, worker) -> seconds."""
    ids = zip(answers.tasks[answers.task], answers.workers[answers.worker], strict=True)
    assert beside.seconds.shape == (answers.n_answers,)
    return {pair: seconds for pair, seconds in zip(ids, beside.seconds.tolist(), strict=True) if seconds == seconds}


def said(beside, word):
    return [note for note in beside.notes if word in note]


# Long tables


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_every_kind_of_table(tmp_path, name):
    write(table(), tmp_path / name)
    answers = read(tmp_path / name)
    beside = read_beside(tmp_path / name, answers, text="tweet")
    assert beside.texts.tolist() == ["one, 'two'", "=three"]
    assert known(answers, beside) == {(1, "ann"): 2.5, (1, "bob"): 4, (2, "ann"): 8}
    assert beside.images is None
    assert beside.notes == [
        "The texts are those of 'tweet'.", "The times are those of 'seconds', known for 3 of 4 answers.",
    ]  # fmt: skip
    assert read_beside(tmp_path / name, answers).texts is None


def many(n_tasks=30, seed=0):
    rng = np.random.default_rng(seed)
    pairs = [(t, w) for t in range(n_tasks) for w in rng.choice(6, 3, replace=False)]
    rows = [(t, f"w{w}", int(rng.integers(3)), f"text {t}", float(rng.integers(1, 5000))) for t, w in pairs]
    return rows, rng


@pytest.mark.parametrize("times", ["seconds", "timestamp"])
def test_order_of_rows_and_files_and_names_of_ids_do_not_matter(tmp_path, times):
    rows, rng = many()
    header = (*HEADER[:4], times)
    write(table(rows, header), tmp_path / "all.csv")
    answers = read(tmp_path / "all.csv")
    expected = read_beside(tmp_path / "all.csv", answers, text="tweet")
    assert (~np.isnan(expected.seconds)).sum() > 40
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    write(table(shuffled[:40], header), tmp_path / "part-1.csv")
    write(table(shuffled[40:], header), tmp_path / "part-2.csv")
    parts = read_beside(str(tmp_path / "part-*.csv"), answers, text="tweet")
    assert parts.texts.tolist() == expected.texts.tolist()
    np.testing.assert_array_equal(parts.seconds, expected.seconds)
    assert parts.notes == expected.notes
    new = [(f"t{99 - t}", w[::-1], *rest) for t, w, *rest in rows]
    write(table(new, header), tmp_path / "new.csv")
    renamed = read(tmp_path / "new.csv")
    other = read_beside(tmp_path / "new.csv", renamed, text="tweet")
    assert known(renamed, other) == {
        (f"t{99 - t}", w[::-1]): seconds for (t, w), seconds in known(answers, expected).items()
    }
    assert dict(zip(renamed.tasks, other.texts, strict=True)) == {f"t{99 - t}": f"text {t}" for t in range(30)}


def test_a_part_of_the_answers(tmp_path):
    rows, _ = many()
    write(table(rows), tmp_path / "a.csv")
    answers = read(tmp_path / "a.csv")
    whole = read_beside(tmp_path / "a.csv", answers, text="tweet")
    chosen = np.array([7, 3, 20])
    part = read_beside(tmp_path / "a.csv", answers[chosen], text="tweet")
    assert part.texts.tolist() == whole.texts[chosen].tolist()
    expected = known(answers, whole)
    assert known(answers[chosen], part) == {pair: s for pair, s in expected.items() if pair[0] in chosen}


def test_rows_left_out_shift_nothing(put):
    file = put("a.csv", "task,worker,label,seconds\n1,ann,,99\n1,bob,x,1\n,ann,y,98\n2,ann,y,2\n2,,x,97\n1,ann,y,3\n")
    answers = read(file, nulls="drop")
    assert known(answers, read_beside(file, answers)) == {(1, "bob"): 1, (2, "ann"): 2, (1, "ann"): 3}


def test_answers_given_twice_have_the_mean(put):
    file = put("a.csv", "task,worker,label,seconds\n1,ann,x,2\n1,bob,y,7\n1,ann,y,4\n")
    for policy in ("first", "last", "vote"):
        answers = read(file, duplicates=policy)
        beside = read_beside(file, answers)
        assert known(answers, beside) == {(1, "ann"): 3, (1, "bob"): 7}
        assert said(beside, "more than once") == ["Answers given more than once, whose time is the mean: 1."]


@pytest.mark.parametrize("name", TIMES["seconds"])
def test_each_name_for_seconds(put, name):
    file = put("a.csv", f"task,worker,label,{name.replace('_', ' ').title()}\n1,ann,x,1500\n")
    milli = name in ("duration_ms", "response_time_ms", "milliseconds")
    assert read_beside(file, read(file)).seconds.tolist() == [1.5 if milli else 1500]


def test_ids_are_no_times(put):
    file = put("a.csv", "duration,worker,label,seconds\n1,ann,x,5\n2,ann,x,6\n")
    beside = read_beside(file, read(file, task="duration", label="seconds"), task="duration", label="seconds")
    assert beside.seconds is None
    assert beside.notes == []


def test_faulty_times_are_unknown_and_counted(put):
    cells = ["3", "soon", "-1", "inf", "86401", "", "1e400", "86400"]
    rows = [f"{i},ann,{'xy'[i % 2]},{cell}" for i, cell in enumerate(cells)]
    file = put("a.csv", "\n".join(["task,worker,label,seconds", *rows]))
    beside = read_beside(file, read(file))
    assert [s if s == s else None for s in beside.seconds.tolist()] == [3, *[None] * 6, 86400]
    assert said(beside, "unknown") == ["Times not understood, negative or over 24 hours, left unknown: 5."]
    file = put("b.csv", "task,worker,label,seconds\n1,ann,x,?\n")
    assert read_beside(file, read(file)).seconds is None
    values = [3, "soon", None, 4.5, [1], True, "6"]
    file = put(
        "c.jsonl", [{"task": i, "worker": "a", "label": i % 2, "seconds": s} for i, s in enumerate(values)], lines=True
    )
    answers = read(file)
    beside = read_beside(file, answers)
    assert known(answers, beside) == {(0, "a"): 3, (3, "a"): 4.5, (6, "a"): 6}
    assert said(beside, "unknown: 3")


def test_start_and_end(put, tmp_path):
    rows = [
        "1,ann,x,2024-02-06T10:00:00Z,2024-02-06T10:00:12.5Z",
        "2,ann,x,2024-02-06T10:00:20Z,2024-02-06T10:01:20Z",  # these two on one page
        "3,ann,y,2024-02-06T10:00:20Z,2024-02-06T10:01:20Z",
        "1,bob,y,2024-02-06T10:00:20Z,2024-02-06T10:01:20Z",
        "2,bob,y,2024-02-06T10:00:20Z,",
        "3,bob,y,2024-02-06T10:00:20Z,2024-02-06T10:00:00Z",
    ]
    file = put("a.csv", "\n".join(["task,worker,label,started_at,submitted_at", *rows]))
    answers = read(file)
    beside = read_beside(file, answers)
    assert known(answers, beside) == {(1, "ann"): 12.5, (2, "ann"): 30, (3, "ann"): 30, (1, "bob"): 60}
    assert beside.notes == [
        "The times are those of 'started_at' and 'submitted_at', known for 4 of 6 answers.",
        "Times not understood, negative or over 24 hours, left unknown: 1.",
        "Answers that share a span of time, an equal part each: 2.",
    ]
    stamps = {name: pa.array([at], pa.timestamp("ms")) for name, at in (("start_time", 1000), ("end_time", 3500))}
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], **stamps}), tmp_path / "a.parquet")
    assert read_beside(tmp_path / "a.parquet", read(tmp_path / "a.parquet")).seconds.tolist() == [2.5]


def test_gaps_between_moments(put):
    rows = [(1, "a", "x", 100), (2, "a", "x", 130), (3, "a", "", 150), (4, "a", "y", 155), (5, "a", "y", 1955),
            (6, "a", "y", 3756), (7, "a", "y", 3760), (8, "a", "y", 3760), (1, "b", "x", 131), (2, "b", "x", "noon"),
            (3, "b", "x", 133)]  # fmt: skip
    file = put("a.csv", "\n".join(["task,worker,label,timestamp", *(",".join(map(str, row)) for row in rows)]))
    answers = read(file, nulls="drop")
    beside = read_beside(file, answers)
    # the answer left out at 150 took its time; 1800 s are no break yet and 1801 are; two at one moment share the gap
    assert known(answers, beside) == {
        (2, "a"): 30, (4, "a"): 5, (5, "a"): 1800, (7, "a"): 2, (8, "a"): 2, (3, "b"): 2,
    }  # fmt: skip
    assert beside.notes == [
        "The times are the gaps between a worker's answers by 'timestamp', known for 6 of 10 answers.",
        "Gaps over 30 minutes, taken for breaks: 1.",
        "Times not understood, negative or over 24 hours, left unknown: 1.",
        "Answers that share a span of time, an equal part each: 2.",
    ]


def test_overlapping_files_do_not_halve_the_times(put, tmp_path):
    text = "task,worker,label,timestamp\n1,a,x,100\n2,a,x,130\n"
    put("p1.csv", text), put("p2.csv", text)
    answers = read(str(tmp_path / "p?.csv"), duplicates="first")
    assert known(answers, read_beside(str(tmp_path / "p?.csv"), answers)) == {(2, "a"): 30}


def test_files_with_different_kinds_of_time(put, tmp_path):
    put("p1.csv", "task,worker,label,seconds\n1,a,x,5\n")
    put("p2.csv", "task,worker,label,timestamp\n2,a,x,100\n3,a,x,107\n")
    put("p3.csv", "task,worker,label\n4,a,x\n")
    answers = read(str(tmp_path / "p?.csv"))
    assert known(answers, read_beside(str(tmp_path / "p?.csv"), answers)) == {(1, "a"): 5, (3, "a"): 7}


# Texts and images


def test_texts_of_tasks(put):
    file = put(
        "a.csv", "task,worker,label,note,image url\n1,a,x,,i/1.png\n1,b,x,one,\n2,a,y,two,http://e.org/2\n3,a,y,,\n"
    )
    beside = read_beside(file, read(file), text="note")
    assert beside.texts.tolist() == ["one", "two", None]
    assert beside.images.tolist() == ["i/1.png", "http://e.org/2", None]
    assert beside.notes == [
        "The texts are those of 'note'; tasks without one: 1 of 3 (3).",
        "The images are those of 'image url'; tasks without one: 1 of 3 (3).",
    ]


def test_the_task_itself_may_be_the_text(put):
    for file in (
        put("a.csv", "text,worker,label\nhello,a,x\n"),
        put("a.jsonl", '{"text":"hello","worker":1,"label":2}'),
    ):
        answers = read(file, task="text")
        assert read_beside(file, answers, task="text", text="text").texts.tolist() == ["hello"]


def test_texts_that_are_numbers_or_mixed(put, tmp_path):
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], "t": [5]}), tmp_path / "a.parquet")
    assert read_beside(tmp_path / "a.parquet", read(tmp_path / "a.parquet"), text="t").texts.tolist() == ["5"]
    records = [{"task": i, "worker": 1, "label": 1, "t": t} for i, t in enumerate(["a", 5, ["b"], None])]
    file = put("a.jsonl", records, lines=True)
    assert read_beside(file, read(file), text="t").texts.tolist() == ["a", "5", '["b"]', None]


def test_two_texts_of_a_task(put):
    file = put("a.csv", "task,worker,label,note,image\n7,a,x,one,1.png\n7,b,x,two,2.png\n8,a,x,one,3.png\n")
    answers = read(file)
    with pytest.raises(errors.DuplicateError, match=r"a.csv: task 7 has two texts in 'note': '(one|two)', '(one|two)'"):
        read_beside(file, answers, text="note")
    beside = read_beside(file, answers)
    assert beside.images.tolist() == [None, "3.png"]
    assert said(beside, "several") == ["Tasks with several images, left without: 1 (7)."]


def test_texts_that_are_not_there(put, tmp_path):
    file = put("a.csv", "task,worker,label,note,note\n1,a,x,,\n2,a,x,,\n")
    answers = read(file)
    with pytest.raises(
        errors.MissingColumnError, match=r"no column or field 'tweet'.*'task', 'worker', 'label', 'note'"
    ):
        read_beside(file, answers, text="tweet")
    with pytest.raises(errors.MissingColumnError, match="stands 2 times"):
        read_beside(file, answers, text="note")
    for bad in ("", 3):
        with pytest.raises(errors.ParameterError, match="text="):
            read_beside(file, answers, text=bad)
    file = put("b.csv", "task,worker,label,note\n1,a,x,\n2,a,x, \n3,a,x,three\n")
    with pytest.raises(errors.FormatError, match=r"'note' is empty for 2 of 3 tasks \(1, 2\)"):
        read_beside(file, read(file), text="note")
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], "t": [["a"]]}), tmp_path / "a.parquet")
    with pytest.raises(errors.FormatError, match="'t' holds lists"):
        read_beside(tmp_path / "a.parquet", read(tmp_path / "a.parquet"), text="t")


def test_tasks_nobody_answered_have_no_text(put):
    file = put("a.csv", "task,worker,label,note\n1,a,x,one\n")
    beside = read_beside(file, read(file, tasks=[1, 2, 3, 4]), text="note")
    assert beside.texts.tolist() == ["one", None, None, None]


def test_images_in_the_file_itself(put, tmp_path):
    pictures = pa.array([{"bytes": b"1", "path": "p"}])
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], "image": pictures}), tmp_path / "a.parquet")
    assert read_beside(tmp_path / "a.parquet", read(tmp_path / "a.parquet")).images is None
    file = put("a.csv", "task,worker,label,image\n1,a,x,data:image/png;base64 AA\n2,a,x,17\n3,a,x,3.png\n")
    beside = read_beside(file, read(file))
    assert beside.images.tolist() == [None, None, "3.png"]
    assert said(beside, "no path") == ["Images that are no path or address, left out: 2."]


def test_another_file(put):
    answers = read(put("a.csv", "task,worker,label\n1,a,x\n"))
    with pytest.raises(errors.UnknownIdError, match="is it another file"):
        read_beside(put("b.csv", "task,worker,label\n2,a,x\n"), answers)
    with pytest.raises(errors.IdTypeError, match="'one'"):
        read_beside(put("c.csv", "task,worker,label\none,a,x\n"), answers)


# Exports


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
    answers = read(file)
    beside = read_beside(file, answers)
    assert beside.texts.tolist() == ["one", "two", "three"]
    assert beside.images.tolist() == ["1.jpg", None, None]
    assert known(answers, beside) == {(1, 7): 4, (1, 8): 2.5}
    assert said(beside, "left unknown: 2")
    for name in ("title", "data.title"):
        assert read_beside(file, answers, text=name).texts.tolist() == ["I", "II", None]
    with pytest.raises(errors.MissingColumnError, match=r"'body'.*'data.text', 'data.title', 'data.image'\."):
        read_beside(file, answers, text="body")
    bare = [{**record, "data": None} for record in LABEL_STUDIO]
    assert read_beside(put("bare.json", bare), answers).texts is None
    untimed = put("untimed.json", [LABEL_STUDIO[2] | {"annotations": [annotation(7, "x", None)]}])
    assert read_beside(untimed, read(untimed)) == (["three"], None, None, ["The texts are those of 'data.text'."])


def test_texts_taken_unasked_never_fail(put):
    records = [
        {"id": 1, "data": {"text": "a"}, "annotations": [annotation(7, "x", 1)]},
        {"id": 1, "data": {"text": "b"}, "annotations": [annotation(8, "x", 1)]},
        {"id": 2, "data": {"text": ["c", 3]}, "annotations": [annotation(8, "x", 1)]},
        {"id": 3, "data": {"text": "half \ud800"}, "annotations": [annotation(8, "x", 1)]},
    ]
    file = put("export.json", records)
    beside = read_beside(file, read(file))
    assert beside.texts.tolist() == [None, '["c", 3]', "half ?"]
    assert said(beside, "several") == ["Tasks with several texts, left without: 1 (1)."]


def test_label_studio_with_nothing_answered_in_one_file(put, tmp_path):
    put("p1.json", LABEL_STUDIO)
    empty = [annotation("a@b.c", None, 3), annotation(None, "x", 3), annotation(["w"], None, 3)]
    put("p2.json", [{"id": 4, "data": {"text": "four"}, "annotations": [*empty, *LABEL_STUDIO[1]["annotations"]]}])
    put("p3.json", [{"id": 5, "data": {"other": "five"}, "annotations": []}])
    answers = read(str(tmp_path / "p?.json"))
    beside = read_beside(str(tmp_path / "p?.json"), answers, text="text")
    assert beside.texts.tolist() == ["one", "two", "three", "four"]


def prodigy(task, worker, at, answer="accept", accept=("A",), **fields):
    return {
        "text": f"text {task}", "_input_hash": task, "_task_hash": 5, "options": [], "accept": list(accept),
        "answer": answer, "_timestamp": at, "_annotator_id": worker,
    } | fields  # fmt: skip


def test_prodigy(put):
    records = [
        prodigy(1, "ann", 1707211000), prodigy(2, "ann", 1707211010, "ignore"), prodigy(3, "ann", 1707211013),
        prodigy(4, "ann", 1707211020, accept=("A", "B")), prodigy(5, "ann", 1707211024),
        prodigy(1, "bob", 1707211001), prodigy(3, "bob", "late"), prodigy(5, "bob", 1707299999),
        prodigy(6, "2024-02-06_10-57-29", 1707211002),
    ]  # fmt: skip
    file = put("a.jsonl", records, lines=True)
    answers = read(file)
    beside = read_beside(file, answers)
    assert beside.texts.tolist() == ["text 1", "text 3", "text 5"]
    assert known(answers, beside) == {(3, "ann"): 3, (5, "ann"): 4}  # what was skipped took its own time
    assert said(beside, "breaks: 1")
    assert said(beside, "unknown: 1")
    assert read_beside(file, answers, text="answer").texts.tolist() == ["accept"] * 3


def test_prodigy_questions_share_a_clock(put):
    def binary(task, label, at):
        record = prodigy(task, "ann", at, label=label)
        return {name: value for name, value in record.items() if name not in ("accept", "options")}

    file = put("a.jsonl", [binary(1, "S", 100), binary(1, "F", 110), binary(2, "S", 112)], lines=True)
    answers = read(file, question="S")
    assert known(answers, read_beside(file, answers, question="S")) == {(2, "ann"): 2}
    with pytest.raises(errors.QuestionError):
        read_beside(file, answers)


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
        beside = read_beside(file, answers, text=name)
        assert beside.texts.tolist() == ["one", "two"]
    assert beside.images.tolist() == ["u1", "u2"]
    assert known(answers, beside) == {("H1", "W1"): 20, ("H1", "W2"): 30}
    assert read_beside(file, answers).texts is None
    with pytest.raises(errors.MissingColumnError, match=r"'text'.*there are 'Input.tweet', 'Input.image_url'\."):
        read_beside(file, answers, text="text")
    urls = read(file, task="Input.image_url")
    assert read_beside(file, urls, task="Input.image_url").images.tolist() == ["u1", "u2"]


def test_toloka(put):
    header = ["INPUT:image", "OUTPUT:q", "ASSIGNMENT:assignment_id", "ASSIGNMENT:worker_id", "ASSIGNMENT:status",
              "ASSIGNMENT:started", "ASSIGNMENT:submitted"]  # fmt: skip
    lines = [
        ["u1", "OK"],  # belongs to the page of the next row
        ["u2", "BAD", "a1", "w1", "APPROVED", "2016-04-18T11:54:40.294", "2016-04-18T11:54:49.294"],
        ["u1", "BAD", "a2", "w2", "REJECTED", "2016-04-18T11:54:40", "2016-04-18T11:55:40"],
        ["u2", "OK", "a3", "w3", "SUBMITTED", "2016-04-18T11:54:40", "2016-04-18T11:55:40"],
    ]
    rows = ["\t".join(line + [""] * (len(header) - len(line))) for line in [header, *lines]]
    file = put("results.tsv", "\n".join(rows))
    answers = read(file)
    beside = read_beside(file, answers, text="image")
    assert beside.texts.tolist() == beside.images.tolist() == ["u1", "u2"]
    assert known(answers, beside) == {("u1", "w1"): 4.5, ("u2", "w1"): 4.5, ("u2", "w3"): 60}


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
        answers = read(file)
        beside = read_beside(file, answers)
        assert beside.texts.tolist() == ["text 1", "text 2"]
        assert beside.seconds is None
        assert read_beside(file, answers, text="body").texts.tolist() == ["body 1", "body 2"]


def test_doccano(put):
    ann = [{"id": 2, "text": "two", "label": ["x"]}, {"id": 1, "text": "one", "label": ["y"]}]
    file = put("export.zip", zipped(ann=ann, bob=[{"id": 1, "text": "one", "label": []}]))
    assert read_beside(file, read(file)).texts.tolist() == ["one", "two"]


def test_ground_truth(put):
    def entry(worker, label, **fields):
        return {"workerId": worker, "annotationData": {"content": json.dumps({"q": {"label": label}})}} | fields

    record = {
        "source": "hello",
        "annotationsFromAllWorkers": [entry("w1", "x", timeSpentInSeconds=7.5), entry("w2", "y")],
    }
    file = put("a.manifest", [record], lines=True)
    answers = read(file)
    beside = read_beside(file, answers, text="source")
    assert beside.texts.tolist() == ["hello"]
    assert known(answers, beside) == {("hello", "w1"): 7.5}


def test_formats_of_answers_alone(put):
    contents = {
        "peerannot": '{"0": {"1": 1}}', "peerannot-by-worker": '{"0": {"1": 1}}', "matrix": "1 0\n-1 1\n",
        "cleanlab": "id,a,b\n1,0,1\n",
    }  # fmt: skip
    assert contents.keys() == {name for name, form in FORMATS.items() if form.inputs is None}
    for name, content in contents.items():
        file = put("file.txt", content)
        answers = read(file, name)
        assert read_beside(file, answers, format=name) == (None, None, None, [])
        with pytest.raises(errors.ParameterError, match=f"text= means nothing in the format '{name}'"):
            read_beside(file, answers, format=name, text="t")


def test_arguments_that_mean_nothing(put):
    file = put("a.csv", "task,worker,label\n1,a,x\n")
    with pytest.raises(errors.ParameterError, match="question= means nothing"):
        read_beside(file, read(file), question="q")


@pytest.mark.parametrize("form", [None, *FORMATS])
def test_rubbish_is_always_an_error_of_ours(put, form):
    answers = read(put("good.csv", "task,worker,label\n1,a,x\n"))
    for content in (np.random.default_rng(0).bytes(5000), b"{}", b"[]", b"[3]", b'{"a": 1}', b"word", b"\x1f\x8b"):
        with pytest.raises(errors.CrowdwiseError):
            read_beside(put("a.dat", content), answers, format=form, text="t")
