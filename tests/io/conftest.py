from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest


@pytest.fixture
def put(tmp_path):
    """Write a file and return its path: text, bytes, or other values as JSON (`lines=True`: one object per line)."""

    def put(name: str, content: object, *, lines: bool = False) -> Path:
        file = tmp_path / name
        if lines:
            content = "\n".join(json.dumps(record) for record in content) + "\n"
        elif not isinstance(content, (str, bytes)):
            content = json.dumps(content)
        data = content.encode() if isinstance(content, str) else content
        file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return file

    return put


def rows(answers) -> list[tuple[object, object, object]]:
    """Return (task, worker, label) of each answer, as ids."""
    table = answers.to_arrow()
    return list(zip(*(table.column(name).to_pylist() for name in ("task", "worker", "label")), strict=True))


@pytest.fixture(name="rows")
def rows_fixture():
    return rows
