"""Sentences that say what the figures of a run mean. They are written for a project lead, not for a statistician."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crowdwise._core.display import percent, pluralise
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.choose import Choice
from crowdwise.choose.candidates import VOTE
from crowdwise.report.text import unchecked_reason
from crowdwise.run.tables.labels import CHEAP, HOPELESS
from crowdwise.run.tables.tasks import Disagreement

MAX_NAMES = 5  # workers named in a sentence
LOW_WEIGHT = 0.8  # a lower weight of answers is mentioned
UNCHANGED = 0.02  # temperatures this near to 1 leave confidences unchanged
OTHER_VERDICTS = {  # singular and plural
    "needs more answers": ("needs a few more answers", "need a few more answers"),
    "review": ("should be reviewed", "should be reviewed"),
    "hopeless": ("is hopeless", "are hopeless"),
}


def verdict_words(accept: float) -> dict[str, str]:
    """Return what to do about each verdict."""
    return {
        "accept": f"Use the label: its confidence is at least {100 * accept:g}%.",
        "review": f"Ask an expert: more than {CHEAP} further answers would be needed.",
        "needs more answers": f"Up to {CHEAP} more answers should settle it, if the label is right.",
        "hopeless": f"Rewrite the question or drop the task: it is among the {HOPELESS:.0%} most ambiguous, and its "
        "workers contradict each other.",
    }  # fmt: skip


def headline(metrics: Mapping[str, Any], why: str, spammers: Sequence[str] = ()) -> list[str]:
    """Return the run in a few sentences; `why` is the last one.

    Parameters
    ----------
    metrics : mapping
        Figures, as in metrics.json.
    why : str
        Why the method was chosen.
    spammers : sequence of str
        Workers who answer no better than chance.
    """
    words = [_expected_words(metrics)]
    if truth := metrics["truth"]:
        words.append(
            f"Measured on {pluralise(truth['tasks'], 'task')} with known truth, {share(truth['accuracy'])} of the "
            f"labels are right (95% interval {share(truth['low'])} to {share(truth['high'])}); majority vote gets "
            f"{share(truth['vote_accuracy'])}."
        )
    words += accepted_words(metrics)
    if spammers:
        count = pluralise(len(spammers), "worker answers", "workers answer")
        words.append(f"{count} no better than chance: {_names(spammers)}.")
    if groups := metrics["alike"]:
        words.append(_alike_words(groups))
    return [*words, why]


def _expected_words(metrics: Mapping[str, Any]) -> str:
    n_tasks = sum(metrics["counts"].values())
    expected = share(metrics["expected_accuracy"], 0)
    text = f"About {expected} of the {n_tasks:,} labels are expected to be right"
    if n_tasks == 1:
        text = f"The only label is about {expected} likely to be right"
    reason = unchecked_reason(metrics["summary"], metrics["calibration"]["temperature"])
    return f"{text}, but {reason}." if reason else f"{text}."


def accepted_words(metrics: Mapping[str, Any]) -> list[str]:
    """Return how many labels are accepted and how many of them are right, with a warning if fewer than expected."""
    counts, truth, expected = metrics["counts"], metrics["truth"], metrics["expected_accepted"]
    others = ", ".join(pluralise(counts[name], *forms) for name, forms in OTHER_VERDICTS.items() if counts[name])
    end = f"; {others}." if others else "."
    if not counts["accept"]:
        return [f"No label is accepted{end}"]
    measured = None if truth is None else truth["accepted_accuracy"]
    accuracy = f"expected accuracy {share(expected)}"
    if measured is not None:
        accuracy += f", measured {share(measured)} on {truth['accepted_tasks']:,}"
    words = [f"{pluralise(counts['accept'], 'label is', 'labels are')} accepted ({accuracy}){end}"]
    if measured is not None and truth["accepted_high"] < expected:
        words.append(
            f"Warning: only {share(measured)} of the accepted labels with known truth are right "
            f"({share(truth['accepted_low'])} to {share(truth['accepted_high'])}), fewer than expected. Confidences "
            "are too high here: check accepted labels before you use them."
        )
    return words


def _alike_words(groups: Sequence[Mapping[str, Any]]) -> str:
    first = groups[0]
    more = f" ({pluralise(len(groups) - 1, 'more such group')})" if len(groups) > 1 else ""
    return (
        f"{_names(first['workers'])} agree with each other on {share(first['agreement'], 0)} of the tasks they share, "
        f"where {share(first['expected'], 0)} would be expected{more}. They may share mistakes, so labels may be less "
        "certain than they look."
    )


def _names(workers: Sequence[str]) -> str:
    return ", ".join(workers[:MAX_NAMES]) + (", ..." if len(workers) > MAX_NAMES else "")


def share(part: float, places: int = 1) -> str:
    """Return a share in percent; 100% means all, and 0% none.

    >>> share(0.996, 0), share(0.996), share(1 - 1e-16), share(0.9)
    ('99%', '99.6%', '100%', '90.0%')
    """
    return percent(round(float(part), 12), places)  # a bound of an interval may miss 1 by rounding


def why_chosen(choice: Choice | None, best: str, requested: str | None) -> tuple[str, bool]:
    """Return why this method made the labels, and whether it beats majority vote by more than one standard error."""
    if choice is None:
        if requested is None:
            return "The labels come from majority vote: too few tasks have two answers to compare methods.", False
        return f"{requested} was requested. Too few tasks have two answers to compare it with majority vote.", False
    entry = next(entry for entry in choice.entries if entry.candidate == best)
    lead, error = entry.to_vote, entry.to_vote_error
    beats = best != VOTE and lead is not None and error is not None and lead > error
    if requested is not None:
        return _why_requested(best, lead, error, beats=beats), beats
    n_others = len(choice.scores) - 1
    if best == VOTE or not beats or not n_others:
        return choice.words, beats
    others = f"None of the {n_others} alternatives beat it" if n_others > 1 else "The one alternative does not beat it"
    words = (
        f"The labels come from {best}{', the default method' if best == choice.default else ''}. {others} by more than "
        f"one standard error at predicting held-out answers (lead over majority vote: {_gain(lead, error, 3)})."
    )
    if _is_slim(lead, error):
        words += " This lead is less than two standard errors."
    if best != choice.default and choice.over_default is not None:
        gain, gain_error = choice.over_default
        words += f" It beats {choice.default}, the default, by {gain:.3f} ± {gain_error:.3f}."
    return words, beats


def _why_requested(best: str, lead: float | None, error: float | None, *, beats: bool) -> str:
    if best == VOTE:
        return "Majority vote was requested."
    if lead is None:
        return f"{best} was requested. It could not be compared with majority vote."
    verdict = "It beats" if beats else "It does NOT beat"
    slim = ", by less than two standard errors" if beats and _is_slim(lead, error) else ""
    return f"{best} was requested. {verdict} majority vote at predicting held-out answers{slim} ({_gain(lead, error)})."


def _gain(lead: float | None, error: float | None, places: int = 4) -> str:
    return f"{lead or 0.0:+.{places}f} ± {error or 0.0:.{places}f} in log-likelihood per answer"


def _is_slim(lead: float | None, error: float | None) -> bool:
    return (lead or 0.0) < 2 * (error or 0.0)


def calibration_words(summary: Mapping[str, Any], temperature: float | None, answer_weight: float | None = None) -> str:
    """Return how the model's confidences were changed and why; also the weight of answers, if low.

    Parameters
    ----------
    summary : mapping
        Figures of the answers, as in metrics.json.
    temperature : float or None
        Above 1 lowers confidences, below 1 raises them; None if it could not be estimated.
    answer_weight : float, optional
        The weight that the model gave to each answer.
    """
    reason = unchecked_reason(summary, temperature, "The confidence of the labels")
    words = [f"{reason}."] if reason else []
    if temperature is not None and abs(temperature - 1) < UNCHANGED:
        words.append("The model's confidences agree with held-out answers, so they were not changed.")
    elif temperature is not None:
        was, change = ("overconfident", "lowered") if temperature > 1 else ("underconfident", "raised")
        words.append(
            f"The model was {was} on held-out answers, so confidences were {change} (temperature {temperature:.2f})."
        )
    if answer_weight is not None and answer_weight < LOW_WEIGHT:
        words.append(
            f"Each answer was weighted {answer_weight:.2f}, which best predicted held-out answers: workers make the "
            "same mistakes, or their quality is less certain than the model assumes."
        )
    return " ".join(words)


def ambiguity_words(ranking: TaskRanker) -> dict[str, str]:
    """Return how the tasks were ranked."""
    if isinstance(ranking, Disagreement):
        return {"by": "answers", "words": "Tasks are ranked by how much trusted workers contradict each other."}
    words = "Tasks are ranked by how hard it was for a network to learn the answers of trusted workers (WAUM)."
    return {"by": "waum", "words": words}
