"""A figure of an experiment, as SVG: bars with what the paper says and the ceiling, or lines along an axis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.bench.experiments import Experiment, Line
from crowdwise.errors import MissingDependencyError

if TYPE_CHECKING:
    import altair as alt

NAMES = {
    "last": "test accuracy, %", "imbalance": "imbalance R of the answers", "test": "test accuracy, %",
    "accuracy": "pseudo-answers that are right", "precision_majority": "precision, frequent classes",
    "recall_minority": "recall, rare classes", "f1": "macro F1, %", "ece": "calibration error",
    "labels": "training labels right, %", "auc": "area under the ROC curve, %", "roc": "true positive rate",
    "skill": "error of sensitivity and specificity, points", "one_class": "runs with one class, %",
    "ratio": "imbalance R of the answers at last", "validation": "test accuracy, epoch chosen on known labels, %",
}  # fmt: skip


def draw(experiment: Experiment, found: list[Line], path: Path) -> None:
    """Write the figure of these lines to an SVG file."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401 (altair writes SVG through it)
    except ImportError:
        message = "figures need altair and vl-convert-python: pip install 'crowdwise[plots]'."
        raise MissingDependencyError(message) from None
    rows = [{**line, "low": low(line), "high": high(line)} for line in found]
    drawn = [_panel(alt, experiment, [row for row in rows if row["measure"] == m], m) for m in experiment.measures]
    chart = alt.vconcat(*drawn).properties(title=experiment.title).resolve_scale(color="shared")
    chart.save(str(path), format="svg")


def low(line: Line) -> float:
    """Mean less deviation.

    >>> low({"mean": 80.0, "deviation": 1.5}), low({"mean": 80.0, "deviation": None})
    (78.5, 80.0)
    """
    return float(line["mean"] - (line["deviation"] or 0.0))


def high(line: Line) -> float:
    """Mean and deviation."""
    return float(line["mean"] + (line["deviation"] or 0.0))


def _panel(alt: Any, experiment: Experiment, rows: list[Line], measure: str) -> alt.Chart:
    rows = [{**row, "series": series(experiment, row), "panel": str(row["data"]).partition("@")[0]} for row in rows]
    base = alt.Chart(alt.Data(values=rows))
    y = alt.Y("mean:Q", title=NAMES.get(measure, measure), scale=alt.Scale(zero=False))
    if experiment.curve or experiment.axis:
        bright = alt.Legend(symbolOpacity=1)  # the band's is too faint for a key
        colour = alt.Color("series:N", title=None, sort=None, legend=bright)
        x = alt.X("x:Q", title=experiment.axis_title or "iteration")
        layers = base.mark_errorband(opacity=0.15).encode(x, alt.Y("low:Q", title=""), alt.Y2("high:Q"), colour)
        chart = layers + base.mark_line(point=True).encode(x, y, colour)
        size = {"width": 260, "height": 200}
    else:
        x = alt.X("method:N", sort=list(experiment.methods), title=None, axis=alt.Axis(labelAngle=-40, labelLimit=220))
        dots = base.mark_point(filled=True, size=60, color="#1f5fa8").encode(x, y)
        spread = base.mark_rule(color="#1f5fa8").encode(x, alt.Y("low:Q", title=""), alt.Y2("high:Q"))
        paper = base.mark_point(shape="cross", size=50, color="#d1495b").encode(x, alt.Y("paper:Q", title=""))
        ceiling = base.mark_rule(strokeDash=[4, 3], color="#777").encode(alt.Y("mean(ceiling):Q", title=""))
        chart = ceiling + spread + dots + paper
        size = {"width": alt.Step(26), "height": 220}
    facet = alt.Facet("panel:N", title=None, sort=None)
    return chart.properties(**size).facet(facet=facet, columns=3).resolve_scale(y="independent")


def series(experiment: Experiment, row: Line) -> str:
    """Which line a point belongs to: a method along problems, or a problem along methods."""
    return str(row["data"]).partition("@")[0] if row["method"] in experiment.axis else str(row["method"])
