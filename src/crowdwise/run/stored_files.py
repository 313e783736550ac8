"""The files of a run folder: their names, format and checksums.

    config.json         the request: inputs with their checksums, options, seed, version
    labels.parquet      one row per task: label, confidence, verdict, ..., and the probability of each class
    labels.csv          the same without the probabilities
    workers.csv         one row per worker: quality, informativeness, worst confusion
    tasks.csv           tasks by ambiguity, the most ambiguous first, with their answers
    next.csv            answers to buy next, and their expected benefit
    gold.csv            the gold labels, if there are any, and how their tasks were drawn
    model.safetensors   the model that made the labels; `classifier.safetensors` if that model cannot classify features
    metrics.json        every figure of the report; written after all other files but the report
    times.json          seconds per step
    images/             thumbnails of the most ambiguous tasks
    report.html         all of this on one page

Every file is written atomically. Since format 2, `metrics.json` keeps a checksum of itself and of each file that `Run`
reads, so damage is detected; format 1 is read without this check. Format 3 adds `trust` to
`metrics.json`, `reason` to the labels and `flag` to the workers; format 4 (the current one) adds `wrong`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from crowdwise._core.checksums import CHECKSUM_KEY, strict_json
from crowdwise.errors import FormatError
from crowdwise.run import schema

FORMAT = 4
CONFIG, METRICS, TIMES = "config.json", "metrics.json", "times.json"
LABELS, LABELS_CSV, WORKERS, TASKS, NEXT = "labels.parquet", "labels.csv", "workers.csv", "tasks.csv", "next.csv"
GOLD = "gold.csv"
MODEL, CLASSIFIER, IMAGES = "model.safetensors", "classifier.safetensors", "images"
CHECKED = (CONFIG, LABELS, WORKERS, TASKS, NEXT, GOLD, MODEL, CLASSIFIER)  # files with a checksum in metrics.json
PROBA = "proba_"  # prefix of the probability columns in labels.parquet
REMEDY = "Restore it from a backup, or run again in a new folder."


def seal_metrics(metrics: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the content of metrics.json: the figures, the format version, and checksums of the files and itself."""
    files = {name: _file_checksum(folder / name) for name in CHECKED if (folder / name).is_file()}
    content = json.loads(json.dumps({"format": FORMAT, **metrics, "files": files}, allow_nan=False))
    return {**content, CHECKSUM_KEY: _json_checksum(content)}


def read_metrics(path: Path) -> dict[str, Any]:
    """Return the content of metrics.json after checking its format, checksum and fields."""
    content = read_json(path)
    version = content.get("format")
    if version not in range(1, FORMAT + 1):
        message = f"{path.parent} has run format {version!r}; this version of crowdwise reads up to {FORMAT}: upgrade."
        raise FormatError(message)
    checksum = content.pop(CHECKSUM_KEY, None)
    if version != 1 and checksum != _json_checksum(content):
        message = f"{path} is damaged or was edited: its checksum does not match. {REMEDY}"
        raise FormatError(message)
    with name_damaged_file(path):
        schema.check_metrics(content)
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Return a JSON object of the folder; an error names the damaged file."""
    try:
        content = strict_json(path.read_bytes())
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror}. Rerun `crowdwise run` with --resume."
        raise FormatError(message) from None
    except ValueError as error:
        message = f"{path} is damaged: {error}. {REMEDY}"
        raise FormatError(message) from None
    if not isinstance(content, dict):
        message = f"{path} does not hold a JSON object. Is this a run folder?"
        raise FormatError(message)
    return content


def check_file(path: Path, checksums: Mapping[str, Any]) -> None:
    """Raise if a file is not as the run wrote it; format 1 has no checksums to compare."""
    if path.name not in checksums:
        return
    try:
        same = _file_checksum(path) == checksums[path.name]
    except OSError as error:
        message = f"Cannot read {path}: {error.strerror}. {REMEDY}"
        raise FormatError(message) from None
    if not same:
        message = f"{path} is damaged or was edited: its checksum does not match. {REMEDY}"
        raise FormatError(message)


@contextmanager
def name_damaged_file(path: Path) -> Iterator[None]:
    """Turn any error while a file is read into one that names the file and the remedy."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        message = f"Cannot read {path}: {error}. {REMEDY}"
        raise FormatError(message) from None


def _file_checksum(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _json_checksum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
