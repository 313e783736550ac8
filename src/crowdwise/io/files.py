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
from pathlib import Path
from typing import IO, Any, TextIO

import pyarrow as pa

from crowdwise.errors import CrowdwiseError, EmptyError, FormatError, ParameterError, TooLargeError

HEAD = 1 << 20  # bytes looked at to tell the format; a header line is no longer
GZIP = b"\x1f\x8b"


def files(path: Any) -> list[Path]:
    """The files a path, a folder, a glob or a list of these means, in order of name within a folder or a glob."""
    if isinstance(path, Sequence) and not isinstance(path, (str, bytes)):
        found = [file for part in path for file in files(part)]
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
def guard(path: Path) -> Iterator[None]:
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
    why = getattr(error, "strerror", None) or error
    return FormatError(f"{path}: cannot be read: {why}. Is it damaged or cut short?")


def is_gzip(path: Path) -> bool:
    """Whether the file is compressed, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(2) == GZIP


def is_parquet(path: Path) -> bool:
    """Whether the file is Parquet, whatever its name."""
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


def open_binary(path: Path) -> IO[bytes]:
    """The bytes of a file, decompressed."""
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def open_text(path: Path, newline: str = "\n") -> TextIO:
    """The text of a file."""
    return io.TextIOWrapper(open_binary(path), "utf-8-sig", newline=newline)


def open_arrow(path: Path) -> pa.NativeFile:
    """The same for Arrow's readers, without going through Python."""
    return pa.input_stream(str(path), compression="gzip" if is_gzip(path) else None)


def head(path: Path) -> str:
    """The beginning of a text file."""
    with open_binary(path) as stream:
        data = stream.read(HEAD)
    text = codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=len(data) < HEAD)
    if not text.strip():
        message = "the file is empty."
        raise EmptyError(message)
    return text


def _first_bad_byte(path: Path) -> str:
    """Where a file stops being UTF-8."""
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
