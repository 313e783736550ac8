"""Long tables: columns, types and files. For errors see test_reader_errors.py."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import errors
from crowdwise.answers.pseudonyms import pseudonymised
from crowdwise.io import read, read_truth, write
from crowdwise.io.reader import attach_truth
from tests.helpers.reading import assert_read_fails

CSV = "task,worker,label\n1,ann,cat\n1,bob,dog\n2,ann,cat\n"


# Types


@pytest.mark.filterwarnings("ignore::crowdwise.errors.LookalikeWarning")
@pytest.mark.parametrize(
    ("cells", "ids"),
    [
        (["7", "-3", "0"], [-3, 0, 7]),
        (["001", "2", "3"], ["001", "2", "3"]),
        (["+1", "2", "3"], ["+1", "2", "3"]),
        (["1.0", "2.0", "3.0"], ["1.0", "2.0", "3.0"]),
        (["-0", "1", "2"], ["-0", "1", "2"]),
        (["true", "false", "x"], ["false", "true", "x"]),
        (["NA", "nan", "null"], ["NA", "nan", "null"]),
        ([" 1", "1", "2"], [" 1", "1", "2"]),
        (["9223372036854775807", "1", "2"], [1, 2, 9223372036854775807]),
        (["9223372036854775808", "1", "2"], ["1", "2", "9223372036854775808"]),
    ],
)
def test_text_becomes_integers_only_if_all_values_are_integers(put, cells, ids):
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        table = [["task", "worker", "label"], *([cell, "w", cell] for cell in cells)]
        answers = read(put(name, "\n".join(separator.join(row) for row in table)))
        assert answers.tasks.tolist() == answers.classes.tolist() == ids


def test_json_and_parquet_keep_their_types(put, tmp_path):
    records = [{"task": "1", "worker": 1, "label": True}, {"task": "2", "worker": 2, "label": False}]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "a.parquet")
    for file in (put("a.jsonl", records, lines=True), tmp_path / "a.parquet"):
        answers = read(file)
        assert (answers.tasks.tolist(), answers.workers.tolist(), answers.classes.tolist()) == (
            ["1", "2"], [1, 2], [False, True],
        )  # fmt: skip


def test_parquet_with_categories_floats_and_unused_values(tmp_path):
    table = pa.table({
        "task": pa.array([1.0, 2.0]), "worker": pa.array(["x", "y", "z"]).dictionary_encode()[:2],
        "label": pa.array(["a", "b"], pa.large_string()),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    answers = read(tmp_path / "a.parquet")
    assert answers.tasks.tolist() == [1, 2]
    assert answers.workers.tolist() == ["x", "y"]


def test_labels_and_known_labels_have_one_type(put):
    answers = read(put("a.csv", "task,worker,label,truth\n1,a,0,unsure\n2,a,1,\n"))
    assert answers.classes.tolist() == ["0", "1", "unsure"]
    assert answers.truth.tolist() == [2, -1]
    answers = read(put("b.csv", "task,worker,label,truth\n1,a,0,3\n2,a,1,\n"))
    assert answers.classes.tolist() == [0, 1, 3]


# Columns


def test_columns_are_recognised_or_named(put, rows):
    file = put("a.csv", "note,Item,annotator,answer,other\n,1,ann,cat,x\n,2,ann,dog,y\n")
    assert rows(read(file)) == [(1, "ann", "cat"), (2, "ann", "dog")]
    assert rows(read(file, label="other")) == [(1, "ann", "x"), (2, "ann", "y")]
    with pytest.raises(errors.MissingColumnError, match="'nope'"):
        read(file, worker="nope")


def test_semicolon_separated_cells(put, rows):
    assert rows(read(put("a.csv", CSV.replace(",", ";")))) == rows(read(put("b.csv", CSV)))


def test_quotes_line_breaks_and_blank_lines(put, rows):
    file = put("a.csv", '\n"task",worker,label\r\n"a\nb","x,y","say ""hi"""\r\n\r\nc,d,e\r\n')
    assert rows(read(file, multiline=True)) == [("a\nb", "x,y", 'say "hi"'), ("c", "d", "e")]


def test_a_byte_order_mark_is_skipped(put, rows):
    for name, content in (("a.csv", CSV), ("a.jsonl", '{"task": 1, "worker": "ann", "label": "cat"}')):
        assert rows(read(put(name, b"\xef\xbb\xbf" + content.encode())))[0] == (1, "ann", "cat")


def test_weight_and_truth_columns_are_named_or_recognised(put):
    answers = read(put("a.csv", "task,worker,label,weight,truth\n1,a,x,0.5,y\n2,a,x,2,\n"))
    assert answers.weight.tolist() == [0.5, 2]
    assert answers.truth.tolist() == [1, -1]
    answers = read(put("b.csv", "task,worker,label,w,gold\n1,a,x,0.5,y\n2,a,x,2,\n"), weight="w", truth="gold")
    assert answers.weight.tolist() == [0.5, 2]
    assert answers.truth.tolist() == [1, -1]
    assert read(put("c.csv", "task,worker,label,w,gold\n1,a,x,0.5,y\n")).weight is None


def test_sparse_known_labels_in_json_lines(put):
    records = [{"task": i, "worker": "a", "label": i % 2, "truth": 1 if i == 1500 else None} for i in range(1501)]
    assert read(put("a.jsonl", records, lines=True)).truth[1500] == 1


def test_unused_json_fields_are_skipped(put, rows):
    records = [
        {"text": ["deep", {"er": [1]}], "task": "t", "worker": "w", "label": "x"},
        {"text": 3, "label": "y", "worker": "v", "task": "t"},
    ]
    assert rows(read(put("a.jsonl", records, lines=True))) == [("t", "v", "y"), ("t", "w", "x")]


# Files


def test_globs_and_lists(put, tmp_path, rows):
    put("part-1.csv", "task,worker,label\n1,ann,cat\n2,ann,cat\n")
    put("part-2.csv", "label,extra,task,worker\ndog,.,1,bob\nbird,.,3,bob\n")
    expected = [(1, "ann", "cat"), (1, "bob", "dog"), (2, "ann", "cat"), (3, "bob", "bird")]
    assert rows(read(str(tmp_path / "part-*.csv"))) == expected
    assert rows(read([tmp_path / "part-2.csv", tmp_path / "part-1.csv"])) == expected


def test_a_folder_is_read_as_its_files(put, tmp_path, rows):
    assert_read_fails(errors.FormatError, "contains no files", tmp_path)
    put("_SUCCESS", "")
    put(".part-1.csv.crc", b"\xff")
    assert_read_fails(errors.FormatError, "contains no files", tmp_path)
    put("part-1.csv", "task,worker,label\n1,ann,cat\n")
    put("part-2.csv", "task,worker,label\n1,ann,dog\n")
    assert rows(read(tmp_path, duplicates="last")) == [(1, "ann", "dog")]  # sorted by name
    assert rows(read([tmp_path], duplicates="first")) == [(1, "ann", "cat")]
    put("part-3.jsonl", [{"task": 2, "worker": "ann", "label": "cat"}], lines=True)
    assert_read_fails(errors.FormatError, r"part-1\.csv and \S+part-3\.jsonl have different formats", tmp_path)
    (tmp_path / "day=1").mkdir()
    assert_read_fails(errors.FormatError, "contains day=1, which is not a file", tmp_path)
    assert_read_fails(errors.FormatError, "matches only folders", str(tmp_path / "day=*"))


def test_files_of_different_formats_are_reported(put, tmp_path):
    table = pa.table({"task": [1], "worker": ["bob"], "label": ["cat"]})
    pq.write_table(table, tmp_path / "b.parquet")
    files = [put("a.csv", CSV), tmp_path / "b.parquet"]
    message = r"^\S+{}\S+ and \S+{}\S+ have different formats, {} and {}\. Read them separately"
    assert_read_fails(errors.FormatError, message.format("a", "b", "csv", "parquet"), files)
    assert_read_fails(errors.FormatError, message.format("b", "a", "parquet", "csv"), files[::-1])
    assert_read_fails(errors.FormatError, r"b\.parquet: byte", files, format="csv")  # the format named is used
    assert_read_fails(errors.MissingColumnError, r"c\.csv: no column", [files[0], put("c.csv", "x,y\n1,2\n")])


def test_ids_have_one_type_over_all_files(put, tmp_path):
    put("p1.csv", "task,worker,label\n1,a,x\n")
    put("p2.csv", "task,worker,label\n001,a,x\n")
    assert read(str(tmp_path / "p?.csv")).tasks.tolist() == ["001", "1"]
    for name, ids in (("q1.parquet", [1]), ("q2.parquet", ["1"])):
        pq.write_table(pa.table({"task": ids, "worker": ["a"], "label": ["x"]}), tmp_path / name)
    with pytest.raises(
        errors.IdTypeError, match=r"^\S+q1\.parquet has integers as task ids, but \S+q2\.parquet has text\. Convert"
    ):
        read(str(tmp_path / "q*.parquet"))


def test_arrow_text_types_can_be_mixed(tmp_path):
    view = (
        pa.string_view() if int(pa.__version__.partition(".")[0]) >= 21 else pa.string()
    )  # older versions cannot write it
    for name, kind in (("1.parquet", pa.string()), ("2.parquet", pa.large_string()), ("3.parquet", view)):
        task = pa.array([name, "t"], kind)
        pq.write_table(pa.table({"task": task, "worker": [name, name], "label": ["x", "y"]}), tmp_path / name)
    categories = pa.array(["t", "u"]).dictionary_encode()
    pq.write_table(pa.table({"task": categories, "worker": ["4", "4"], "label": ["x", "y"]}), tmp_path / "4.parquet")
    assert read(str(tmp_path / "?.parquet")).tasks.tolist() == ["1.parquet", "2.parquet", "3.parquet", "t", "u"]


def test_a_column_may_be_missing_in_some_files(put, tmp_path):
    put("p1.csv", "task,worker,label,truth\n1,a,x,x\n")
    put("p2.csv", "task,worker,label\n2,a,y\n")
    assert read(str(tmp_path / "p?.csv")).truth.tolist() == [0, -1]
    put("p2.csv", "task,worker,label\n2,a,7\n")
    put("p1.csv", "task,worker,label,truth\n1,a,3,7\n")
    assert read(str(tmp_path / "p?.csv")).classes.tolist() == [3, 7]
    put("q1.csv", "task,worker,label,weight\n1,a,x,2\n")
    put("q2.csv", "task,worker,label\n2,a,y\n")
    with pytest.raises(errors.WeightError):
        read(str(tmp_path / "q?.csv"))


def test_escaped_text_stays_text_over_several_files(tmp_path):
    table = {"worker": ["a"], "label": ["x"]}
    write(pa.table({"task": ["7"], **table}), tmp_path / "p1.csv")
    write(pa.table({"task": [8], **table}), tmp_path / "p2.csv")
    assert read(tmp_path / "p1.csv").tasks.tolist() == ["7"]
    assert read(str(tmp_path / "p?.csv")).tasks.tolist() == ["7", "8"]


def test_gzip_by_content_not_name(put, tmp_path, rows):
    expected = rows(read(put("a.csv", CSV)))
    assert rows(read(put("b.csv.gz", CSV))) == expected
    (tmp_path / "c.csv").write_bytes(gzip.compress(CSV.encode()))
    assert rows(read(tmp_path / "c.csv")) == expected


def test_options_are_passed_to_answers(put):
    file = put("a.csv", CSV + "2,ann,dog\n,bob,cat\n")
    answers = read(file, nulls="drop", duplicates="last", classes=["dog", "cat", "fox"])
    assert answers.classes.tolist() == ["dog", "cat", "fox"]
    assert answers.removed == {"rows with a missing value": 1, "answers a worker gave twice": 1}


def test_dropped_rows_leave_no_ids_behind(put):
    answers = read(put("a.csv", CSV + "9,,cat\n2,zoe,\n"), nulls="drop")
    assert answers.tasks.tolist() == [1, 2]
    assert answers.workers.tolist() == ["ann", "bob"]


# Format detection


def test_the_format_is_detected_by_content(put, tmp_path):
    assert read(put("a.dat", CSV)).n_answers == 3
    assert read(put("b", CSV.replace(",", "\t"))).n_answers == 3
    assert read(put("c.txt", '{"task": 1, "worker": 1, "label": 1}')).n_answers == 1
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1]}), tmp_path / "d")
    assert read(tmp_path / "d").n_answers == 1


def test_undetectable_formats_are_rejected(put):
    assert_read_fails(errors.FormatError, "begins with 'hello'.*format= .*: csv", put("a.txt", "hello\nthere\n"))
    assert_read_fails(errors.FormatError, "format='peerannot'", put("b.json", {"0": {"0": 1}}))
    assert_read_fails(errors.FormatError, "no worker, as in doccano", put("c.jsonl", '{"text": "t", "label": ["x"]}'))
    assert_read_fails(errors.FormatError, "one object per line", put("d.json", [{"task": 1, "worker": 1, "label": 1}]))
    assert_read_fails(errors.FormatError, "binary", put("e.dat", "ab\0c"))


# Known labels


def test_read_truth(put, tmp_path):
    for name, text in (
        ("a.csv", "task,truth\n1,cat\n2,\n3,dog\n"), ("b.tsv", "item\tgold\n1\tcat\n3\tdog\n"),
        ("c.jsonl", '{"task": 1, "label": "cat"}\n{"task": 3, "label": "dog"}\n{"task": 3, "label": "dog"}'),
        ("d.csv", "id,label,truth\n1,x,cat\n3,y,dog\n"),
    ):  # fmt: skip
        table = read_truth(put(name, text))
        assert table.to_pydict() == {"task": [1, 3], "label": ["cat", "dog"]}, name
    table = read_truth(put("e.csv", "q,k,label\n1,x,a\n"), task="k", truth="q")
    assert table.to_pydict() == {"task": ["x"], "label": [1]}


def test_read_truth_converts_ids_to_the_types_of_the_answers(put):
    answers = read(put("a.csv", "task,worker,label\n001,a,1\n7,a,?\n"))
    truth = read_truth(put("t.csv", "task,truth\n7,1\n"), like=answers)
    assert answers.with_truth((truth["task"], truth["label"])).truth.tolist() == [-1, 0]
    numbers = read(put("b.csv", "task,worker,label\n1,a,1\n"))
    with pytest.raises(errors.IdTypeError, match="'one'"):
        read_truth(put("u.csv", "task,truth\none,1\n"), like=numbers)


def test_known_labels_without_rows_are_an_error(put):
    answers = read(put("a.csv", CSV.replace("1,", "x,")))
    with pytest.raises(errors.GoldError, match=r"t\.csv: none of its 0 tasks occurs in the answers"):
        attach_truth(answers, put("t.csv", "task,label\n"))


def test_read_truth_rejects_invalid_files(put):
    with pytest.raises(errors.DuplicateError, match=r"3 has two known labels"):
        read_truth(put("a.csv", "task,truth\n3,1\n3,2\n"))
    with pytest.raises(errors.MissingColumnError, match=r"truth='\.\.\.'"):
        read_truth(put("b.csv", "task,other\n3,1\n"))
    with pytest.raises(errors.MissingColumnError, match="no column for the task"):
        read_truth(put("c.csv", "thing,truth\n3,1\n"))
    with pytest.raises(errors.NullError, match="'task'"):
        read_truth(put("d.csv", "task,truth\n,1\n"))
    with pytest.raises(errors.FormatError, match="not from 'matrix'"):
        read_truth(put("e.txt", "1 2\n"))


@pytest.mark.parametrize(
    ("answers", "truth", "shown"),
    [
        ("1,a,True\n2,a,False", "1,2\n2,5", "2, 5"),
        ("1,a,0\n2,a,1", "1,0x1\n2,1", "'0x1'"),
        ("1,a,x\n2,a,y", "001,x\n2,y", "'001'"),
        ("1,a,0\n2,a,1", "1,True\n2,False", "True, False"),
    ],
)
def test_known_labels_are_matched_and_not_cast(put, answers, truth, shown):
    answers = read(put("a.csv", f"task,worker,label\n{answers}\n"))
    with pytest.raises(errors.IdTypeError, match=rf"ids {shown} differ in type from those of the answers"):
        attach_truth(answers, put("truth.csv", f"task,label\n{truth}\n"))


def test_known_labels_match_as_text(put):
    answers = read(put("a.csv", "task,worker,label\n1,a,True\nb,a,7\n2,a,yes\n"))
    known = attach_truth(answers, put("truth.csv", "task,label\n1,True\n2,False\n"))
    assert known.tasks.tolist() == ["1", "2", "b"]
    assert known.classes[known.truth[:2]].tolist() == ["True", "False"]
    with pytest.warns(errors.LookalikeWarning, match="labels 'yes ' differ from classes"):
        matched = attach_truth(answers, put("truth.csv", "task,label\n1,yes \n"))
    assert matched.classes[matched.truth[0]] == "yes"


def test_verdicts_that_are_missing_are_abstentions_of_their_judge(put, rows):
    lines = [{"task": 1, "judge": "a", "verdict": "yes"}, {"task": 1, "judge": "b", "verdict": None},
             {"task": 2, "judge": "b", "verdict": None}, {"task": 2, "judge": "a", "verdict": "no"}]  # fmt: skip
    file = put("verdicts.jsonl", lines, lines=True)
    assert_read_fails(errors.NullError, r"'verdict' is empty in 2 of 4 rows \(lines 2, 3\)", file)
    answers = read(file, nulls="drop")
    assert rows(answers) == [(1, "a", "yes"), (2, "a", "no")]
    assert answers.abstentions == {"b": 2}
    table = put("verdicts.csv", "task,worker,label\n1,7,x\n1,8,\n,8,\n2,,\n")
    assert read(table, nulls="drop").abstentions == {8: 1}  # the other rows have no worker or no task


def test_abstentions_follow_their_worker(put):
    answers = read(put("a.csv", "task,worker,label\n1,7,x\n1,8,\n2,7,y\n"), nulls="drop")
    other = read(put("b.csv", "task,worker,label\n3,8,\n3,9,x\n"), nulls="drop")
    assert answers.merge(other).abstentions == {8: 2}
    assert answers.select(workers=[7]).abstentions == {8: 1}  # as they were counted when read
    shared, _ = pseudonymised(answers, b"a key that nobody guesses")
    assert list(shared.abstentions.values()) == [1]
    assert all(worker.startswith("w-") for worker in shared.abstentions)


def test_a_line_of_json_may_hold_other_line_separators(put):
    lines = [json.dumps({"id": i, "label.responses": ["a\u2028\x85b"], "label.responses.users": ["u"],
                         "label.responses.status": ["submitted"]}, ensure_ascii=False) for i in (1, 2)]  # fmt: skip
    assert read(put("a.jsonl", "\n".join(lines)), format="argilla").n_answers == 2
