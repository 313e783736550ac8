"""The result: candidates with their scores, as a table and in words, and the rule that chooses one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from crowdwise._core.display import html_table
from crowdwise.answers import Answers
from crowdwise.choose.fold_fits import SKIPPED
from crowdwise.choose.scores import Array, Candidate, CaughtWarning, Criterion, Outcome
from crowdwise.choose.temperature import best_temperature, calibrated
from crowdwise.truth.base import TruthModel
from crowdwise.truth.vote_check import mean_and_error

TINY = 1e-9  # nats; a smaller lead is rounding


class CandidateScore(NamedTuple):
    """One candidate. Log-likelihoods are in nats per held-out answer, higher is better; None if it failed."""

    candidate: str
    rank: int | None  # 1 is the highest mean
    log_likelihood: float | None  # mean over the held-out answers
    standard_error: float | None
    to_best: float | None  # difference to the highest mean: 0 or less
    to_best_error: float | None
    to_vote: float | None  # difference to majority vote
    to_vote_error: float | None
    seconds: float  # total of all folds
    failure: str | None  # why it has no score
    warnings: tuple[CaughtWarning, ...]  # issued while it was fitted
    temperature: float | None  # that best predicts held-out answers; None if not searched


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Candidates with their scores; `str(choice)` is a table and its meaning in words.

    Attributes
    ----------
    best_ : str
        The chosen candidate: not always the first in rank, see `choose`.
    best_model_ : model
        Its model, not fitted. Under "tasks", a truth model's classifier (`Aggregated`).
    models : dict of str to model or name
        What was compared, by candidate. Networks whose training length was to be found train as long as one search on
        all answers found, in all folds.
    entries : list of CandidateScore
        In order of simplicity, majority vote first.
    scores : dict of str to array
        Log-likelihood of each held-out answer, by candidate, without those that failed.
    rows : int array
        Row numbers of the held-out answers, in the order of `scores`.
    default : str or None
        The candidate that is kept unless another leads it by more than one standard error.
    over_default : (float, float) or None
        The lead of the chosen candidate over the default and its standard error, if it replaced the default.
    """

    criterion: Criterion
    folds: int
    repeats: int
    best_: str
    best_model_: Any
    models: dict[str, Candidate]
    entries: list[CandidateScore]
    scores: dict[str, Array]
    rows: Array
    n_tasks: int  # with a held-out answer
    n_never: int  # answers never held out
    default: str | None = None
    over_default: tuple[float, float] | None = None

    @property
    def ranking_(self) -> list[str]:
        """Candidates by rank, without those that failed."""
        return [entry.candidate for entry in self._sorted() if entry.rank is not None]

    @property
    def temperatures(self) -> dict[str, float]:
        """Temperature per candidate: above 1 it is overconfident, below 1 underconfident; see `choose.temperature`."""
        return {entry.candidate: entry.temperature for entry in self.entries if entry.temperature is not None}

    def calibrated(self, candidate: str, model: Any) -> Array:
        """Return the calibrated belief (tasks, classes) of this candidate, fitted on all answers.

        Without a temperature it is unchanged. Majority vote's comes from its votes. Labels do not change, and gold
        stays certain. Under "tasks" a truth model is scored by the classifier of its labels; the temperature is for
        that classifier, so the truth model's own belief is unchanged.
        """
        temperature = self.temperatures.get(candidate)
        of_classifier = self.criterion == "tasks" and isinstance(model, TruthModel)
        return model.proba_ if temperature is None or of_classifier else calibrated(model, temperature)

    @property
    def words(self) -> str:
        """The meaning of the table in words."""
        by_name = {entry.candidate: entry for entry in self.entries}
        vote, chosen, first = self.entries[0], by_name[self.best_], by_name[self.ranking_[0]]
        lead = _plus_minus(None if chosen.to_best is None else -chosen.to_best, chosen.to_best_error)
        if len(self.scores) == 1:
            return f"Only {self.best_} could be scored, so there was nothing to compare it with."
        unscored = f" {self.default}, the default, could not be scored."
        unscored = "" if self.default is None or self.default in self.scores else unscored
        if chosen is vote and self.over_default is None:
            text = "No candidate beats majority vote by more than one standard error: keep majority vote."
            return (text if first is vote else f"{text} {first.candidate} leads by {lead}.") + unscored
        text = "Keep majority vote" if chosen is vote else f"Chosen: {self.best_}"
        if self.best_ == self.default:
            text += ", the default; no other candidate leads it by more than one standard error"
        if chosen is not vote and chosen.to_vote is not None:
            text += f", {_plus_minus(chosen.to_vote, chosen.to_vote_error)} against majority vote"
        if self.over_default is not None:
            text += f": better than {self.default}, the default, by {_plus_minus(*self.over_default)}"
        text += "."
        if self.best_ == self.default and (chosen.to_vote or 0) <= (chosen.to_vote_error or 0):
            text += " Held-out answers do not show that it is better than majority vote."
        if first is not chosen:
            text += f" {first.candidate} leads it by {lead}, which is not more than one standard error."
        return text + unscored

    def to_arrow(self) -> pa.Table:
        """Return one row per candidate, by rank, those that failed last; `chosen` marks the chosen one."""
        rows = [
            {**entry._asdict(), "warnings": [warning.text for warning in entry.warnings],
             "chosen": entry.candidate == self.best_}
            for entry in self._sorted()
        ]  # fmt: skip
        kinds = {name: pa.float64() for name in CandidateScore._fields} | {
            "candidate": pa.string(), "rank": pa.int64(), "failure": pa.string(), "warnings": pa.list_(pa.string()),
            "chosen": pa.bool_(),
        }  # fmt: skip
        return pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))

    def to_frame(self) -> Any:
        """Return the same as a pandas table."""
        return self.to_arrow().to_pandas()

    def as_dict(self, *, seconds: bool = True) -> dict[str, Any]:
        """Return all but the scores per answer, ready for JSON; without `seconds` it is reproducible."""
        names = ("criterion", "folds", "repeats", "best_", "default", "n_tasks", "n_never", "words")
        candidates = self.to_arrow().to_pylist()
        for row in candidates if not seconds else ():
            del row["seconds"]
            if (row["failure"] or "").startswith(SKIPPED):  # the rest of the text has durations
                row["failure"] = f"{SKIPPED}over the time budget"
        return {
            **{name.rstrip("_"): getattr(self, name) for name in names},
            "n_answers": len(self.rows),
            "candidates": candidates,
        }

    def __str__(self) -> str:
        header, *body = self._cells()
        widths = [max(len(row[i]) for row in (header, *body)) for i in range(len(header))]
        lines = [
            "  ".join(
                cell.ljust(w) if i == 1 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in (header, *body)
        ]
        return "\n".join([*lines, "", *self._notes()])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        header, *body = self._cells()
        return html_table(body, header, self._notes())

    def _sorted(self) -> list[CandidateScore]:
        return sorted(self.entries, key=lambda entry: entry.rank or len(self.entries) + 1)

    def _cells(self) -> list[list[str]]:
        rows = [["rank", "candidate", "nats per answer", "against the best", "against the vote", "seconds"]]
        for entry in self._sorted():
            figures = (
                _plus_minus(entry.log_likelihood, entry.standard_error, sign=""),
                _plus_minus(entry.to_best, entry.to_best_error) if entry.rank != 1 else "",
                _plus_minus(entry.to_vote, entry.to_vote_error) if entry is not self.entries[0] else "",
            )
            mark = " *" if entry.candidate == self.best_ else ""
            skipped = (entry.failure or "").startswith(SKIPPED)
            rank = str(entry.rank) if entry.rank is not None else "left out" if skipped else "failed"
            rows.append([rank, entry.candidate + mark, *figures, f"{entry.seconds:.1f}"])
        return rows

    def _notes(self) -> list[str]:
        held = f"{len(self.rows):,} answers to {self.n_tasks:,} tasks held out in {self.folds} folds"
        never = f", {self.n_never:,} answers never held out" if self.n_never else ""
        times = "" if self.repeats == 1 else f", repeated {self.repeats} times"
        notes = [self.words, f"Criterion {self.criterion!r}: {held}{times}{never}; ± is one standard error."]
        for entry in self.entries:
            if entry.failure:
                failed = "" if entry.failure.startswith(SKIPPED) else "failed: "
                notes.append(f"{entry.candidate} {failed}{entry.failure}")
        notes += [f"{entry.candidate} warned: {each.text}" for entry in self.entries for each in entry.warnings]
        return notes


def mean_with_error(difference: Array, held: Answers) -> tuple[float, float]:
    """Return the (weighted) mean of a value over held-out answers and its standard error, clustered by task."""
    return mean_and_error(difference, held.task, held.weight)


def pick(scores: Mapping[str, Array], held: Answers, default: str | None = None) -> str:
    """Apply the rule of `choose`; `scores` are in order of simplicity. It ends, since each step has a higher mean."""

    def leads(name: str, over: str) -> bool:
        lead, error = mean_with_error(scores[name] - scores[over], held)
        return lead > error + TINY

    best = next(iter(scores)) if default is None or default not in scores else default
    while (better := next((name for name in scores if leads(name, best)), None)) is not None:
        best = better
    return best


def score_candidates(
    outcomes: Mapping[str, list[Outcome]], scores: Mapping[str, Array], held: Answers
) -> list[CandidateScore]:
    """Return a row of the table per candidate, in their order."""
    means = {name: mean_with_error(score, held)[0] for name, score in scores.items()}
    order = sorted(means, key=means.__getitem__, reverse=True)
    vote = scores.get(next(iter(outcomes)))
    entries = []
    for name, runs in outcomes.items():
        figures: tuple[Any, ...] = (None,) * 7
        if name in scores:
            own, best = scores[name], scores[order[0]]
            against = (None, None) if vote is None else mean_with_error(own - vote, held)
            figures = (order.index(name) + 1, *mean_with_error(own, held), *mean_with_error(own - best, held), *against)
        issued = tuple(dict.fromkeys(warning for run in runs for warning in run.warnings))
        seconds = sum(run.seconds for run in runs)
        temperature = best_temperature(run.curves for run in runs)
        entries.append(CandidateScore._make((name, *figures, seconds, first_failure(runs), issued, temperature)))
    return entries


def first_failure(runs: Sequence[Outcome]) -> str | None:
    """Return why a candidate could not be fitted, or None."""
    return next((run.failure for run in runs if run.failure), None)


def _plus_minus(value: float | None, error: float | None, sign: str = "+") -> str:
    return "" if value is None or error is None else f"{value:{sign}.4f} ± {error:.4f}"
