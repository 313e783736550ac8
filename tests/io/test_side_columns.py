"""Texts, images and times are joined to answers by task and worker, whatever the order and the errors of the file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from crowdwise import errors
from crowdwise.cli import app
from crowdwise.io import read, read_side_columns, read_with_side_columns, write
from crowdwise.io.formats import delimited
from crowdwise.io.side_columns import TIMES
from tests.helpers.reading import known_seconds, notes_with, read_both

HEADER = ("task", "worker", "label", "tweet", "seconds")
ROWS = [
    (1, "ann", "yes", "one, 'two'", 2.5),
    (1, "bob", "no", "one, 'two'", 4.0),
    (2, "ann", "no", "=three", 8.0),
    (2, "cid", "no", "=three", None),
]


def table(rows=ROWS, header=HEADER):
    return pa.Table.from_pylist([dict(zip(header, row, strict=True)) for row in rows])


# Long tables


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.gz", "a.parquet"])
def test_side_columns_of_every_long_format(tmp_path, name):
    write(table(), tmp_path / name)
    answers, side = read_both(tmp_path / name, text="tweet")
    assert side.texts.tolist() == ["one, 'two'", "=three"]
    assert known_seconds(answers, side) == {(1, "ann"): 2.5, (1, "bob"): 4, (2, "ann"): 8}
    assert side.images is None
    assert side.notes == [
        "Texts come from 'tweet'.", "Times come from 'seconds', known for 3 of 4 answers.",
    ]  # fmt: skip
    assert read_side_columns(tmp_path / name, answers).texts is None


@pytest.fixture
def parsed(monkeypatch):
    """The name of each CSV file of answers, once for each time it is parsed."""
    names, read_cells = [], delimited.read_cells
    monkeypatch.setattr(
        delimited,
        "read_cells",
        lambda file, *rest, **options: names.append(file.name) or read_cells(file, *rest, **options),
    )
    return names


def test_each_file_is_parsed_once(tmp_path, parsed):
    for name in ("a.csv", "b.csv"):
        write(table(), tmp_path / name)
    answers, side = read_with_side_columns(str(tmp_path / "?.csv"), text="tweet", duplicates="first")
    assert parsed == ["a.csv", "b.csv"]
    assert (answers.n_answers, side.texts.tolist()) == (4, ["one, 'two'", "=three"])


@pytest.mark.parametrize("options", [[], ["--pseudonymise", "key.txt"]])
def test_crowdwise_run_parses_the_answers_once(tmp_path, monkeypatch, parsed, options):
    monkeypatch.chdir(tmp_path)
    write(table(random_rows()[0]), "a.csv")
    result = CliRunner().invoke(app, ["run", "a.csv", "--out", "out", "-m", "majority-vote", "--folds", "2", *options])
    assert result.exit_code == 0, result.output
    assert parsed == ["a.csv"]


def test_the_text_column_may_also_be_the_weight_or_the_truth(put):
    file = put("a.csv", "task,worker,label,truth,weight\n1,a,x,x, 0.50\n2,a,y,x,2\n")
    answers, side = read_both(file, text="weight")
    assert (answers.weight.tolist(), side.texts.tolist()) == ([0.5, 2.0], [" 0.50", "2"])
    answers, side = read_both(file, text="truth")
    assert (answers.truth.tolist(), side.texts.tolist()) == ([0, 0], ["x", "x"])
    with pytest.raises(errors.WeightError, match="'much' at row 0"):
        read_with_side_columns(put("b.csv", "task,worker,label,weight\n1,a,x,much\n"), text="weight")


def random_rows(n_tasks=30, seed=0):
    rng = np.random.default_rng(seed)
    pairs = [(t, w) for t in range(n_tasks) for w in rng.choice(6, 3, replace=False)]
    rows = [(t, f"w{w}", int(rng.integers(3)), f"text {t}", float(rng.integers(1, 5000))) for t, w in pairs]
    return rows, rng


@pytest.mark.parametrize("times", ["seconds", "timestamp"])
def test_row_order_file_split_and_id_names_do_not_matter(tmp_path, times):
    rows, rng = random_rows()
    header = (*HEADER[:4], times)
    write(table(rows, header), tmp_path / "all.csv")
    answers = read(tmp_path / "all.csv")
    expected = read_side_columns(tmp_path / "all.csv", answers, text="tweet")
    assert (~np.isnan(expected.seconds)).sum() > 40
    shuffled = [rows[i] for i in rng.permutation(len(rows))]
    write(table(shuffled[:40], header), tmp_path / "part-1.csv")
    write(table(shuffled[40:], header), tmp_path / "part-2.csv")
    parts = read_side_columns(str(tmp_path / "part-*.csv"), answers, text="tweet")
    assert parts.texts.tolist() == expected.texts.tolist()
    np.testing.assert_array_equal(parts.seconds, expected.seconds)
    assert parts.notes == expected.notes
    new = [(f"t{99 - t}", w[::-1], *rest) for t, w, *rest in rows]
    write(table(new, header), tmp_path / "new.csv")
    renamed = read(tmp_path / "new.csv")
    other = read_side_columns(tmp_path / "new.csv", renamed, text="tweet")
    assert known_seconds(renamed, other) == {
        (f"t{99 - t}", w[::-1]): seconds for (t, w), seconds in known_seconds(answers, expected).items()
    }
    assert dict(zip(renamed.tasks, other.texts, strict=True)) == {f"t{99 - t}": f"text {t}" for t in range(30)}


def test_side_columns_of_selected_tasks(tmp_path):
    rows, _ = random_rows()
    write(table(rows), tmp_path / "a.csv")
    answers = read(tmp_path / "a.csv")
    everything = read_side_columns(tmp_path / "a.csv", answers, text="tweet")
    chosen = np.array([7, 3, 20])
    part = read_side_columns(tmp_path / "a.csv", answers[chosen], text="tweet")
    assert part.texts.tolist() == everything.texts[chosen].tolist()
    expected = known_seconds(answers, everything)
    assert known_seconds(answers[chosen], part) == {pair: s for pair, s in expected.items() if pair[0] in chosen}


def test_dropped_rows_do_not_shift_times(put):
    file = put("a.csv", "task,worker,label,seconds\n1,ann,,99\n1,bob,x,1\n,ann,y,98\n2,ann,y,2\n2,,x,97\n1,ann,y,3\n")
    answers = read(file, nulls="drop")
    assert known_seconds(answers, read_side_columns(file, answers)) == {(1, "bob"): 1, (2, "ann"): 2, (1, "ann"): 3}


def test_repeated_answers_get_their_mean_time(put):
    file = put("a.csv", "task,worker,label,seconds\n1,ann,x,2\n1,bob,y,7\n1,ann,y,4\n")
    for policy in ("first", "last", "vote"):
        answers, side = read_both(file, duplicates=policy)
        assert known_seconds(answers, side) == {(1, "ann"): 3, (1, "bob"): 7}
        assert notes_with(side, "more than once") == ["Answers given more than once, with the mean of their times: 1."]


@pytest.mark.parametrize("name", TIMES["seconds"])
def test_column_names_for_seconds_are_recognised(put, name):
    file = put("a.csv", f"task,worker,label,{name.replace('_', ' ').title()}\n1,ann,x,1500\n")
    milli = name in ("duration_ms", "response_time_ms", "milliseconds")
    assert read_side_columns(file, read(file)).seconds.tolist() == [1.5 if milli else 1500]


def test_id_columns_are_not_taken_as_times(put):
    file = put("a.csv", "duration,worker,label,seconds\n1,ann,x,5\n2,ann,x,6\n")
    side = read_side_columns(file, read(file, task="duration", label="seconds"), task="duration", label="seconds")
    assert side.seconds is None
    assert side.notes == []


def test_invalid_times_are_unknown_and_counted(put):
    cells = ["3", "soon", "-1", "inf", "86401", "", "1e400", "86400"]
    rows = [f"{i},ann,{'xy'[i % 2]},{cell}" for i, cell in enumerate(cells)]
    file = put("a.csv", "\n".join(["task,worker,label,seconds", *rows]))
    _, side = read_both(file)
    assert [s if s == s else None for s in side.seconds.tolist()] == [3, *[None] * 6, 86400]
    assert notes_with(side, "unknown") == ["Times that are invalid, negative or over 24 hours, left unknown: 5."]
    file = put("b.csv", "task,worker,label,seconds\n1,ann,x,?\n")
    assert read_side_columns(file, read(file)).seconds is None
    values = [3, "soon", None, 4.5, [1], True, "6"]
    file = put(
        "c.jsonl", [{"task": i, "worker": "a", "label": i % 2, "seconds": s} for i, s in enumerate(values)], lines=True
    )
    answers, side = read_both(file)
    assert known_seconds(answers, side) == {(0, "a"): 3, (3, "a"): 4.5, (6, "a"): 6}
    assert notes_with(side, "unknown: 3")


def test_times_from_start_and_end(put, tmp_path):
    rows = [
        "1,ann,x,2024-02-06T10:00:00Z,2024-02-06T10:00:12.5Z",
        "2,ann,x,2024-02-06T10:00:20Z,2024-02-06T10:01:20Z",  # these two rows share a page
        "3,ann,y,2024-02-06T10:00:20Z,2024-02-06T10:01:20Z",
        "1,bob,y,2024-02-06T10:00:20Z,2024-02-06T10:01:20Z",
        "2,bob,y,2024-02-06T10:00:20Z,",
        "3,bob,y,2024-02-06T10:00:20Z,2024-02-06T10:00:00Z",
    ]
    file = put("a.csv", "\n".join(["task,worker,label,started_at,submitted_at", *rows]))
    answers, side = read_both(file)
    assert known_seconds(answers, side) == {(1, "ann"): 12.5, (2, "ann"): 30, (3, "ann"): 30, (1, "bob"): 60}
    assert side.notes == [
        "Times come from 'started_at' and 'submitted_at', known for 4 of 6 answers.",
        "Times that are invalid, negative or over 24 hours, left unknown: 1.",
        "Answers that share one time span, which is divided equally: 2.",
    ]
    stamps = {name: pa.array([at], pa.timestamp("ms")) for name, at in (("start_time", 1000), ("end_time", 3500))}
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], **stamps}), tmp_path / "a.parquet")
    assert read_side_columns(tmp_path / "a.parquet", read(tmp_path / "a.parquet")).seconds.tolist() == [2.5]


def test_times_from_gaps_between_timestamps(put):
    rows = [(1, "a", "x", 100), (2, "a", "x", 130), (3, "a", "", 150), (4, "a", "y", 155), (5, "a", "y", 1955),
            (6, "a", "y", 3756), (7, "a", "y", 3760), (8, "a", "y", 3760), (1, "b", "x", 131), (2, "b", "x", "noon"),
            (3, "b", "x", 133)]  # fmt: skip
    file = put("a.csv", "\n".join(["task,worker,label,timestamp", *(",".join(map(str, row)) for row in rows)]))
    answers, side = read_both(file, nulls="drop")
    # The row dropped at 150 still took its time. 1800 s are not a break yet, 1801 s are. Two at one time share the gap.
    assert known_seconds(answers, side) == {
        (2, "a"): 30, (4, "a"): 5, (5, "a"): 1800, (7, "a"): 2, (8, "a"): 2, (3, "b"): 2,
    }  # fmt: skip
    assert side.notes == [
        "Times are the gaps between a worker's answers in 'timestamp', known for 6 of 10 answers.",
        "Gaps over 30 minutes, taken as breaks: 1.",
        "Times that are invalid, negative or over 24 hours, left unknown: 1.",
        "Answers that share one time span, which is divided equally: 2.",
    ]


def test_overlapping_files_do_not_halve_times(put, tmp_path):
    text = "task,worker,label,timestamp\n1,a,x,100\n2,a,x,130\n"
    put("p1.csv", text), put("p2.csv", text)
    answers = read(str(tmp_path / "p?.csv"), duplicates="first")
    assert known_seconds(answers, read_side_columns(str(tmp_path / "p?.csv"), answers)) == {(2, "a"): 30}


def test_files_may_have_different_kinds_of_time(put, tmp_path):
    put("p1.csv", "task,worker,label,seconds\n1,a,x,5\n")
    put("p2.csv", "task,worker,label,timestamp\n2,a,x,100\n3,a,x,107\n")
    put("p3.csv", "task,worker,label\n4,a,x\n")
    answers = read(str(tmp_path / "p?.csv"))
    assert known_seconds(answers, read_side_columns(str(tmp_path / "p?.csv"), answers)) == {(1, "a"): 5, (3, "a"): 7}


# Texts and images


def test_texts_and_images_may_be_in_any_row_of_a_task(put):
    file = put(
        "a.csv", "task,worker,label,note,image url\n1,a,x,,i/1.png\n1,b,x,one,\n2,a,y,two,http://e.org/2\n3,a,y,,\n"
    )
    _, side = read_both(file, text="note")
    assert side.texts.tolist() == ["one", "two", None]
    assert side.images.tolist() == ["i/1.png", "http://e.org/2", None]
    assert side.notes == [
        "Texts come from 'note'; missing for 1 of 3 tasks (3).",
        "Images come from 'image url'; missing for 1 of 3 tasks (3).",
    ]


def test_the_task_column_may_be_the_text(put):
    for file in (
        put("a.csv", "text,worker,label\nhello,a,x\n"),
        put("a.jsonl", '{"text":"hello","worker":1,"label":2}'),
    ):
        answers = read(file, task="text")
        assert read_side_columns(file, answers, task="text", text="text").texts.tolist() == ["hello"]


def test_numbers_and_mixed_values_become_text(put, tmp_path):
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], "t": [5]}), tmp_path / "a.parquet")
    assert read_side_columns(tmp_path / "a.parquet", read(tmp_path / "a.parquet"), text="t").texts.tolist() == ["5"]
    records = [{"task": i, "worker": 1, "label": 1, "t": t} for i, t in enumerate(["a", 5, ["b"], None])]
    file = put("a.jsonl", records, lines=True)
    assert read_side_columns(file, read(file), text="t").texts.tolist() == ["a", "5", '["b"]', None]


def test_two_texts_of_a_task_are_rejected_and_two_images_ignored(put):
    file = put("a.csv", "task,worker,label,note,image\n7,a,x,one,1.png\n7,b,x,two,2.png\n8,a,x,one,3.png\n")
    answers = read(file)
    with pytest.raises(errors.DuplicateError, match=r"a.csv: task 7 has two texts in 'note': '(one|two)', '(one|two)'"):
        read_side_columns(file, answers, text="note")
    side = read_side_columns(file, answers)
    assert side.images.tolist() == [None, "3.png"]
    assert notes_with(side, "several") == ["Tasks with several images, which are ignored: 1 (7)."]


def test_missing_or_mostly_empty_text_columns_are_rejected(put, tmp_path):
    file = put("a.csv", "task,worker,label,note,note\n1,a,x,,\n2,a,x,,\n")
    answers = read(file)
    with pytest.raises(
        errors.MissingColumnError, match=r"no column or field 'tweet'.*'task', 'worker', 'label', 'note'"
    ):
        read_side_columns(file, answers, text="tweet")
    with pytest.raises(errors.MissingColumnError, match="appears 2 times"):
        read_side_columns(file, answers, text="note")
    for bad in ("", 3):
        with pytest.raises(errors.ParameterError, match="text="):
            read_side_columns(file, answers, text=bad)
    file = put("b.csv", "task,worker,label,note\n1,a,x,\n2,a,x, \n3,a,x,three\n")
    with pytest.raises(errors.FormatError, match=r"'note' is empty for 2 of 3 tasks \(1, 2\)"):
        read_side_columns(file, read(file), text="note")
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], "t": [["a"]]}), tmp_path / "a.parquet")
    with pytest.raises(errors.FormatError, match="'t' contains lists"):
        read_side_columns(tmp_path / "a.parquet", read(tmp_path / "a.parquet"), text="t")


def test_unanswered_tasks_have_no_text(put):
    file = put("a.csv", "task,worker,label,note\n1,a,x,one\n")
    side = read_side_columns(file, read(file, tasks=[1, 2, 3, 4]), text="note")
    assert side.texts.tolist() == ["one", None, None, None]


def test_embedded_images_are_ignored(put, tmp_path):
    pictures = pa.array([{"bytes": b"1", "path": "p"}])
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1], "image": pictures}), tmp_path / "a.parquet")
    assert read_side_columns(tmp_path / "a.parquet", read(tmp_path / "a.parquet")).images is None
    file = put("a.csv", "task,worker,label,image\n1,a,x,data:image/png;base64 AA\n2,a,x,17\n3,a,x,3.png\n")
    _, side = read_both(file)
    assert side.images.tolist() == [None, None, "3.png"]
    assert notes_with(side, "not a path") == ["Images that are not a path or URL, ignored: 2."]


def test_a_file_of_other_tasks_is_rejected(put):
    answers = read(put("a.csv", "task,worker,label\n1,a,x\n"))
    with pytest.raises(errors.UnknownIdError, match="Is it another file"):
        read_side_columns(put("b.csv", "task,worker,label\n2,a,x\n"), answers)
    with pytest.raises(errors.IdTypeError, match="'one'"):
        read_side_columns(put("c.csv", "task,worker,label\none,a,x\n"), answers)
