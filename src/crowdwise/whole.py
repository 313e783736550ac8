"""Files that appear whole or not at all, and folders that one process has to itself.

Everything that crowdwise writes goes through `whole`: killed at any moment, it leaves the old file or the new one, and
never a part of it. Both functions rest on locks of the system, which end with the process that holds them: what a
killed process left behind is told from what a living one uses, without guessing by age or number.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from crowdwise.errors import BusyError

try:
    import fcntl
except ImportError:  # Windows: what a killed process left stays, and nothing keeps two processes apart
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextmanager
def whole(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A file beside `path` to write to: it takes that name when all went well, and goes when it did not.

    With `sync` it is on the disk before it gets the name, so that a power cut is survived as well; without, some
    milliseconds are saved. Parts that killed processes left of the same file are removed.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "words.txt"
    >>> with whole(file) as beside:
    ...     _ = beside.write_text("all of it")
    ...     file.exists()
    False
    >>> file.read_text(), len(list(file.parent.iterdir()))
    ('all of it', 1)
    """
    clear_parts(path.parent, path.name)
    room, held = _room(path)
    beside = room / path.name
    try:
        beside.touch()
        mode = beside.stat().st_mode & 0o777  # that of any new file; some writers would let nobody else read theirs
        yield beside
        beside.chmod(mode)
        if sync:
            _sync(beside)
        beside.replace(path)
        if sync:
            with suppress(OSError):  # a folder cannot be opened everywhere
                _sync(path.parent)
    finally:
        os.close(held)
        shutil.rmtree(room, ignore_errors=True)


def clear_parts(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left of files that `whole` was writing in a folder."""
    for room in folder.glob(".*.partial"):
        if name not in ("*", room.name[1:].removesuffix(".partial").rpartition(".")[0]):
            continue
        with suppress(OSError):  # somebody else's: it stays
            held = _hold(room / LOCK, surely=True)
            if held is not None:
                shutil.rmtree(room, ignore_errors=True)
                os.close(held)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Have a folder to oneself: while another process has it, a `BusyError` names that one.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with alone(folder), alone(folder):
    ...     pass
    Traceback (most recent call last):
    crowdwise.errors.BusyError: ... is in use by process ... Wait for it, or name another folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / LOCK
    held = _hold(file)
    if held is None:
        message = f"{folder} is in use by {_holder(file)}. Wait for it, or name another folder."
        raise BusyError(message)
    try:
        os.ftruncate(held, 0)
        since = datetime.now(UTC).isoformat("T", "seconds")
        words = {"process": os.getpid(), "host": socket.gethostname(), "since": since, "command": " ".join(sys.argv)}
        os.write(held, json.dumps(words).encode())
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(held)


def _holder(file: Path) -> str:
    """Who has the lock, in words."""
    try:
        found = json.loads(file.read_text("utf-8"))
        return f"process {found['process']} on {found['host']} since {found['since']} ({found['command']})"
    except (OSError, ValueError, KeyError, TypeError):  # it has only just begun
        return "another process"


def _room(path: Path) -> tuple[Path, int]:
    """A new folder beside a file, and the hold on it: writers may leave more than one file when they are killed."""
    while True:
        room = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
        room.mkdir()
        held = _hold(room / LOCK)
        if held is not None:  # nobody has cleared it away before it was held
            return room, held


def _hold(file: Path, *, surely: bool = False) -> int | None:
    """Open a file, made if need be, and take its lock; None where another process has it, or its folder is gone.

    Where there are no locks it is opened all the same, unless one must be sure.
    """
    while True:
        try:
            held = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            return None
        if not _lock(held, otherwise=not surely):
            os.close(held)
            return None
        if os.fstat(held).st_nlink:
            return held
        os.close(held)  # whoever had it has removed it meanwhile: this is not the file that others will see


def _lock(held: int, *, otherwise: bool) -> bool:
    """Take the lock of an open file, and say whether that went well; `otherwise` where there are no locks."""
    if fcntl is None:
        return otherwise
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return otherwise
    return True


def _sync(path: Path) -> None:
    """See that it is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
