"""Detection of a file's format from its name and its beginning."""

from __future__ import annotations

import csv
import json
import re
import zipfile
from pathlib import Path
from typing import Any, NoReturn

from crowdwise.answers.columns import COLUMN_NAMES
from crowdwise.errors import EmptyError, FormatError
from crowdwise.io.files import is_gzip, is_parquet, read_head
from crowdwise.io.format_table import FORMATS
from crowdwise.io.formats import argilla, ground_truth, mturk, toloka
from crowdwise.io.formats.delimited import long_cells

TABLES = (".csv", ".tsv", ".tab")
EVALUATIONS = {  # keys of the first object
    "inspect": ({"version", "status", "eval"},),
    "promptfoo": ({"evalId", "results"}, {"promptIdx", "testIdx", "provider"}),
    "deepeval": ({"testCases"}, {"conversationalTestCases"}, {"test_results"}, {"testRunData"}),
    "lm-eval": ({"doc_id", "filtered_resps"}, {"results", "configs", "n-shot"}),
}
_KEY = re.compile(r'\s*("(?:[^"\\]|\\.)*")\s*:\s*')
_COMMA = re.compile(r"\s*,")


def detect_format(path: Path) -> str:
    """Return the name of the format in `FORMATS`."""
    suffix = _suffix(path)
    if suffix in (".parquet", ".pq") or is_parquet(path):
        return _detect_parquet(path)
    if suffix == ".zip":
        return "doccano"
    if suffix == ".eval" and zipfile.is_zipfile(path):
        return "inspect"
    text = read_head(path).lstrip()
    if suffix not in TABLES and "\0" in text:
        _fail("binary data")
    if text[0] in "{[":
        return _detect_json(text, suffix)
    return _detect_table(text, suffix)


def _fail(found: str) -> NoReturn:
    message = f"the format cannot be detected: {found}. Name it with format= (--format): {', '.join(FORMATS)}."
    raise FormatError(message)


def _suffix(path: Path) -> str:
    name = path.with_suffix("") if path.suffix == ".gz" and is_gzip(path) else path
    return name.suffix.lower()


def _detect_parquet(path: Path) -> str:
    import pyarrow.parquet as pq

    names = pq.read_schema(path).names
    return "argilla" if any(name.endswith(argilla.SUFFIX) for name in names) else "parquet"


def _detect_json(text: str, suffix: str) -> str:
    """Detect the format by the fields of the first object."""
    in_list = text.startswith("[")
    start = len(text) - len(text[1:].lstrip()) if in_list else 0
    if re.fullmatch(r"(\[\s*\]|\{\s*\})\s*", text):
        message = (
            f"the file holds an empty {'list' if in_list else 'object'}: it has no answers. Is the export finished?"
        )
        raise EmptyError(message)
    evaluation = None if in_list else _detect_evaluation(first_keys(text))
    if evaluation is not None:
        return evaluation
    try:
        record, end = json.JSONDecoder().raw_decode(text, start)
    except json.JSONDecodeError:
        _fail(f"truncated JSON, or a first object longer than {len(text):,} characters")
    if not isinstance(record, dict):
        _fail(f"a JSON list that begins with {text[start : start + 20]!r}, not with an object")
    if isinstance(record.get("annotations"), list):
        return "label-studio"
    if "_input_hash" in record or "_task_hash" in record:
        return "prodigy"
    if ground_truth.KEY in record or any(isinstance(v, dict) and ground_truth.KEY in v for v in record.values()):
        return "ground-truth"
    if argilla.questions_of(record):
        return "argilla"
    single = suffix == ".json" and not text[end:].strip()
    if not in_list and single and record and all(isinstance(value, dict) for value in record.values()):
        _fail(
            "an object of objects, as in peerannot's answers.json. Its outer keys are tasks (format='peerannot') or "
            "workers (format='peerannot-by-worker')"
        )
    if isinstance(record.get("label"), list) and not _has_worker(record):
        _fail("records with a list of labels but no worker, as in doccano's export of a collaborative project")
    if in_list:
        _fail(
            f"a JSON list of objects with the fields {_listed(record)} (for a plain table, write one object per line)"
        )
    return "jsonl"


def _detect_evaluation(keys: set[str]) -> str | None:
    """Return the format of a tool that evaluates language models, by the keys of the first object, if it is one."""
    return next((name for name, groups in EVALUATIONS.items() if any(group <= keys for group in groups)), None)


def first_keys(text: str) -> set[str]:
    """Return the keys of the first object; of one that is cut off, those up to the value that is incomplete.

    >>> sorted(first_keys('{"a": 1, "b": [{"c": 2}, {"d'))
    ['a', 'b']
    """
    decoder, keys, at = json.JSONDecoder(), set(), 1
    try:
        while (found := _KEY.match(text, at)) is not None:
            keys.add(json.loads(found[1]))
            _, at = decoder.raw_decode(text, found.end())
            at = _COMMA.match(text, at).end()  # type: ignore[union-attr]
    except (ValueError, AttributeError):  # the last value is incomplete, or there are no more keys
        pass
    return keys


def _detect_table(text: str, suffix: str) -> str:
    """Detect the format by the column names."""
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
    _fail(f"text that begins with {first[:40]!r}")


def _has_worker(record: dict[str, Any]) -> bool:
    return any(name.strip().lower() in COLUMN_NAMES["worker"] for name in record)


def _listed(record: dict[str, Any]) -> str:
    return ", ".join(map(repr, list(record)[:4])) or "(none)"
