"""Who to talk to: flagged workers by name, the worst first; otherwise workers who are clearly below the crowd."""

from __future__ import annotations

from typing import Any

from crowdwise._core.display import percent, pluralise
from crowdwise.report.source import RunSource
from crowdwise.report.text import short

FLAGGED, OTHERS = 6, 3  # workers named
COPIES = "copies "  # start of the flag of workers whose answers may well be right: they come last
SPAM = "answers no better than chance"  # in runs of earlier versions, which have no flags


def who_to_talk_to(run: RunSource) -> dict[str, Any]:
    """Return the workers to name, with the reason, and how many are flagged."""
    rows = run.tables.workers.to_pylist()
    flagged = sorted((row for row in rows if flag_of(row)), key=_badness)
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


def flag_of(row: dict[str, Any]) -> str | None:
    """Return what is wrong with a worker's answers; runs of earlier versions only say who looks like a spammer.

    >>> flag_of({"spammer": True}), flag_of({"spammer": False, "flag": "copies w1"})
    ('answers no better than chance', 'copies w1')
    """
    return row.get("flag") or (SPAM if row["spammer"] else None)


def _badness(row: dict[str, Any]) -> tuple[bool, float, int]:
    copies = (flag_of(row) or "").startswith(COPIES)
    return copies, 1.0 if row["quality"] is None else row["quality"], -row["answers"]


def _below_the_crowd(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Workers whose quality is below the mean of all answers, beyond doubt: the whole interval is."""
    rated = [row for row in rows if row["quality"] is not None]
    total = sum(row["answers"] for row in rated)
    mean = sum(row["answers"] * row["quality"] for row in rated) / max(total, 1)
    below = [row for row in rated if row["quality_high"] < mean]
    return sorted(below, key=_badness)[:OTHERS]


def _confusion(row: dict[str, Any]) -> str:
    confusion = row["worst_confusion"]
    return f"often confuses {confusion.replace(' -> ', ' → ')}" if confusion else "lowest quality"
