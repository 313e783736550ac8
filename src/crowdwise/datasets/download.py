"""Download the original files of a data set: whole or not at all, and the same bytes every time.

A file is written under the name `<name>.part` and takes its own name once it is complete and its checksum is right.
Where its checksum has been published it is given with the address. Where it has not, the first download records the
SHA-256 of what came (`<name>.sha256`, beside the file) and later ones must be the same; what is then made of the file
is checked against the figures in `facts` in any case.
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

TRIES = 3
PAUSE = 1.0  # seconds before another try
TIMEOUT = 30.0  # seconds without a byte
MAX_BYTES = 2**30  # of a download, and of a member of an archive: the largest that is fetched has 12 million


@dataclass(frozen=True)
class File:
    """An original file: its address, and its checksum (`sha256:...` or `md5:...`) where one has been published."""

    address: str
    checksum: str | None = None
    saved_as: str | None = None  # its last part, unless given

    @property
    def name(self) -> str:
        """The name it is saved under."""
        return self.saved_as or PurePosixPath(urlsplit(self.address).path).name


def download(file: File, folder: Path) -> Path:
    """Have a file in a folder: it is fetched unless it is there and right.

    Returns
    -------
    Path
        Of the file, whose checksum has been verified.
    """
    folder.mkdir(parents=True, exist_ok=True)
    target, record = folder / file.name, folder / f"{file.name}.sha256"
    known = file.checksum or (f"sha256:{record.read_text().strip()}" if record.exists() else None)
    if target.exists() and (known is None or checksum(target, known) == known):
        _record(target, record)  # it may have been put there by hand
        return target
    part = folder / f"{file.name}.part"
    if known is None:  # nothing would tell whether two halves belong together
        part.unlink(missing_ok=True)
    _fetch(file.address, part)
    found = checksum(part, known or "sha256:")
    if known is not None and found != known:
        part.unlink()
        message = (
            f"{file.address} is not the file it should be: its checksum is {found}, expected {known}. What came was "
            f"deleted. Try again; if it stays so, the file was changed at its source"
            + ("." if file.checksum else f" since it was first fetched: delete {record} to accept the new one.")
        )
        raise CrowdwiseError(message)
    _record(part, record)
    part.replace(target)
    return target


def _record(file: Path, record: Path) -> None:
    if not record.exists():
        record.write_text(checksum(file, "sha256:").removeprefix("sha256:") + "\n")


def checksum(path: Path, like: str) -> str:
    """Checksum of a file, by the method that another one (`sha256:...`) names."""
    method = like.partition(":")[0]
    with path.open("rb") as file:
        return f"{method}:{hashlib.file_digest(file, method).hexdigest()}"


def members(archive: Path, names: list[str]) -> dict[str, bytes]:
    """Contents of the members of a zip or tar archive with these names, in whatever folder of it they are.

    Nothing is unpacked to disk. An archive with a path that leads out of its folder is refused all the same.
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
        message = f"{archive} is damaged ({error}): delete it and fetch it again."
        raise FormatError(message) from None
    if missing := sorted(wanted - set(found)):
        message = f"{archive} holds no {', '.join(missing)}: it was changed at its source."
        raise FormatError(message)
    return found


def _is_wanted(archive: Path, name: str, size: int, wanted: set[str]) -> bool:
    path = PurePosixPath(name.replace("\\", "/"))
    if is_outside_path(name):
        message = f"{archive} holds the path {name!r}, which leads out of its folder: it is refused."
        raise FormatError(message)
    if path.name in wanted and size > MAX_BYTES:
        message = f"{name} in {archive} unpacks to {size:,} bytes: it is refused."
        raise FormatError(message)
    return path.name in wanted and not path.name.startswith("._")  # what macOS adds


def _fetch(address: str, part: Path) -> None:
    """Fetch into `part`, going on where it ends; a passing failure is tried again a few times."""
    if urlsplit(address).scheme not in ("http", "https"):
        message = f"{address} is not an http or https address."
        raise CrowdwiseError(message)
    for attempt in range(1, TRIES + 1):
        try:
            return _receive(address, part)
        except urllib.error.HTTPError as error:
            reason = f"the server answers {error.code} {error.reason}"
            error.close()
            if error.code == 416:  # what is there already is no part of the file
                part.unlink(missing_ok=True)
            elif error.code < 500:
                break
        except (OSError, http.client.HTTPException) as error:  # URLError and timeouts are OSErrors
            reason = str(error) or type(error).__name__
        if attempt < TRIES:
            time.sleep(PAUSE)
    message = (
        f"{address} could not be fetched: {reason} (tried {attempt} time{'s' if attempt > 1 else ''}). Try again "
        f"later, or download it with a browser and save it as {part.with_suffix('')}."
    )
    raise CrowdwiseError(message)


def _receive(address: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "crowdwise", "Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with _opener().open(urllib.request.Request(address, headers=headers), timeout=TIMEOUT) as answer:
        goes_on = answer.status == 206
        length = answer.headers.get("Content-Length")
        expected = None if length is None else int(length) + (have if goes_on else 0)
        with part.open("ab" if goes_on else "wb") as file:
            while block := answer.read(1 << 16):
                file.write(block)
                if file.tell() > MAX_BYTES:
                    message = f"{address} is larger than {MAX_BYTES:,} bytes: it is not the file it should be."
                    raise CrowdwiseError(message)
            size = file.tell()
    if expected is not None and size != expected:
        message = f"the connection ended after {size:,} of {expected:,} bytes"
        raise ConnectionError(message)


def _opener() -> Any:
    """Opens http and https and nothing else, not even when a server sends it elsewhere."""
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
