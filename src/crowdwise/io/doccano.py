"""doccano's export of a project in which everyone labels alone: a zip with `<username>.jsonl` for each worker.

A line is a text with the list of its labels. The task is `id` where there is one, else `text`, or the field named with
`task=`. A collaborative project exports one `all.jsonl`, which does not tell who labelled what: it is refused.
Nothing is unpacked to disk.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path, PurePosixPath

from crowdwise.errors import FormatError, TooLargeError
from crowdwise.io.raw import Choose, Raw
from crowdwise.io.records import Collector, field, objects

MAX_BYTES = 1 << 30  # unpacked, all members together: a small zip can hold a file that fills the memory


def read_doccano(path: Path, *, task: str | None = None, beside: Choose | None = None) -> Raw:
    """The answers of all members."""
    out, fields = Collector(beside), [task] if task else ["id", "text"]
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if not member.filename.endswith("/")]
        names = [PurePosixPath(member.filename) for member in members]
        if not names or any(name.suffix != ".jsonl" for name in names):
            listed = ", ".join(map(str, names[:3])) or "nothing"
            message = f"expected a zip of <username>.jsonl, found {listed}."
            raise FormatError(message)
        if any(name.stem == "all" for name in names):
            message = "all.jsonl is of a collaborative project: it does not tell who labelled what."
            raise FormatError(message)
        size = sum(member.file_size for member in members)
        if size > MAX_BYTES:
            message = (
                f"unpacked it has {size:,} bytes, over the {MAX_BYTES:,} this reader takes; unpack and convert it."
            )
            raise TooLargeError(message)
        for member, name in zip(members, names, strict=True):
            with io.TextIOWrapper(archive.open(member), "utf-8-sig", newline="\n") as lines:
                try:
                    for number, record in objects(lines):
                        task_id = field(record, fields, "task", f"{name} line {number}")
                        out.answer(task_id, name.stem, record.get("label"), record)
                except UnicodeDecodeError as error:
                    message = f"{name} in it is not UTF-8: {error}."
                    raise FormatError(message) from None
    return out.raw()
