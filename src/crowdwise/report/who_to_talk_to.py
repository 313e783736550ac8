"""Who to talk to: flagged workers by name; otherwise workers who are clearly below the crowd.

The first are those who cost most: by wrong answers, or by answers that the average worker would have given right.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdwise._core.display import percent, pluralise, short
from crowdwise.plots.subjects import flag_of
from crowdwise.report.source import RunSource

FLAGGED, OTHERS = 6, 3  # workers named
COPIES = "copies "  # start of the flag of workers whose answers may well be right: they come last


def who_to_talk_to(run: RunSource) -> dict[str, Any]:
    """Return the workers to name, with the reason, and how many are flagged."""
    rows = run.tables.workers.to_pylist()
    flagged = sorted((row for row in rows if flag_of(row)), key=badness)
    shown = flagged[:FLAGGED] if flagged else _below_the_crowd(rows)
    people = [
        {
            "worker": short(row["worker"], 40),
            "why": short(flag_of(row) or _confusion(row), 80),
            "figures": f"{percent(row['quality'], 0)} right, {pluralise(row['answers'], 'answer')}",
        }
        for row in shown
    ]
    return {"flagged": len(flagged), "more": len(flagged[FLAGGED:]), "people": people}


def badness(row: Mapping[str, Any]) -> tuple[bool, float]:
    """Return a key that sorts those who gave most wrong answers first, and copies of others last.

    >>> few, many = {"quality": 0.1, "answers": 5, "flag": "x"}, {"quality": 0.4, "answers": 900, "flag": "y"}
    >>> sorted([few, many], key=badness)[0]["flag"]
    'y'
    """
    copies = (flag_of(row) or "").startswith(COPIES)
    return copies, -row["answers"] * (0.0 if row["quality"] is None else 1 - row["quality"])


def _below_the_crowd(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Workers whose quality is below the mean of all answers, beyond doubt: the whole interval is."""
    rated = [row for row in rows if row["quality"] is not None]
    total = sum(row["answers"] for row in rated)
    mean = sum(row["answers"] * row["quality"] for row in rated) / max(total, 1)
    below = [row for row in rated if row["quality_high"] < mean]
    return sorted(below, key=lambda row: row["answers"] * (row["quality"] - mean))[:OTHERS]


def _confusion(row: dict[str, Any]) -> str:
    confusion = row["worst_confusion"]
    return f"often confuses {confusion.replace(' -> ', ' → ')}" if confusion else "lowest quality"
