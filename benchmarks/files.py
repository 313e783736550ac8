"""Reading and writing the small JSON files in benchmarks/results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DIGITS = 4  # significant digits; pages show three at most


def read_results(path: Path, default: Any = None) -> Any:
    """Return the contents of a file, or the default if it does not exist."""
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else default


def write_results(path: Path, results: Any) -> None:
    """Write results compactly: rounded numbers, one line per entry of the two outer levels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(_rounded(results), levels=2) + "\n", encoding="utf-8")


def _text(value: Any, levels: int) -> str:
    """JSON with line breaks in the outer levels only.

    >>> print(_text({"a": {"b": [1, 2]}, "c": 3}, levels=2))
    {"a": {
    "b": [1,2]
    },
    "c": 3}
    """
    if levels and isinstance(value, dict) and value:
        parts = ",\n".join(f"{json.dumps(str(key))}: {_text(part, levels - 1)}" for key, part in value.items())
        return "{" + parts + "}" if levels == 2 else "{\n" + parts + "\n}"
    if levels and isinstance(value, list) and value:
        return "[\n" + ",\n".join(_text(part, 0) for part in value) + "\n]"
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, (list, tuple)) else value
