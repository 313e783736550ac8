"""Safetensors files that reveal damage: metadata as JSON in the header, with a checksum of the entire file.

The checksum is the sha256 of the file with 64 zeros in place of the checksum. It detects damage, not tampering: whoever
changes a file on purpose can recompute it, so readers still validate what they read. Nothing in a file is executed: the
header is JSON and tensors are numbers.
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
# The metadata is JSON inside a JSON string: its own quotes are escaped once, quotes inside its values twice.
_CHECKSUM_PREFIX = f'\\"{CHECKSUM_KEY}\\": \\"'.encode()
MAX_HEADER_BYTES = 100_000_000  # the limit of safetensors itself


class DamagedError(ValueError):
    """Raised when a file differs from what was written."""


def write_with_checksum(
    path: Path, key: str, metadata: Mapping[str, Any], save: Callable[[dict[str, str]], None]
) -> None:
    """Write a file with `save`, then insert its checksum.

    Parameters
    ----------
    path : path
        The file that `save` writes.
    key : str
        The key of the metadata in the header, which identifies the kind of file.
    metadata : mapping
        Values that JSON can represent.
    save : callable
        Writes the file with the header it is passed: `save_file` of safetensors with all arguments but `metadata`.
    """
    save({key: json.dumps({CHECKSUM_KEY: _ZEROS, **metadata})})
    with path.open("r+b") as stream:
        position = 8 + _read_header(stream).index(_CHECKSUM_PREFIX) + len(_CHECKSUM_PREFIX)
        checksum = _compute_checksum(stream, position)
        stream.seek(position)
        stream.write(checksum)


def read_metadata(
    source: str | os.PathLike[str] | bytes, key: str, newest: int, oldest: int = 2
) -> dict[str, Any] | None:
    """Return the metadata of a file, or None if it has none under this key.

    Raises `DamagedError` if the file is not a safetensors file, or differs from what was written.

    Parameters
    ----------
    source : path or bytes
        The file, or its content.
    key : str
        As in `write_with_checksum`.
    newest, oldest : int
        Range of format versions that have this checksum. Newer versions may use another one and are left for the caller
        to reject; older versions were written without a checksum.
    """
    with io.BytesIO(source) if isinstance(source, bytes) else Path(source).open("rb") as stream:
        header = _read_header(stream)
        parsed = strict_json(header)
        entries = parsed.get("__metadata__") if isinstance(parsed, dict) else None
        if not isinstance(entries, dict) or not isinstance(entries.get(key), str):
            return None
        metadata = strict_json(entries[key])
        if not isinstance(metadata, dict):
            return None
        version = metadata.get("version")
        if type(version) is int and (version > newest or (version < oldest and CHECKSUM_KEY not in metadata)):
            return metadata
        position = 8 + header.find(_CHECKSUM_PREFIX) + len(_CHECKSUM_PREFIX)
        if metadata.get(CHECKSUM_KEY) != _compute_checksum(stream, position).decode():
            message = "its checksum does not match its content"
            raise DamagedError(message)
        return {name: value for name, value in metadata.items() if name != CHECKSUM_KEY}


def strict_json(text: str | bytes) -> Any:
    """Parse JSON, rejecting objects that repeat a key: one of the values would be lost silently.

    >>> strict_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    crowdwise._core.checksums.DamagedError: its JSON repeats the key 'a'
    """
    try:
        return json.loads(text, object_pairs_hook=_dict_without_repeats)
    except RecursionError:
        message = "its JSON is nested too deeply"
        raise DamagedError(message) from None
    except ValueError as error:
        if isinstance(error, DamagedError):
            raise
        message = f"its JSON is invalid ({error})"
        raise DamagedError(message) from None


def _dict_without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        seen: set[str] = set()
        repeated = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        message = f"its JSON repeats the key {repeated!r}"
        raise DamagedError(message)
    return content


def _read_header(stream: IO[bytes]) -> bytes:
    """Return the JSON header, which follows the 8 bytes of its length."""
    stream.seek(0)
    length = int.from_bytes(stream.read(8), "little")
    header = stream.read(length) if length <= MAX_HEADER_BYTES else b""
    if length < 2 or len(header) < length:
        message = "it is truncated, or not a safetensors file"
        raise DamagedError(message)
    return header


def _compute_checksum(stream: IO[bytes], position: int) -> bytes:
    """Return the checksum of a file, reading zeros at the position of the stored one."""
    stream.seek(0)
    digest = hashlib.sha256(stream.read(position))
    digest.update(_ZEROS.encode())
    stream.seek(position + len(_ZEROS))
    while block := stream.read(1 << 20):
        digest.update(block)
    return digest.hexdigest().encode()
