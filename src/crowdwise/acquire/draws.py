"""Chart of accuracy against answers bought."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from crowdwise._core.installation import install_command
from crowdwise.acquire.replays import mean_curve
from crowdwise.errors import MissingDependencyError


def draw(table: pa.Table) -> Any:
    """Draw the records of `replay`: mean accuracy per strategy, with a band of one standard error over seeds.

    Returns
    -------
    altair.Chart
        Displayed in a notebook; `.save("curve.html")` writes a page.

    Examples
    --------
    >>> from crowdwise import simulate
    >>> from crowdwise.acquire import draw, replay
    >>> answers = simulate.simulate(60, n_workers=6, n_classes=2, answers_per_task=3, seed=0)
    >>> chart = draw(replay(answers, step=0.25, seeds=[0, 1]))
    >>> [layer.mark.type for layer in chart.layer]
    ['area', 'line']
    """
    try:
        import altair as alt
    except ImportError:
        message = f"drawing needs altair: {install_command('plots')}."
        raise MissingDependencyError(message) from None
    rows = [
        {**row, "low": row["accuracy"] - (row["error"] or 0.0), "high": row["accuracy"] + (row["error"] or 0.0)}
        for row in mean_curve(table).to_pylist()
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("answers:Q", title="answers", scale=alt.Scale(zero=False)), color=alt.Color("strategy:N", title=None)
    )
    accuracy = alt.Y("accuracy:Q", title="accuracy of the labels", scale=alt.Scale(zero=False))
    band = base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", title="accuracy of the labels"), y2="high:Q")
    tooltip = [alt.Tooltip("strategy:N"), alt.Tooltip("answers:Q"), alt.Tooltip("accuracy:Q", format=".3f")]
    return band + base.mark_line(point=True).encode(y=accuracy, tooltip=tooltip)
