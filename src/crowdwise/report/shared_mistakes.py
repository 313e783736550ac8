"""The section "Do workers make the same mistakes?": how many votes answers are worth, who errs together, what to do."""

from __future__ import annotations

from typing import Any

from crowdwise._core.display import percent, pluralise, short
from crowdwise.plots.mistakes import GROUPS
from crowdwise.report.text import tell_dependence

MEMBERS = 12  # names shown per group
FEW_VOTES = 0.8  # below this share of independent votes, answers are called dependent
CONFIDENCE = {
    "gold": "The confidence of the labels was checked on gold labels, which shared mistakes cannot deceive.",
    "other crowds": "The confidence of the labels allows for it: answers that repeat each other are not counted as "
    "further evidence.",
    "held-out answers": "The confidence of the labels was checked on hidden answers, which repeat shared mistakes. If "
    "there are any, it is too high.",
    "none": "The confidence of the labels does not allow for it.",
}


def shared_mistakes(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in words, the groups of workers, what it means for the confidence, and what to do."""
    trust = metrics.get("trust") or {}
    families = trust.get("families") or []
    groups = [
        {
            "names": ", ".join(short(worker, 40) for worker in family["workers"][:MEMBERS]),
            "more": max(len(family["workers"]) - MEMBERS, 0),
            "rho": family["rho"],
        }
        for family in families[:GROUPS]
    ]
    return {
        "answer": _answer(metrics, trust),
        "votes": votes_words(trust) if tell_dependence(metrics["summary"]) else "",
        "confidence": CONFIDENCE.get(trust.get("basis") or "", ""),
        "headline": _headline(trust),
        "families": groups,
        "more_families": max(len(families) - GROUPS, 0),
        "advice": _advice(metrics, trust),
    }


def votes_words(trust: dict[str, Any]) -> str:
    """Return how many independent votes the answers to a task are worth; empty if that was not measured.

    >>> votes_words({"answers_per_task": 33.0, "effective_votes": 5.12})
    'The 33.0 answers to a task are worth about 5.1 independent votes.'
    >>> votes_words({})
    ''
    """
    answers, votes = trust.get("answers_per_task"), trust.get("effective_votes")
    if answers is None or votes is None or answers < 1.05:  # one answer is one vote
        return ""
    if votes > 0.98 * answers:
        return f"The {answers:.1f} answers to a task count as {answers:.1f} independent votes."
    return f"The {answers:.1f} answers to a task are worth about {votes:.1f} independent votes."


def _answer(metrics: dict[str, Any], trust: dict[str, Any]) -> str:
    agreement, votes = metrics["summary"]["agreement"], trust.get("effective_votes")
    if agreement is None:
        return "The answers cannot show it: no task has answers of two workers."
    if not tell_dependence(metrics["summary"]):
        how = "workers agree on every task" if agreement == 1 else "too few answers differ"
        return f"The answers cannot show it: {how}, so nobody can be seen to err together."
    if votes is None:
        return "This was not measured."
    few = votes < FEW_VOTES * trust["answers_per_task"]
    if trust.get("strong"):
        answer = "Yes, it appears so: workers agree more often than their accuracy explains."
    elif trust["families"]:
        answer = "Some do."
    else:
        answer = "Perhaps a little." if few else "There is no sign of it in the answers."
    if trust.get("ambiguous"):
        answer += " The answers do not show who, so nobody is named."
    return answer


def _headline(trust: dict[str, Any]) -> str:
    """What the headline assumes about shared mistakes."""
    if spread := trust.get("range"):
        low, high = percent(spread["low"], 0), percent(spread["high"], 0)
        return (
            f"The headline gives a range: {low} of the labels are expected to be right if workers share mistakes as "
            f"much as they appear to, {high} if they share none. The answers cannot tell which."
        )
    assumes = str(trust.get("assumes") or "")
    return f"The headline rests on an assumption. {assumes}" if assumes.startswith("This assumes") else ""


def _advice(metrics: dict[str, Any], trust: dict[str, Any]) -> list[str]:
    advice = []
    if trust.get("families"):
        advice.append("Ask these workers how they answer: they may copy, share an account or use the same tool.")
        advice.append("For new answers, prefer workers outside these groups: more answers within a group add little.")
    if trust.get("range") and not metrics["truth"]:
        needed = trust["gold_needed"]
        advice.append(
            f"Label {pluralise(needed, 'task')} yourself (“crowdwise next --gold {needed}” chooses them), and pass "
            "them with --gold: only this shows how much mistakes matter."
        )
    return advice
