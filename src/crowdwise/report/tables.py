"""Tables that a reader can sort and search. Of a large run they hold the rows that matter most, and a note says which.

A table is plain data for `report.js`: its columns (key, title, kind and hint) and its cells. Cells are stored by
column, which takes a third of the bytes of a list of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import pluralise, short
from crowdwise.plots.subjects import flag_of
from crowdwise.report.source import Array, RunSource

Table = dict[str, Any]

LABELS, WORKERS, NEXT = 2000, 500, 100  # maximum number of rows
PER_VERDICT = 250  # labels of each verdict that are always shown
NEEDS_WORK = ("hopeless", "needs more answers", "review", "accept")  # the most urgent first
ID, TEXT = 80, 120  # characters of an id and of a task's text


def labels_table(run: RunSource) -> Table:
    """Return tasks with their labels, those that need work first."""
    labels = run.tables.labels
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
        "reason": ids(table, "reason") if "reason" in table.column_names else [None] * len(table),
        "truth": ids(table, "truth") if "truth" in table.column_names else [None] * len(table),
        "text": texts_of(run, table.column("task")),
    }
    columns = [
        column("task", "Task"),
        column("label", "Label"),
        column("verdict", "Verdict", "verdict"),
        column("confidence", "Confidence", "share", "Probability that the label is right"),
        column("reason", "Reason", "words", "Why a label or verdict is unusual"),
        column("runner_up", "Runner-up", hint="The next most probable class"),
        column("agreement", "Agreement", "share", "Share of the task's answers that equal the label"),
        column("answers", "Answers", "count"),
        column("ambiguity", "Ambiguity", "share", "Rank: 100% is the most ambiguous task"),
        column("truth", "Truth", "known", "The known label"),
        column("text", "Text", hint="Start of the task's text"),
    ]
    some = ", and some of every verdict" if len(rows) < labels.num_rows else ""
    which = f"those that need work first{some}"
    return assemble(columns, cells, labels.num_rows, "task", which, "labels.csv")


def workers_table(run: RunSource, rows: Array) -> Table:
    """Return workers, those with most answers first."""
    table = run.tables.workers.take(pa.array(rows))
    cells: dict[str, list[Any]] = {
        "worker": ids(table, "worker"),
        "answers": table.column("answers").to_pylist(),
        "quality": rounded(table, "quality", 4),
        "quality_low": rounded(table, "quality_low", 4),
        "quality_high": rounded(table, "quality_high", 4),
        "agreement": rounded(table, "agreement_with_consensus", 4),
        "bits": rounded(table, "informativeness", 3),
        "confusion": [
            text and short(text, 2 * ID).replace(" -> ", " → ") for text in table.column("worst_confusion").to_pylist()
        ],
        "confusion_share": rounded(table, "worst_confusion_share", 3),
        "seconds": rounded(table, "seconds", 1),
        "flag": [flag and short(flag, TEXT) for flag in map(flag_of, table.to_pylist())],
        **_on_gold(run, table),
    }
    columns = [
        column("worker", "Worker"),
        column("flag", "Flag", "flag", "What is wrong with this worker's answers"),
        column("answers", "Answers", "count"),
        column(
            "quality",
            "Quality",
            "range",
            "Expected share of right answers, by the labels and their confidence; 95% interval",
        ),
        column("gold", "Accuracy by gold", "range", "Share of right answers, estimated from gold; 95% interval"),
        column("agreement", "Agrees with labels", "share", "Share of answers that equal the task's label"),
        column("bits", "Information", "number", "Information in one answer about the true class, in bits"),
        column("confusion", "Most often confuses", hint="The true class, and the worker's answer"),
        column("confusion_share", "How often", "share", "Share of tasks of that class"),
        column("seconds", "Seconds", "seconds", "Median time per answer"),
    ]
    return assemble(
        columns, cells, run.tables.workers.num_rows, "worker", "those with most answers first", "workers.csv"
    )


def _on_gold(run: RunSource, table: pa.Table) -> dict[str, list[float | None]]:
    """Return the workers' accuracies as estimated from gold, with their 95% intervals; None where not estimated."""
    found = (run.metrics.get("trust") or {}).get("estimates") or {}
    of = {each["worker"]: each for each in found.get("workers", [])}
    rows = [of.get(str(worker), {}) for worker in table.column("worker").to_pylist()]
    ends = {"gold": "value", "gold_low": "low", "gold_high": "high"}
    return {
        key: [None if name not in row else round(min(max(row[name], 0.0), 1.0), 4) for row in rows]
        for key, name in ends.items()
    }


def next_table(run: RunSource) -> Table:
    """Return answers to buy next, the best first."""
    table = run.tables.next.slice(0, NEXT)
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
        column("worker", "Worker to ask"),
        column("belief", "Current label"),
        column("confidence", "Confidence", "share"),
        column("lift", "Expected gain", "share", "Expected increase in the probability that the label is right"),
        column("gain", "Information", "number", "Expected information about the truth, in bits"),
        column("right", "Worker accuracy", "share", "Probability that this worker is right on this task"),
    ]
    return assemble(columns, cells, run.tables.next.num_rows, "answer", "the best first", "next.csv")


def rows_to_show(labels: pa.Table) -> Array:
    """Return the rows of labels to show: the most urgent verdict first, then the least confident; some of each."""
    urgency = pc.index_in(labels.column("verdict"), pa.array(NEEDS_WORK)).to_numpy()
    order = np.lexsort((labels.column("confidence").to_numpy(), urgency))
    if len(order) <= LABELS:
        return order
    first = np.searchsorted(urgency[order], np.arange(len(NEEDS_WORK)))  # first row of each verdict
    shown = np.arange(len(order)) - first[urgency[order]] < PER_VERDICT
    rest = np.flatnonzero(~shown)[: LABELS - shown.sum()]
    shown[rest] = True
    return order[shown]


def busiest(run: RunSource) -> Array:
    """Return the rows of the workers to show, those with most answers first."""
    answers = run.tables.workers.column("answers").to_numpy()
    return np.argsort(-answers, kind="stable")[:WORKERS]


def texts_of(run: RunSource, tasks: pa.ChunkedArray) -> list[str | None]:
    """Return the start of the text of these tasks; None for a task without text."""
    rows = pc.index_in(tasks, run.tables.tasks.column("task"))
    texts = run.tables.tasks.column("text").take(rows).to_pylist()
    return [text and short(text, TEXT) for text in texts]


def assemble(columns: list[Table], cells: dict[str, list[Any]], n: int, one: str, which: str, file: str) -> Table:
    """Return a table without its empty columns, and a note on rows left out."""
    used = [each for each in columns if any(cell is not None for cell in cells[each["key"]])]
    shown = len(cells[columns[0]["key"]])
    note = f"All {pluralise(n, one)}, {which}." if n > 1 else ""
    if shown < n:
        note = f"{shown:,} of {pluralise(n, one)} are shown, {which}. The complete table is {file}."
    return {"columns": used, "cells": cells, "note": note, "rows": shown, "of": n}


def column(key: str, title: str, kind: str = "text", hint: str = "") -> Table:
    """Return the description of a column for `report.js`."""
    return {"key": key, "title": title, "kind": kind, "hint": hint}


def ids(table: pa.Table, name: str) -> list[str | None]:
    """Return ids or classes as short texts."""
    return [None if value is None else short(value, ID) for value in table.column(name).to_pylist()]


def rounded(table: pa.Table, name: str, places: int) -> list[float | None]:
    """Return numbers rounded to the places that are shown."""
    return [None if value is None else round(value, places) for value in table.column(name).to_pylist()]
