"""The charts, as Vega-Lite specifications that `report.js` draws.

Field names are fixed. User-written text is only ever a value, so no class name can break a specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from crowdwise.report.theme import ACCENT, DASHED, INK, MUTED, PAPER, QUIET, WARM

Spec = dict[str, Any]
Rows = list[dict[str, Any]]

CLASSES = 15  # maximum number of classes in the chart of class balance
MIN_TASKS = 5  # bins with fewer tasks are not drawn


def balance(classes: Sequence[str], series: dict[str, Sequence[float]]) -> Spec:
    """Shares of the largest classes, one bar per series."""
    largest = sorted(range(len(classes)), key=lambda c: -max(shares[c] for shares in series.values()))[:CLASSES]
    rows = [{"class": classes[c], "of": of, "share": shares[c]} for c in largest for of, shares in series.items()]
    chart = _chart(rows, "Share of each class").mark_bar()
    chart = chart.encode(
        y=alt.Y("class:N", sort=None, title=None),
        yOffset=alt.YOffset("of:N", sort=None),
        x=_along(alt.X, "share", "share", "%"),
        color=_colour("of", dict(zip(series, (MUTED, ACCENT, WARM), strict=False))),
        tooltip=[_tip("class"), _tip("of", "among"), _tip("share", format=".1%")],
    )
    return _spec(chart, 20 + 11 * len(rows) + 8 * len(largest))


def histogram(
    edges: Sequence[float], counts: Sequence[int], what: str, mark: float | None = None, height: int = 240
) -> Spec:
    """Number of tasks per bin, with a line at `mark`."""
    rows = [{"low": low, "high": high, "n": n} for low, high, n in zip(edges, edges[1:], counts, strict=False)]
    bars = _chart(rows, f"Tasks by {what}").mark_rect(xOffset=1, x2Offset=-1, color=ACCENT, cornerRadius=2)
    bars = bars.encode(
        x=_along(alt.X, "low", what, "%", domain=[0, 1]),
        x2="high:Q",
        y=_along(alt.Y, "n", "tasks", "~s"),
        y2=alt.datum(0),
        tooltip=[_tip("low", "from", ".0%"), _tip("high", "to", ".0%"), _tip("n", "tasks", ",")],
    )
    return _spec(bars if mark is None else alt.layer(bars, _line_at(mark)), height)


def reliability(named: dict[str, Rows]) -> Spec:
    """Accuracy against confidence; points on the diagonal are calibrated. The last series is that of the labels."""
    rows = [{"of": of, **one} for of, bins in named.items() for one in bins if one["count"]]
    rows = [row for row in rows if row["count"] >= MIN_TASKS] or rows
    colours = dict(zip(reversed(named), (ACCENT, MUTED), strict=False))
    base = _chart(rows, "Share of right labels against confidence").encode(
        x=_along(alt.X, "confidence", "confidence", "%", domain=[0, 1]),
        y=_along(alt.Y, "accuracy", "share of right labels", "%", domain=[0, 1]),
        color=_colour("of", {of: colours[of] for of in named}),
        tooltip=[
            _tip("of", "figure"), _tip("confidence", format=".1%"), _tip("accuracy", "right", ".1%"),
            _tip("count", "tasks", ","),
        ],
    )  # fmt: skip
    diagonal = _chart([{"at": 0}, {"at": 1}]).mark_line(strokeDash=DASHED, strokeWidth=1, color=QUIET)
    points = base.mark_circle(opacity=0.9).encode(
        size=alt.Size("count:Q", legend=None, scale=alt.Scale(range=[25, 260]))
    )
    return _spec(alt.layer(diagonal.encode(x="at:Q", y="at:Q"), base.mark_line(), points), 240)


def against_vote(methods: Rows) -> Spec:
    """Lead of each method over majority vote at predicting held-out answers, with its standard error."""
    rows = []
    for each in sorted(methods, key=lambda each: -each["to_vote"]):
        lead, error = each["to_vote"], each["to_vote_error"] or 0
        chosen = "chosen" if each["chosen"] else "other"
        rows.append(
            {"name": each["name"], "chosen": chosen, "lead": lead, "low": lead - error, "high": lead + error}
        )  # fmt: skip
    base = _chart(rows, "Lead of each method over majority vote").encode(
        y=alt.Y("name:N", sort=None, title=None),
        color=_colour("chosen", {"chosen": ACCENT, "other": MUTED}).legend(None),
        tooltip=[
            _tip("name", "method"), _tip("lead", format="+.4f"), _tip("low", "from", "+.4f"), _tip("high", "to", "+.4f")
        ],
    )  # fmt: skip
    x = _along(
        alt.X, "low", "how much better than majority vote it predicts answers (log-likelihood per answer)", "+.2~f"
    )
    span = base.mark_rule(strokeWidth=3, opacity=0.5).encode(x=x, x2="high:Q")
    points = base.mark_circle(size=110, opacity=1).encode(x="lead:Q")
    return _spec(alt.layer(_line_at(0), span, points), 60 + 30 * len(rows))


def crowd(workers: dict[str, list[Any]]) -> Spec:
    """One point per worker: quality against number of answers."""
    keys = ("worker", "answers", "quality", "quality_low", "quality_high", "flag")
    cells = zip(*(workers[key] for key in keys), strict=True)
    rows = [dict(zip(keys, each, strict=True)) for each in cells if each[1] and each[2] is not None]
    rows = [row | {"why": row["flag"] or "", "flag": "flagged" if row["flag"] else "worker"} for row in rows]
    chart = _chart(rows, "Quality of workers against number of answers").mark_point(filled=True, size=70, opacity=0.75)
    chart = chart.encode(
        x=_along(alt.X, "answers", "answers given", "~s", type="log", nice=False, padding=12),
        y=_along(alt.Y, "quality", "quality", "%", domain=[0, 1]),
        color=_colour("flag", {"worker": ACCENT, "flagged": WARM}),
        shape=alt.Shape("flag:N", scale=alt.Scale(domain=["worker", "flagged"], range=["circle", "cross"])),
        tooltip=[
            _tip("worker"), _tip("answers", format=","), _tip("quality", format=".1%"),
            _tip("quality_low", "from", ".1%"), _tip("quality_high", "to", ".1%"), _tip("why", "flag"),
        ],
    )  # fmt: skip
    return _spec(chart, 260)


def confusion() -> Spec:
    """A confusion matrix without data: `report.js` fills in the data of the worker who was clicked."""
    said = alt.Axis(labelAngle=-40, labelLimit=90, orient="top", domain=False)
    base = _chart([], "Confusion matrix of this worker").encode(
        x=alt.X("said:N", sort=None, title="worker's answer", axis=said),
        y=alt.Y("truth:N", sort=None, title="most likely truth", axis=alt.Axis(labelLimit=110)),
        tooltip=[_tip("truth"), _tip("said", "answer"), _tip("n", "answers", ",.1f"), _tip("share", "of row", ".0%")],
    )
    cells = base.mark_rect(cornerRadius=4, stroke=PAPER, strokeWidth=2).encode(
        color=_colour("right", {"right": ACCENT, "wrong": WARM}).legend(None),
        fillOpacity=alt.FillOpacity("share:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=[0.04, 0.95])),
    )
    words = base.transform_filter("datum.n >= 0.5").mark_text(fontSize=11)
    ink = alt.condition("datum.share > 0.55", alt.value(PAPER), alt.value(INK))
    return _spec(alt.layer(cells, words.encode(text=alt.Text("n:Q", format=",.0f"), color=ink)), 300)


def self_training(history: Rows) -> Spec:
    """Class imbalance of the training answers after each iteration."""
    rows = [{"iteration": each["iteration"], "R": each["R"], "added": each.get("added")} for each in history]
    chart = _chart(rows, "Class imbalance after each iteration").mark_line(point={"size": 70, "color": ACCENT})
    chart = chart.encode(
        x=alt.X("iteration:Q", title="iteration", axis=alt.Axis(tickMinStep=1, format="d")),
        y=_along(alt.Y, "R", "class imbalance", ".1f", zero=False),
        tooltip=[_tip("iteration", format="d"), _tip("R", "imbalance", ".2f"), _tip("added", "answers added", ",")],
    )
    return _spec(chart, 220)


def shared_mistakes(groups: Rows) -> Spec:
    """How strongly mistakes coincide, for all pairs of workers and within each group."""
    chart = _chart(groups, "How strongly mistakes of workers coincide").mark_bar()
    chart = chart.encode(
        y=alt.Y("group:N", sort=None, title=None),
        x=_along(alt.X, "rho", "mistakes in common", "%", domainMin=0, domainMax=1, clamp=True),
        color=_colour("kind", {"others": MUTED, "group": WARM}).legend(None),
        tooltip=[_tip("group", "workers"), _tip("rho", "in common", ".0%")],
    )
    return _spec(chart, 20 + 34 * len(groups))


def budget(curve: Rows, forecast: Rows, have: int, method: str) -> Spec:
    """Accuracy of one method with a part of the answers, and its forecast with more."""
    lines = {
        "expected": [(each["answers"], each["expected"]) for each in curve],
        "measured": [(each["answers"], each["accuracy"]) for each in curve if each["accuracy"] is not None],
        "forecast": [(have + each["bought"], each["expected"]) for each in forecast],
    }
    rows = [{"of": kind, "answers": answers, "right": right} for kind, line in lines.items() for answers, right in line]
    colours = {kind: colour for kind, colour in zip(lines, (ACCENT, WARM, MUTED), strict=True) if lines[kind]}
    base = _chart(rows, f"Share of right labels of {method} against number of answers").encode(
        x=_along(alt.X, "answers", "answers", "~s", zero=False),
        y=_along(alt.Y, "right", "share of right labels", "%", zero=False),
        color=_colour("of", colours),
        tooltip=[_tip("of", "figure"), _tip("answers", format=","), _tip("right", "labels right", ".1%")],
    )
    known = base.transform_filter("datum.of != 'forecast'")
    ahead = base.transform_filter("datum.of == 'forecast'").mark_line(strokeDash=DASHED)
    layers = [
        *([known.mark_line(), known.mark_circle(size=60, opacity=1)] if curve else []),
        *([ahead] if forecast else []),
    ]
    return _spec(alt.layer(*layers), 260)


def _chart(rows: Rows, description: str | None = None) -> alt.Chart:
    chart = alt.Chart(alt.InlineData(values=rows))
    return chart.properties(description=description) if description else chart


def _along(channel: Any, field: str, title: str, format: str, **scale: Any) -> Any:
    """A numeric axis."""
    axis = alt.Axis(format=format, tickCount=5)
    return channel(f"{field}:Q", title=title, axis=axis, scale=alt.Scale(**scale))


def _colour(field: str, colours: dict[str, str]) -> alt.Color:
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), sort=None)


def _tip(field: str, title: str | None = None, format: str | None = None) -> alt.Tooltip:
    """A line of a tooltip: a text, or a number if a format is given."""
    title = title or field
    return alt.Tooltip(f"{field}:Q", title=title, format=format) if format else alt.Tooltip(f"{field}:N", title=title)


def _line_at(place: float) -> alt.Chart:
    return _chart([{"at": place}]).mark_rule(strokeDash=DASHED).encode(x="at:Q")


def _spec(chart: Any, height: int) -> Spec:
    """The specification, as wide as its container, without the parts that all charts share.

    The tests validate every chart against the schema of Vega-Lite: here it would take half the time of a report.
    """
    spec = chart.properties(width="container", height=height).to_dict(validate=False)
    return {key: part for key, part in spec.items() if key not in ("config", "$schema")}
