"""Sentences that say what the figures of a run mean. They are written for a project lead, not for a statistician."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from crowdwise._core.display import percent, pluralise
from crowdwise.ambiguity.ranking import TaskRanker
from crowdwise.choose import Choice
from crowdwise.choose.candidates import POOL, VOTE
from crowdwise.report.text import tell_dependence, unchecked_reason
from crowdwise.report.who_to_talk_to import badness
from crowdwise.run.confidence import FEW_VOTES
from crowdwise.run.selection import Selected
from crowdwise.run.tables.labels import CHEAP
from crowdwise.run.tables.tasks import Disagreement
from crowdwise.trust.gold_folds import GoldScore
from crowdwise.trust.shared_errors import COPIES

MAX_NAMES = 5  # workers named in a sentence
FEW_TASKS = 30  # below, the expected accuracy is called a rough guess
MOST = 0.5  # share of answers by flagged workers from which the flags themselves are in doubt
GOLD_CHECK = 50  # gold labels that check the expected accuracy; of fewer tasks, all
COPIES_FLAG = "copies "  # start of the flag of workers whose answers may be right, but are not their own
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
        "review": f"Ask an expert: more than {CHEAP} more answers would be needed, few answers name the label, or "
        "every worker has answered already.",
        "needs more answers": f"Up to {CHEAP} more answers should settle it, if the label is right.",
        "hopeless": "Rewrite the question or drop the task: workers who are usually right contradict each other.",
    }  # fmt: skip


def headline(metrics: Mapping[str, Any], why: str, workers: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Return the run in a few sentences; `why` is the last one.

    Parameters
    ----------
    metrics : mapping
        Figures, as in metrics.json.
    why : str
        Why the method was chosen.
    workers : sequence of mappings
        Rows of the table of workers.
    """
    words = _expected_words(metrics)
    if truth := metrics["truth"]:
        words.append(
            f"Measured on {pluralise(truth['tasks'], 'task')} with known truth, {share(truth['accuracy'])} of the "
            f"labels are right (95% interval {share(truth['low'])} to {share(truth['high'])}); majority vote gets "
            f"{share(truth['vote_accuracy'])}."
        )
    words += accepted_words(metrics)
    words += flag_words(workers)
    if tell_dependence(metrics["summary"]):
        words += dependence_words(metrics["trust"])
    return [*words, why]


def _expected_words(metrics: Mapping[str, Any]) -> list[str]:
    """Return the expected accuracy and what it assumes; measured on gold if there is enough."""
    trust, n_tasks = metrics["trust"], sum(metrics["counts"].values())
    if measured := (trust["estimates"] or {}).get("accuracy"):
        return [
            f"About {share(measured['value'], 0)} of the {n_tasks:,} labels are right (95% interval "
            f"{share(measured['low'])} to {share(measured['high'])}, from {trust['n_gold']:,} gold labels).",
            trust["assumes"],
        ]
    if spread := trust["range"]:
        low, high = share(spread["low"], 0), share(spread["high"], 0)
        n_gold = trust["gold_needed"]
        needed = f"about {n_gold:,} gold labels would settle it (`crowdwise next --gold {n_gold}` chooses the tasks)"
        if n_gold == n_tasks:
            needed = f"gold labels of all {n_tasks:,} tasks (`--gold`) would"
        return [
            f"Between {low} and {high} of the {n_tasks:,} labels are expected to be right: {low} if workers share "
            f"mistakes as much as they appear to, {high} if they share none. The answers cannot tell which; {needed}."
        ]
    expected = share(metrics["expected_accuracy"], 0)
    text = f"About {expected} of the {n_tasks:,} labels are expected to be right"
    if n_tasks == 1:
        text = f"The only label is about {expected} likely to be right"
    rough = " With so few tasks, this is a rough guess." if n_tasks < FEW_TASKS else ""
    if trust["basis"] == "none":
        reason = unchecked_reason(metrics["summary"], metrics["calibration"]["temperature"])
        return [f"{text}, but {reason}.{rough}"] if reason else [f"{text}.{rough}", trust["assumes"]]
    check = "" if trust["n_gold"] or metrics["truth"] else f" {_gold_check(n_tasks)}"
    return [f"{text}.{rough}", trust["assumes"] + check]


def _gold_check(n_tasks: int) -> str:
    if n_tasks <= GOLD_CHECK:
        return f"{'A gold label' if n_tasks == 1 else f'Gold labels of all {n_tasks} tasks'} (`--gold`) would show it."
    return f"About {GOLD_CHECK} gold labels (`crowdwise next --gold {GOLD_CHECK}` chooses the tasks) would show it."


def dependence_words(trust: Mapping[str, Any]) -> list[str]:
    """Return what is known about workers who make the same mistakes, if it matters."""
    words = []
    answers, votes = trust["answers_per_task"], trust["effective_votes"]
    if votes is not None and answers >= 2 and votes < FEW_VOTES * answers:
        words.append(
            f"Workers appear to make the same mistakes: the {answers:.1f} answers to a task are worth about "
            f"{votes:.1f} independent ones."
        )
    if families := [each for each in trust["families"] if each["rho"] < COPIES]:  # flags name copies
        first, more = families[0]["workers"], len(families) - 1
        others = f" ({pluralise(more, 'more such group')})" if more else ""
        words.append(f"{_names(first)} share more mistakes with each other than with the rest{others}.")
    return words


def accepted_words(metrics: Mapping[str, Any]) -> list[str]:
    """Return how many labels are accepted and how many of them are right, with a warning if fewer than expected."""
    counts, truth, expected = metrics["counts"], metrics["truth"], metrics["expected_accepted"]
    others = ", ".join(pluralise(counts[name], *forms) for name, forms in OTHER_VERDICTS.items() if counts[name])
    end = f"; {others}." if others else "."
    n_gold = metrics["trust"]["n_gold"]
    if counts["accept"] <= n_gold:
        besides = f" besides the {pluralise(n_gold, 'gold label')}" if counts["accept"] else ""
        return [f"No label is accepted{besides}{end}"]
    measured = None if truth is None else truth["accepted_accuracy"]
    accuracy = f"expected accuracy {share(expected)}"
    if n_gold:
        accuracy = f"{n_gold:,} of them gold labels; expected accuracy of the others {share(expected)}"
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


def flag_words(workers: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return who is flagged and why, most wrong answers first, with a warning if they gave half of all answers.

    >>> at_random = {"worker": "w7", "answers": 9, "quality": 0.4, "flag": "answers at random"}
    >>> flag_words([at_random, {"answers": 20, "flag": None}])
    ['1 worker should not be relied on: w7 (answers at random).']
    """
    flagged = [row for row in workers if row["flag"]]
    flagged.sort(key=badness)
    copies = [row for row in flagged if row["flag"].startswith(COPIES_FLAG)]
    others = [row for row in flagged if row not in copies]
    words = []
    if others:
        words.append(f"{pluralise(len(others), 'worker')} should not be relied on: {_names(_with_flags(others))}.")
    if copies:
        repeat = pluralise(len(copies), "worker repeats", "workers repeat")
        words.append(f"{repeat} the answers of another: {_names(_with_flags(copies))}.")
    part = sum(row["answers"] for row in flagged) / max(sum(row["answers"] for row in workers), 1)
    if part >= MOST:
        words.append(
            f"Warning: these workers gave {share(part, 0)} of the answers. When so many are flagged, the wrong ones "
            "may be: check with gold labels before you act on it."
        )
    return words


def _with_flags(workers: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{row['worker']} ({row['flag']})" for row in workers]


def _names(workers: Sequence[str]) -> str:
    return ", ".join(workers[:MAX_NAMES]) + (", ..." if len(workers) > MAX_NAMES else "")


def share(part: float, places: int = 1) -> str:
    """Return a share in percent; 100% means all, and 0% none.

    >>> share(0.996, 0), share(0.996), share(1 - 1e-16), share(0.9)
    ('99%', '99.6%', '100%', '90.0%')
    """
    return percent(round(float(part), 12), places)  # a bound of an interval may miss 1 by rounding


def why_chosen(choice: Choice | None, selected: Selected, requested: str | None) -> tuple[str, bool]:
    """Return why this method made the labels, and whether it beats majority vote by more than one standard error."""
    best, gold = selected.method, selected.gold_scores
    if gold is not None and requested is None and len(gold) > 1:
        return _why_gold(best, gold), best != VOTE
    entry = None if choice is None else next((entry for entry in choice.entries if entry.candidate == best), None)
    lead, error = (None, None) if entry is None else (entry.to_vote, entry.to_vote_error)
    beats = best != VOTE and lead is not None and error is not None and lead > error
    if requested is not None:
        if choice is None:
            return f"{requested} was requested. There are too few answers to compare it with majority vote.", False
        return _why_requested(best, lead, error, beats=beats), beats
    if best == POOL:
        return f"The labels come from {POOL}, the average of eight methods.{_pool_gain(lead, error)}", beats
    if choice is None:
        return "The labels come from majority vote: there are too few answers to compare methods.", False
    if selected.doubts:
        name, reason = next(iter(selected.doubts.items()))
        return f"Held-out answers prefer {name}, but {reason}. The labels come from {best} instead.", beats
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


def _pool_gain(lead: float | None, error: float | None) -> str:
    """Compare the pool with majority vote. Held-out answers do not decide whether it is used."""
    if lead is None:
        return ""
    gain = _gain(lead, error, 3)
    if lead > (error or 0.0) and round(lead, 3) > 0:
        return f" It predicts held-out answers better than majority vote ({gain})."
    if lead >= -(error or 0.0) or round(lead, 3) == 0:
        return f" It predicts held-out answers about as well as majority vote ({gain})."
    return (
        f" Majority vote predicts held-out answers better ({gain} for {POOL}), but these repeat the mistakes that "
        "workers share."
    )


def _why_gold(best: str, scores: Mapping[str, GoldScore]) -> str:
    score, vote = scores[best], scores.get(VOTE)
    compared = "" if vote is None or best == VOTE else f", majority vote {share(vote.accuracy, 0)}"
    found = f"it labels {share(score.accuracy, 0)} of the gold tasks right without knowing them{compared}"
    if score.lead > 0:
        return f"The labels come from {best}, whose probabilities fit the gold labels best: {found}."
    return f"The labels come from {best}, the default: {found}. No other method is better by two standard errors."


def _why_requested(best: str, lead: float | None, error: float | None, *, beats: bool) -> str:
    if best == VOTE:
        return "Majority vote was requested."
    if lead is None:
        return f"{best} was requested. It could not be compared with majority vote."
    verdict = "It beats" if beats else "It does NOT beat"
    slim = ", by less than two standard errors" if beats and _is_slim(lead, error) else ""
    return f"{best} was requested. {verdict} majority vote at predicting held-out answers{slim} ({_gain(lead, error)})."


def _gain(lead: float | None, error: float | None, places: int = 4) -> str:
    shown = round(lead or 0.0, places) + 0.0  # never -0.000
    return f"{shown:+.{places}f} ± {error or 0.0:.{places}f} in log-likelihood per answer"


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
