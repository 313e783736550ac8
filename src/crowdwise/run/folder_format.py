"""The format of a run folder: its version, what `metrics.json` must hold, and checksums that show damage.

Version 2 has, in `metrics.json`, a checksum of itself and of each file that is read again: what is read
is what the run wrote, or it is refused. Version 1 has none, and is read as it is.
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
from crowdwise._core.json_schema import NUMBER, Field, check
from crowdwise.errors import FormatError

FORMAT = 2
NONE = type(None)
REMEDY = "Restore it from a copy, or make the run again in a new folder."
FIGURES = {
    "format": Field(int, "the version of the format"),
    "method": Field(str, "the name of the method that made the labels"),
    "why": Field(str, "a sentence"),
    "words": Field(list, "sentences"),
    "counts": Field(dict, "numbers of tasks by verdict"),
    "verdict_words": Field(dict, "sentences by verdict"),
    "verdict_rules": Field(dict, "bounds of the verdicts"),
    "beats_vote": Field((bool, NONE), "true, false or null"),
    "expected_accuracy": Field(NUMBER, "a number"),
    "expected_accepted": Field((*NUMBER, NONE), "a number or null"),
    "truth": Field((dict, NONE), "scores against known truth, or null"),
    "summary": Field(dict, "figures of the answers"),
    "balance": Field(dict, "shares of the classes"),
    "choice": Field((dict, NONE), "how the method was chosen, or null"),
    "methods": Field(list, "a row a method"),
    "calibration": Field(dict, "the temperature, and bins before and after"),
    "confidence": Field(dict, "a histogram"),
    "agreement": Field(dict, "a histogram"),
    "ambiguity": Field(dict, "how tasks were ranked"),
    "history": Field(list, "a row an iteration"),
    "curve": Field(list, "a row a share of the answers"),
    "forecast": Field(list, "a row a number of answers bought"),
    "spammers": Field(int, "a number of workers"),
    "files": Field(dict, "checksums by name of the file", needed=False),
    CHECKSUM_KEY: Field(str, "a checksum", needed=False),
}


def sealed(figures: Mapping[str, Any], folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """The content of metrics.json: the figures, with the version, checksums of these files, and one of itself."""
    files = {name: checksum(folder / name) for name in names if (folder / name).is_file()}
    content = json.loads(json.dumps({"format": FORMAT, **figures, "files": files}, allow_nan=False))
    return {**content, CHECKSUM_KEY: _sum(content)}


def empty() -> dict[str, Any]:
    """Figures of nothing: each field with the least it may hold.

    >>> empty()["methods"], empty()["truth"]
    ([], None)
    """
    kinds = {name: field.kind for name, field in FIGURES.items() if field.needed and name != "format"}
    least = {name: kind if isinstance(kind, type) else kind[-1] for name, kind in kinds.items()}
    return {name: None if kind is NONE else kind() for name, kind in least.items()}


def read_figures(path: Path) -> dict[str, Any]:
    """What metrics.json holds, if it is as a run wrote it."""
    content = read_json(path)
    version = content.get("format")
    if version not in range(1, FORMAT + 1):
        message = f"{path.parent} has run format {version!r}, this crowdwise reads up to {FORMAT}: upgrade."
        raise FormatError(message)
    told = content.pop(CHECKSUM_KEY, None)
    if version != 1 and told != _sum(content):
        message = f"{path} is damaged or was edited: its checksum does not fit. {REMEDY}"
        raise FormatError(message)
    try:
        check(content, FIGURES, allow_unknown=True)
    except ValueError as error:
        message = f"{path} is damaged: {error}. {REMEDY}"
        raise FormatError(message) from None
    return content


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of the folder; says which file is damaged."""
    try:
        content = strict_json(path.read_bytes())
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}. Run again with --resume."
        raise FormatError(message) from None
    except ValueError as error:
        message = f"{path} is damaged: {error}. {REMEDY}"
        raise FormatError(message) from None
    if not isinstance(content, dict):
        message = f"{path} holds no JSON object: is this the folder of a run?"
        raise FormatError(message)
    return content


def check_file(path: Path, sums: Mapping[str, Any]) -> None:
    """Refuse a file that is not as the run wrote it; nothing is known of those of version 1."""
    if path.name not in sums:
        return
    try:
        same = checksum(path) == sums[path.name]
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}. {REMEDY}"
        raise FormatError(message) from None
    if not same:
        message = f"{path} is damaged or was edited: it is not as the run wrote it. {REMEDY}"
        raise FormatError(message)


@contextmanager
def understood(path: Path) -> Iterator[None]:
    """Whatever goes wrong on reading a file, it is damaged, and named."""
    try:
        yield
    except (OSError, ValueError, pa.ArrowException) as error:
        message = f"{path} cannot be read: {error}. {REMEDY}"
        raise FormatError(message) from None


def checksum(path: Path) -> str:
    """The sha256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sum(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
