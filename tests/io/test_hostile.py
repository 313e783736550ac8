"""Malicious files: bombs, paths outside an archive, depth, length, encodings, numbers, lookalike ids."""

from __future__ import annotations

import io
import json
import re
import stat
import subprocess
import sys
import textwrap
import unicodedata
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from crowdwise import Answers, errors
from crowdwise.io import files, read, read_truth, write
from crowdwise.io.formats import parquet
from crowdwise.learn.features import sources
from tests.helpers.reading import assert_read_fails

HEADER = "task,worker,label\n"
RECORD = '{"id": 1, "label": ["x"]}\n'
ANSWER = '{"task": "a", "worker": "w", "label": "x"}\n'


def packed(members, links=()):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (stat.S_IFLNK | 0o777) << 16 if name in links else 0o600 << 16
            archive.writestr(info, text)
    return out.getvalue()


# Archives


@pytest.mark.parametrize(
    "name", ["../ann.jsonl", "/etc/ann.jsonl", "C:/ann.jsonl", "..\\ann.jsonl", "a/../../ann.jsonl"]
)
def test_zip_paths_outside_the_archive_are_rejected(put, name):
    assert_read_fails(
        errors.FormatError,
        "a link or a path outside the archive",
        put("a.zip", packed({name: RECORD, "bob.jsonl": RECORD})),
    )


def test_links_in_a_zip_are_rejected(put):
    assert_read_fails(
        errors.FormatError,
        "a link or a path outside the archive",
        put("a.zip", packed({"ann.jsonl": "/etc/passwd"}, ["ann.jsonl"])),
    )


def test_members_with_the_same_name_are_rejected(put, rows):
    assert_read_fails(
        errors.FormatError,
        "two files in different folders",
        put("a.zip", packed({"a/ann.jsonl": RECORD, "b/ann.jsonl": RECORD})),
    )
    mac = {"ann.jsonl": RECORD, "__MACOSX/._ann.jsonl": "\0", ".DS_Store": "\0", "folder/": ""}
    assert rows(read(put("b.zip", packed(mac)))) == [(1, "ann", "x")]


def test_zip_bombs_are_rejected(put):
    """A small archive that unpacks to 70 MB, and a member with a false size in its header."""
    bomb = packed({"ann.jsonl": RECORD + " " * (70 << 20)})
    assert_read_fails(errors.TooLargeError, "over 200 times as many", put("a.zip", bomb))
    forged = bytearray(packed({"ann.jsonl": RECORD * 1000}))
    at = forged.rindex(b"PK\x01\x02") + 24  # the unpacked size in the central directory
    forged[at : at + 4] = (10).to_bytes(4, "little")
    assert_read_fails(errors.FormatError, "damaged|not JSON", put("b.zip", bytes(forged)))


@pytest.mark.parametrize(
    ("name", "start", "more"),
    [
        ("a.csv.gz", HEADER + "1,w,x\n", "\n"), ("a.csv.gz", HEADER + "1,w,", "x"),
        ("a.tsv.gz", "task\tworker\tlabel\n", "\n"),
        ("a.jsonl.gz", ANSWER, "\n"), ("a.json.gz", '[{"id": 1, "annotations": []}', " "), ("a.json.gz", "[", "[],"),
        ("a.txt.gz", "0 1\n", "\n"),
    ],
)  # fmt: skip
def test_gzip_bombs_are_rejected(put, monkeypatch, name, start, more):
    """A bomb is not unpacked to its end; a normal file of the same size is read."""
    monkeypatch.setattr(files, "MIN_UNPACKED", 1 << 20)
    bomb = put(name, start + more * ((6 << 20) // len(more)))
    assert bomb.stat().st_size < 30_000
    for form in (None, "matrix", "peerannot", "jsonl"):
        with pytest.raises(errors.CrowdwiseError):
            read(bomb, form)
    normal = "".join(f"{i},w{i % 97},{i * 7919 % 10007}\n" for i in range(150_000))
    assert read(put("normal.csv.gz", HEADER + normal), max_classes=10**5).n_answers == 150_000


def test_a_process_exits_after_rejecting_a_bomb(put):
    """Arrow would hang at exit if an exception had reached it while it reads."""
    bomb = put("a.csv.gz", HEADER + "1,w,x\n" * (20 << 20))
    command = [sys.executable, "-c", "import sys, crowdwise; crowdwise.read(sys.argv[1])", str(bomb)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert ended.returncode == 1 and "over 200 times as many" in ended.stderr


def test_the_error_for_a_gzip_bomb_says_why(put, monkeypatch):
    monkeypatch.setattr(files, "MIN_UNPACKED", 1 << 20)
    bomb = put("a.csv.gz", HEADER + "1,w,x\n" + "\n" * (6 << 20))
    assert_read_fails(errors.TooLargeError, r"a\.csv\.gz: its .* bytes unpack to .* over 200 times as many", bomb)


def test_parquet_rows_that_exceed_memory_are_rejected(tmp_path, monkeypatch):
    """A million equal rows take a few bytes; so would a billion."""
    table = pa.table({"task": pa.array(np.zeros(10**6, np.int64)), "worker": ["w"] * 10**6, "label": ["x"] * 10**6})
    pq.write_table(table, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 30_000
    monkeypatch.setattr(parquet, "available", lambda: 10e6)
    for options in ({}, {"format": "cleanlab"}, {"format": "argilla"}):
        assert_read_fails(
            errors.TooLargeError, r"1,000,000 rows of .* only 0\.0 GB is free", tmp_path / "a.parquet", **options
        )


def test_features_that_exceed_memory_are_rejected(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "X.npz", X=np.zeros((1000, 1000)))
    monkeypatch.setattr(sources, "available", lambda: 1e6)
    with pytest.raises(errors.TooLargeError, match=r"X\.npz: array X needs 0\.0 GB"):
        sources.open_features(tmp_path / "X.npz")


# Depth and length


@pytest.mark.parametrize("depth", [900, 5000, 200_000])
def test_deeply_nested_json_raises_no_other_error(put, depth):
    """In an unused field, as a label, and as the entire file; with every reader of JSON."""
    nested = "[" * depth + "]" * depth
    record = f'{{"id": 1, "annotations": [], "task": 1, "worker": "w", "label": "x", "more": {nested}}}'
    for name, text in (("a.json", f"[{record}]"), ("a.jsonl", record), ("b.json", nested), ("c.json", '{"a":' * depth)):
        for form in (None, "jsonl", "label-studio", "argilla", "prodigy", "peerannot", "ground-truth"):
            try:
                read(put(name, text), form)
            except errors.CrowdwiseError as error:
                assert name in str(error)  # some can be read, since the nested field is skipped


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "start", "more"),
    [
        ("a.csv", HEADER + "1,w,", "x"), ("a.csv", "", "x"), ("a.csv", HEADER + '1,w,"', "x"),
        ("a.tsv", "task\tworker\tlabel\n", "x"),
        ("a.jsonl", ANSWER + '{"task": "', "x"), ("a.jsonl", "", "["), ("a.txt", "0 1\n", "0 "),
        ("a.json", '[{"id": "', "x"),
    ],
)  # fmt: skip
def test_an_endless_line_takes_memory_proportional_to_the_file(tmp_path, name, start, more):
    """80 MB without a line break, in a separate process; 1 GB in benchmarks/hostile_line.py."""
    program = """
        import resource, sys, crowdwise
        from crowdwise.io import read
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            read(sys.argv[1])
        except crowdwise.errors.CrowdwiseError as error:
            print(type(error).__name__)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    file = tmp_path / name
    with file.open("w") as stream:
        stream.write(start)
        for _ in range(80):
            stream.write(more * ((1 << 20) // len(more)))
    command = [sys.executable, "-c", textwrap.dedent(program), str(file)]
    *raised, kilobytes = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=1200
    ).stdout.split()
    assert raised in (["FormatError"], ["MissingColumnError"])
    assert int(kilobytes) << 10 < 6 * file.stat().st_size


def test_long_ids_are_shortened_in_messages(put):
    twice = f"{'x' * 10**6},w,a\n" * 2
    with pytest.raises(errors.DuplicateError) as caught:
        read(put("a.csv", HEADER + twice))
    assert len(str(caught.value)) < 1000


# Encodings


def test_nul_bytes_in_ids_and_headers(put, rows):
    """They are part of an id where the format allows it; in a header they show that the file is not UTF-8."""
    assert rows(read(put("a.csv", HEADER + "a\0,w,x\na,w,x\0y\n"))) == [("a", "w", "x\0y"), ("a\0", "w", "x")]
    assert rows(read(put("a.jsonl", '{"task": "a\\u0000", "worker": "w", "label": "x"}'))) == [("a\0", "w", "x")]
    assert_read_fails(
        errors.FormatError,
        "NUL bytes. Is the file encoded in UTF-16",
        put("b.csv", (HEADER + "1,w,x\n").encode("utf-16-le")),
    )
    for name in ("c.jsonl", "d.json", "e.txt", "f"):
        assert_read_fails(errors.CrowdwiseError, "binary|not JSON|NUL", put(name, b'{"task": "a\0"}\n'))


def test_byte_order_marks_and_mixed_encodings(put, rows):
    text = HEADER + "é,w,x\n"
    mark = b"\xef\xbb\xbf"
    assert rows(read(put("a.csv", mark + text.encode()))) == [("é", "w", "x")]
    assert rows(read(put("a.jsonl", mark + ANSWER.encode()))) == [("a", "w", "x")]
    for encoding in ("utf-16", "utf-32"):
        for name in ("a.csv", "a.tsv", "a.jsonl", "a.json"):
            assert_read_fails(
                errors.FormatError,
                f"the text is encoded in {encoding.upper()}. Save the file as UTF-8",
                put(name, text.encode(encoding)),
            )
    for odd, byte in (
        ("é,v,x\n".encode("latin-1"), "0xe9"),
        ("é,v,x\n".encode("utf-16"), "0xff"),
        (mark[:2] + b",v,x\n", "0xef"),
    ):
        assert_read_fails(
            errors.FormatError, rf"byte {byte} at line 3 \(byte 25 of the file\)", put("b.csv", text.encode() + odd)
        )
    assert_read_fails(errors.MissingColumnError, r"\\ufefftask", put("c.csv", mark + mark + text.encode()))


# Numbers


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "Infinity", "9223372036854775808", "-9223372036854775809", "1e19", "0.5", "9" * 5000]
)
def test_numbers_that_cannot_be_ids_are_rejected(put, number):
    for role in ("task", "worker", "label"):
        record = ANSWER.replace(f'"{role}": "{json.loads(ANSWER)[role]}"', f'"{role}": {number}')
        assert record != ANSWER
        assert_read_fails(errors.CrowdwiseError, "64.bit|JSON|too large|digits|type", put("a.jsonl", record))
        assert_read_fails(errors.CrowdwiseError, "64.bit|JSON|too large|digits|type", put("b.jsonl", ANSWER + record))
    result = {"from_name": "q", "type": "rating", "value": {"rating": 3}}
    export = json.dumps([{"id": "ID", "annotations": [{"completed_by": 1, "result": [result]}]}]).replace(
        '"ID"', number
    )
    assert_read_fails(errors.CrowdwiseError, "64.bit|too large|digits", put("c.json", export))


def test_invalid_weights_are_rejected(put):
    for number in ("1e400", "-1", "NaN", "Infinity"):
        assert_read_fails(errors.CrowdwiseError, "weight|JSON", put("a.jsonl", ANSWER[:-2] + f', "weight": {number}}}'))
        assert_read_fails(
            errors.WeightError, "weights from 0", put("a.csv", f"task,worker,label,weight\n1,w,x,{number}\n")
        )


def test_minus_zero_and_nan_ids(put):
    zero = read(put("a.jsonl", '{"task": -0, "worker": -0.0, "label": 0}\n'))
    assert (zero.tasks.tolist(), zero.workers.tolist()) == ([0], [0])
    assert read(put("a.csv", HEADER + "-0,w,x\n0,w,x\n")).tasks.tolist() == ["-0", "0"]  # as text they differ
    assert_read_fails(errors.NullError, "is empty", put("b.jsonl", '{"task": NaN, "worker": 1, "label": 0}\n'))


def test_floats_and_integers_at_the_64_bit_limit(tmp_path):
    pq.write_table(pa.table({"task": [2.0**63], "worker": ["w"], "label": ["x"]}), tmp_path / "a.parquet")
    assert_read_fails(errors.IdTypeError, "too large for a float", tmp_path / "a.parquet")
    pq.write_table(pa.table({"task": [2**63 - 1], "worker": [-(2**63)], "label": ["x"]}), tmp_path / "b.parquet")
    answers = read(tmp_path / "b.parquet")
    assert (answers.tasks.tolist(), answers.workers.tolist()) == ([2**63 - 1], [-(2**63)])


# Duplicate names and lookalike ids


def test_duplicate_columns_and_keys_are_rejected(put):
    for header in ("task,task,worker,label", "task,worker,worker,label", "task,worker,label,label"):
        assert_read_fails(errors.MissingColumnError, "appears 2 times", put("a.csv", header + "\n1,2,3,4\n"))
    assert_read_fails(
        errors.FormatError, "specified twice", put("a.jsonl", '{"task": 1, "task": 2, "worker": 1, "label": 1}')
    )
    for text in ('{"1": {"a": 1}, "1": {"a": 2}}', '{"1": {"a": 1, "a": 2}}'):
        assert_read_fails(errors.DuplicateError, "occurs twice in one object", put("a.json", text), format="peerannot")


@pytest.mark.parametrize(
    "twin",
    [
        unicodedata.normalize("NFD", "café"),
        "café ",
        " café",
        "café\u200b",
        "ca\u00adfé",
        "\ufeffcafé",
        "caf\u202aé",
        "café\u00a0",
    ],
)
def test_ids_that_look_alike_stay_distinct_with_a_warning(twin):
    for role in ("task", "worker", "label"):
        columns = {"task": ["a", "b"], "worker": ["v", "w"], "label": ["x", "y"], role: ["café", twin]}
        with pytest.warns(
            errors.LookalikeWarning, match=f"the {'class' if role == 'label' else role}e?s .* look alike"
        ):
            answers = Answers.from_frame(columns)
        assert {*answers.to_arrow().column(role).to_pylist()} == {"café", twin}


@pytest.mark.parametrize("pair", [("a", "b"), ("a b", "ab"), ("é", "e"), ("x²", "x2"), ("ﬁ", "fi"), (" a", " b")])
def test_visibly_different_ids_give_no_warning(pair):
    assert Answers.from_arrays([*pair], [*pair], [*pair]).n_tasks == 2  # warnings are errors here


# Writing


NASTY = [
    "<script>alert(1)</script>", "=cmd|'/C calc'!A0", "+1+1", "-x", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "\0=1", "＝1+1",
    "a;=1", "a\t=1", "\x1b[2J", "\u202egnp.exe", "'=1", '"=1"', "a,b",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::crowdwise.errors.LookalikeWarning")
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_html_formulas_and_control_characters_are_restored_and_never_run(tmp_path, suffix):
    answers = Answers.from_arrays(NASTY, NASTY, NASTY)
    file = tmp_path / f"a{suffix}"
    write(answers, file)
    assert read(file, multiline=True) == answers
    if suffix in (".csv", ".tsv"):
        bare = "".join(file.read_bytes().decode().split('"')[::2])  # whatever separator a spreadsheet uses
        for cell in re.split("[,;\t\r\n]", bare):
            assert not cell.strip("\0").startswith(("=", "+", "-", "@", "＝"))


def test_read_truth_follows_the_same_rules(put):
    assert read_truth(put("a.csv", "task,truth\na,'=1\n")).to_pylist() == [{"task": "a", "label": "=1"}]
    with pytest.raises(errors.FormatError, match="the text is encoded in UTF-16"):
        read_truth(put("b.csv", "task,truth\na,x\n".encode("utf-16")))
