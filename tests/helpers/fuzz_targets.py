"""Fuzz targets for readers: any file must give the right answers, or a crowdwise error that names the file.

`judge` reads one document and returns the outcome, or fails. For an intact document the right answers are known. A
damaged one is also read by a second reader, based on Python's csv and json, which must find the same answers.
"""

from __future__ import annotations

import copy
import csv
import gzip
import io
import json
import re
import signal
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from crowdwise import Answers
from crowdwise.answers.columns import recognise
from crowdwise.errors import CrowdwiseError
from crowdwise.io import read, read_side_columns, read_truth, read_with_side_columns
from crowdwise.io.csv_escaping import unescape
from crowdwise.io.format_detection import detect_format
from tests.helpers.fuzz_documents import INTEGERS, TEXTS, Document, Row, document, random_answers

SECONDS = 10  # of CPU time per case; most take a few milliseconds
PIECES = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\n", b"\r\n", b'"', b"'", b",", b";", b"\t", b"{", b"}",
    b"[", b"]", b":", b"\\", b"\\u0000", b"\\ud800", b"1e400", b"-1e400", b"NaN", b"Infinity", b"-0", b"1.5",
    b"9223372036854775808", b"9" * 5000, b"null", b"true", b"task", b"worker", b"label", b"truth", b"weight", b"id",
    b"annotations", b"\xe2\x80\xae", "é".encode("latin-1"), "é".encode("utf-16"), b"[" * 2000, b'{"a":' * 2000,
    b"=cmd|'/C calc'!A0", b"<script>", b"\x1b[2J",
)  # fmt: skip


class Slow(BaseException):
    """A case exceeded its time limit; not an Exception, so that no `except Exception` hides it."""


@contextmanager
def alarm(seconds: float) -> Iterator[None]:
    """Fail if the block takes more CPU time; waiting for other processes does not count."""

    def ring(*_: Any) -> None:
        raise Slow(f"over {seconds} seconds")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def judge(case: Document, folder: Path) -> str:
    """Return "right" or the name of the crowdwise error; anything else is a failure."""
    file = folder / case.name
    file.write_bytes(case.data)
    known = case.rows is not None  # then labels such as `[1]`, which alone look like sets, are classes
    try:
        answers = read(file, **case.options, as_classes=known)
    except CrowdwiseError as error:
        assert case.rows is None, f"well-formed {case.name} rejected: {error}"
        assert str(file) in str(error), f"the file is not named: {error}"
        return type(error).__name__
    check_answers(answers)
    found = answer_rows(answers)
    if case.rows is not None:
        assert found == sorted(case.rows, key=repr), f"read {found}, but {case.rows} was written"
    else:
        second = read_with_python(
            case, detect_format(file) if case.options.get("format") is None else case.options["format"]
        )
        assert second is None or found == second, f"read {found}, but the second reader found {second}"
    return "right"


def judge_side_columns(case: Document, folder: Path) -> str:
    """The same for side columns, in which a damaged file may contain anything."""
    file = folder / case.name
    file.write_bytes(case.data)
    columns = {name: value for name, value in case.options.items() if name in ("format", "question", "task", "worker")}
    try:
        answers, side = read_with_side_columns(file, **case.options)
        assert answers == read(file, **case.options)
        again = read_side_columns(file, answers, **columns)
    except CrowdwiseError as error:
        assert case.rows is None, f"well-formed {case.name} rejected: {error}"
        return type(error).__name__
    for one, other in zip(side, again, strict=True):
        np.testing.assert_array_equal(one, other)
    for values, size in ((side.texts, answers.n_tasks), (side.images, answers.n_tasks)):
        assert values is None or (len(values) == size and all(v is None or isinstance(v, str) for v in values))
    seconds = side.seconds
    assert seconds is None or (len(seconds) == answers.n_answers and not (seconds < 0).any())
    return "right"


def judge_truth(case: Document, folder: Path) -> str:
    """The same for known labels: the answers of a file are read as if they were known labels."""
    file = folder / case.name
    file.write_bytes(case.data)
    try:
        table = read_truth(file, case.options.get("format"))
    except CrowdwiseError as error:
        assert str(file) in str(error), f"the file is not named: {error}"
        return type(error).__name__
    tasks = table.column("task").to_pylist()
    assert table.column("label").null_count == 0
    assert len(set(tasks)) == len(tasks)
    if case.rows is not None:
        assert set(zip(tasks, table.column("label").to_pylist(), strict=True)) == {
            (t, label) for t, _, label in case.rows
        }
    return "right"


def check_answers(answers: Answers) -> None:
    """Check the properties that every method relies on."""
    tables = answers.task_ids, answers.worker_ids, answers.class_ids
    for codes, ids in zip((answers.task, answers.worker, answers.label), tables, strict=True):
        ids.validate(full=True)
        assert str(ids.type) in ("int64", "large_string", "bool")
        assert ids.null_count == 0
        assert len(ids.unique()) == len(ids)
        assert codes.dtype == np.int32
        assert len(codes) == answers.n_answers > 0
        assert codes.min() >= 0
        assert codes.max() < len(ids)
    pair = answers.task.astype(np.int64) * answers.n_workers + answers.worker
    assert (np.diff(pair) > 0).all(), "not sorted by task and worker, or a duplicate answer"
    assert answers.weight is None or (np.isfinite(answers.weight) & (answers.weight >= 0)).all()
    assert answers.truth is None or ((answers.truth >= -1) & (answers.truth < answers.n_classes)).all()


def answer_rows(answers: Answers) -> list[Row]:
    """Return (task, worker, label) of each answer, as ids, sorted by their repr."""
    table = answers.to_arrow()
    return sorted(zip(*(table.column(n).to_pylist() for n in ("task", "worker", "label")), strict=True), key=repr)


def damaged(format: str, draw: Random) -> Document:
    """Draw a well-formed file with a few bytes changed, removed, repeated or inserted; or a file of odd pieces only."""
    case = document(format, random_answers(draw), draw)
    data = bytearray(case.data)
    if draw.random() < 0.1:
        data = bytearray(b"".join(draw.choices(PIECES, k=draw.randint(0, 12))))
    if case.name.endswith(".gz") and draw.random() < 0.8:  # damage the content, not the gzip wrapper
        try:
            return Document(
                case.name, gzip.compress(bytes(mutate(bytearray(gzip.decompress(data)), draw)), 1), case.options, None
            )
        except (OSError, EOFError, zlib.error):
            pass
    if case.name.endswith(("json", "jsonl", "manifest", "zip")) and draw.random() < 0.6:
        return Document(case.name, _odd_values(case, draw), case.options, None)
    name = (
        case.name
        if draw.random() < 0.95
        else draw.choice(("a.csv", "a.json", "a.jsonl", "a.parquet", "a", "a.zip", "a.txt"))
    )
    return Document(name, bytes(mutate(data, draw)), case.options, None)


def mutate(data: bytearray, draw: Random) -> bytearray:
    """Change, remove, repeat or insert a few bytes."""
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randint(0, len(data))
        to = min(len(data), at + draw.choice((1, 1, 2, 4, 16, 64)))
        match draw.randint(0, 5):
            case 0:
                data[at:to] = b""
            case 1:
                data[at:at] = draw.choice(PIECES)
            case 2:
                data[at:to] = draw.choice(PIECES)
            case 3:
                data[at:at] = data[at:to]
            case 4:
                data[at:to] = bytes(draw.randint(0, 255) for _ in range(to - at))
            case 5:
                value = draw.choice((*TEXTS, *map(str, INTEGERS)))
                data[at:to] = value.encode()
    return data


ODD_VALUES = (
    None, True, False, 0, -1, 1.0, -0.0, 0.5, 1e300, float("inf"), float("nan"), 2**53 + 1, 2**63, -(2**63) - 1, 10**30,
    "", "1", "a", "\0", "\ud800", "e\u0301", "True", [], [None], ["a", "b"], [[]], {}, {"id": 1}, {"a": {"b": []}},
    "x" * 300,
    "2024-01-01T00:00:00Z", '{"q": {"label": "x"}}', '{"q": 1, "q": 2}', "[",
)  # fmt: skip


def _odd_values(case: Document, draw: Random) -> bytes:
    """Return valid JSON with a few values replaced, removed or moved."""
    if case.name.endswith("zip"):
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(case.data)) as packed, zipfile.ZipFile(out, "w") as again:
            for name in packed.namelist():
                again.writestr(name, _odd_lines(packed.read(name), draw))
        return out.getvalue()
    return _odd_lines(case.data, draw)


def _odd_lines(data: bytes, draw: Random) -> bytes:
    text = data.decode("utf-8-sig")
    try:
        return json.dumps(_odd(json.loads(text), draw, 3)).encode()
    except json.JSONDecodeError:
        records = [_odd(json.loads(line), draw, 2) for line in text.split("\n") if line.strip()]
        return "\n".join(map(json.dumps, records)).encode()


def _odd(value: Any, draw: Random, changes: int) -> Any:
    """Change some nested values."""
    for _ in range(draw.randint(0, changes)):
        at, step = value, None
        while isinstance(at, (dict, list)) and at and (step is None or draw.random() < 0.8):
            step = at, draw.choice(list(at) if isinstance(at, dict) else range(len(at)))
            at = step[0][step[1]]
        odd = copy.deepcopy(draw.choice(ODD_VALUES))
        if step is None:
            return odd
        holder, key = step
        if isinstance(holder, dict) and draw.random() < 0.2:
            holder[draw.choice(("id", "label", "task", "value", "text", "x", str(key)))] = holder.pop(key)
        elif draw.random() < 0.2:
            del holder[key]
        else:
            holder[key] = odd
    return value


# A second reader of long text tables


def read_with_python(case: Document, kind: str) -> list[Row] | None:
    """Read a long text table with Python's csv and json; None for other formats."""
    if kind not in ("csv", "tsv", "jsonl") or {"task", "worker", "label"} & {*case.options}:
        return None
    data = gzip.decompress(case.data) if case.data[:2] == b"\x1f\x8b" else case.data
    text = data.decode("utf-8-sig")
    if kind == "jsonl":
        return _json_rows([json.loads(line) for line in text.split("\n") if line.strip()])
    first = text.lstrip("\r\n").splitlines()[0]
    mark = "\t" if kind == "tsv" else ";" if ";" in first and "," not in first else ","
    header, *rows = (row for row in csv.reader(io.StringIO(text, newline=""), delimiter=mark) if row)
    found = recognise(header, task=None, worker=None, label=None)
    columns = {role: [row[header.index(name)] for row in rows] for role, name in found.items()}
    return sorted(zip(*(_typed(columns[role]) for role in ("task", "worker", "label")), strict=True), key=repr)


def _typed(cells: list[str]) -> list[Any]:
    """Convert a column to integers or booleans if all cells are; else return text without the escapes of `write`."""
    if all(re.fullmatch("0|-?[1-9][0-9]{0,18}", cell) and -(2**63) <= int(cell) < 2**63 for cell in cells):
        return [int(cell) for cell in cells]
    if all(cell in ("True", "False") for cell in cells):
        return [cell == "True" for cell in cells]
    distinct = list(dict.fromkeys(cells))
    plain = dict(zip(distinct, unescape(pa.array(distinct, pa.large_string())).to_pylist(), strict=True))
    return [plain[cell] for cell in cells]


def _json_rows(records: list[Mapping[str, Any]]) -> list[Row]:
    found = recognise(
        list(dict.fromkeys(name for record in records for name in record)), task=None, worker=None, label=None
    )
    rows = [tuple(record[found[role]] for role in ("task", "worker", "label")) for record in records]
    integers = [tuple(int(v) if isinstance(v, float) else v for v in row) for row in rows]
    assert all(
        not isinstance(v, float) or v == w
        for row, ints in zip(rows, integers, strict=True)
        for v, w in zip(row, ints, strict=True)
    )
    return sorted(integers, key=repr)
