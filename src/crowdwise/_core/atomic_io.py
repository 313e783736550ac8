"""Atomic writes of files and folders, and exclusive access to a folder by one process.

Everything that crowdwise writes goes through `atomic_write`: a process killed at any moment leaves either the old file
or the new one, never a part of it. Temporary files and exclusive access both rely on file locks of the operating
system, which end with the process that holds them. So leftovers of a killed process can be distinguished
from files that a running process uses, without guessing by age or process id.
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
except ImportError:  # Windows: leftovers of killed processes are not removed, and access is not exclusive
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
NO_LINKS = getattr(os, "O_NOFOLLOW", 0)  # following a symbolic link would overwrite the file it points to
_DISK_FULL, _NOT_ALLOWED = "Free disk space and try again.", "Choose a location you may write to."
_REMEDIES = {
    errno.ENOSPC: _DISK_FULL, errno.EDQUOT: _DISK_FULL, errno.EFBIG: _DISK_FULL,
    errno.EACCES: _NOT_ALLOWED, errno.EPERM: _NOT_ALLOWED, errno.EROFS: _NOT_ALLOWED,
    errno.EISDIR: "Choose a file in it, or another name.", errno.ENOTEMPTY: "Choose a file in it, or another name.",
    errno.ENOTDIR: "Choose a path inside a folder.", errno.ENOENT: "Create the folder first.",
    errno.ELOOP: "Remove the symbolic link.", errno.ENAMETOOLONG: "Choose a shorter name.",
}  # fmt: skip


@contextmanager
def atomic_write(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """Give a temporary file to write to; it replaces `path` on success and is deleted on an error.

    Leftovers of the same file by killed processes are removed. Errors of the operating system become an
    `UnwritableError`, which names the file and the remedy.

    Parameters
    ----------
    path : path
        The file to write.
    sync : bool
        Flush the file to the disk before it replaces `path`, so that a power failure cannot corrupt it either.
        Without it, a write is some milliseconds faster.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "words.txt"
    >>> with atomic_write(file) as temporary:
    ...     _ = temporary.write_text("all of it")
    ...     file.exists()
    False
    >>> file.read_text(), len(list(file.parent.iterdir()))
    ('all of it', 1)
    """
    with _readable_errors(path), _temporary_folder(path.parent, path.name) as folder:
        temporary = folder / path.name
        temporary.touch()
        mode = temporary.stat().st_mode & 0o777  # that of any new file; some writers create theirs unreadable to others
        yield temporary
        temporary.chmod(mode)
        if sync:
            _sync(temporary)
        temporary.replace(path)
        if sync:
            with suppress(OSError):  # some systems cannot open a folder
                _sync(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder to write files to; on success all of them appear in `path` at once.

    Other files in `path` stay. If the process is killed, the folder has either its old files or the new ones. Where the
    system cannot exchange two folders, or `path` is a mount point, the old files are deleted before the first new one
    appears: old and new are never mixed, but files may be missing.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp()) / "model"
    >>> for text in ("first", "second"):
    ...     with atomic_folder(folder) as temporary:
    ...         _ = (temporary / "words.txt").write_text(text)
    >>> (folder / "words.txt").read_text(), len(list(folder.parent.iterdir()))
    ('second', 1)
    """
    path = path.resolve()
    write_inside = path.is_mount() or (path.exists() and not os.access(path.parent, os.W_OK))
    with _readable_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _temporary_folder(path if write_inside else path.parent, path.name) as folder:
            temporary = folder / path.name
            temporary.mkdir()
            yield temporary
            files = list(temporary.iterdir())
            for file in files:
                _sync(file)
            if not path.exists():
                temporary.rename(path)
            elif write_inside or not _exchange_folders(temporary, path):
                for file in files:
                    (path / file.name).unlink(missing_ok=True)
                for file in files:
                    file.replace(path / file.name)


def remove_partial_files(folder: Path, name: str = "*") -> None:
    """Remove temporary files that killed processes left in a folder, of one file name or of all."""
    for temporary in folder.glob(".*.partial"):
        if name not in ("*", temporary.name[1:].removesuffix(".partial").rpartition(".")[0]):
            continue
        with suppress(OSError):  # it belongs to another user: leave it
            lock = _open_locked(temporary / LOCK, require_lock=True)
            if lock is not None:
                shutil.rmtree(temporary, ignore_errors=True)
                os.close(lock)


@contextmanager
def exclusive_access(folder: Path, file: str | None = None) -> Iterator[None]:
    """Reserve a folder, or one file in it, for this process; raise `BusyError` if another process has reserved it.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with exclusive_access(folder), exclusive_access(folder):
    ...     pass
    Traceback (most recent call last):
    crowdwise.errors.BusyError: ... is in use by process ... Wait until it has finished, or choose another folder.
    """
    place, lock_file = (folder, folder / LOCK) if file is None else (folder / file, folder / f".{file}{LOCK}")
    with _readable_errors(place):
        folder.mkdir(parents=True, exist_ok=True)
    with _readable_errors(lock_file):
        lock = _open_locked(lock_file)
    if lock is None:
        kind = "folder" if file is None else "file"
        owner = _describe_owner(lock_file)
        message = f"{place} is in use by {owner}. Wait until it has finished, or choose another {kind}."
        raise BusyError(message)
    try:
        since = datetime.now(UTC).isoformat("T", "seconds")
        owner_info = {
            "process": os.getpid(), "host": socket.gethostname(), "since": since, "command": " ".join(sys.argv),
        }  # fmt: skip
        with _readable_errors(place):
            os.ftruncate(lock, 0)
            os.write(lock, json.dumps(owner_info).encode())
        yield
    finally:
        lock_file.unlink(missing_ok=True)
        os.close(lock)


@contextmanager
def _readable_errors(path: Path) -> Iterator[None]:
    """Turn errors of the operating system into an `UnwritableError` that names this path and the remedy."""
    try:
        yield
    except Exception as error:
        if not (isinstance(error, OSError) or type(error).__name__ == "SafetensorError"):  # the latter is a Rust error
            raise
        cause = error.__cause__ if isinstance(error, UnwritableError) and error.__cause__ else error
        raise UnwritableError(describe_write_error(path, cause)) from cause


def describe_write_error(path: Path, error: BaseException) -> str:
    """Return why a file or folder cannot be written, and what to do.

    >>> describe_write_error(Path("labels.csv"), OSError(28, "No space left on device"))
    'labels.csv cannot be written: no space left on device. Free disk space and try again.'
    """
    reason = getattr(error, "strerror", None) or str(error)
    rust = re.search(r"(?:: )?([^:]+) \(os error (\d+)\)", reason)
    number = int(rust[2]) if rust else getattr(error, "errno", None)
    reason = (rust[1] if rust else reason).strip().rstrip(".")
    remedy = _REMEDIES.get(number or 0, "Fix that, or choose another location.")
    return f"{path} cannot be written: {reason[:1].lower()}{reason[1:]}. {remedy}"


def _describe_owner(lock_file: Path) -> str:
    """Return which process holds a lock, for messages."""
    try:
        owner = json.loads(lock_file.read_text("utf-8"))
        return f"process {owner['process']} on {owner['host']} since {owner['since']} ({owner['command']})"
    except (OSError, ValueError, KeyError, TypeError):  # the owner has locked the file but not yet written to it
        return "another process"


@contextmanager
def _temporary_folder(parent: Path, name: str) -> Iterator[Path]:
    """Create a locked folder for temporary files, and remove it at the end.

    A folder and not a file, because a writer that is killed may leave more than one file.
    """
    remove_partial_files(parent, name)
    lock = None
    try:
        while lock is None:  # retry if another process removed the folder before it was locked
            folder = parent / f".{name}.{secrets.token_hex(4)}.partial"
            folder.mkdir()
            lock = _open_locked(folder / LOCK)
        yield folder
    finally:
        try:
            if lock is not None:
                os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)
        except (
            BaseException
        ) as error:  # interrupted in the clean-up, where rmtree may also fail on closing a file twice
            shutil.rmtree(folder, ignore_errors=True)
            interrupt = error if isinstance(error, KeyboardInterrupt) else error.__context__
            raise (interrupt if isinstance(interrupt, KeyboardInterrupt) else error) from None


def _exchange_folders(new: Path, old: Path) -> bool:
    """Swap two folders in one step, after linking the other files of the old one into the new; return the success."""

    def link(source: str, target: str) -> None:
        if not Path(target).exists():
            os.link(source, target, follow_symlinks=False)

    try:
        renameat2 = ctypes.CDLL(None).renameat2  # Linux only
        shutil.copytree(old, new, symlinks=True, copy_function=link, dirs_exist_ok=True)
    except (OSError, AttributeError, TypeError):
        return False
    at_fdcwd, rename_exchange = -100, 2
    return bool(renameat2(at_fdcwd, os.fsencode(new), at_fdcwd, os.fsencode(old), rename_exchange) == 0)


def _open_locked(file: Path, *, require_lock: bool = False) -> int | None:
    """Open a file, created if missing, and lock it; None if another process holds the lock or the folder is gone.

    On file systems without locks the file is opened unlocked, unless `require_lock`.
    """
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | NO_LINKS, 0o666)
        except FileNotFoundError:
            return None
        if not _lock(descriptor, if_unsupported=not require_lock):
            os.close(descriptor)
            return None
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # the previous owner has just deleted this file: others will see a new one, so try again


def _lock(descriptor: int, *, if_unsupported: bool) -> bool:
    """Lock an open file and return the success, or `if_unsupported` where there are no locks."""
    if fcntl is None:
        return if_unsupported
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return if_unsupported
    return True


def _sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
