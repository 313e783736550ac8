"""Random files of every format, together with the answers that a reader must find in them.

A document is drawn with a `random.Random`: a seeded one for the benchmark, or Hypothesis's own, which can shrink
failures. Each writer adds what real exports contain besides answers (other columns, drafts, skips, blank lines, byte
order marks, compression), which must not change the result.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from crowdwise.io.format_table import FORMATS
from tests.helpers import fuzz_judges

Row = tuple[Any, Any, Any]  # task, worker, label

TEXTS = (
    "a", "b", "cat", "dog", "001", "1e400", "NaN", "NA", "null", "None", "-0", "1.0", "true", "x y", " x", "x ", "é",
    "e\u0301", "ﬁ", "İ", "😀", "\u202ex", "\u200b", "\ufeffx", "a,b", "a;b", "a\tb", 'a"b', '"', "a\nb", "a\r\nb",
    "\x01", "\x1b[31m", "[red]x[/red]", "<script>", "=1+1", "+x", "-x", "@x", "{", "[1]", "..", "/", "\\",
    "2" * 400, "𝔘",
)  # fmt: skip
INTEGERS = (0, 1, -1, 7, 255, 10**6, 2**31, -(2**31) - 1, 2**53 + 1, 2**63 - 1, -(2**63))


class Document(NamedTuple):
    """A file: its name and bytes, the options to read it with, and its answers (None if it is damaged)."""

    name: str
    data: bytes
    options: dict[str, Any]
    rows: frozenset[Row] | None


def random_answers(draw: Random, most: int = 6) -> list[Row]:
    """Draw answers, at most one per task and worker; the ids of a role are all text or all integers."""
    pools = [draw.choice((TEXTS, INTEGERS)) for _ in range(3)]
    tasks, workers, labels = ([draw.choice(pool) for _ in range(draw.randint(1, 4))] for pool in pools)
    rows = {(draw.choice(tasks), draw.choice(workers)): draw.choice(labels) for _ in range(draw.randint(1, most))}
    return [(task, worker, label) for (task, worker), label in rows.items()]


def document(format: str, rows: Sequence[Row], draw: Random) -> Document:
    """Write answers as a file of a format."""
    name, data, options, found = WRITERS[format](list(rows), draw)
    if draw.random() < 0.1 and name.endswith(("csv", "tsv", "json", "jsonl", "txt")):
        name, data = f"{name}.gz", gzip.compress(data, 1, mtime=0)
    if draw.random() < 0.5 or format.startswith(("peerannot", "cleanlab", "matrix")):  # these cannot be detected
        options = {"format": format, **options}
    if FORMATS[format].quoted:  # ids contain line breaks
        options = {**options, "multiline": True}
    return Document(name, data, options, frozenset(found))


def ids_as_text(rows: Sequence[Row]) -> list[Row]:
    """Return the ids as read from a text file: integers if all ids of a role are."""
    columns = [
        [str(value) for value in column] if any(isinstance(value, str) for value in column) else list(column)
        for column in zip(*rows, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _lines(records: Sequence[Any], draw: Random) -> bytes:
    end = draw.choice(("\n", "\r\n", "\n\n", "\n \n"))
    text = end.join(json.dumps(record, ensure_ascii=draw.random() < 0.5) for record in records)
    return _marked(text + draw.choice(("", "\n")), draw)


def _marked(text: str, draw: Random) -> bytes:
    return (b"\xef\xbb\xbf" if draw.random() < 0.1 else b"") + text.encode()


def _table(header: Sequence[str], rows: Sequence[Sequence[Any]], delimiter: str, draw: Random) -> bytes:
    out = io.StringIO(newline="")
    bare = any("\r" in str(cell) for row in (header, *rows) for cell in row)  # Python may leave it unquoted
    quoting = draw.choice((csv.QUOTE_ALL if bare else csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator=draw.choice(("\n", "\r\n")))
    writer.writerows([header, *rows])
    return _marked(out.getvalue(), draw)


def _shuffled(columns: dict[str, Sequence[Any]], draw: Random) -> tuple[list[str], list[tuple[Any, ...]]]:
    names = list(columns)
    draw.shuffle(names)
    return names, list(zip(*(columns[name] for name in names), strict=True))


def _long(rows: Sequence[Row], draw: Random) -> dict[str, Sequence[Any]]:
    """Return the columns of a long table under common names, with some further columns."""
    names = draw.choice((("task", "worker", "label"), ("item", "annotator", "answer"), ("Task ID", "user-id", "class")))
    columns: dict[str, Sequence[Any]] = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    if draw.random() < 0.3:
        columns["comment"] = [draw.choice(TEXTS) for _ in rows]
    if draw.random() < 0.3:
        columns["weight"] = [draw.choice((0, 0.5, 1, 1e6)) for _ in rows]
    return columns


def _csv(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    return "answers.csv", _table(*_shuffled(_long(rows, draw), draw), draw.choice(",;"), draw), {}, ids_as_text(rows)


def _tsv(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    return "answers.tsv", _table(*_shuffled(_long(rows, draw), draw), "\t", draw), {}, ids_as_text(rows)


def _jsonl(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    names, cells = _shuffled(_long(rows, draw), draw)
    records = [dict(zip(names, row, strict=True)) for row in cells]
    for record in records:
        if draw.random() < 0.2:
            record["meta"] = draw.choice(([1, {"task": 2}], {"worker": None}, None, 1e400, "x"))
    return "answers.jsonl", _lines(records, draw), {}, rows


def _parquet(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    table = pa.table(_long(rows, draw))
    if draw.random() < 0.3:
        table = pa.table({name: table.column(name).dictionary_encode() for name in table.column_names})
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=draw.randint(1, 4), compression=draw.choice(("snappy", "none", "zstd")))
    return "answers.parquet", out.getvalue(), {}, rows


def _label_studio(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    records: dict[Any, dict[str, Any]] = {}
    for task, worker, label in rows:
        record = records.setdefault(task, {"id": task, "data": {"text": "t", "image": "i.png"}, "annotations": []})
        kind, key = draw.choice((("choices", "choices"), ("pairwise", "selected"), ("rating", "rating")))
        chosen = [label] if kind == "choices" else label
        result = {"from_name": "q", "to_name": "text", "type": kind, "value": {key: chosen}}
        who = draw.choice((worker, {"id": worker, "email": "x@y.org"}))
        record["annotations"].append({"completed_by": who, "lead_time": draw.random(), "result": [result]})
        if draw.random() < 0.2:
            record["annotations"].append({"completed_by": who, "was_cancelled": True, "result": [result]})
        if draw.random() < 0.1:
            other = {**result, "from_name": "box", "type": "rectanglelabels", "value": {"x": 1}}
            record["annotations"][-1]["result"].append(other)
    return "export.json", _marked(json.dumps(list(records.values())), draw), {}, rows


def _argilla(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    old, records = draw.random() < 0.5, []
    for task in dict.fromkeys(row[0] for row in rows):
        responses = [(worker, label, "submitted") for t, worker, label in rows if t == task]
        if draw.random() < 0.2:
            responses.insert(
                draw.randint(0, len(responses)), ("nobody" if isinstance(rows[0][1], str) else -9, "?", "draft")
            )
        users, values, status = map(list, zip(*responses, strict=True))
        response = [{"user_id": u, "value": v, "status": s} for u, v, s in responses]
        parts = {"q.responses": values, "q.responses.users": users, "q.responses.status": status}
        records.append({"id": task, "text": "t", **({"q": response} if old else parts)})
    return ("a.json", json.dumps(records).encode(), {}, rows) if draw.random() < 0.5 else (
        "a.jsonl", _lines(records, draw), {}, rows
    )  # fmt: skip


def _prodigy(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    records: list[dict[str, Any]] = []
    for task, worker, label in rows:
        record = {"_input_hash": task, "_task_hash": 1, "_annotator_id": worker, "text": "t", "options": []}
        records.append({**record, "answer": "accept", "accept": [label], "_timestamp": draw.randint(1, 10**10)})
        if draw.random() < 0.2:
            records.append({**record, "answer": "ignore", "accept": []})
    return (
        "p.jsonl",
        _lines(records, draw),
        {"worker": "_annotator_id"},
        rows,
    )  # a worker of ten digits would be taken as a timestamp


def _platform(names: tuple[str, str, str], status: tuple[str, str], delimiter: str, draw: Random,
              rows: list[Row]) -> bytes:  # fmt: skip
    lines = [(*row, draw.choice(("Approved", "SUBMITTED"))) for row in ids_as_text(rows)]
    for row in ids_as_text(rows):
        if draw.random() < 0.2:
            lines.insert(draw.randint(0, len(lines)), (*row, status[1]))
    columns = dict(zip((*names, status[0]), map(list, zip(*lines, strict=True)), strict=True))
    return _table(*_shuffled(columns, draw), delimiter, draw)


def _mturk(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    data = _platform(("HITId", "WorkerId", "Answer.q"), ("AssignmentStatus", "Rejected"), ",", draw, rows)
    return "batch.csv", data, {}, ids_as_text(rows)


def _toloka(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    names = ("INPUT:url", "ASSIGNMENT:worker_id", "OUTPUT:q")
    return "pool.tsv", _platform(names, ("ASSIGNMENT:status", "REJECTED"), "\t", draw, rows), {}, ids_as_text(rows)


def _ground_truth(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    records = []
    for task in dict.fromkeys(row[0] for row in rows):
        annotations = [
            {"workerId": w, "timeSpentInSeconds": 2, "annotationData": {"content": json.dumps({"q": {"label": label}})}}
            for t, w, label in rows if t == task
        ]  # fmt: skip
        found = {"annotationsFromAllWorkers": annotations}
        records.append({"datasetObjectId": task, **draw.choice((found, {"job": found}))})
    return "out.manifest", _lines(records, draw), {}, rows


def _peerannot(rows: list[Row], draw: Random, outside: int = 0) -> tuple[str, bytes, dict[str, Any], Any]:
    nested: dict[str, dict[str, Any]] = {}
    for row in rows:
        nested.setdefault(str(row[outside]), {})[str(row[1 - outside])] = row[2]
    ids = ids_as_text(rows)
    return (
        "answers.json",
        json.dumps(nested).encode(),
        {},
        [(i[0], i[1], row[2]) for i, row in zip(ids, rows, strict=True)],
    )


def _peerannot_by_worker(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    return _peerannot(rows, draw, 1)


def _matrix(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    """Tasks and workers are positions in this format; the ids of the answers are ignored."""
    n_tasks, n_workers = draw.randint(1, 5), draw.randint(1, 5)
    cells = [[draw.choice((-1, -1, 0, 1, 2, 2**62)) for _ in range(n_workers)] for _ in range(n_tasks)]
    cells[0][0] = 1
    space = draw.choice((" ", "  ", "\t"))
    text = draw.choice(("\n", "\r\n", "\n\n")).join(space.join(map(str, line)) for line in cells)
    found = [(t, w, label) for t, line in enumerate(cells) for w, label in enumerate(line) if label >= 0]
    return "answers.txt", _marked(text, draw), {}, found


def _cleanlab(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    text = ids_as_text(rows)
    tasks, workers = (list(dict.fromkeys(column)) for column in list(zip(*text, strict=True))[:2])
    labels = {(task, worker): label for task, worker, label in text}
    lines = [[task, *(labels.get((task, worker), "") for worker in workers)] for task in tasks]
    if {str(label) for *_, label in text} <= {"1.0", "-1.0"}:  # as pandas writes integers in a column with gaps
        text = [(task, worker, int(float(label))) for task, worker, label in text]
    return (
        "wide.csv",
        _table(["the task", *workers], lines, ",", draw),
        {"format": "cleanlab", "task": "the task"},
        text,
    )


def _doccano(rows: list[Row], draw: Random) -> tuple[str, bytes, dict[str, Any], Any]:
    """Workers are file names in this format."""
    names = {worker: f"w{number}" for number, worker in enumerate(dict.fromkeys(row[1] for row in rows))}
    rows = [(task, names[worker], label) for task, worker, label in rows]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as packed:
        for name in dict.fromkeys(row[1] for row in rows):
            records = [{"id": task, "text": "t", "label": [label]} for task, worker, label in rows if worker == name]
            packed.writestr(zipfile.ZipInfo(f"{name}.jsonl"), _lines(records, draw))
    return "export.zip", out.getvalue(), {}, rows


WRITERS: dict[str, Callable[[list[Row], Random], tuple[str, bytes, dict[str, Any], Any]]] = {
    "csv": _csv, "tsv": _tsv, "parquet": _parquet, "jsonl": _jsonl, "label-studio": _label_studio, "argilla": _argilla,
    "prodigy": _prodigy, "mturk": _mturk, "toloka": _toloka, "ground-truth": _ground_truth, "peerannot": _peerannot,
    "peerannot-by-worker": _peerannot_by_worker, "matrix": _matrix, "cleanlab": _cleanlab, "doccano": _doccano,
    "inspect": fuzz_judges.inspect_log, "promptfoo": fuzz_judges.promptfoo, "deepeval": fuzz_judges.deepeval,
    "lm-eval": fuzz_judges.lm_eval,
}  # fmt: skip
