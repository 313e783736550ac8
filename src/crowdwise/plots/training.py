"""Charts of what happened in training: the margins of a task's answers, and rounds of self-training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np

from crowdwise._core.display import distinct
from crowdwise.errors import ParameterError, UnknownIdError
from crowdwise.plots.drawing import ACCENT, along, line_at, new_chart, sized, tip
from crowdwise.plots.subjects import Rows, is_run


def margins(model: Any, task: Any = None) -> alt.LayerChart:
    """Draw the area under the margin of each answer to a task; the dashed line is the score of the task.

    A negative margin means that the network did not learn the answer. Faint bars are answers of workers who are
    trusted less; the score is the mean weighted by trust.

    Parameters
    ----------
    model : fitted WAUM, AUM or Pruned, or a run labelled by one
    task : task id, optional
        The default is the most ambiguous task.
    """
    model = model.model if is_run(model) else model
    if not all(hasattr(model, name) for name in ("aum_", "trust_", "scores_")):
        message = f"{type(model).__name__} has no margins: pass a fitted WAUM, AUM or Pruned."
        raise ParameterError(message)
    answers = model.answers_
    found = np.flatnonzero(answers.tasks == task) if task is not None else [int(np.argmin(model.scores_))]
    if len(found) != 1:
        message = f"no task {task!r} among {answers.n_tasks:,} tasks, such as {answers.tasks[0]!r}."
        raise UnknownIdError(message)
    at, span = int(found[0]), slice(*answers.task_starts[found[0] : found[0] + 2])
    names = distinct(answers.workers[answers.worker[span]].tolist(), 40)
    said = distinct(answers.classes.tolist(), 40)
    rows = [
        {"worker": name, "label": said[label], "margin": float(margin), "trust": float(trust)}
        for name, label, margin, trust in zip(
            names, answers.label[span], model.aum_[span], model.trust_[span], strict=True
        )
    ]
    rows.sort(key=lambda row: row["margin"])
    chart = new_chart(rows, "Margins of the answers to a task").mark_bar().encode(
        y=alt.Y("worker:N", sort=None, title=None),
        x=along(alt.X, "margin", "area under the margin", "+.2~f"),
        color=alt.Color("label:N", title="answer"),
        fillOpacity=alt.FillOpacity("trust:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.15, 1])),
        tooltip=[tip("worker"), tip("label", "answer"), tip("margin", format="+.3f"), tip("trust", format=".2f")],
    )  # fmt: skip
    layers = [chart, line_at(float(model.scores_[at]))] if np.isfinite(model.scores_[at]) else [chart]
    title = alt.Title(f"task {answers.tasks[at]}", anchor="start")
    return sized(alt.layer(*layers).properties(title=title), 40 + 22 * len(rows))


def self_training(subject: Any) -> alt.Chart:
    """Draw the class imbalance of the training answers after each iteration of self-training.

    It is the number of answers of the most frequent class over that of the least frequent one.

    Parameters
    ----------
    subject : fitted DASC, or a run that tried it
    """
    history = subject.metrics["history"] if is_run(subject) else _rounds(subject)
    if not history:
        message = (
            f"{type(subject).__name__} has no rounds of self-training: pass a fitted DASC, or a run that tried it."
        )
        raise ParameterError(message)
    rows = [{"iteration": each["iteration"], "R": each["R"], "added": each.get("added")} for each in history]
    chart = new_chart(rows, "Class imbalance after each iteration").mark_line(
        color=ACCENT, point={"size": 70, "color": ACCENT}
    )
    chart = chart.encode(
        x=alt.X("iteration:Q", title="iteration", axis=alt.Axis(tickMinStep=1, format="d")),
        y=along(alt.Y, "R", "class imbalance", ".3~g", zero=False),
        tooltip=[tip("iteration", format="d"), tip("R", "imbalance", ".2f"), tip("added", "answers added", ",")],
    )
    return sized(chart, 220)


def _rounds(model: Any) -> Rows:
    """Return the iterations of a model that trains on its own labels."""
    records = [record for record in getattr(model, "history_", []) if isinstance(record, Mapping)]
    return [
        {"iteration": int(record["iteration"]), "R": float(record["imbalance"]), "added": int(sum(record["chosen"]))}
        for record in records if "imbalance" in record
    ]  # fmt: skip
