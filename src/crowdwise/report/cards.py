"""Cards of the most ambiguous tasks: the image or text, the answers, and how far each worker is trusted."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from crowdwise._core.display import short
from crowdwise._core.images import InvalidImageError, open_image
from crowdwise.report.known_labels import is_gold
from crowdwise.report.source import RunSource

CARDS = 60  # maximum number of tasks, and so of images
ANSWERS = 12  # maximum number of answers per task
TEXT = 600  # characters of a task's text
MAX_BYTES = 24_000  # larger images are shrunk
SIDE = 320  # pixels of the longer side of a shrunk image
IMAGE_TYPES = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF8": "gif", b"RIFF": "webp"}


def ambiguous_tasks(run: RunSource) -> list[dict[str, Any]]:
    """Return one card per task, the most ambiguous first."""
    tasks = run.tables.tasks.slice(0, CARDS)
    labels = run.tables.labels.take(pc.index_in(tasks.column("task"), run.tables.labels.column("task")))
    return [
        {
            "task": short(task["task"]),
            "label": short(label["label"]),
            "confidence": round(label["confidence"], 4),
            "verdict": label["verdict"],
            "gold": gold,
            "text": task["text"] and short(task["text"], TEXT),
            "image": image_url(run.path, task["image"]) if task["image"] else None,
            **_answers(task),
        }
        for task, label, gold in zip(tasks.to_pylist(), labels.to_pylist(), is_gold(labels).tolist(), strict=True)
    ]


def _answers(task: dict[str, Any]) -> dict[str, Any]:
    """Answers of a task, the most trusted first, and how many are left out."""
    rows = zip(*(json.loads(task[name]) for name in ("workers", "labels", "trust")), strict=True)
    ordered = sorted(rows, key=lambda row: 1 if row[2] is None else -row[2])
    answers = [
        {"worker": short(worker, 40), "label": short(label), "trust": None if trust is None else round(trust, 3)}
        for worker, label, trust in ordered[:ANSWERS]
    ]
    return {"answers": answers, "more": len(ordered) - len(answers)}


def image_url(folder: Path, name: str) -> str | None:
    """Return an image of the folder as a data URL, shrunk if large.

    Return None if the file is not an image, or if its name leads out of the folder.
    """
    path = (folder / name).resolve()
    if not (path.is_relative_to(folder.resolve()) and path.is_file()):
        return None
    content = path.read_bytes()
    content = content if len(content) <= MAX_BYTES and _is_valid(content) else _shrink(content)
    kind = next((kind for magic, kind in IMAGE_TYPES.items() if content.startswith(magic)), None)
    return kind and f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


def _is_valid(content: bytes) -> bool:
    """Return whether a browser can show the image: a few bytes can announce billions of pixels."""
    try:
        with open_image(io.BytesIO(content)):
            return True
    except ImportError:
        return True
    except InvalidImageError:
        return False


def _shrink(content: bytes) -> bytes:
    """Return the image within `SIDE` pixels; empty if that fails, as many large images make a page unusable."""
    try:
        with open_image(io.BytesIO(content)) as image:
            image.draft("RGB", (2 * SIDE, 2 * SIDE))  # avoids decoding a large photograph at full size
            image.thumbnail((SIDE, SIDE))
            small = io.BytesIO()
            image.convert("RGB").save(small, "JPEG", quality=80)
            return small.getvalue()
    except (ImportError, InvalidImageError):
        return b""
