"""Finding and opening files, and converting low-level errors to crowdwise errors that name the file."""

from __future__ import annotations

import codecs
import csv
import glob
import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, TextIO

import pyarrow as pa

from crowdwise.errors import CrowdwiseError, EmptyError, FormatError, ParameterError, TooLargeError

HEAD = 1 << 20  # bytes read to detect the format; a header line must fit
LINE = 32 << 20  # maximum characters per line and bytes per row, since a line must fit into memory
MIN_UNPACKED, MAX_RATIO = 64 << 20, 200  # an archive may unpack to this many bytes, or this many times its size
GZIP = b"\x1f\x8b"
BYTE_ORDER_MARKS = {  # of encodings other than UTF-8; longer marks first
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip


def find_files(path: Any) -> list[Path]:
    """Return the files of a path, folder, glob or list of these; those of a folder or glob are sorted by name."""
    if isinstance(path, Sequence) and not isinstance(path, (str, bytes)):
        found = [file for part in path for file in find_files(part)]
        if not found:
            message = "the list of files is empty; pass at least one file."
            raise ParameterError(message)
        return found
    if not isinstance(path, (str, os.PathLike)):
        message = f"expected a path, a glob such as 'part-*.csv' or a list of these, not {type(path).__name__}."
        raise ParameterError(message)
    file = Path(path)
    try:
        if file.is_dir():
            return _files_in(file)
        candidates = [file] if file.exists() else map(Path, sorted(glob.glob(str(file), recursive=True)))  # noqa: PTH207
        matches = list(candidates)
    except OSError as error:
        message = f"{str(file)[:100]!r} cannot be accessed: {error.strerror}."
        raise FormatError(message) from None
    found = [match for match in matches if match.is_file()]
    if found:
        return found
    message = f"no file {str(file)!r} (in {Path.cwd()})."
    if any(match.is_dir() for match in matches):
        message = f"{str(file)!r} matches only folders, such as {matches[0]}. Pass one folder, or name the files."
    elif matches:
        message = f"{matches[0]} is not a regular file (a pipe?). Save its content to a file first."
    raise FormatError(message)


def _files_in(folder: Path) -> list[Path]:
    """Return the files in a folder, except those that begin with a dot or underscore, such as Spark's `_SUCCESS`."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    if not inside:
        message = f"the folder {folder} contains no files (names that begin with a dot or underscore are skipped)."
        raise FormatError(message)
    other = next((path for path in inside if not path.is_file()), None)
    if other is not None:
        message = f"{folder} contains {other.name}, which is not a file. Name the files, such as '{folder}/**/*.csv'."
        raise FormatError(message)
    return inside


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Name the file in every error, and convert other exceptions: damaged files fail in many ways."""
    try:
        yield
    except CrowdwiseError as error:
        if str(error).startswith(f"{path} "):
            raise
        message = f"{path}: {error}"
        raise type(error)(message) from None
    except pa.ArrowCapacityError as error:
        message = f"{path}: a column contains over 2 GB of distinct text ({error})."
        raise TooLargeError(message) from None
    except UnicodeDecodeError:
        message = (
            f"{path}: {_first_bad_byte(path)}. Save the file as UTF-8. If it is not text, name its format with format= "
            "(--format)."
        )
        raise FormatError(message) from None
    except RecursionError:
        message = f"{path}: the JSON is nested too deeply to be answers."
        raise FormatError(message) from None
    except (OSError, EOFError, ValueError, RuntimeError, MemoryError, OverflowError) as error:
        raise _unreadable(path, error) from None
    except (zipfile.BadZipFile, zlib.error, csv.Error, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> FormatError:
    reason = str(getattr(error, "strerror", None) or error).partition("; use sys.")[0].rstrip(".")
    return FormatError(f"{path}: cannot be read: {reason}. Is it damaged or truncated?")


def is_gzip(path: Path) -> bool:
    """Return whether the file is gzipped, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == GZIP


def is_parquet(path: Path) -> bool:
    """Return whether the file is Parquet, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


class _LimitedGzip(io.RawIOBase):
    """A gzipped file with a limit on its unpacked size: a small file could unpack to more than fits in memory."""

    def __init__(self, path: Path) -> None:
        self._stream, self._size, self._unpacked = gzip.GzipFile(path), path.stat().st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._stream.readinto(buffer)
        self._unpacked += read
        check_unpacked(self._unpacked, self._size)
        return read

    def close(self) -> None:
        self._stream.close()
        super().close()


class _ArrowGzip(_LimitedGzip):
    """The same for Arrow: on an error the stream ends, and `open_arrow` raises the error afterwards.

    If an exception reached Arrow while it reads, it would leave background tasks and hang when the process exits.
    """

    error: Exception | None = None

    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer)
        except Exception as error:
            self.error = error
            return 0


def check_unpacked(unpacked: int, packed: int) -> None:
    """Reject an archive that unpacks to far more than answers do."""
    if unpacked > max(MIN_UNPACKED, MAX_RATIO * packed):
        message = (
            f"its {packed:,} bytes unpack to at least {unpacked:,}, over {MAX_RATIO} times as many, which is unusual "
            f"for answers. To read the file anyway, unpack it first."
        )
        raise TooLargeError(message)


def is_outside_path(name: str) -> bool:
    r"""Return whether the name of an archive member points outside the folder it would be unpacked to.

    >>> [is_outside_path(name) for name in ("a/b.csv", "../b.csv", "/b.csv", "C:/b.csv", r"a\..\..\b.csv")]
    [False, True, True, True, True]
    """
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1])


def open_binary(path: Path) -> IO[bytes]:
    """Open a file for reading bytes, decompressed."""
    return io.BufferedReader(_LimitedGzip(path), HEAD) if is_gzip(path) else path.open("rb")


def open_text(path: Path, newline: str = "\n") -> TextIO:
    """Open a file for reading text, decompressed."""
    return io.TextIOWrapper(open_binary(path), "utf-8-sig", newline=newline)


def read_lines(stream: TextIO) -> Iterator[str]:
    """Yield the lines of an open text file; a line over the limit is an error."""
    number = 1
    while line := stream.readline(LINE):
        if len(line) == LINE:
            message = f"line {number} is longer than {LINE >> 20} MB. Are line breaks missing?"
            raise FormatError(message)
        yield line
        number += 1


@contextmanager
def open_arrow(path: Path) -> Iterator[pa.NativeFile]:
    """Open a file for Arrow's readers, which read uncompressed files without going through Python."""
    if not is_gzip(path):
        with pa.input_stream(str(path), compression=None) as stream:
            yield stream
        return
    unpacked = _ArrowGzip(path)
    try:
        with pa.PythonFile(io.BufferedReader(unpacked, HEAD), "r") as stream:
            yield stream
    finally:
        if unpacked.error is not None:
            raise unpacked.error from None


def read_head(path: Path) -> str:
    """Return the beginning of a text file; an empty file is an error."""
    with open_binary(path) as stream:
        data = stream.read(HEAD)
    text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=len(data) < HEAD)
    if not text.strip():
        message = "the file is empty."
        raise EmptyError(message)
    return text


def _first_bad_byte(path: Path) -> str:
    """Describe where a file stops being UTF-8, or which encoding it has instead."""
    with open_binary(path) as stream:
        start = stream.read(4)
    for mark, name in BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return f"the text is encoded in {name}"
    line, seen = 1, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_binary(path) as stream:
        while data := stream.read(HEAD):
            pending = len(decoder.getstate()[0])  # bytes of a character split by the last read
            try:
                decoder.decode(data)
            except UnicodeDecodeError as error:
                at = seen - pending + error.start
                line += error.object[: error.start].count(b"\n")
                return f"byte 0x{error.object[error.start]:02x} at line {line} (byte {at} of the file) is not UTF-8"
            line, seen = line + data.count(b"\n"), seen + len(data)
    return "the last character is incomplete"
