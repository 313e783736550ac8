"""Charts of accuracy against the number of answers."""

from __future__ import annotations

from typing import Any

import altair as alt
import pyarrow as pa

from crowdwise.acquire.replays import mean_curve
from crowdwise.errors import ParameterError
from crowdwise.plots.drawing import ACCENT, DASHED, MUTED, WARM, along, colour, new_chart, sized, tip
from crowdwise.plots.subjects import Rows, is_run


def budget(subject: Any) -> alt.LayerChart:
    """Draw the share of right labels against the number of answers.

    Parameters
    ----------
    subject : run, or table of `acquire.replay`
        A run shows one method with parts of its answers, expected and (with known truth) measured, and continues with
        the forecast if that is of the same method. A replay shows the mean of each strategy over seeds, with a band of
        one standard error.

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(60, n_workers=6, n_classes=2, answers_per_task=3, seed=0)
    >>> chart = cw.plots.budget(cw.acquire.replay(answers, step=0.25, seeds=[0, 1]))
    >>> [layer.mark.type for layer in chart.layer]
    ['area', 'line']
    """
    if not is_run(subject):
        return _strategies(subject)
    metrics = subject.metrics
    method = curve_method(metrics)
    ahead = metrics["forecast"] if method == metrics["method"] else []
    return _curve(metrics["curve"], ahead, metrics["summary"]["n_answers"], method)


def forecast(subject: Any) -> alt.LayerChart:
    """Draw the share of right labels of a run that is expected after buying the proposed answers.

    Parameters
    ----------
    subject : run
    """
    if not is_run(subject):
        message = f"{type(subject).__name__} is no run, and only runs have a forecast."
        raise ParameterError(message)
    metrics = subject.metrics
    truth, have = metrics["truth"], metrics["summary"]["n_answers"]
    now = {"answers": have, "expected": metrics["expected_accuracy"], "accuracy": truth and truth["accuracy"]}
    return _curve([now], metrics["forecast"], have, metrics["method"])


def curve_method(metrics: dict[str, Any]) -> str:
    """Return the method of the accuracies with fewer answers."""
    return str(metrics.get("curve_method") or metrics["method"])


def _curve(curve: Rows, forecast: Rows, have: int, method: str) -> alt.LayerChart:
    """Draw accuracy of one method with a part of the answers, and its forecast with more."""
    if not curve and not forecast:
        message = "this run has neither accuracies with fewer answers nor a forecast."
        raise ParameterError(message)
    lines = {
        "expected": [(each["answers"], each["expected"]) for each in curve],
        "measured": [(each["answers"], each["accuracy"]) for each in curve if each["accuracy"] is not None],
        "forecast": [(have + each["bought"], each["expected"]) for each in forecast],
    }
    rows = [{"of": kind, "answers": answers, "right": right} for kind, line in lines.items() for answers, right in line]
    colours = {kind: shade for kind, shade in zip(lines, (ACCENT, WARM, MUTED), strict=True) if lines[kind]}
    base = new_chart(rows, f"Share of right labels of {method} against number of answers").encode(
        x=along(alt.X, "answers", "answers", "~s", zero=False),
        y=along(alt.Y, "right", "share of right labels", "%", zero=False),
        color=colour("of", colours),
        tooltip=[tip("of", "figure"), tip("answers", format=","), tip("right", "labels right", ".1%")],
    )
    known = base.transform_filter("datum.of != 'forecast'")
    ahead = base.transform_filter("datum.of == 'forecast'").mark_line(strokeDash=DASHED)
    layers = [
        *([known.mark_line(), known.mark_circle(size=60, opacity=1)] if curve else []),
        *([ahead] if forecast else []),
    ]
    return sized(alt.layer(*layers), 260)


def _strategies(table: Any) -> alt.LayerChart:
    """Draw the mean accuracy of each strategy of a replay, with a band of one standard error over seeds."""
    if not isinstance(table, pa.Table) or "strategy" not in table.column_names:
        message = f"{type(table).__name__} has no accuracies by number of answers: pass a run, or a table of replay."
        raise ParameterError(message)
    rows = [
        {**row, "low": row["accuracy"] - (row["error"] or 0.0), "high": row["accuracy"] + (row["error"] or 0.0)}
        for row in mean_curve(table).to_pylist()
    ]
    base = new_chart(rows, "Accuracy of the labels against number of answers").encode(
        x=along(alt.X, "answers", "answers", "~s", zero=False), color=alt.Color("strategy:N", title=None, sort=None)
    )
    band = base.mark_area(opacity=0.2).encode(y="low:Q", y2="high:Q")
    line = base.mark_line(point=True).encode(
        y=along(alt.Y, "accuracy", "share of right labels", "%", zero=False),
        tooltip=[tip("strategy"), tip("answers", format=","), tip("accuracy", "labels right", ".1%")],
    )
    return sized(alt.layer(band, line), 260)
