"""doccano's export of a project in which everyone labels alone: a zip with one `<username>.jsonl` per worker.

A line is a text with the list of its labels. The task is the field `id` if present, else `text`, or the field named
with `task=`. A collaborative project exports one `all.jsonl` without workers, which is rejected. Nothing is unpacked to
disk; a zip with a link or a path outside its own folder is rejected all the same.
"""

from __future__ import annotations

import io
import stat
import zipfile
from pathlib import Path, PurePosixPath

from crowdwise.errors import FormatError, TooLargeError
from crowdwise.io.files import check_unpacked, is_outside_path
from crowdwise.io.json_records import AnswerCollector, first_field, parse_json_lines
from crowdwise.io.raw_columns import ChooseColumns, RawColumns

MAX_BYTES = 1 << 30  # of all members unpacked: a small zip may contain more than fits into memory


def read_doccano(path: Path, *, task: str | None = None, choose_side: ChooseColumns | None = None) -> RawColumns:
    """Read the answers of all members."""
    out, fields = AnswerCollector(choose_side), [task] if task else ["id", "text"]
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not _is_ignored(member.filename)]
        names = [PurePosixPath(member.filename) for member in members]
        if not names or any(name.suffix != ".jsonl" for name in names):
            listed = ", ".join(map(str, names[:3])) or "nothing"
            message = f"expected a zip of <username>.jsonl, found {listed}."
            raise FormatError(message)
        if any(name.stem == "all" for name in names):
            message = "all.jsonl is the export of a collaborative project, which does not contain the workers."
            raise FormatError(message)
        for member in members:
            if is_outside_path(member.filename) or stat.S_ISLNK(member.external_attr >> 16):
                message = f"it contains {member.filename!r}, a link or a path outside the archive, and is rejected."
                raise FormatError(message)
        if len({name.stem for name in names}) < len(names):
            message = "two files in different folders of the zip name the same worker. Export each folder separately."
            raise FormatError(message)
        size = sum(member.file_size for member in members)
        check_unpacked(size, path.stat().st_size)
        if size > MAX_BYTES:
            message = f"it unpacks to {size:,} bytes, more than the {MAX_BYTES:,} allowed. Unpack and convert it."
            raise TooLargeError(message)
        for member, name in zip(members, names, strict=True):
            with io.TextIOWrapper(archive.open(member), "utf-8-sig", newline="\n") as stream:
                try:
                    for number, record in parse_json_lines(stream):
                        task_id = first_field(record, fields, "task", f"{name} line {number}")
                        out.answer(task_id, name.stem, record.get("label"), record)
                except UnicodeDecodeError as error:
                    message = f"its member {name} is not UTF-8: {error}."
                    raise FormatError(message) from None
    return out.raw()


def _is_ignored(name: str) -> bool:
    """Return whether a member is a folder, or was added by macOS."""
    return name.endswith("/") or name.startswith("__MACOSX/") or PurePosixPath(name).name == ".DS_Store"
