"""The parts that charts share: colours, axes, tooltips.

Field names are fixed. User-written text is only ever a value, so no class name can break a specification.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from crowdwise.plots.subjects import Rows

Chart = alt.Chart | alt.LayerChart

# The report replaces these colours by CSS variables (`report.charts`), so that they follow its light or dark theme.
ACCENT, MUTED, WARM, INK = "#2f54c8", "#aab2c0", "#c8661b", "#1d2129"
QUIET, PAPER = "#5d6573", "#ffffff"
DASHED = [4, 4]
WIDTH = 480


def new_chart(rows: Rows, description: str | None = None) -> alt.Chart:
    """Return a chart of these rows, still without marks."""
    chart = alt.Chart(alt.InlineData(values=rows))
    return chart.properties(description=description) if description else chart


def sized(chart: Any, height: int) -> Any:
    """Return the chart with a size."""
    return chart.properties(width=WIDTH, height=height)


def along(channel: Any, field: str, title: str, format: str, **scale: Any) -> Any:
    """Return a numeric axis."""
    axis = alt.Axis(format=format, tickCount=5)
    return channel(f"{field}:Q", title=title, axis=axis, scale=alt.Scale(**scale))


def colour(field: str, colours: dict[str, str]) -> alt.Color:
    """Return the colours of these values."""
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    return alt.Color(f"{field}:N", scale=scale, sort=None, title=None)


def tip(field: str, title: str | None = None, format: str | None = None) -> alt.Tooltip:
    """Return a line of a tooltip: a text, or a number if a format is given."""
    title = title or field
    return alt.Tooltip(f"{field}:Q", title=title, format=format) if format else alt.Tooltip(f"{field}:N", title=title)


def line_at(place: float) -> alt.Chart:
    """Return a dashed vertical line."""
    return new_chart([{"at": place}]).mark_rule(strokeDash=DASHED, color=QUIET).encode(x="at:Q")
