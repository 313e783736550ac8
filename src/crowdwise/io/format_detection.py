"""Telling the format of a file from its name and its beginning."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any, NoReturn

from crowdwise.answers.columns import COLUMN_NAMES
from crowdwise.errors import FormatError
from crowdwise.io.files import is_gzip, is_parquet, read_head
from crowdwise.io.format_table import FORMATS
from crowdwise.io.formats import argilla, ground_truth, mturk, toloka
from crowdwise.io.formats.delimited import long_cells

TABLES = (".csv", ".tsv", ".tab")


def detect_format(path: Path) -> str:
    """Name of the format in `FORMATS`."""
    suffix = _suffix(path)
    if suffix in (".parquet", ".pq") or is_parquet(path):
        return _of_parquet(path)
    if suffix == ".zip":
        return "doccano"
    text = read_head(path).lstrip()
    if suffix not in TABLES and "\0" in text:
        _unknown("binary data")
    if text[0] in "{[":
        return _of_json(text, suffix)
    return _of_table(text, suffix)


def _unknown(seen: str) -> NoReturn:
    message = f"the format cannot be told: {seen}. Name it with format=, one of {', '.join(FORMATS)}."
    raise FormatError(message)


def _suffix(path: Path) -> str:
    name = path.with_suffix("") if path.suffix == ".gz" and is_gzip(path) else path
    return name.suffix.lower()


def _of_parquet(path: Path) -> str:
    import pyarrow.parquet as pq

    names = pq.read_schema(path).names
    return "argilla" if any(name.endswith(argilla.SUFFIX) for name in names) else "parquet"


def _of_json(text: str, suffix: str) -> str:
    """By the fields of the first object."""
    in_list = text.startswith("[")
    start = len(text) - len(text[1:].lstrip()) if in_list else 0
    try:
        record, end = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError:
        _unknown(f"JSON that is cut short, or whose first object is longer than {len(text):,} characters")
    if not isinstance(record, dict):
        _unknown(f"a JSON list that begins with {text[start : start + 20]!r} where objects were expected")
    if isinstance(record.get("annotations"), list):
        return "label-studio"
    if "_input_hash" in record or "_task_hash" in record:
        return "prodigy"
    if ground_truth.KEY in record or any(isinstance(v, dict) and ground_truth.KEY in v for v in record.values()):
        return "ground-truth"
    if argilla.questions_of(record):
        return "argilla"
    lone = suffix == ".json" and not text[end:].strip()
    if not in_list and lone and record and all(isinstance(value, dict) for value in record.values()):
        _unknown(
            "an object of objects, as peerannot's answers.json; whether tasks (format='peerannot') or workers "
            "(format='peerannot-by-worker') stand outside does not show"
        )
    if isinstance(record.get("label"), list) and not _has_worker(record):
        _unknown("records with a list of labels and no worker, as doccano exports a collaborative project")
    if in_list:
        _unknown(f"a JSON list of objects with {_listed(record)}; for a plain table, write one object a line")
    return "jsonl"


def _of_table(text: str, suffix: str) -> str:
    """By the names of the columns."""
    first = text.splitlines()[0]
    if suffix not in TABLES and re.fullmatch(r"-?\d+(\s+-?\d+)*\s*", first):
        return "matrix"
    by_tabs = suffix in (".tsv", ".tab") or (suffix != ".csv" and "\t" in first)
    with long_cells():
        names = next(csv.reader([first], delimiter="\t" if by_tabs else ","))
    if {"HITId", "WorkerId"} <= {*names} and any(name.startswith(mturk.PREFIX) for name in names):
        return "mturk"
    if toloka.WORKER in names and any(name.startswith(toloka.PREFIX) for name in names):
        return "toloka"
    if suffix in TABLES or len(names) > 1 or ";" in first:
        return "tsv" if by_tabs else "csv"
    _unknown(f"text that begins with {first[:40]!r}")


def _has_worker(record: dict[str, Any]) -> bool:
    return any(name.strip().lower() in COLUMN_NAMES["worker"] for name in record)


def _listed(record: dict[str, Any]) -> str:
    return ", ".join(map(repr, list(record)[:4])) or "nothing in them"
