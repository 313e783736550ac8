"""The first screen: how good the labels are, how we know, what to do, and who to talk to.

Runs of earlier versions have no `trust` in metrics.json. They get the same four answers, with less in them.
"""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from crowdwise._core.display import percent, pluralise
from crowdwise.report.source import RunSource
from crowdwise.report.text import count, short, unchecked_reason

WORKERS = 5  # workers named on the first screen
FEW_ANSWERS = 5  # a worker with fewer is not named: their quality is hardly known
INDEPENDENT = "This assumes that workers err independently of each other."
UNSEEN = (
    "Mistakes that most workers share cannot be seen in the answers: only gold labels or known truth can show them."
)


def first_screen(run: RunSource) -> dict[str, Any]:
    """Return the four answers, as plain data for the template."""
    metrics = run.metrics
    return {
        "good": how_good(metrics),
        "known": how_known(metrics),
        "actions": what_to_do(metrics),
        "people": who_to_talk_to(run),
    }


def how_good(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures: their subject, the figures, and a remark, which says what an expected figure assumes.

    Expected and measured figures are shown side by side, equally large.
    """
    truth, trust = metrics["truth"], metrics.get("trust") or {}
    shown = [_figures("All labels", _all_labels(metrics), _remark(metrics))]
    if accepted := metrics["counts"]["accept"]:
        right = {"expected right": percent(metrics["expected_accepted"])}
        remark = "on the same assumption" if trust.get("basis") != "none" else "not checked either"
        if truth and truth["accepted_accuracy"] is not None:
            right["measured"] = percent(truth["accepted_accuracy"])
            remark = f"measured on {pluralise(truth['accepted_tasks'], 'task')}; expected {remark}"
        shown.append(_figures(f"The {count(accepted)} accepted", right, remark))
    return shown


def _all_labels(metrics: dict[str, Any]) -> dict[str, str]:
    """Figures of all labels: a range where answers cannot tell, then what was measured."""
    truth, trust = metrics["truth"], metrics.get("trust") or {}
    if spread := trust.get("range"):
        figures = {
            "if workers share mistakes as much as they appear to": percent(spread["low"], 0),
            "if they share none": percent(spread["high"], 0),
        }
    else:
        figures = {"expected right": percent(metrics["expected_accuracy"])}
    if gold := (trust.get("estimates") or {}).get("accuracy"):
        figures["estimated from gold"] = percent(gold["value"])
    if truth:
        figures["measured"] = percent(truth["accuracy"])
    return figures


def _remark(metrics: dict[str, Any]) -> str:
    """Intervals of measured figures, and what the expected figure assumes."""
    truth, trust = metrics["truth"], metrics.get("trust") or {}
    parts = []
    if gold := (trust.get("estimates") or {}).get("accuracy"):
        parts.append(f"From {pluralise(gold['n_gold'], 'gold label')}: {_interval(gold)} (95% interval).")
    if truth:
        parts.append(f"Measured on {pluralise(truth['tasks'], 'task')}: {_interval(truth)} (95% interval).")
    if trust.get("range"):
        parts.append("The answers cannot tell which.")
    return " ".join([*parts, _assumption(metrics)])


def _assumption(metrics: dict[str, Any]) -> str:
    """What the expected accuracy assumes; why it is unchecked, if it is."""
    if assumes := (metrics.get("trust") or {}).get("assumes"):
        return str(assumes)
    reason = unchecked_reason(metrics["summary"], metrics["calibration"]["temperature"], "The expected figure")
    return f"{reason}. {INDEPENDENT}" if reason else INDEPENDENT


def how_known(metrics: dict[str, Any]) -> list[str]:
    """Return what the figures rest on, in sentences; the first says it in short."""
    truth, trust, summary = metrics["truth"], metrics.get("trust") or {}, metrics["summary"]
    n_gold = trust.get("n_gold") or 0
    reason = unchecked_reason(summary, metrics["calibration"]["temperature"], "The expected figure")
    basis = trust.get("basis") or ("none" if reason else "held-out answers")
    words = []
    if truth:
        words.append(f"Measured on {pluralise(truth['tasks'], 'task')} with known truth, which made no label.")
    words.append(
        {
            "gold": f"Confidences were fitted to {pluralise(n_gold, 'gold label')}.",
            "other crowds": "Confidences are those that were right for other crowds with known truth.",
            "held-out answers": "Confidences were calibrated on answers that were hidden from the method.",
        }.get(basis, f"{reason or 'The answers cannot check the expected figure'}.")
    )
    if not truth and not n_gold:
        words.append(UNSEEN)
    per_task = f", {summary['per_task']['mean']:.1f} per task" if summary["per_task"] else ""
    words.append(
        f"{pluralise(summary['n_tasks'], 'task')}, {pluralise(summary['n_answers'], 'answer')}{per_task}, by "
        f"{pluralise(summary['n_workers'], 'worker')}.{votes_words(trust)}"
    )
    return words


def votes_words(trust: dict[str, Any]) -> str:
    """Return how many independent votes the answers to a task are worth; empty if that was not measured.

    >>> votes_words({"answers_per_task": 33.0, "effective_votes": 5.12})
    ' The 33.0 answers to a task are worth 5.1 independent votes.'
    >>> votes_words({})
    ''
    """
    answers, votes = trust.get("answers_per_task"), trust.get("effective_votes")
    if answers is None or votes is None or answers < 1.05:  # one answer is one vote
        return ""
    return f" The {answers:.1f} answers to a task are worth {votes:.1f} independent votes."


def what_to_do(metrics: dict[str, Any]) -> list[str]:
    """Return what to do beyond the verdicts: warnings first, then gold labels that would settle the accuracy."""
    trust = metrics.get("trust") or {}
    actions = [text for text in metrics["words"] if text.startswith("Warning:")]
    if needed := trust.get("gold_needed"):
        known = "settle the range" if trust.get("range") else "show how many labels are right, within about 5 points"
        if not metrics["truth"]:
            actions.append(f"Label {pluralise(needed, 'task')} yourself (--gold): that would {known}.")
    return actions


def who_to_talk_to(run: RunSource) -> dict[str, Any]:
    """Return the spammers, the worst first; without any, the workers of the lowest quality. Also groups to ask."""
    table = run.workers
    flags = table.column("flag").to_pylist() if "flag" in table.column_names else [None] * table.num_rows
    order = pc.sort_indices(table, [("quality", "ascending"), ("worker", "ascending")]).to_pylist()
    columns = ("worker", "quality", "answers", "spammer", "worst_confusion")
    rows = table.select(columns).to_pylist()
    spam = [row for row in order if rows[row]["spammer"]]
    others = [row for row in order if rows[row]["quality"] is not None and rows[row]["answers"] >= FEW_ANSWERS]
    shown = (spam or others)[: WORKERS if spam else 3]
    people = [
        {
            "worker": short(rows[row]["worker"], 40),
            "quality": percent(rows[row]["quality"], 0),
            "answers": pluralise(rows[row]["answers"], "answer"),
            "why": _why(flags[row], rows[row], spam=bool(spam)),
        }
        for row in shown
    ]
    return {"spam": len(spam), "more": len(spam) - len(people) if spam else 0, "people": people}


def _why(flag: str | None, row: dict[str, Any], *, spam: bool) -> str:
    """Why to talk to this worker."""
    if flag:
        return short(flag, 80)
    if spam:
        return "answers no better than chance"
    confusion = row["worst_confusion"]
    return "confuses " + short(confusion, 80).replace(" -> ", " → ") if confusion else "lowest quality"


def _interval(part: dict[str, Any]) -> str:
    return f"{percent(part['low'])} to {percent(part['high'])}"


def _figures(of: str, figures: dict[str, str], remark: str) -> dict[str, Any]:
    return {"of": of, "figures": figures, "remark": remark}
