"""Charts that compare methods."""

from __future__ import annotations

from typing import Any

import altair as alt

from crowdwise.choose import Benchmark, Choice
from crowdwise.choose.benchmark_table import TITLES, Measure
from crowdwise.errors import ParameterError
from crowdwise.plots.drawing import ACCENT, MUTED, along, colour, line_at, new_chart, sized, tip
from crowdwise.plots.subjects import Rows, is_run

LIKELIHOOD = "how much better than majority vote it predicts answers (log-likelihood per answer)"


def methods(subject: Any, measure: Measure | None = None) -> alt.LayerChart:
    """Draw the lead of each method over majority vote, with one standard error to each side.

    Parameters
    ----------
    subject : result of `choose` or `bench`, or run
        The lead is in predicting held-out answers.
    measure : {"accuracy", "balanced_accuracy", "log_likelihood"}, optional
        What to draw of the result of `bench`: by default accuracy, or the log-likelihood if no truth is known.
    """
    if isinstance(subject, Benchmark):
        name = measure or subject.measure
        rows = [
            {"name": row.method, "to_vote": getattr(row, f"{name}_to_vote"),
             "to_vote_error": getattr(row, f"{name}_to_vote_error"), "chosen": False}
            for row in subject.ranked(name) if row.failure is None
        ]  # fmt: skip
        rows[0]["chosen"] = True
        likelihood = name == "log_likelihood"
        title = LIKELIHOOD if likelihood else f"lead over majority vote in {TITLES[name]}"
        return leads(rows, title, "+.2~f" if likelihood else "+.1~%")
    if measure is not None:
        message = f"measure={measure!r}: only results of bench have several measures."
        raise ParameterError(message)
    if is_run(subject):
        rows = compared(subject.metrics)
    elif isinstance(subject, Choice):
        rows = [
            {"name": entry.candidate, "to_vote": entry.to_vote, "to_vote_error": entry.to_vote_error,
             "chosen": entry.candidate == subject.best_}
            for entry in subject.entries if entry.to_vote is not None
        ]  # fmt: skip
    else:
        message = f"{type(subject).__name__} compares no methods: pass the result of choose or bench, or a run."
        raise ParameterError(message)
    if not rows:
        message = "no methods were compared with majority vote."
        raise ParameterError(message)
    return leads(rows, LIKELIHOOD, "+.2~f")


def compared(metrics: dict[str, Any]) -> Rows:
    """Return the methods of a run that were compared with majority vote; none if there is only the vote."""
    rows = [each for each in metrics["methods"] if each["to_vote"] is not None]
    return rows if len(rows) > 1 else []


def leads(methods: Rows, title: str, format: str) -> alt.LayerChart:
    """Draw `to_vote` plus and minus `to_vote_error` of each method, the largest first."""
    rows = []
    for each in sorted(methods, key=lambda each: -each["to_vote"]):
        lead, error = each["to_vote"], each["to_vote_error"] or 0
        chosen = "chosen" if each["chosen"] else "other"
        rows.append({"name": each["name"], "chosen": chosen, "lead": lead, "low": lead - error, "high": lead + error})
    base = new_chart(rows, "Lead of each method over majority vote").encode(
        y=alt.Y("name:N", sort=None, title=None),
        color=colour("chosen", {"chosen": ACCENT, "other": MUTED}).legend(None),
        tooltip=[
            tip("name", "method"), tip("lead", format="+.4f"), tip("low", "from", "+.4f"), tip("high", "to", "+.4f")
        ],
    )  # fmt: skip
    span = base.mark_rule(strokeWidth=3, opacity=0.5).encode(x=along(alt.X, "low", title, format), x2="high:Q")
    points = base.mark_circle(size=110, opacity=1).encode(x="lead:Q")
    return sized(alt.layer(line_at(0), span, points), 60 + 30 * len(rows))
