"""The most ambiguous tasks, with their picture or text, and who said what and is trusted how much."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from crowdwise.report.text import short

if TYPE_CHECKING:
    from crowdwise.run.folder import Run

CARDS = 60  # tasks, and so pictures, at most
ANSWERS = 12  # of a task
TEXT = 600  # characters of a task's text
HEAVY = 24_000  # bytes of a picture; a heavier one is made smaller
SIDE = 320  # pixels of a picture made smaller
KINDS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}


def ambiguous_tasks(run: Run) -> list[dict[str, Any]]:
    """A card a task, the most ambiguous first."""
    tasks = run.tasks.slice(0, CARDS)
    labels = run.labels.take(pc.index_in(tasks.column("task"), run.labels.column("task")))
    return [
        {
            "task": short(task["task"]),
            "label": short(label["label"]),
            "confidence": round(label["confidence"], 4),
            "verdict": label["verdict"],
            "text": task["text"] and short(task["text"], TEXT),
            "image": picture(run.path, task["image"]) if task["image"] else None,
            **_who_said_what(task),
        }
        for task, label in zip(tasks.to_pylist(), labels.to_pylist(), strict=True)
    ]


def _who_said_what(task: dict[str, Any]) -> dict[str, Any]:
    """Answers of a task, the most trusted first, and how many are left out."""
    said = zip(*(json.loads(task[name]) for name in ("workers", "labels", "trust")), strict=True)
    ordered = sorted(said, key=lambda each: 1 if each[2] is None else -each[2])
    answers = [
        {"worker": short(worker, 40), "label": short(label), "trust": None if trust is None else round(trust, 3)}
        for worker, label, trust in ordered[:ANSWERS]
    ]
    return {"answers": answers, "more": len(ordered) - len(answers)}


def picture(folder: Path, name: str) -> str | None:
    """A picture of the folder as a data address, made smaller where it is large; None where it is no picture.

    A name that leads out of the folder is no picture of it.
    """
    path = (folder / name).resolve()
    if not (path.is_relative_to(folder.resolve()) and path.is_file()):
        return None
    content = path.read_bytes()
    content = content if len(content) <= HEAVY else _smaller(content)
    kind = next((kind for magic, kind in KINDS.items() if content.startswith(magic)), None)
    return kind and f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _smaller(content: bytes) -> bytes:
    """The picture within `SIDE` pixels; empty where that cannot be done: a page of many large pictures is of no use."""
    try:
        from PIL import Image

        with Image.open(io.BytesIO(content)) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))  # a large photograph is not decoded whole
            image.thumbnail((SIDE, SIDE))
            small = io.BytesIO()
            image.convert("RGB").save(small, "JPEG", quality=80)
            return small.getvalue()
    except (ImportError, OSError, ValueError):
        return b""
