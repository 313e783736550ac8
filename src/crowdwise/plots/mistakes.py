"""Charts of mistakes that workers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from crowdwise._core.display import distinct, short
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.plots.drawing import ACCENT, MUTED, PAPER, WARM, along, colour, new_chart, sized, tip
from crowdwise.plots.subjects import Rows, is_run, labels_of
from crowdwise.trust import Dependence
from crowdwise.trust import dependence as measure

GROUPS = 5  # groups shown
PAIRED = 30  # workers in the chart of pairs: those with most answers


def shared_mistakes(subject: Any) -> alt.Chart:
    """Draw how strongly mistakes coincide, within each group of workers and for all other pairs.

    0% if two workers err independently, 100% if they always err together.

    Parameters
    ----------
    subject : result of `trust.dependence`, Answers, data frame of answers, fitted model or run
    """
    if is_run(subject):
        rows = correlations(subject.metrics)
        if not rows:
            message = "this run found no group of workers who make the same mistakes."
            raise ParameterError(message)
    else:
        found = _measured(subject)
        families = [(family.workers.tolist(), family.rho) for family in found.families]
        rows = _rows(families, found.background_rho)
    chart = new_chart(rows, "How strongly mistakes of workers coincide").mark_bar()
    chart = chart.encode(
        y=alt.Y("group:N", sort=None, title=None),
        x=along(alt.X, "rho", "mistakes in common", "%", domainMin=0, domainMax=1, clamp=True),
        color=colour("kind", {"others": MUTED, "group": WARM}).legend(None),
        tooltip=[tip("group", "workers"), tip("rho", "in common", ".0%")],
    )
    return sized(chart, 20 + 34 * len(rows))


def dependence(subject: Any) -> alt.Chart:
    """Draw which pairs of workers make the same mistakes, beyond those that all workers share.

    Groups of workers who do are next to each other. A pair with few tasks in common has no square.

    Parameters
    ----------
    subject : result of `trust.dependence`, Answers, data frame of answers, fitted model or run
        Of more than 30 workers, those with most answers are drawn.
    """
    found = _measured(subject)
    answers: Answers = found._answers
    busy = np.argsort(-np.diff(answers.worker_starts), kind="stable")[:PAIRED]
    last = len(found.families)
    family = found.worker_family[busy]
    shown = busy[np.lexsort((busy, np.where(family < 0, last, family)))].tolist()
    names = dict(zip(answers.workers[shown].tolist(), distinct(answers.workers[shown].tolist(), 30), strict=True))
    rows = []
    for pair in found.pair_table().to_pylist():
        if pair["worker"] in names and pair["other"] in names:
            one, other = names[pair["worker"]], names[pair["other"]]
            rest = {"excess": pair["excess"], "common": pair["common_tasks"], "kind": "group" if pair["family"] else ""}
            rows += [{"worker": one, "other": other, **rest}, {"worker": other, "other": one, **rest}]
    order = [name for name in names.values() if any(row["worker"] == name for row in rows)]
    if not order:
        message = "no two workers have enough tasks in common: pass more answers, or of other workers."
        raise ParameterError(message)
    scale = alt.Scale(domain=[-1, 0, 1], range=[ACCENT, PAPER, WARM], interpolate="lab")
    chart = new_chart(rows, "Mistakes that pairs of workers have in common").mark_rect(stroke=PAPER)
    chart = chart.encode(
        x=alt.X("worker:N", scale=alt.Scale(domain=order), title=None, axis=alt.Axis(labelAngle=-40)),
        y=alt.Y("other:N", scale=alt.Scale(domain=order), title=None),
        color=alt.Color("excess:Q", scale=scale, title="mistakes in common", legend=alt.Legend(format="%")),
        tooltip=[
            tip("worker"), tip("other", "and"), tip("excess", "in common", "+.0%"), tip("common", "tasks", ","),
            tip("kind", "same group"),
        ],
    )  # fmt: skip
    size = 60 + 18 * len(order)
    return chart.properties(width=size, height=size)


def correlations(metrics: dict[str, Any]) -> Rows:
    """Return the rows of `shared_mistakes` for the metrics of a run; none without groups."""
    trust = metrics.get("trust") or {}
    families = trust.get("families") or []
    if not families or trust.get("background_rho") is None:
        return []
    return _rows([(family["workers"], family["rho"]) for family in families], trust["background_rho"])


def _rows(families: Sequence[tuple[list[Any], float]], background: float) -> Rows:
    """Return a row per group, and one of all other pairs."""
    names = distinct(_line(number, workers) for number, (workers, _) in enumerate(families[:GROUPS], 1))
    rows = [{"group": name, "rho": rho, "kind": "group"} for name, (_, rho) in zip(names, families, strict=False)]
    return [*rows, {"group": "all other pairs" if rows else "all pairs", "rho": background, "kind": "others"}]


def _line(number: int, workers: list[Any]) -> str:
    """Name a group by its place in the list, its first member and its size.

    >>> _line(1, ["gpt-4", "gpt-4o", "gpt-5"])
    '1: gpt-4 and 2 more'
    """
    return f"{number}: {short(workers[0], 16)} and {len(workers) - 1} more"


def _measured(subject: Any) -> Dependence:
    return subject if isinstance(subject, Dependence) else measure(labels_of(subject).answers)
