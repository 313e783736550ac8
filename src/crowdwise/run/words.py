"""What the figures of a run mean, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdwise.ambiguity.ranking import Ranked
from crowdwise.choose import Choice
from crowdwise.choose.choosing import VOTE
from crowdwise.run.labels import CHEAP, HOPELESS, Disagreement

NAMED = 5  # workers of a group that are named


def verdict_words(accept: float) -> dict[str, str]:
    """What each verdict means."""
    return {
        "accept": f"Use the label as it is: it is at least {accept:.0%} sure.",
        "review": f"Somebody who knows should look: more than {CHEAP} further answers would be needed.",
        "needs more answers": f"Up to {CHEAP} further answers should settle it.",
        "hopeless": f"Among the {HOPELESS:.0%} most ambiguous tasks, and its workers contradict each other: mend the "
        "question or leave the task out.",
    }  # fmt: skip


def headline(metrics: Mapping[str, Any], why: str) -> list[str]:
    """The run in a few sentences."""
    counts, truth = metrics["counts"], metrics["truth"]
    n_tasks = sum(counts.values())
    words = [f"About {metrics['expected_accuracy']:.0%} of the {n_tasks:,} labels are expected to be right."]
    if truth is not None:
        words.append(
            f"Of {truth['tasks']:,} tasks of known truth {truth['accuracy']:.1%} are labelled right "
            f"({truth['low']:.1%} to {truth['high']:.1%}); majority vote gets {truth['vote_accuracy']:.1%}."
        )
    sure = metrics["expected_accepted"]
    expected = "" if sure is None else f" (expected {sure:.1%} right)"
    words.append(
        f"{counts['accept']:,} can be used as they are{expected}; "
        f"{counts['needs more answers']:,} need a few more answers, "
        f"{counts['review']:,} should be reviewed, {counts['hopeless']:,} are hopeless."
    )
    if metrics["spammers"]:
        words.append(f"Workers whose answers tell next to nothing: {metrics['spammers']:,} (see workers.csv).")
    if groups := metrics["alike"]:
        first = groups[0]
        names = ", ".join(first["workers"][:NAMED]) + (", ..." if len(first["workers"]) > NAMED else "")
        more = f" ({len(groups) - 1:,} more such groups)" if len(groups) > 1 else ""
        words.append(
            f"{names} agree with each other on {first['agreement']:.0%} of their tasks, where {first['expected']:.0%} "
            f"is to be expected{more}: they may share mistakes, and then labels are less sure than they seem."
        )
    return [*words, why]


def why(choice: Choice | None, best: str, told: str | None) -> tuple[str, bool]:
    """Why this method, and whether it beats majority vote by more than its error."""
    if choice is None:
        if told is None:
            return "Too few tasks have two answers to choose a method by: the labels are majority vote's.", False
        return f"{told} was asked for; too few tasks have two answers to check it against majority vote.", False
    entry = next(entry for entry in choice.entries if entry.candidate == best)
    lead, error = entry.to_vote, entry.to_vote_error
    beats = best != VOTE and lead is not None and error is not None and lead > error
    if told is None:
        n_others = len(choice.scores) - 1
        if best == VOTE or not beats or not n_others:
            return choice.words, beats
        words = (
            f"The labels are {best}'s: of {n_others + 1} methods it predicts answers it has not seen best, or no worse "
            f"than what is more complicated ({lead:+.3f} ± {error:.3f} nats an answer against majority vote)."
        )
        return words, beats
    if best == VOTE:
        return "Majority vote was asked for.", beats
    if lead is None:
        return f"{best} was asked for; it could not be compared with majority vote.", beats
    verdict = "held-out answers support it over majority vote" if beats else "it does NOT beat majority vote"
    return f"{best} was asked for; {verdict} ({lead:+.4f} ± {error:.4f} nats an answer).", beats


def calibration_words(temperature: float | None) -> str:
    """What was done to the confidence of the model."""
    if temperature is None:
        return "Confidence is the model's own: too few answers could be held out to check it."
    way = "less" if temperature > 1 else "more"
    if abs(temperature - 1) < 0.02:
        return "Held-out answers agree with how sure the model is: its confidence is taken as it is."
    return f"Held-out answers speak for labels {way} sure than the model's: temperature {temperature:.2f}."


def ambiguity_words(ranked: Ranked) -> dict[str, str]:
    """How the tasks were ranked."""
    if isinstance(ranked, Disagreement):
        return {"by": "answers", "words": "Tasks are ranked by how much trusted workers contradict each other."}
    words = "Tasks are ranked by WAUM: how hard it was for a network to learn what trusted workers said of them."
    return {"by": "waum", "words": words}
