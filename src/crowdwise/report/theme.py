"""The look of charts. Colours are CSS variables of `report.css`, so light, dark and print share one drawing."""

from __future__ import annotations

from typing import Any

from crowdwise.plots import drawing

LINE = "var(--line)"
# CSS variables by the colours of `crowdwise.plots`.
VARIABLES = {
    drawing.ACCENT: "var(--accent)", drawing.MUTED: "var(--muted)", drawing.WARM: "var(--warm)",
    drawing.INK: "var(--ink)", drawing.QUIET: "var(--quiet)", drawing.PAPER: "var(--paper)",
}  # fmt: skip
ACCENT, INK, QUIET = (VARIABLES[colour] for colour in (drawing.ACCENT, drawing.INK, drawing.QUIET))

CONFIG: dict[str, Any] = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif",
    "autosize": {"type": "fit-x", "contains": "padding"},
    "view": {"stroke": None},
    "axis": {
        "labelColor": QUIET, "titleColor": QUIET, "gridColor": LINE, "domainColor": LINE, "ticks": False,
        "domain": False, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 400, "labelLimit": 150,
        "titlePadding": 10, "labelPadding": 6, "labelOverlap": "greedy", "labelSeparation": 8,
    },
    "axisX": {"grid": False, "domain": True, "labelFlush": False},
    "legend": {
        "labelColor": INK, "labelFontSize": 12, "labelLimit": 220, "orient": "top", "offset": 8, "title": None,
        "symbolType": "circle", "symbolSize": 90,
    },
    "text": {"color": INK, "fontSize": 12},
    "bar": {"color": ACCENT, "cornerRadiusEnd": 3},
    "line": {"strokeWidth": 2.5, "color": ACCENT},
    "rule": {"color": QUIET},
}  # fmt: skip
