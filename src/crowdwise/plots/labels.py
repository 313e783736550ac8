"""Charts of labels: class balance, agreement, confidence, and accuracy against confidence."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from crowdwise._core.display import distinct
from crowdwise.evaluate.calibration import reliability as reliability_of
from crowdwise.evaluate.distributions import class_balance, histogram
from crowdwise.plots.drawing import (
    ACCENT,
    DASHED,
    MUTED,
    QUIET,
    WARM,
    Chart,
    along,
    colour,
    line_at,
    new_chart,
    sized,
    tip,
)  # fmt: skip
from crowdwise.plots.subjects import Rows, fitted_labels, is_run, known_codes, labels_of
from crowdwise.truth.methods.majority_vote import MajorityVote
from crowdwise.truth.tables import label_columns

CLASSES = 15  # maximum number of classes in the chart of class balance
MIN_TASKS = 5  # bins with fewer tasks are not drawn


def balance(subject: Any, truth: Any = None) -> alt.Chart:
    """Draw the shares of the largest classes among the answers, the labels and the known truth.

    Parameters
    ----------
    subject : Answers, data frame of answers, fitted model or run
    truth : as in `Answers.with_truth`, optional
        Known labels; by default those of the answers or the run.

    Examples
    --------
    >>> import crowdwise as cw
    >>> chart = cw.plots.balance(cw.MajorityVote().fit(cw.simulate.simulate(100, n_classes=2)))
    >>> [row["of"] for row in chart.data.values[:3]]
    ['answers', 'labels', 'known truth']
    """
    if is_run(subject) and truth is None:
        shares = subject.metrics["balance"]
    else:
        answers, codes, _ = labels_of(subject)
        shares = class_balance(answers, codes, answers.truth if truth is None else answers.codes_of_truth(truth))
    series = {"answers": shares["answered"], "labels": shares["inferred"], "known truth": shares["truth"]}
    series = {name: values for name, values in series.items() if values}
    classes = distinct(shares["classes"])
    largest = sorted(range(len(classes)), key=lambda c: -max(values[c] for values in series.values()))[:CLASSES]
    rows = [{"class": classes[c], "of": of, "share": values[c]} for c in largest for of, values in series.items()]
    colours = {"answers": MUTED, "labels": ACCENT, "known truth": WARM}
    chart = new_chart(rows, "Share of each class").mark_bar()
    chart = chart.encode(
        y=alt.Y("class:N", sort=None, title=None),
        yOffset=alt.YOffset("of:N", sort=None),
        x=along(alt.X, "share", "share", "%"),
        color=colour("of", {of: colours[of] for of in series}),
        tooltip=[tip("class"), tip("of", "among"), tip("share", format=".1%")],
    )
    return sized(chart, 20 + 11 * len(rows) + 8 * len(largest))


def agreement(subject: Any) -> Chart:
    """Draw how many tasks have which share of answers that equal the label.

    Parameters
    ----------
    subject : Answers, data frame of answers, fitted model or run
        The label of answers alone is the most frequent one.
    """
    if is_run(subject):
        return _histogram("agreement", subject.metrics["agreement"])
    answers, codes, proba = labels_of(subject)
    if codes is None or proba is None:
        vote = MajorityVote().fit(answers)
        codes, proba = vote.codes_, vote.proba_
    shares = label_columns(answers, proba, codes)["agreement"].to_numpy(zero_copy_only=False)
    return _histogram("agreement", histogram(shares.astype(float)))


def confidence(subject: Any) -> Chart:
    """Draw how many tasks have which confidence, the probability of their label.

    Parameters
    ----------
    subject : fitted model or run
        A run has a line at the confidence from which labels are accepted.
    """
    if is_run(subject):
        mark = subject.metrics["verdict_rules"].get("accept")
        return _histogram("confidence", subject.metrics["confidence"], mark)
    _, codes, proba = fitted_labels(subject, "confidence")
    return _histogram("confidence", histogram(proba[np.arange(len(codes)), codes]))


def reliability(subject: Any, truth: Any = None) -> alt.LayerChart:
    """Draw accuracy against confidence; points on the diagonal are calibrated.

    Parameters
    ----------
    subject : fitted model or run
    truth : as in `Answers.with_truth`, optional
        Known labels; by default those of the answers or the run.
    """
    if is_run(subject) and truth is None:
        named = calibration_bins(subject.metrics["calibration"])
    else:
        answers, codes, proba = fitted_labels(subject, "reliability")
        known = known_codes(answers, truth, "reliability")
        at = np.flatnonzero(known >= 0)
        found = reliability_of(proba[at, codes[at]], codes[at] == known[at])
        bins = zip(found.confidence.tolist(), found.accuracy.tolist(), found.count.tolist(), strict=True)
        named = {"confidence": [dict(zip(("confidence", "accuracy", "count"), each, strict=True)) for each in bins]}
    if not named:
        known_codes(subject.answers, None, "reliability")
    rows = [{"of": of, **one} for of, bins in named.items() for one in bins if one["count"]]
    rows = [row for row in rows if row["count"] >= MIN_TASKS] or rows
    colours = dict(zip(reversed(named), (ACCENT, MUTED), strict=False))  # the last series is that of the labels
    base = new_chart(rows, "Share of right labels against confidence").encode(
        x=along(alt.X, "confidence", "confidence", "%", domain=[0, 1]),
        y=along(alt.Y, "accuracy", "share of right labels", "%", domain=[0, 1]),
        color=colour("of", {of: colours[of] for of in named}),
        tooltip=[
            tip("of", "figure"), tip("confidence", format=".1%"), tip("accuracy", "right", ".1%"),
            tip("count", "tasks", ","),
        ],
    )  # fmt: skip
    diagonal = new_chart([{"at": 0}, {"at": 1}]).mark_line(strokeDash=DASHED, strokeWidth=1, color=QUIET)
    points = base.mark_circle(opacity=0.9).encode(
        size=alt.Size("count:Q", legend=None, scale=alt.Scale(range=[25, 260]))
    )
    return sized(alt.layer(diagonal.encode(x="at:Q", y="at:Q"), base.mark_line(), points), 240)


def calibration_bins(calibration: dict[str, Any]) -> dict[str, Rows]:
    """Return the bins of a run to draw, by name; there is no before if the confidence is the method's own."""
    if calibration["before"] == calibration["after"]:
        parts = {"confidence": calibration["after"]}
    else:
        parts = {"before calibration": calibration["before"], "after calibration": calibration["after"]}
    return {name: part["bins"] for name, part in parts.items() if part}


def _histogram(what: str, bins: dict[str, list[float]], mark: float | None = None) -> Chart:
    """Draw the number of tasks per bin, with a line at `mark`."""
    edges = bins["edges"]
    rows = [{"low": low, "high": high, "n": n} for low, high, n in zip(edges, edges[1:], bins["counts"], strict=False)]
    bars = new_chart(rows, f"Tasks by {what}").mark_rect(xOffset=1, x2Offset=-1, color=ACCENT, cornerRadius=2)
    bars = bars.encode(
        x=along(alt.X, "low", what, "%", domain=[0, 1]),
        x2="high:Q",
        y=along(alt.Y, "n", "tasks", "~s"),
        y2=alt.datum(0),
        tooltip=[tip("low", "from", ".0%"), tip("high", "to", ".0%"), tip("n", "tasks", ",")],
    )
    return sized(bars if mark is None else alt.layer(bars, line_at(mark)), 240)
