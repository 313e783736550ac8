"""The section "Do workers make the same mistakes?": how many votes answers are worth, who errs together, what to do."""

from __future__ import annotations

from typing import Any

from crowdwise._core.display import pluralise
from crowdwise.report.first_screen import votes_words
from crowdwise.report.text import distinct, short

GROUPS, MEMBERS = 5, 8  # groups shown, and names shown per group
FEW_VOTES = 0.8  # below this share of independent votes, answers are called dependent


def shared_mistakes(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return the answer in words, the groups of workers, and what to do."""
    trust = metrics.get("trust") or {}
    families = trust.get("families") or []
    groups = [{**_names(family["workers"]), "rho": family["rho"]} for family in families[:GROUPS]]
    pairs = [
        {**_names(group["workers"]), "agreement": group["agreement"], "expected": group["expected"]}
        for group in (metrics.get("alike") or [])[:GROUPS]
    ]
    return {
        "words": _words(trust),
        "families": groups,
        "more_families": max(len(families) - GROUPS, 0),
        "alike": pairs,
        "more_alike": max(len(metrics.get("alike") or []) - GROUPS, 0),
        "advice": _advice(metrics, trust, grouped=bool(groups or pairs)),
    }


def correlations(trust: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of the chart: all pairs of workers, then each group; none without groups."""
    families = (trust.get("families") or [])[:GROUPS]
    if not families or trust.get("background_rho") is None:
        return []
    names = distinct(_line(family["workers"], 3) for family in families)
    rows = [{"group": name, "rho": each["rho"], "kind": "group"} for name, each in zip(names, families, strict=True)]
    return [{"group": "all other pairs", "rho": trust["background_rho"], "kind": "others"}, *rows]


def _words(trust: dict[str, Any]) -> str:
    votes = votes_words(trust).strip()
    if not votes:
        return "The answers of this run do not say how many mistakes workers share."
    few = trust["effective_votes"] < FEW_VOTES * trust["answers_per_task"]
    answer = "Yes: workers err together." if trust.get("strong") else "Somewhat." if few else "Hardly."
    unsure = " Two explanations fit the answers equally well, so no group is named." if trust.get("ambiguous") else ""
    return f"{answer} {votes}{unsure}"


def _advice(metrics: dict[str, Any], trust: dict[str, Any], *, grouped: bool) -> list[str]:
    advice = []
    if grouped:
        advice.append("Ask these workers how they answer: they may copy, share an account or use the same tool.")
        advice.append("For new answers, prefer workers outside these groups: answers within a group add little.")
    if trust.get("strong") and not trust.get("n_gold") and not metrics["truth"]:
        needed = trust.get("gold_needed")
        some = pluralise(needed, "task") if needed else "some tasks"
        advice.append(f"Label {some} yourself and pass them with --gold: only this shows how much mistakes matter.")
    return advice


def _names(workers: list[Any]) -> dict[str, Any]:
    return {
        "names": ", ".join(short(worker, 40) for worker in workers[:MEMBERS]), "more": max(len(workers) - MEMBERS, 0)
    }  # fmt: skip


def _line(workers: list[Any], most: int) -> str:
    more = f" and {len(workers) - most} more" if len(workers) > most else ""
    return ", ".join(short(worker, 20) for worker in workers[:most]) + more
