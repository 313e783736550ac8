"""Charts of workers: quality with an interval, and confusion matrices."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from crowdwise._core.display import distinct
from crowdwise.answers import Answers
from crowdwise.errors import UnknownIdError
from crowdwise.plots.drawing import ACCENT, INK, PAPER, WARM, along, colour, new_chart, sized, tip
from crowdwise.plots.subjects import Array, Rows, flag_of, is_run, known_codes, labels_of
from crowdwise.truth.base import TruthModel
from crowdwise.truth.methods.majority_vote import MajorityVote
from crowdwise.truth.tables import peer_interval, ratio_column, worker_table

NAMED = 25  # workers up to which each has a row with its name
MOST = 500  # workers drawn, those with most answers
CLASSES = 10  # classes in a confusion matrix: those the worker met or used most


def workers(subject: Any) -> alt.LayerChart:
    """Draw the quality of workers, the share of right answers, with its 95% interval.

    Up to 25 workers have a row each, the best first. More are points: quality against number of answers.

    Parameters
    ----------
    subject : Answers, data frame of answers, fitted model or run
        Answers alone are judged by the most frequent ones. A run marks flagged workers.

    Examples
    --------
    >>> import crowdwise as cw
    >>> chart = cw.plots.workers(cw.DawidSkene().fit(cw.simulate.simulate(200, n_workers=8)))
    >>> len(chart.data.values), sorted(chart.data.values[0])[:3]
    (8, ['answers', 'flag', 'quality'])
    """
    table = subject.tables.workers if is_run(subject) else _quality(subject)
    cells = table.take(np.argsort(-table.column("answers").to_numpy(), kind="stable")[:MOST]).to_pylist()
    names = distinct((row["worker"] for row in cells), 80)
    numbers = ("answers", "quality", "quality_low", "quality_high")
    rows = [
        {"worker": name, **{key: row[key] for key in numbers}, "why": flag_of(row) or "",
         "flag": "flagged" if flag_of(row) else "worker"}
        for name, row in zip(names, cells, strict=True) if row["answers"] and row["quality"] is not None
    ]  # fmt: skip
    rows.sort(key=lambda row: -row["quality"])
    kinds = {"worker": ("circle", ACCENT), "flagged": ("cross", WARM)}
    shown = [kind for kind in kinds if any(row["flag"] == kind for row in rows)]
    legend = alt.Legend() if len(shown) > 1 else None
    base = new_chart(rows, "Quality of workers with 95% intervals").encode(
        color=colour("flag", {kind: kinds[kind][1] for kind in shown}).legend(legend),
        tooltip=[
            tip("worker"), tip("answers", format=","), tip("quality", format=".1%"),
            tip("quality_low", "from", ".1%"), tip("quality_high", "to", ".1%"), tip("why", "flag"),
        ],
    )  # fmt: skip
    scale = alt.Scale(domain=shown, range=[kinds[kind][0] for kind in shown])
    shape = alt.Shape("flag:N", scale=scale, title=None, legend=legend)
    points = base.mark_point(filled=True, size=70, opacity=0.75).encode(shape=shape)
    if len(rows) <= NAMED:
        quality = along(alt.X, "quality", "share of right answers", "%", domain=[0, 1])
        spans = base.mark_rule(strokeWidth=3, opacity=0.4).encode(x="quality_low:Q", x2="quality_high:Q")
        layers = alt.layer(spans, points.encode(x=quality)).encode(y=alt.Y("worker:N", sort=None, title=None))
        return sized(layers, 40 + 18 * len(rows))
    quality = along(alt.Y, "quality", "share of right answers", "%", domain=[0, 1])
    spans = base.mark_rule(strokeWidth=1, opacity=0.35).encode(y="quality_low:Q", y2="quality_high:Q")
    answers = along(alt.X, "answers", "answers given", "~s", type="log", nice=False, padding=12)
    return sized(alt.layer(spans, points.encode(y=quality)).encode(x=answers), 260)


def confusion(subject: Any, worker: Any = None, truth: Any = None) -> alt.LayerChart:
    """Draw how often a worker gives which answer to tasks of each class.

    The numbers are answers; the class of a task counts with its probability. Each row is coloured by its shares.

    Parameters
    ----------
    subject : Answers, data frame of answers, fitted model or run
        Answers alone need known truth.
    worker : worker id, optional
        The default is all workers together.
    truth : as in `Answers.with_truth`, optional
        Known labels to compare with, in place of those of the model.
    """
    answers, codes, proba = labels_of(subject)
    if truth is not None or codes is None or proba is None:
        known = known_codes(answers, truth, "the confusion of answers")
        proba = (known[:, None] == np.arange(answers.n_classes)).astype(float)  # rows of zeros where unknown
    rows = np.arange(answers.n_answers) if worker is None else _rows_of(answers, worker)
    task, label, k = answers.task[rows], answers.label[rows], answers.n_classes
    counts = np.stack([np.bincount(label, proba[task, c], k) for c in range(k)])  # (classes, labels)
    weight = counts.sum(axis=0) + counts.sum(axis=1)
    shown = np.sort(np.argsort(-weight, kind="stable")[:CLASSES])
    names = distinct(answers.classes[shown].tolist(), 40)
    total = np.maximum(counts.sum(axis=1), 1e-12)
    cells = [
        {"truth": names[i], "said": names[j], "n": float(counts[c, said]), "share": float(counts[c, said] / total[c]),
         "right": "right" if c == said else "wrong"}
        for i, c in enumerate(shown) for j, said in enumerate(shown)
    ]  # fmt: skip
    who = "all workers" if worker is None else f"worker {worker}"
    chart = matrix(cells).properties(title=alt.Title(who, anchor="start"))
    return chart.properties(width=44 * len(names), height=44 * len(names))


def matrix(cells: Rows) -> Any:
    """Draw a confusion matrix; `report.js` fills in the data of the worker who was clicked."""
    said = alt.Axis(labelAngle=-40, labelLimit=90, orient="top", domain=False)
    base = new_chart(cells, "Confusion matrix").encode(
        x=alt.X("said:N", sort=None, title="worker's answer", axis=said),
        y=alt.Y("truth:N", sort=None, title="most likely truth", axis=alt.Axis(labelLimit=110)),
        tooltip=[tip("truth"), tip("said", "answer"), tip("n", "answers", ",.1f"), tip("share", "of row", ".0%")],
    )
    squares = base.mark_rect(cornerRadius=4, stroke=PAPER, strokeWidth=2).encode(
        color=colour("right", {"right": ACCENT, "wrong": WARM}).legend(None),
        fillOpacity=alt.FillOpacity("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.04, 0.95])),
    )
    words = base.transform_filter("datum.n >= 0.5").mark_text(fontSize=11)
    ink = alt.condition("datum.share > 0.55", alt.value(PAPER), alt.value(INK))
    return alt.layer(squares, words.encode(text=alt.Text("n:Q", format=",.0f"), color=ink))


def _rows_of(answers: Answers, worker: Any) -> Array:
    """Return the rows of a worker's answers."""
    found = np.flatnonzero(answers.workers == worker)
    if len(found) != 1:
        message = f"no worker {worker!r} among {answers.n_workers:,} workers, such as {answers.workers[0]!r}."
        raise UnknownIdError(message)
    return np.flatnonzero(answers.worker == found[0])


def _quality(subject: Any) -> pa.Table:
    """Return the table of workers of a fitted model; answers alone are judged by majority vote."""
    answers, codes, proba = labels_of(subject)
    if codes is None or proba is None:
        return worker_table(MajorityVote().fit(answers))
    if isinstance(subject, TruthModel):
        return worker_table(subject)
    count = np.diff(answers.worker_starts)  # (workers,)
    expected = np.bincount(answers.worker, proba[answers.task, answers.label], answers.n_workers)
    agreed = np.bincount(answers.worker, answers.label == codes[answers.task], answers.n_workers)
    low, high = peer_interval(answers, proba, expected, agreed)
    return pa.table({"worker": answers.worker_ids, "answers": count, "quality": ratio_column(expected, count),
                     "quality_low": low, "quality_high": high})  # fmt: skip
