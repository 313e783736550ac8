"""Draw an experiment as SVG: dots with the published numbers and the ceiling, or lines along an axis."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from crowdwise.errors import MissingDependencyError
from reproduction.experiments import Experiment, Line
from reproduction.formatting import plain, series

if TYPE_CHECKING:
    import altair as alt

NAMES = {
    "last": "test accuracy, %", "imbalance": "imbalance R of the answers", "test": "test accuracy, %",
    "accuracy": "accuracy of pseudo-answers", "precision_majority": "precision, frequent classes",
    "recall_minority": "recall, rare classes", "f1": "macro F1, %", "ece": "calibration error",
    "labels": "training labels right, %", "auc": "area under the ROC curve, %", "roc": "true positive rate",
    "skill": "error of sensitivity and specificity, points", "one_class": "runs with one class, %",
    "ratio": "imbalance R of the answers at the end", "validation": "test accuracy, epoch chosen on known labels, %",
}  # fmt: skip


def draw(experiment: Experiment, found: list[Line], path: Path) -> None:
    """Write the figure of these lines to an SVG file."""
    try:
        import altair as alt
        import vl_convert  # noqa: F401 (altair writes SVG through it)
    except ImportError:
        message = "figures need altair and vl-convert-python. Install them: pip install 'crowdwise[plots]'."
        raise MissingDependencyError(message) from None
    as_lines = experiment.curve or bool(experiment.axis)
    panel = _lines if as_lines else _dots
    panels: list[list[alt.Chart]] = []  # rows of the figure
    for measure in experiment.measures:
        rows = [{**line, "low": low(line), "high": high(line)} for line in found if line["measure"] == measure]
        data = [name for name in dict.fromkeys(map(plain, experiment.problems)) if any(_of(name, rows))]
        columns = 3 if as_lines else 5
        for i in range(0, len(data), columns):
            row = data[i : i + columns]
            panels.append([panel(alt, experiment, _of(name, rows), measure, first=name == row[0]) for name in row])
    title = alt.Title(experiment.title, subtitle=key(experiment, found), anchor="start", offset=12)
    alt.vconcat(*(alt.hconcat(*row) for row in panels)).properties(title=title).save(str(path), format="svg")


def key(experiment: Experiment, found: list[Line]) -> str:
    """Explain the marks that the figure has."""
    if experiment.curve or experiment.axis:
        return "Means over seeds; bands: one deviation either way"
    marks = ["Dots and lines: mean over seeds, one deviation either way"]
    marks += ["red crosses: the paper"] * any(line.get("paper") is not None for line in found)
    marks += ["dashed: trained on the truth"] * any(line.get("ceiling") is not None for line in found)
    return "; ".join(marks)


def low(line: Line) -> float:
    """Return mean minus deviation.

    >>> low({"mean": 80.0, "deviation": 1.5}), low({"mean": 80.0, "deviation": None})
    (78.5, 80.0)
    """
    return float(line["mean"] - (line["deviation"] or 0.0))


def high(line: Line) -> float:
    """Return mean plus deviation."""
    return float(line["mean"] + (line["deviation"] or 0.0))


def _of(data: str, rows: list[Line]) -> list[Line]:
    return [row for row in rows if plain(row["data"]) == data]


def _lines(alt: Any, experiment: Experiment, rows: list[Line], measure: str, *, first: bool) -> alt.Chart:
    """One curve per method along an axis, or one for the data set along methods."""
    base = alt.Chart(alt.Data(values=[{**row, "series": series(experiment, row)} for row in rows]))
    by_data = any(method in experiment.axis for method in experiment.methods)
    names = list(dict.fromkeys(map(plain, experiment.problems))) if by_data else list(experiment.methods)
    bright = alt.Legend(symbolOpacity=1, labelLimit=300)  # that of the band is too faint for a legend
    colour = alt.Color("series:N", title=None, scale=alt.Scale(domain=names), legend=bright)
    ticks = alt.Axis() if experiment.axis_title else alt.Axis(tickMinStep=1)
    x = alt.X("x:Q", title=experiment.axis_title or "iteration", axis=ticks)
    y = alt.Y("mean:Q", title=NAMES.get(measure, measure) if first else None, scale=alt.Scale(zero=False))
    band = base.mark_errorband(opacity=0.15).encode(x, alt.Y("low:Q", title=""), alt.Y2("high:Q"), colour)
    curve = base.mark_line(point=True).encode(x, y, colour)
    return (band + curve).properties(title=plain(rows[0]["data"]), width=260, height=200)


def _dots(alt: Any, experiment: Experiment, rows: list[Line], measure: str, *, first: bool) -> alt.Chart:
    """One dot per method, one below another; names at the first panel of a row."""
    base = alt.Chart(alt.Data(values=rows))
    names = alt.Axis(labelLimit=300) if first else None
    y = alt.Y("method:N", title=None, axis=names, scale=alt.Scale(domain=list(experiment.methods)))
    x = alt.X(
        "mean:Q", title=NAMES.get(measure, measure), scale=alt.Scale(zero=False, padding=8), axis=alt.Axis(tickCount=5)
    )
    layers = [
        base.mark_rule(color="#1f5fa8").encode(y, alt.X("low:Q", title=""), alt.X2("high:Q")),
        base.mark_point(filled=True, opacity=1, size=50, color="#1f5fa8").encode(y, x),
    ]
    if any(row.get("paper") is not None for row in rows):
        cross = base.mark_point(shape="cross", angle=45, filled=True, opacity=1, size=60, color="#d1495b")
        layers.append(cross.encode(y, alt.X("paper:Q", title="")))
    if (ceiling := rows[0].get("ceiling")) is not None:
        dashed = alt.Chart(alt.Data(values=[{"ceiling": ceiling}])).mark_rule(strokeDash=[4, 3], color="#777")
        layers.insert(0, dashed.encode(alt.X("ceiling:Q", title="")))
    return alt.layer(*layers).properties(title=plain(rows[0]["data"]), width=170, height=alt.Step(18))
