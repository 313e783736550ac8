"""Which files are meant, opening them, and turning what can go wrong into errors of ours."""

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

HEAD = 1 << 20  # bytes looked at to tell the format; a header line is no longer
LINE = 32 << 20  # characters of a line, bytes of a row: longer is none, and would have to fit into memory
FREELY, RATIO = 64 << 20, 200  # bytes an archive may unpack to in any case, and beyond that to how many times its size
GZIP = b"\x1f\x8b"
MARKS = {  # that text in another encoding begins with; the longer ones first
    b"\xff\xfe\0\0": "UTF-32", b"\0\0\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16",
}  # fmt: skip


def find_files(path: Any) -> list[Path]:
    """The files a path, a folder, a glob or a list of these means, in order of name within a folder or a glob."""
    if isinstance(path, Sequence) and not isinstance(path, (str, bytes)):
        found = [file for part in path for file in find_files(part)]
        if not found:
            message = "an empty list of files; give at least one."
            raise ParameterError(message)
        return found
    if not isinstance(path, (str, os.PathLike)):
        message = f"a path, a glob such as 'part-*.csv' or a list of these is needed, not {type(path).__name__}."
        raise ParameterError(message)
    file = Path(path)
    try:
        if file.is_dir():
            return _files_in(file)
        named = [file] if file.exists() else map(Path, sorted(glob.glob(str(file), recursive=True)))  # noqa: PTH207
        matches = list(named)
    except OSError as error:
        message = f"{str(file)[:100]!r} cannot be looked up: {error.strerror}."
        raise FormatError(message) from None
    found = [match for match in matches if match.is_file()]
    if found:
        return found
    message = f"there is no file {str(file)!r} (looked in {Path.cwd()})."
    if any(match.is_dir() for match in matches):
        message = f"{str(file)!r} means nothing but folders, such as {matches[0]}; give one of them or name the files."
    elif matches:
        message = f"{matches[0]} is no ordinary file but a pipe or the like; save it to one first."
    raise FormatError(message)


def _files_in(folder: Path) -> list[Path]:
    """What lies in a folder, but for names with a dot or an underscore in front, such as `_SUCCESS`: Spark's rule."""
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    if not inside:
        message = f"the folder {folder} holds no file (names with a dot or an underscore in front do not count)."
        raise FormatError(message)
    strange = next((path for path in inside if not path.is_file()), None)
    if strange is not None:
        message = (
            f"the folder {folder} holds {strange.name}, which is no file. Name those meant: '{folder}/**/*.csv', say."
        )
        raise FormatError(message)
    return inside


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Name the file in every error, and let nothing else through: damaged files fail in many ways."""
    try:
        yield
    except CrowdwiseError as error:
        if str(error).startswith(f"{path} "):
            raise
        message = f"{path}: {error}"
        raise type(error)(message) from None
    except pa.ArrowCapacityError as error:
        message = f"{path}: a column holds over 2 GB of distinct text ({error})."
        raise TooLargeError(message) from None
    except UnicodeDecodeError:
        message = f"{path}: {_first_bad_byte(path)}. Save the file as UTF-8, or, if it is no text, name its format=."
        raise FormatError(message) from None
    except RecursionError:
        message = f"{path}: the JSON is nested too deep to be answers."
        raise FormatError(message) from None
    except (OSError, EOFError, ValueError, RuntimeError, MemoryError, OverflowError) as error:
        raise _unreadable(path, error) from None
    except (zipfile.BadZipFile, zlib.error, csv.Error, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> FormatError:
    why = str(getattr(error, "strerror", None) or error).partition("; use sys.")[0].rstrip(".")
    return FormatError(f"{path}: cannot be read: {why}. Is it damaged or cut short?")


def is_gzip(path: Path) -> bool:
    """Whether the file is compressed, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == GZIP


def is_parquet(path: Path) -> bool:
    """Whether the file is Parquet, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


class _Unpacked(io.RawIOBase):
    """The bytes of a gzipped file, counted: a few bytes can unpack to what fills the memory, or takes days."""

    def __init__(self, path: Path) -> None:
        self._stream, self._size, self._seen = gzip.GzipFile(path), path.stat().st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        read = self._stream.readinto(room)
        self._seen += read
        check_unpacked(self._seen, self._size)
        return read

    def close(self) -> None:
        self._stream.close()
        super().close()


class _Cut(_Unpacked):
    """The same for Arrow: it ends where something is wrong, which is told later.

    Of an error amid reading Arrow leaves tasks behind, and waits for them for ever when the process ends.
    """

    error: Exception | None = None

    def readinto(self, room: Any) -> int:
        try:
            return super().readinto(room)
        except Exception as error:
            self.error = error
            return 0


def check_unpacked(unpacked: int, packed: int) -> None:
    """Refuse what unpacks to far more than answers do."""
    if unpacked > max(FREELY, RATIO * packed):
        message = (
            f"its {packed:,} bytes unpack to {unpacked:,} or more, over {RATIO} times as many, which no answers do. If "
            f"they are to be read all the same, unpack the file first."
        )
        raise TooLargeError(message)


def is_outside_path(name: str) -> bool:
    r"""Whether the name of a member of an archive leads out of the folder it would be unpacked to.

    >>> [is_outside_path(name) for name in ("a/b.csv", "../b.csv", "/b.csv", "C:/b.csv", r"a\..\..\b.csv")]
    [False, True, True, True, True]
    """
    path = PurePosixPath(name.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1])


def open_binary(path: Path) -> IO[bytes]:
    """The bytes of a file, decompressed."""
    return io.BufferedReader(_Unpacked(path), HEAD) if is_gzip(path) else path.open("rb")


def open_text(path: Path, newline: str = "\n") -> TextIO:
    """The text of a file."""
    return io.TextIOWrapper(open_binary(path), "utf-8-sig", newline=newline)


def read_lines(stream: TextIO) -> Iterator[str]:
    """The lines of an open text, none of which may be endless."""
    number = 1
    while line := stream.readline(LINE):
        if len(line) == LINE:
            message = f"line {number} is longer than {LINE >> 20} MB: are there no line breaks?"
            raise FormatError(message)
        yield line
        number += 1


@contextmanager
def open_arrow(path: Path) -> Iterator[pa.NativeFile]:
    """The same for Arrow's readers, which take plain files without going through Python."""
    if not is_gzip(path):
        with pa.input_stream(str(path), compression=None) as stream:
            yield stream
        return
    unpacked = _Cut(path)
    try:
        with pa.PythonFile(io.BufferedReader(unpacked, HEAD), "r") as stream:
            yield stream
    finally:
        if unpacked.error is not None:
            raise unpacked.error from None


def read_head(path: Path) -> str:
    """The beginning of a text file."""
    with open_binary(path) as stream:
        data = stream.read(HEAD)
    text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=len(data) < HEAD)
    if not text.strip():
        message = "the file is empty."
        raise EmptyError(message)
    return text


def _first_bad_byte(path: Path) -> str:
    """Where a file stops being UTF-8, or what it is instead."""
    with open_binary(path) as stream:
        start = stream.read(4)
    for mark, name in MARKS.items():
        if start.startswith(mark):
            return f"the text is in {name}"
    line, seen = 1, 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    with open_binary(path) as stream:
        while data := stream.read(HEAD):
            pending = len(decoder.getstate()[0])  # bytes of a character cut in two by the last read
            try:
                decoder.decode(data)
            except UnicodeDecodeError as error:
                at = seen - pending + error.start
                line += error.object[: error.start].count(b"\n")
                return f"byte 0x{error.object[error.start]:02x} at line {line} (byte {at} of the file) is not UTF-8"
            line, seen = line + data.count(b"\n"), seen + len(data)
    return "the last character is cut short"
