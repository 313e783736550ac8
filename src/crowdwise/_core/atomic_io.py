"""Files and folders that appear whole or not at all, and folders that one process has to itself.

Everything that crowdwise writes goes through `atomic_write`: killed at any moment, it leaves the old file or the new
one, and never a part of it. All of this rests on locks of the system, which end with the process that holds them: what
a killed process left behind is told from what a living one uses, without guessing by age or number.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from crowdwise.errors import BusyError, UnwritableError

try:
    import fcntl
except ImportError:  # Windows: what a killed process left stays, and nothing keeps two processes apart
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)  # a lock that leads elsewhere would have that file written over
_FULL, _FORBIDDEN = "Make room there, and try again.", "Name a place you may write to."
_REMEDIES = {
    errno.ENOSPC: _FULL, errno.EDQUOT: _FULL, errno.EFBIG: _FULL,
    errno.EACCES: _FORBIDDEN, errno.EPERM: _FORBIDDEN, errno.EROFS: _FORBIDDEN,
    errno.EISDIR: "Name a file in it, or another one.", errno.ENOTEMPTY: "Name a file in it, or another one.",
    errno.ENOTDIR: "Name a place in a folder.", errno.ENOENT: "Make the folder first.",
    errno.ELOOP: "Remove the link.", errno.ENAMETOOLONG: "Choose a shorter name.",
}  # fmt: skip


@contextmanager
def atomic_write(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A file beside `path` to write to: it takes that name when all went well, and goes when it did not.

    With `sync` it is on the disk before it gets the name, so that a power cut is survived as well; without, some
    milliseconds are saved. Parts that killed processes left of the same file are removed. What the system refuses
    becomes an `UnwritableError`, which names the file and the remedy.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "words.txt"
    >>> with atomic_write(file) as beside:
    ...     _ = beside.write_text("all of it")
    ...     file.exists()
    False
    >>> file.read_text(), len(list(file.parent.iterdir()))
    ('all of it', 1)
    """
    with _refusals(path), _room(path.parent, path.name) as room:
        beside = room / path.name
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


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """A folder to write files to, which all take their place in `path` at once; other files that are there stay.

    Killed, it leaves the folder as it was or as it will be. Where the system cannot exchange two folders, or `path` is
    where a disk is mounted, old files go before the first new one comes: they are never mixed, but may be missing.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "model"
    >>> for words in ("first", "second"):
    ...     with atomic_folder(folder) as beside:
    ...         _ = (beside / "words.txt").write_text(words)
    >>> (folder / "words.txt").read_text(), len(list(folder.parent.iterdir()))
    ('second', 1)
    """
    path = path.resolve()
    within = path.is_mount() or (path.exists() and not os.access(path.parent, os.W_OK))
    with _refusals(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _room(path if within else path.parent, path.name) as room:
            beside = room / path.name
            beside.mkdir()
            yield beside
            files = list(beside.iterdir())
            for file in files:
                _sync(file)
            if not path.exists():
                beside.rename(path)
            elif within or not _exchanged(beside, path):
                for file in files:
                    (path / file.name).unlink(missing_ok=True)
                for file in files:
                    file.replace(path / file.name)


def remove_partial_files(folder: Path, name: str = "*") -> None:
    """Remove what killed processes left of files that `atomic_write` was writing in a folder."""
    for room in folder.glob(".*.partial"):
        if name not in ("*", room.name[1:].removesuffix(".partial").rpartition(".")[0]):
            continue
        with suppress(OSError):  # somebody else's: it stays
            held = _hold(room / LOCK, surely=True)
            if held is not None:
                shutil.rmtree(room, ignore_errors=True)
                os.close(held)


@contextmanager
def exclusive_access(folder: Path, file: str | None = None) -> Iterator[None]:
    """Have a folder, or one file in it, to oneself: while another process has it, a `BusyError` names that one.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with exclusive_access(folder), alone(folder):
    ...     pass
    Traceback (most recent call last):
    crowdwise.errors.BusyError: ... is in use by process ... Wait for it, or name another folder.
    """
    place, lock = (folder, folder / LOCK) if file is None else (folder / file, folder / f".{file}{LOCK}")
    with _refusals(place):
        folder.mkdir(parents=True, exist_ok=True)
    with _refusals(lock):
        held = _hold(lock)
    if held is None:
        other = "folder" if file is None else "file"
        message = f"{place} is in use by {_holder(lock)}. Wait for it, or name another {other}."
        raise BusyError(message)
    try:
        since = datetime.now(UTC).isoformat("T", "seconds")
        words = {"process": os.getpid(), "host": socket.gethostname(), "since": since, "command": " ".join(sys.argv)}
        with _refusals(place):
            os.ftruncate(held, 0)
            os.write(held, json.dumps(words).encode())
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(held)


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """What the system refuses in here, in words that name this path."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or type(error).__name__ == "SafetensorError"):  # which is one of Rust's
            raise
        first = error.__cause__ if isinstance(error, UnwritableError) and error.__cause__ else error
        raise UnwritableError(unwritable(path, first)) from first


def unwritable(path: Path, error: BaseException) -> str:
    """Why a file or folder cannot be written, and what to do.

    >>> unwritable(Path("labels.csv"), OSError(28, "No space left on device"))
    'labels.csv cannot be written: no space left on device. Make room there, and try again.'
    """
    said = getattr(error, "strerror", None) or str(error)
    rust = re.search(r"(?:: )?([^:]+) \(os error (\d+)\)", said)
    number = int(rust[2]) if rust else getattr(error, "errno", None)
    said = (rust[1] if rust else said).strip().rstrip(".")
    remedy = _REMEDIES.get(number or 0, "Mend that, or name another place.")
    return f"{path} cannot be written: {said[:1].lower()}{said[1:]}. {remedy}"


def _holder(file: Path) -> str:
    """Who has the lock, in words."""
    try:
        found = json.loads(file.read_text("utf-8"))
        return f"process {found['process']} on {found['host']} since {found['since']} ({found['command']})"
    except (OSError, ValueError, KeyError, TypeError):  # it has only just begun
        return "another process"


@contextmanager
def _room(folder: Path, name: str) -> Iterator[Path]:
    """A new folder, held while it lasts and then removed: writers may leave more than one file when they are killed."""
    remove_partial_files(folder, name)
    held = None
    try:
        while held is None:  # else somebody cleared it away before it was held
            room = folder / f".{name}.{secrets.token_hex(4)}.partial"
            room.mkdir()
            held = _hold(room / LOCK)
        yield room
    finally:
        try:
            if held is not None:
                os.close(held)
            shutil.rmtree(room, ignore_errors=True)
        except BaseException as error:  # stopped while it tidies up; rmtree may then close a file twice, and say so
            shutil.rmtree(room, ignore_errors=True)
            stop = error if isinstance(error, KeyboardInterrupt) else error.__context__
            raise (stop if isinstance(stop, KeyboardInterrupt) else error) from None


def _exchanged(new: Path, old: Path) -> bool:
    """Let two folders change places in one step, other files of the old one being in both; whether that went well."""

    def link(source: str, target: str) -> None:
        if not Path(target).exists():
            os.link(source, target, follow_symlinks=False)

    try:
        exchange = ctypes.CDLL(None).renameat2  # Linux has it
        shutil.copytree(old, new, symlinks=True, copy_function=link, dirs_exist_ok=True)
    except (OSError, AttributeError, TypeError):
        return False
    here, swap = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return bool(exchange(here, os.fsencode(new), here, os.fsencode(old), swap) == 0)


def _hold(file: Path, *, surely: bool = False) -> int | None:
    """Open a file, made if need be, and take its lock; None where another process has it, or its folder is gone.

    Where there are no locks it is opened all the same, unless one must be sure.
    """
    while True:
        try:
            held = os.open(file, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o666)
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
