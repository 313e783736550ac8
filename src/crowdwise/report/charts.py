"""The charts of the page: those of `crowdwise.plots`, as specifications that `report.js` draws.

Colours become CSS variables of `report.css`, so light, dark and print share one drawing. The look that all charts
share is `theme.CONFIG`.
"""

from __future__ import annotations

from typing import Any

from crowdwise.plots.answers_bought import budget, curve_method, forecast
from crowdwise.plots.comparison import compared, methods
from crowdwise.plots.crowd import matrix, workers
from crowdwise.plots.drawing import Chart
from crowdwise.plots.labels import agreement, balance, calibration_bins, confidence, reliability
from crowdwise.plots.mistakes import correlations, shared_mistakes
from crowdwise.plots.training import self_training
from crowdwise.report.source import RunSource
from crowdwise.report.theme import VARIABLES

Spec = dict[str, Any]

TALLEST = 360  # pixels of the chart beside that of class balance


def chart_specs(run: RunSource) -> dict[str, Spec]:
    """Return the charts for which there is data."""
    metrics = run.metrics
    specs = {"balance": spec(balance(run)), "agreement": spec(agreement(run)), "confidence": spec(confidence(run))}
    specs["agreement"]["height"] = min(specs["balance"]["height"], TALLEST)
    if any(quality is not None for quality in run.tables.workers.column("quality").to_pylist()):
        specs["crowd"] = spec(workers(run))
    if calibration_bins(metrics["calibration"]):
        specs["reliability"] = spec(reliability(run))
    if compared(metrics):
        specs["methods"] = spec(methods(run))
    if metrics["history"]:
        specs["history"] = spec(self_training(run))
    if correlations(metrics):
        specs["shared"] = spec(shared_mistakes(run))
    other = curve_method(metrics) != metrics["method"]  # then the forecast is a chart of its own
    if metrics["curve"] or (metrics["forecast"] and not other):
        specs["budget"] = spec(budget(run))
    if metrics["forecast"] and other:
        specs["forecast"] = spec(forecast(run))
    return specs


def confusion_spec() -> Spec:
    """Return a confusion matrix without data: `report.js` fills in the data of the worker who was clicked."""
    return spec(matrix([]))


def spec(chart: Chart) -> Spec:
    """Return a specification as wide as its container, without the parts that all charts share.

    The tests validate every chart against the schema of Vega-Lite: here it would take half the time of a report.
    """
    whole: Spec = _themed(chart.properties(width="container").to_dict(validate=False))
    return {key: part for key, part in whole.items() if key not in ("config", "$schema")}


def _themed(part: Any) -> Any:
    """Return a part of a specification with CSS variables as colours; data is left as it is."""
    if isinstance(part, dict):
        return {key: value if key in ("data", "datasets", "domain") else _themed(value) for key, value in part.items()}
    if isinstance(part, list):
        return [_themed(value) for value in part]
    return VARIABLES.get(part, part) if isinstance(part, str) else part
