"""Download the original files of a data set, completely and with verified contents.

A file is written to `<name>.part` and renamed once it is complete and its checksum is right. A published checksum is
given with the URL. Otherwise the first download records the SHA-256 of the file in `<name>.sha256`, and later downloads
must match it. The data set made from the file is checked in any case (see `integrity`).
"""

from __future__ import annotations

import hashlib
import http.client
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from crowdwise.errors import CrowdwiseError, FormatError
from crowdwise.io.files import is_outside_path

ATTEMPTS = 3
PAUSE = 1.0  # seconds before another attempt
TIMEOUT = 30.0  # seconds without a byte
MAX_BYTES = 2**30  # of a download, and of a member of an archive; the largest file has 12 million


@dataclass(frozen=True)
class RemoteFile:
    """An original file: its URL and, if published, its checksum (`sha256:...` or `md5:...`)."""

    url: str
    checksum: str | None = None
    saved_as: str | None = None  # by default the last part of the URL

    @property
    def name(self) -> str:
        """The name under which it is saved."""
        return self.saved_as or PurePosixPath(urlsplit(self.url).path).name


def download(file: RemoteFile, folder: Path) -> Path:
    """Download a file into a folder, unless it is there with the right checksum.

    Returns
    -------
    Path
        The file, with verified checksum.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, record = folder / file.name, folder / f"{file.name}.sha256"
    known = file.checksum or (f"sha256:{record.read_text().strip()}" if record.exists() else None)
    if target.exists() and (known is None or file_checksum(target, known) == known):
        _record(target, record)  # the file may have been copied there by hand
        return target
    part = folder / f"{file.name}.part"
    if known is None:  # without a checksum, a partial file cannot safely be resumed
        part.unlink(missing_ok=True)
    _fetch(file.url, part)
    found = file_checksum(part, known or "sha256:")
    if known is not None and found != known:
        part.unlink()
        message = (
            f"{file.url} has the wrong checksum: {found}, expected {known}. The download was deleted. Try again; if "
            f"the error persists, the file has changed at its source"
            + ("." if file.checksum else f" since the first download: delete {record} to accept the new file.")
        )
        raise CrowdwiseError(message)
    _record(part, record)
    part.replace(target)
    return target


def _record(file: Path, record: Path) -> None:
    if not record.exists():
        record.write_text(file_checksum(file, "sha256:").removeprefix("sha256:") + "\n")


def file_checksum(path: Path, like: str) -> str:
    """Return the checksum of a file, computed with the method of another checksum (`sha256:...`)."""
    method = like.partition(":")[0]
    with path.open("rb") as file:
        return f"{method}:{hashlib.file_digest(file, method).hexdigest()}"


def read_archive_members(archive: Path, names: list[str]) -> dict[str, bytes]:
    """Return the contents of the members of a zip or tar archive with these names, in any folder of the archive.

    Nothing is unpacked to disk. An archive with a path outside its own folder is rejected all the same.
    """
    wanted = set(names)
    found: dict[str, bytes] = {}
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as zipped:
                for info in zipped.infolist():
                    if _is_wanted(archive, info.filename, info.file_size, wanted):
                        found.setdefault(PurePosixPath(info.filename).name, zipped.read(info))
        else:
            with tarfile.open(archive) as tar:
                for member in tar:
                    if _is_wanted(archive, member.name, member.size, wanted) and member.isfile():
                        stream = tar.extractfile(member)
                        assert stream is not None  # it is a file
                        found.setdefault(PurePosixPath(member.name).name, stream.read())
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile) as error:
        message = f"{archive} is damaged ({error}). Delete it and download it again."
        raise FormatError(message) from None
    if missing := sorted(wanted - set(found)):
        message = f"{archive} does not contain {', '.join(missing)}. The archive has changed at its source."
        raise FormatError(message)
    return found


def _is_wanted(archive: Path, name: str, size: int, wanted: set[str]) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    if is_outside_path(name):
        message = f"{archive} contains the path {name!r}, which points outside the archive, and is rejected."
        raise FormatError(message)
    if path.name in wanted and size > MAX_BYTES:
        message = f"{name} in {archive} unpacks to {size:,} bytes, more than the {MAX_BYTES:,} allowed."
        raise FormatError(message)
    return path.name in wanted and not path.name.startswith("._")  # added by macOS


def _fetch(url: str, part: Path) -> None:
    """Download into `part`, resuming where it ends; temporary failures are retried a few times."""
    if urlsplit(url).scheme not in ("http", "https"):
        message = f"{url} is not an http or https URL."
        raise CrowdwiseError(message)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return _receive(url, part)
        except urllib.error.HTTPError as error:
            reason = f"the server returned {error.code} {error.reason}"
            error.close()
            if error.code == 416:  # the partial file does not belong to this one
                part.unlink(missing_ok=True)
            elif error.code < 500:
                break
        except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
            reason = str(error) or type(error).__name__
        if attempt < ATTEMPTS:
            time.sleep(PAUSE)
    message = (
        f"{url} could not be downloaded: {reason} (tried {attempt} time{'s' if attempt > 1 else ''}). Try again "
        f"later, or download it with a browser and save it as {part.with_suffix('')}."
    )
    raise CrowdwiseError(message)


def _receive(url: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "crowdwise", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with _opener().open(urllib.request.Request(url, headers=headers), timeout=TIMEOUT) as response:
        resumed = response.status == 206
        length = response.headers.get("Content-Length")
        expected = None if length is None else int(length) + (have if resumed else 0)
        with part.open("ab" if resumed else "wb") as file:
            while block := response.read(1 << 16):
                file.write(block)
                if file.tell() > MAX_BYTES:
                    message = f"{url} is larger than {MAX_BYTES:,} bytes, so it cannot be the expected file."
                    raise CrowdwiseError(message)
            size = file.tell()
    if expected is not None and size != expected:
        message = f"the connection ended after {size:,} of {expected:,} bytes"
        raise ConnectionError(message)


def _opener() -> Any:
    """Return an opener for http and https only, redirects included."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener
