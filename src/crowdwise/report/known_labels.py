"""Labels that known ones contradict: the inferred label beside the known one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise._core.display import short
from crowdwise.report.source import Array, RunSource
from crowdwise.report.tables import ID, Table, assemble, column, ids, rounded, texts_of

WRONG = 200  # maximum number of rows
GOLD_REASON = "gold label"  # of tasks whose label is known


def wrong_table(run: RunSource) -> Table | None:
    """Return tasks whose known label is another one, the most confident mistakes first; None if nothing is known.

    With known truth, these are wrong labels of the run. The label of a gold task is the known one; it is listed if most
    answers of its workers name another class.
    """
    labels, gold = run.tables.labels, is_gold(run.tables.labels)
    truth = labels.column("truth") if "truth" in labels.column_names else None
    if truth is None and not gold.any():
        return None
    said, share = _most_named(run)
    wrong = gold & (said >= 0)
    if truth is not None:
        other = pc.not_equal(labels.column("label").cast(pa.string()), truth.cast(pa.string()))
        wrong |= ~gold & pc.fill_null(other, False).to_numpy()
    rows = np.flatnonzero(wrong)
    sure = np.where(gold, share, labels.column("confidence").to_numpy())[rows]
    rows_shown = rows[np.lexsort((-sure, gold[rows]))][:WRONG]
    table, known = labels.take(pa.array(rows_shown)), gold[rows_shown].tolist()
    classes = [str(name) for name in run.answers.classes.tolist()]

    def choose(of_gold: list[Any], of_truth: list[Any]) -> list[Any]:
        return [g if is_known else t for is_known, g, t in zip(known, of_gold, of_truth, strict=True)]

    label, nothing = ids(table, "label"), [None] * len(known)
    cells: dict[str, list[Any]] = {
        "task": ids(table, "task"),
        "given": choose([short(classes[code], ID) for code in said[rows_shown]], label),
        "known": choose(label, nothing if truth is None else ids(table, "truth")),
        "verdict": choose(nothing, table.column("verdict").to_pylist()),
        "confidence": choose(nothing, rounded(table, "confidence", 4)),
        "named": choose(share[rows_shown].round(3).tolist(), rounded(table, "agreement", 3)),
        "source": choose(["gold"] * len(known), ["truth"] * len(known)),
        "text": texts_of(run, table.column("task")),
    }
    columns = [
        column("task", "Task"),
        column("given", "Inferred label", hint="Of a gold task: the class that most of its answers name"),
        column("known", "Known label"),
        column("verdict", "Verdict", "verdict"),
        column("confidence", "Confidence", "share", "Probability that the label is right, without the known one"),
        column("named", "Answers that name it", "share", "Share of the task's answers that name the inferred label"),
        column("source", "Known from", hint="Known truth (--truth) or gold (--gold)"),
        column("text", "Text", hint="Start of the task's text"),
    ]  # fmt: skip
    return assemble(columns, cells, len(rows), "label", "the most confident first", "labels.csv")


def is_gold(labels: pa.Table) -> Array:
    """Return which tasks have their label from gold, (tasks,) bools."""
    if "reason" not in labels.column_names:
        return np.zeros(labels.num_rows, bool)
    equal = pc.fill_null(pc.equal(labels.column("reason"), GOLD_REASON), False)
    return np.asarray(equal.to_numpy(), dtype=bool)


def _most_named(run: RunSource) -> tuple[Array, Array]:
    """Return the class that most answers to each task name and their share, (tasks,) each; -1 if it is the label."""
    answers = run.answers
    k, n = answers.n_classes, answers.n_tasks
    code = pc.index_in(run.tables.labels.column("label"), answers.class_ids).to_numpy()
    cells, size = np.unique(answers.task.astype(np.int64) * k + answers.label, return_counts=True)
    task, label = cells // k, cells % k
    most, named = np.zeros(n, np.int64), np.zeros(n, np.int64)  # answers for the class named most, and for the label
    np.maximum.at(most, task, size)
    own = label == code[task]
    named[task[own]] = size[own]
    said = np.full(n, -1)
    top = (size == most[task]) & (most > named)[task]
    said[task[top][::-1]] = label[top][::-1]  # of several classes, the first
    return said, most / np.maximum(np.bincount(answers.task, minlength=n), 1)
