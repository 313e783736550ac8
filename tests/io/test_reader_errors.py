"""Error messages for every way in which a file of answers can be invalid."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import errors
from crowdwise.io import FORMATS, read
from tests.helpers.reading import assert_read_fails

CSV = "task,worker,label\n1,ann,cat\n1,bob,dog\n2,ann,cat\n"


def test_missing_and_irregular_files(put, tmp_path):
    assert_read_fails(errors.FormatError, "no file", tmp_path / "nope.csv")
    assert_read_fails(errors.FormatError, "no file", tmp_path / "nope-*.csv")
    assert_read_fails(errors.FormatError, "no file", "a\0b.csv")
    assert_read_fails(errors.FormatError, "name", "x" * 5000)
    os.mkfifo(tmp_path / "pipe.csv")
    assert_read_fails(errors.FormatError, "pipe", tmp_path / "pipe.csv")
    assert_read_fails(errors.ParameterError, "list of files is empty", [])
    assert_read_fails(errors.ParameterError, "not int", 3)


def test_unknown_formats_and_options_are_rejected(put):
    file = put("a.csv", CSV)
    assert_read_fails(errors.ParameterError, "unknown format 'excel'.*csv, tsv", file, format="excel")
    assert_read_fails(errors.ParameterError, "no option question=", file, question="q")
    assert_read_fails(errors.ParameterError, "takes none of these options", file, format="peerannot", task="t")


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.txt", "a.csv.gz"])
@pytest.mark.parametrize("content", ["", "\n \n"])
def test_empty_files(put, name, content):
    assert_read_fails(errors.EmptyError, "empty", put(name, content))


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz"])
@pytest.mark.parametrize(("content", "kind"), [("[]", "list"), (" [\n]\n", "list"), ("{}", "object")])
def test_empty_exports(put, name, content, kind):
    assert_read_fails(errors.EmptyError, f"an empty {kind}: it has no answers", put(name, content))


@pytest.mark.parametrize("content", ["task,worker,label", "task,worker,label\n", "task,worker,label\n\n"])
def test_a_header_without_rows_is_rejected(put, content):
    assert_read_fails(errors.EmptyError, "no rows", put("a.csv", content))


def test_missing_ids_are_reported_with_their_lines(put):
    file = put("a.csv", 'task,worker,label\n1,a,"two\nlines"\n\n2,a,\n3,"",x\n4,a,\n')
    assert_read_fails(errors.NullError, r"'worker' is empty in 1 of 4 rows \(lines 6\)", file, multiline=True)
    file = put("b.jsonl", '{"task": 1, "worker": "a", "label": "x"}\n\n{"task": 1, "worker": "b"}\n')
    assert_read_fails(errors.NullError, r"'label' is empty in 1 of 2 rows \(lines 3\)", file)


def test_duplicates_are_reported_with_their_rows(put):
    file = put("a.csv", "task,worker,label\n1,a,x\n0,b,x\n1,a,y\n")
    assert_read_fails(errors.DuplicateError, r"rows 0 and 2.*Row r is line r \+ 2", file)


def test_rows_of_wrong_length_are_reported_with_their_line(put):
    file = put("b.csv", "task,worker,label\n1,a,x\n\n1,b,x,y\n")
    assert_read_fails(errors.FormatError, "line 4 has 4 cells, but the header has 3", file)
    assert_read_fails(errors.FormatError, "line 3 has 2 cells", put("c.csv", "task,worker,label\n1,a,x\n1,b\n"))
    assert_read_fails(errors.FormatError, "line 3", put("d.tsv", "task\tworker\tlabel\n1\ta\tx\n1\tb\n"))


def test_an_unclosed_quotation_mark(put):
    assert_read_fails(errors.FormatError, "line 3", put("a.csv", 'task,worker,label\n1,a,x\n2,"b,x\n3,a,x\n'))


def test_other_encodings_are_reported_with_the_byte(put):
    for name in ("a.csv", "a.csv.gz"):
        assert_read_fails(errors.FormatError, r"byte 0xe9 at line 2 \(byte 22 of the file\).*UTF-8",
              put(name, "task,worker,label\n1,Zoé,x\n".encode("latin-1")))  # fmt: skip
    for encoding in ("utf-16", "utf-32"):
        assert_read_fails(
            errors.FormatError, f"the text is encoded in {encoding.upper()}", put("b.csv", CSV.encode(encoding))
        )
    assert_read_fails(errors.FormatError, "0xe9 at line 2", put("c.jsonl", '\n{"task":"Zoé"}'.encode("latin-1")))


def test_an_invalid_byte_far_into_the_file(put):
    line = b"1234567,worker,label\n"
    many = b"task,worker,label\n" + line * 60_000
    assert_read_fails(
        errors.FormatError, rf"0xff at line 60002 \(byte {len(many)} of the file\)", put("a.csv", many + b"\xff,b,c\n")
    )


def test_repeated_and_missing_columns(put):
    assert_read_fails(errors.MissingColumnError, "appears 2 times", put("a.csv", "task,worker,label,task\n1,a,x,2\n"))
    assert_read_fails(errors.MissingColumnError, "format='cleanlab'", put("b.csv", "ann,bob\n1,2\n"))
    assert read(put("c.csv", "task,worker,label,x,x\n1,a,x,2,3\n")).n_answers == 1


def test_invalid_weights_and_flags(put):
    assert_read_fails(
        errors.WeightError, "'heavy' at line 3", put("a.csv", "task,worker,label,weight\n1,a,x,1\n2,a,x,heavy\n")
    )
    assert_read_fails(errors.WeightError, "-1", put("b.csv", "task,worker,label,weight\n1,a,x,-1\n"))
    assert_read_fails(
        errors.CrowdwiseError, "'heavy'", put("c.jsonl", '{"task":1,"worker":1,"label":1,"weight":"heavy"}')
    )
    assert_read_fails(errors.FormatError, "'pseudo': 'perhaps' at line 3 is not true",
          put("d.csv", "task,worker,label,pseudo\n1,a,x,true\n2,a,x,perhaps\n"))  # fmt: skip


def test_too_many_classes(put):
    text = "task,worker,label\n" + "".join(f"{i},a,{i}\n" for i in range(1001))
    assert_read_fails(errors.TooManyClassesError, "1,001 distinct", put("a.csv", text))


def test_json_lines_of_mixed_types(put):
    start = '{"task": 1, "worker": "a", "label": "x"}\n'
    assert_read_fails(
        errors.IdTypeError, "line 2.*'one'", put("a.jsonl", start + '{"task": "one", "worker": "b", "label": "x"}')
    )
    assert_read_fails(
        errors.IdTypeError, "line 2", put("b.jsonl", start + '{"task": 1.5, "worker": "b", "label": "x"}')
    )
    assert_read_fails(
        errors.IdTypeError, "line 2", put("c.jsonl", start + f'{{"task": {2**70}, "worker": "b", "label": "x"}}')
    )
    assert_read_fails(
        errors.IdTypeError, "contains a list", put("d.jsonl", '{"task": 1, "worker": "a", "label": ["x"], "user": 1}')
    )


def test_broken_json(put):
    start = '{"task": 1, "worker": "a", "label": "x"}\n'
    assert_read_fails(errors.FormatError, "line 2 is not JSON", put("a.jsonl", start + '{"task": 1, "wor'))
    assert_read_fails(errors.FormatError, "line 2: expected an object", put("b.jsonl", start + "[1]"))
    assert_read_fails(errors.FormatError, "truncated", put("c.json", '[{"id": 1, "annota'))
    assert_read_fails(errors.FormatError, "nested too deeply", put("d.json", "[" * 100_000), format="peerannot")
    assert_read_fails(errors.FormatError, "nested too deeply", put("e.jsonl", '{"a":' * 100_000))
    assert_read_fails(
        errors.FormatError, "surrogate", put("f.jsonl", start + '{"task": 2, "worker": "\\ud800", "label": "x"}')
    )


def test_damaged_archives_and_tables(put, tmp_path):
    pq.write_table(pa.table({"task": [1], "worker": [1], "label": [1]}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    assert_read_fails(errors.FormatError, "damaged or truncated", put("b.parquet", content[: len(content) // 2]))
    assert_read_fails(errors.FormatError, "damaged or truncated", put("c.parquet", "task,worker,label\n"))
    packed = gzip.compress(CSV.encode() * 1000)
    (tmp_path / "d.csv.gz").write_bytes(packed[:-20])
    assert_read_fails(errors.FormatError, "damaged or truncated", tmp_path / "d.csv.gz")
    assert_read_fails(errors.FormatError, "damaged or truncated", put("e.zip", b"PK\x03\x04garbage"))


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.zip", "a.txt", "a", "a.csv.gz"]
)
@pytest.mark.parametrize("form", [None, *FORMATS])
def test_garbage_raises_a_crowdwise_error(tmp_path, name, form):
    rng = np.random.default_rng(0)
    for content in (
        rng.bytes(5000),
        b"\0" * 100,
        b"{}",
        b"[]",
        b"[3]",
        b'{"a": 1}',
        b"null",
        b"word",
        b'"',
        b"\x1f\x8b",
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(errors.CrowdwiseError):
            read(tmp_path / name, format=form)
