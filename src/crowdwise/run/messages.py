"""What the figures of a run mean, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crowdwise._core.display import percent, pluralise
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.choose import Choice
from crowdwise.choose.candidates import VOTE
from crowdwise.run.tables.labels import CHEAP, HOPELESS, Disagreement

NAMED = 5  # workers of a group that are named
TOGETHER = 0.8  # of an answer: where the model counts one for less, it is said
OTHERS = {  # what is said of one task, and of more
    "needs more answers": ("needs a few more answers", "need a few more answers"),
    "review": ("should be reviewed", "should be reviewed"),
    "hopeless": ("is hopeless", "are hopeless"),
}


def verdict_words(accept: float) -> dict[str, str]:
    """What each verdict means."""
    return {
        "accept": f"Use the label as it is: it is at least {100 * accept:g}% sure.",
        "review": f"Somebody who knows should look: more than {CHEAP} further answers would be needed.",
        "needs more answers": f"Up to {CHEAP} further answers should settle it, if the label is right.",
        "hopeless": f"Among the {HOPELESS:.0%} most ambiguous tasks, and its workers contradict each other: mend the "
        "question or leave the task out.",
    }  # fmt: skip


def headline(metrics: Mapping[str, Any], why: str) -> list[str]:
    """The run in a few sentences."""
    counts, truth = metrics["counts"], metrics["truth"]
    n_tasks = sum(counts.values())
    about = share(metrics["expected_accuracy"], 0)
    first = f"About {about} of the {n_tasks:,} labels are expected to be right"
    if n_tasks == 1:
        first = f"The one label is about {about} sure to be right"
    why_not = unchecked(metrics["summary"], metrics["calibration"]["temperature"])
    words = [f"{first}, but {why_not}." if why_not else f"{first}."]
    if truth is not None:
        words.append(
            f"Of {pluralise(truth['tasks'], 'task')} of known truth {share(truth['accuracy'])} "
            f"{'is' if truth['tasks'] == 1 else 'are'} labelled right ({share(truth['low'])} to "
            f"{share(truth['high'])}); majority vote gets {share(truth['vote_accuracy'])}."
        )
    words += accepted_words(metrics)
    if metrics["spammers"]:
        words.append(f"Workers whose answers tell next to nothing: {metrics['spammers']:,} (see workers.csv).")
    if groups := metrics["alike"]:
        first = groups[0]
        names = ", ".join(first["workers"][:NAMED]) + (", ..." if len(first["workers"]) > NAMED else "")
        more = f" ({pluralise(len(groups) - 1, 'more such group')})" if len(groups) > 1 else ""
        words.append(
            f"{names} agree with each other on {share(first['agreement'], 0)} of their tasks, where "
            f"{share(first['expected'], 0)} is to be expected{more}: they may share mistakes, and then labels are less "
            "sure than they seem."
        )
    return [*words, why]


def unchecked(summary: Mapping[str, Any], temperature: float | None, what: str = "this") -> str:
    """Why answers cannot check how sure labels are; nothing where they can.

    They can where workers answered the same tasks, and some of these answers could be held out.

    >>> unchecked({"agreement": None}, None)
    'nothing in the answers can check this: no task has answers of two workers'
    >>> unchecked({"agreement": 0.8}, None), unchecked({"agreement": 0.8}, 1.2)
    ('held-out answers could not check this', '')
    """
    if summary["agreement"] is None:  # there is no pair of answers
        other = "" if temperature is None else ", only the features can"
        return f"nothing in the answers can check {what}{other}: no task has answers of two workers"
    return f"held-out answers could not check {what}" if temperature is None else ""


def accepted_words(metrics: Mapping[str, Any]) -> list[str]:
    """How many labels can be used and how many of them are right; a warning where those are fewer than expected."""
    counts, truth, expected = metrics["counts"], metrics["truth"], metrics["expected_accepted"]
    others = ", ".join(pluralise(counts[name], *forms) for name, forms in OTHERS.items() if counts[name])
    end = f"; {others}." if others else "."
    if not counts["accept"]:
        return [f"None can be used as it is{end}"]
    measured = None if truth is None else truth["accepted_accuracy"]
    right = f"expected {share(expected)} right"
    if measured is not None:
        right += f", measured {share(measured)} of {truth['accepted_tasks']:,}"
    usable = pluralise(counts["accept"], "can be used as it is", "can be used as they are")
    words = [f"{usable} ({right}){end}"]
    if measured is not None and truth["accepted_high"] < expected:
        words.append(
            f"Warning: of the accepted labels of known truth only {share(measured)} are right "
            f"({share(truth['accepted_low'])} to {share(truth['accepted_high'])}), fewer than expected. Confidence is "
            "too high here: check accepted labels before you use them."
        )
    return words


def share(part: float, places: int = 1) -> str:
    """A share in percent; only all is called 100%, and only none 0%.

    >>> share(0.996, 0), share(0.996), share(1 - 1e-16), share(0.9)
    ('99%', '99.6%', '100%', '90.0%')
    """
    return percent(round(float(part), 12), places)  # a bound of an interval may miss 1 by rounding


def why(choice: Choice | None, best: str, told: str | None) -> tuple[str, bool]:
    """Why this method, and whether it beats majority vote by more than its error."""
    if choice is None:
        if told is None:
            return "Too few tasks have two answers to choose a method by: the labels are majority vote's.", False
        return f"{told} was asked for; too few tasks have two answers to check it against majority vote.", False
    entry = next(entry for entry in choice.entries if entry.candidate == best)
    lead, error = entry.to_vote, entry.to_vote_error
    beats = best != VOTE and lead is not None and error is not None and lead > error
    slim = beats and (lead or 0.0) < 2 * (error or 0.0)
    if told is None:
        n_others = len(choice.scores) - 1
        if best == VOTE or not beats or not n_others:
            return choice.words, beats
        over_vote = f"({lead:+.3f} ± {error:.3f} nats an answer against majority vote)"
        words = (
            f"The labels are {best}'s: of {n_others + 1} methods it predicts answers it has not seen best, or no worse "
            f"than what is more complicated {over_vote}."
        )
        if best == choice.default:
            words = (
                f"The labels are {best}'s, the default; none of the others ({n_others}) was better by its error at "
                f"predicting answers it has not seen {over_vote}."
            )
        elif choice.over_default is not None:
            more, its_error = choice.over_default
            words += f" It is better than {choice.default}, the default, by {more:.3f} ± {its_error:.3f}."
        if slim:
            words += " It beats majority vote by little more than its error."
        return words, beats
    if best == VOTE:
        return "Majority vote was asked for.", beats
    if lead is None:
        return f"{best} was asked for; it could not be compared with majority vote.", beats
    verdict = "held-out answers support it over majority vote" if beats else "it does NOT beat majority vote"
    verdict += ", by little more than its error" if slim else ""
    return f"{best} was asked for; {verdict} ({lead:+.4f} ± {error:.4f} nats an answer).", beats


def calibration_words(summary: Mapping[str, Any], temperature: float | None, answer_weight: float | None = None) -> str:
    """What was done to the confidence of the model, and what that rests on; for how much it took an answer."""
    why_not = unchecked(summary, temperature, "how sure labels are")
    words = [f"{why_not[0].upper()}{why_not[1:]}."] if why_not else []
    if temperature is not None and abs(temperature - 1) < 0.02:
        words.append("Held-out answers agree with how sure the model is: its confidence is taken as it is.")
    elif temperature is not None:
        way = "less" if temperature > 1 else "more"
        words.append(f"Held-out answers speak for labels {way} sure than the model's: temperature {temperature:.2f}.")
    if answer_weight is not None and answer_weight < TOGETHER:
        words.append(
            f"An answer counted for {answer_weight:.2f} of one: so answers were foretold best by the others to their "
            "task. Workers err together, or less is known of them than it seems."
        )
    return " ".join(words)


def ambiguity_words(ranked: TaskRanker) -> dict[str, str]:
    """How the tasks were ranked."""
    if isinstance(ranked, Disagreement):
        return {"by": "answers", "words": "Tasks are ranked by how much trusted workers contradict each other."}
    words = "Tasks are ranked by WAUM: how hard it was for a network to learn what trusted workers said of them."
    return {"by": "waum", "words": words}
