"""The tables a reader sorts and searches: of a large run the rows that matter most, and words that say which those are.

A table is plain data for `report.js`: its columns (key, title, kind, and a hint of what is meant) and its cells column
by column, which is a third of the bytes of a list of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import pluralise
from crowdwise.report.text import short

if TYPE_CHECKING:
    from crowdwise.run.folder import Run

Array = np.ndarray[Any, np.dtype[Any]]
Table = dict[str, Any]

LABELS, WORKERS, NEXT = 2000, 500, 100  # rows embedded, at most
EACH = 250  # labels of each verdict that are shown whatever there is of the others
NEEDS_WORK = ("hopeless", "needs more answers", "review", "accept")  # the most urgent first
ID, TEXT = 80, 120  # characters of an id and of a task's text


def labels_table(run: Run) -> Table:
    """Tasks with their labels, those that need work first."""
    labels = run.labels
    rows = rows_to_show(labels)
    table = labels.take(pa.array(rows))
    cells: dict[str, list[Any]] = {
        "task": ids(table, "task"),
        "label": ids(table, "label"),
        "confidence": rounded(table, "confidence", 4),
        "runner_up": ids(table, "runner_up"),
        "agreement": rounded(table, "agreement", 3),
        "answers": table.column("answers").to_pylist(),
        "ambiguity": rounded(table, "ambiguity", 3),
        "verdict": table.column("verdict").to_pylist(),
        "truth": ids(table, "truth") if "truth" in table.column_names else [None] * len(table),
        "text": texts_of(run, table.column("task")),
    }
    checked = run.metrics["calibration"]["temperature"] is not None
    sure = f"Probability that the label is right, {'calibrated' if checked else 'which could not be checked'}"
    columns = [
        column("task", "Task"),
        column("label", "Label"),
        column("verdict", "Verdict", "verdict"),
        column("confidence", "Confidence", "share", sure),
        column("runner_up", "Runner-up", hint="The next most probable class"),
        column("agreement", "Agreement", "share", "Share of the answers that say the label"),
        column("answers", "Answers", "count"),
        column("ambiguity", "Ambiguity", "share", "100% is the most ambiguous task of all"),
        column("truth", "Truth", hint="The known label, where it was given"),
        column("text", "Text", hint="Beginning of the task's text"),
    ]
    few = ", and some of every verdict" if len(rows) < labels.num_rows else ""
    which = f"those that need work first{few}"
    return assembled(columns, cells, labels.num_rows, "task", which, "labels.csv")


def workers_table(run: Run, rows: Array) -> Table:
    """Workers, the busiest first."""
    table = run.workers.take(pa.array(rows))
    cells: dict[str, list[Any]] = {
        "worker": ids(table, "worker"),
        "answers": table.column("answers").to_pylist(),
        "quality": rounded(table, "quality", 4),
        "low": rounded(table, "quality_low", 4),
        "high": rounded(table, "quality_high", 4),
        "agreement": rounded(table, "agreement_with_consensus", 4),
        "bits": rounded(table, "informativeness", 3),
        "confusion": [
            text and short(text, 2 * ID).replace(" -> ", " → ") for text in table.column("worst_confusion").to_pylist()
        ],
        "confusion_share": rounded(table, "worst_confusion_share", 3),
        "seconds": rounded(table, "seconds", 1),
        "flag": ["spam?" if spam else None for spam in table.column("spammer").to_pylist()],
    }
    columns = [
        column("worker", "Worker"),
        column("answers", "Answers", "count"),
        column(
            "quality",
            "Quality",
            "range",
            "Share of right answers by what other workers say, or by the labels if less; 95% interval",
        ),
        column("agreement", "Agrees with labels", "share", "Share of the answers that say the task's label"),
        column("bits", "Bits an answer", "number", "How much an answer tells about the truth; 0 is nothing"),
        column("confusion", "Most often confuses", hint="The class it was, and what the worker said"),
        column("confusion_share", "How often", "share", "Share of the tasks of that class"),
        column("seconds", "Seconds", "seconds", "Median time of an answer"),
        column("flag", "Flag", "flag"),
    ]
    return assembled(columns, cells, run.workers.num_rows, "worker", "the busiest first", "workers.csv")


def next_table(run: Run) -> Table:
    """Answers to buy next, the best first."""
    table = run.next.slice(0, NEXT)
    cells: dict[str, list[Any]] = {
        "task": ids(table, "task"),
        "worker": ids(table, "worker"),
        "belief": ids(table, "belief"),
        "confidence": rounded(table, "confidence", 3),
        "lift": rounded(table, "lift", 4),
        "gain": rounded(table, "gain", 3),
        "right": rounded(table, "right", 3),
    }
    columns = [
        column("task", "Task"),
        column("worker", "Ask"),
        column("belief", "Believed now"),
        column("confidence", "Confidence", "share"),
        column("lift", "Expected lift", "share", "Rise of the probability that the label is right"),
        column("gain", "Bits", "number", "What the answer should tell about the truth"),
        column("right", "Worker right", "share", "Probability that this worker is right on this task"),
    ]
    return assembled(columns, cells, run.next.num_rows, "answer", "the best first", "next.csv")


def rows_to_show(labels: pa.Table) -> Array:
    """Rows of labels to embed: the most urgent verdict first, then the least sure; a few of every verdict at least."""
    urgency = pc.index_in(labels.column("verdict"), pa.array(NEEDS_WORK)).to_numpy()
    order = np.lexsort((labels.column("confidence").to_numpy(), urgency))
    if len(order) <= LABELS:
        return order
    first = np.searchsorted(urgency[order], np.arange(len(NEEDS_WORK)))  # where each verdict begins
    kept = np.arange(len(order)) - first[urgency[order]] < EACH
    rest = np.flatnonzero(~kept)[: LABELS - kept.sum()]
    kept[rest] = True
    return order[kept]


def busiest(run: Run) -> Array:
    """Rows of the workers to show, those with the most answers first."""
    answers = run.workers.column("answers").to_numpy()
    return np.argsort(-answers, kind="stable")[:WORKERS]


def texts_of(run: Run, tasks: pa.ChunkedArray) -> list[str | None]:
    """Beginning of the text of these tasks; None where a task has none."""
    rows = pc.index_in(tasks, run.tasks.column("task"))
    texts = run.tasks.column("text").take(rows).to_pylist()
    return [text and short(text, TEXT) for text in texts]


def assembled(columns: list[Table], cells: dict[str, list[Any]], n: int, one: str, which: str, file: str) -> Table:
    """A table without columns that say nothing, with a note of what is left out."""
    told = [each for each in columns if any(cell is not None for cell in cells[each["key"]])]
    shown = len(cells[columns[0]["key"]])
    note = f"All {pluralise(n, one)}, {which}." if n > 1 else ""
    if shown < n:
        note = f"{shown:,} of {pluralise(n, one)} are shown here, {which}; all of them stand in {file}."
    return {"columns": told, "cells": cells, "note": note, "rows": shown, "of": n}


def column(key: str, title: str, kind: str = "text", hint: str = "") -> Table:
    """What `report.js` knows of a column."""
    return {"key": key, "title": title, "kind": kind, "hint": hint}


def ids(table: pa.Table, name: str) -> list[str | None]:
    """Ids or classes as short texts."""
    return [None if value is None else short(value, ID) for value in table.column(name).to_pylist()]


def rounded(table: pa.Table, name: str, places: int) -> list[float | None]:
    """Numbers with as many places as are shown."""
    return [None if value is None else round(value, places) for value in table.column(name).to_pylist()]
