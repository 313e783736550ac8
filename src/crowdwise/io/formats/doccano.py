"""doccano's export of a project in which everyone labels alone: a zip with `<username>.jsonl` for each worker.

A line is a text with the list of its labels. The task is `id` where there is one, else `text`, or the field named with
`task=`. A collaborative project exports one `all.jsonl`, which does not tell who labelled what: it is refused.
Nothing is unpacked to disk; a zip with a path that leads out of its folder, or a link, is refused all the same.
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

MAX_BYTES = 1 << 30  # unpacked, all members together: a small zip can hold a file that fills the memory


def read_doccano(path: Path, *, task: str | None = None, choose_side: ChooseColumns | None = None) -> RawColumns:
    """The answers of all members."""
    out, fields = AnswerCollector(choose_side), [task] if task else ["id", "text"]
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not _is_aside(member.filename)]
        names = [PurePosixPath(member.filename) for member in members]
        if not names or any(name.suffix != ".jsonl" for name in names):
            listed = ", ".join(map(str, names[:3])) or "nothing"
            message = f"expected a zip of <username>.jsonl, found {listed}."
            raise FormatError(message)
        if any(name.stem == "all" for name in names):
            message = "all.jsonl is of a collaborative project: it does not tell who labelled what."
            raise FormatError(message)
        for member in members:
            if is_outside_path(member.filename) or stat.S_ISLNK(member.external_attr >> 16):
                message = f"it holds {member.filename!r}, which leads out of its folder: no export does. It is refused."
                raise FormatError(message)
        if len({name.stem for name in names}) < len(names):
            message = "two of its members have one name, in different folders, and so their workers: export them apart."
            raise FormatError(message)
        size = sum(member.file_size for member in members)
        check_unpacked(size, path.stat().st_size)
        if size > MAX_BYTES:
            message = (
                f"unpacked it has {size:,} bytes, over the {MAX_BYTES:,} this reader takes; unpack and convert it."
            )
            raise TooLargeError(message)
        for member, name in zip(members, names, strict=True):
            with io.TextIOWrapper(archive.open(member), "utf-8-sig", newline="\n") as stream:
                try:
                    for number, record in parse_json_lines(stream):
                        task_id = first_field(record, fields, "task", f"{name} line {number}")
                        out.answer(task_id, name.stem, record.get("label"), record)
                except UnicodeDecodeError as error:
                    message = f"{name} in it is not UTF-8: {error}."
                    raise FormatError(message) from None
    return out.raw()


def _is_aside(name: str) -> bool:
    """Whether it is a folder, or what macOS adds when it packs."""
    return name.endswith("/") or name.startswith("__MACOSX/") or PurePosixPath(name).name == ".DS_Store"
