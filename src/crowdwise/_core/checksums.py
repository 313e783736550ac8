"""Safetensors files that show damage: facts as JSON in the header, and there a checksum of every byte of the file.

The checksum is the sha256 of the file with 64 zeros where the checksum stands. It tells damage, not malice: whoever
changes a file on purpose can compute it anew, so readers check what they read all the same. Nothing here is executed:
a header is JSON, a tensor is numbers.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

CHECKSUM_KEY = "sha256"
_ZEROS = "0" * 64
_MARK = (
    f'\\"{CHECKSUM_KEY}\\": \\"'.encode()
)  # the facts are JSON in a string of JSON: quotes are escaped once, others' twice
LONGEST = 100_000_000  # bytes of a header, as in safetensors itself


class DamagedError(ValueError):
    """A file is not as it was written."""


def write_with_checksum(
    path: Path, key: str, read_metadata: Mapping[str, Any], save: Callable[[dict[str, str]], None]
) -> None:
    """Have a file written by `save`, which is given the metadata, and put its checksum into it.

    Parameters
    ----------
    path : path
        The file that `save` writes.
    key : str
        The name of the facts among the metadata, which says what kind of file it is.
    facts : mapping
        What JSON can hold.
    save : callable
        `save_file` of safetensors with all but its `metadata`.
    """
    save({key: json.dumps({CHECKSUM_KEY: _ZEROS, **read_metadata})})
    with path.open("r+b") as stream:
        place = 8 + _header(stream).index(_MARK) + len(_MARK)
        checksum = _checksum(stream, place)
        stream.seek(place)
        stream.write(checksum)


def read_metadata(
    source: str | os.PathLike[str] | bytes, key: str, newest: int, oldest: int = 2
) -> dict[str, Any] | None:
    """The facts of a file, or of its content; None where it has none of this kind.

    Raises `DamagedError` where the file is no safetensors file, or is not as it was written.

    Parameters
    ----------
    source : path or bytes
        The file, or its content.
    key : str
        As in `write_with_checksum`.
    newest, oldest : int
        The versions that have this checksum: a newer one may have another, for its reader to refuse; those older were
        written before there was one.
    """
    with io.BytesIO(source) if isinstance(source, bytes) else Path(source).open("rb") as stream:
        header = _header(stream)
        found = strict_json(header)
        metadata = found.get("__metadata__") if isinstance(found, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get(key), str):
            return None
        content = strict_json(metadata[key])
        if not isinstance(content, dict):
            return None
        version = content.get("version")
        if type(version) is int and (version > newest or (version < oldest and CHECKSUM_KEY not in content)):
            return content
        place = 8 + header.find(_MARK) + len(_MARK)
        if content.get(CHECKSUM_KEY) != _checksum(stream, place).decode():
            message = "its checksum does not fit its content"
            raise DamagedError(message)
        return {name: value for name, value in content.items() if name != CHECKSUM_KEY}


def strict_json(text: str | bytes) -> Any:
    """JSON as one reads it: a name that stands twice in an object, of which one would be lost, is refused.

    >>> strict_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    crowdwise._core.checksums.DamagedError: the JSON names 'a' twice
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        message = "its JSON is nested too deeply"
        raise DamagedError(message) from None
    except ValueError as error:
        if isinstance(error, DamagedError):
            raise
        message = f"its JSON is broken ({error})"
        raise DamagedError(message) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        message = f"the JSON names {twice!r} twice"
        raise DamagedError(message)
    return found


def _header(stream: IO[bytes]) -> bytes:
    """The JSON of the header, (length of it,) 8 bytes after the start."""
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    header = stream.read(length) if length <= LONGEST else b""
    if length < 2 or len(header) < length:
        message = "it is cut short, or no safetensors file"
        raise DamagedError(message)
    return header


def _checksum(stream: IO[bytes], place: int) -> bytes:
    """The checksum of a file, with zeros where its own stands."""
    stream.seek(0)
    found = hashlib.sha256(stream.read(place))
    found.update(_ZEROS.encode())
    stream.seek(place + len(_ZEROS))
    while part := stream.read(1 << 20):
        found.update(part)
    return found.hexdigest().encode()
