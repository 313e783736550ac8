"""The first screen: how good the labels are, how we know, what to do, and who to talk to.

Runs of earlier versions have no `trust` in metrics.json. They get the same four answers, with less in them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise._core.display import percent, pluralise, short
from crowdwise.report.source import RunSource
from crowdwise.report.text import count, unchecked_reason
from crowdwise.report.who_to_talk_to import who_to_talk_to

FEW_TASKS = 50  # as many can all be checked by one person
INDEPENDENT = "This assumes that workers err independently: mistakes that most workers share cannot be seen."
BASIS = {
    "gold": "The confidence of the labels was checked on the gold labels, each predicted without knowing it.",
    "other crowds": "The confidence of the labels was learned from other crowds, whose truth is known. It was not "
    "checked on this one.",
    "held-out answers": "The confidence of the labels was checked on answers that were hidden from the method.",
}


def first_screen(run: RunSource) -> dict[str, Any]:
    """Return the title and the four answers, as plain data for the template."""
    metrics = run.metrics
    return {
        "title": title(metrics),
        "good": how_good(metrics),
        "known": how_known(metrics),
        "actions": what_to_do(metrics),
        "people": who_to_talk_to(run),
    }


def title(metrics: dict[str, Any]) -> str:
    """Return the answer in one line: measured on known truth, estimated from gold, or expected."""
    truth, trust = metrics["truth"], metrics.get("trust") or {}
    n_tasks = sum(metrics["counts"].values())
    labels = "the only label" if n_tasks == 1 else f"the {n_tasks:,} labels"
    if truth:
        return f"{percent(truth['accuracy'])} of the labels are right on {_tasks(truth['tasks'])} with known truth"
    if gold := (trust.get("estimates") or {}).get("accuracy"):
        return f"About {percent(gold['value'], 0)} of {labels} are right, by {_gold(gold['n_gold'])}"
    if spread := trust.get("range"):
        low, high = percent(spread["low"], 0), percent(spread["high"], 0)
        return f"Between {low} and {high} of {labels} are expected to be right"
    expected = percent(metrics["expected_accuracy"], 0)
    if n_tasks == 1:
        return f"The only label is about {expected} likely to be right"
    guess = ", which is a guess" if _basis(metrics) == "none" else ""
    return f"About {expected} of {labels} are expected to be right{guess}"


def how_good(metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the figures: their subject, the figures, and a remark, which says what an expected figure assumes.

    Expected and measured figures are shown side by side, equally large.
    """
    truth = metrics["truth"]
    shown = [_figures("All labels", _all_labels(metrics), _remark(metrics))]
    n_gold = (metrics.get("trust") or {}).get("n_gold", 0)
    accepted, besides = metrics["counts"]["accept"] - n_gold, " besides the gold labels" if n_gold else ""
    if accepted <= 0:
        return [*shown, _figures(f"No label{besides} is sure enough to be accepted", {}, "")]
    right = {"expected right": percent(metrics["expected_accepted"])}
    remark = "Not checked either." if _basis(metrics) == "none" else "On the same assumption."
    if truth and truth["accepted_accuracy"] is not None:
        right["measured"] = percent(truth["accepted_accuracy"])
        remark = f"Measured on {_tasks(truth['accepted_tasks'])}."
    subject = "The accepted label" if accepted == 1 else f"The {count(accepted)} accepted labels"
    subject += besides
    return [*shown, _figures(subject, right, remark)]


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
    if truth:
        parts.append(
            f"Measured on {_tasks(truth['tasks'])}: {_interval(truth)} (95% interval); majority vote "
            f"{percent(truth['vote_accuracy'])}."
        )
    if gold := (trust.get("estimates") or {}).get("accuracy"):
        parts.append(f"Estimated from {_gold(gold['n_gold'])}: {_interval(gold)} (95% interval).")
    if trust.get("range"):
        return " ".join([*parts, "The answers cannot tell which."])
    assumes = _assumption(metrics)
    return " ".join([*parts, f"Expected: {assumes[0].lower()}{assumes[1:]}" if parts else assumes])


def _assumption(metrics: dict[str, Any]) -> str:
    """What the expected accuracy assumes, or why it is unchecked."""
    if _basis(metrics) == "none":
        return _unchecked(metrics)
    return str((metrics.get("trust") or {}).get("assumes") or INDEPENDENT)


def _unchecked(metrics: dict[str, Any]) -> str:
    reason = unchecked_reason(metrics["summary"], metrics["calibration"]["temperature"], "This")
    few = " With so few tasks, it is a rough guess." if sum(metrics["counts"].values()) < FEW_TASKS else ""
    return f"{reason or 'The answers cannot check this'}.{few}"


def _basis(metrics: dict[str, Any]) -> str:
    """What the confidence rests on; runs of earlier versions only say whether it was checked on held-out answers."""
    if basis := (metrics.get("trust") or {}).get("basis"):
        return str(basis)
    return "none" if unchecked_reason(metrics["summary"], metrics["calibration"]["temperature"]) else "held-out answers"


def how_known(metrics: dict[str, Any]) -> list[str]:
    """Return what the figures rest on, in sentences."""
    truth, trust, summary = metrics["truth"], metrics.get("trust") or {}, metrics["summary"]
    n_gold = trust.get("n_gold") or 0
    words = []
    if truth:
        words.append(f"They were measured on {_tasks(truth['tasks'])} with known truth, which nothing else uses.")
    if n_gold:
        words.append(f"{_gold(n_gold).capitalize()} {'is' if n_gold == 1 else 'are'} used as labels and as evidence.")
    words.append(BASIS.get(_basis(metrics), f"{_unchecked(metrics)}"))
    if not truth and not n_gold:
        words.append("Nobody has checked these labels. Mistakes that most workers share cannot be seen in the answers.")
    per_task = f", {summary['per_task']['mean']:.1f} per task" if summary["per_task"] else ""
    words.append(
        f"There are {_tasks(summary['n_tasks'])} and {pluralise(summary['n_answers'], 'answer')}{per_task}, by "
        f"{pluralise(summary['n_workers'], 'worker')}."
    )
    return words


def what_to_do(metrics: dict[str, Any]) -> list[str]:
    """Return what to do beyond the verdicts: warnings first, then gold labels that would settle the accuracy."""
    trust = metrics.get("trust") or {}
    actions = [text for text in metrics["words"] if text.startswith("Warning:")]
    needed, n_tasks = trust.get("gold_needed"), sum(metrics["counts"].values())
    if not needed or metrics["truth"]:
        return actions
    if n_tasks <= FEW_TASKS:
        labels = "this label" if n_tasks == 1 else f"these {n_tasks} labels"
        return [*actions, f"Check {labels} yourself, and pass what you find with --gold."]
    if trust.get("range"):
        return [*actions, f"Label {_tasks(needed)} yourself. {_chosen(needed)} They would settle the range."]
    more = f" {needed:,} would give the share of right labels within 5 points." if needed > FEW_TASKS else ""
    return [*actions, f"Label {FEW_TASKS} tasks yourself. {_chosen(FEW_TASKS)} They would check these figures.{more}"]


def _chosen(n_gold: int) -> str:
    return f"“crowdwise next --gold {n_gold}” chooses them."


def _interval(part: dict[str, Any]) -> str:
    return " to ".join(percent(float(np.clip(round(part[end], 12), 0, 1))) for end in ("low", "high"))


def _tasks(number: int) -> str:
    return pluralise(number, "task")


def _gold(number: int) -> str:
    return pluralise(number, "gold label")


def _figures(of: str, figures: dict[str, str], remark: str) -> dict[str, Any]:
    return {"of": short(of), "figures": figures, "remark": remark}
