"""Rank methods and settings without ground truth, by how well they predict answers they have not seen.

Answers are split into folds. Each candidate is fitted on all folds but one and says how likely the answers of that one
are; all candidates see the same folds, so that differences are paired. For a held-out answer l of worker w to task t:

    "common"   log sum_c belief[t, c] confusion[w, c, l]    belief: the candidate's `proba_`, from the answers kept (and
               features); confusion: ONE worker model for all, estimated from that belief and the answers kept
    "own"      log P(l | x_t, w) under the candidate's own worker model: `answer_proba` of a learner; of a truth model
               `proba_` and `confusion_`, or the common worker model where it has none
    "tasks"    as "common", but all answers of a task are held out together: belief is the classifier's, from features
               alone; a truth model is asked through the classifier trained on its labels (`Aggregated`)

Majority vote, whose shares are no probabilities, gets the best chance: its shares, or votes as odds (each vote adds the
same log odds, of several sizes), whichever predicts the held-out answers best. So a method has to know something of
workers or tasks to beat it, not only how sure a vote is. Under "tasks" it is the classifier trained on its labels.

Which answers are held out: for "common" and "own" each answer of a task that has two or more, exactly once; a task's
answers are spread over the folds, so it always keeps one. A task's only answer is never held out, for the task would be
left without. For "tasks" every answer is, once. Answers made by a model (`pseudo`) are never held out and stay in every
fit; where that model saw the answers now held out, candidates see them through it: choose before adding any.

Standard errors take tasks as independent, and hold the fits fixed: they do not tell how much a network's own seed moves
its score. A candidate takes the place of a simpler one only when its lead over that one is greater than the standard
error of the lead; the order of the candidates is the order of simplicity, and majority vote comes first.

What this cannot do: it measures how well answers are predicted, which is not how often labels are right. It weeds out
bad settings, and ranks good ones poorly where workers err together: there, imitating the crowd is rewarded.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator, clone

from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseError, ParameterError
from crowdwise.learn.base import CrowdClassifier
from crowdwise.registry import line, make
from crowdwise.truth.base import TruthModel, is_whole, require, vote_shares
from crowdwise.truth.check import LEAST_HIDDEN, log_likelihood
from crowdwise.truth.kernels import FLOOR
from crowdwise.truth.majority_vote import MajorityVote

Array = np.ndarray[Any, np.dtype[Any]]
Candidate = TruthModel | CrowdClassifier | str
Criterion = Literal["common", "own", "tasks"]
# Called after each fit with candidate, fold, done, total, seconds, log_likelihood and failure.
Callback = Callable[[Mapping[str, Any]], None]

VOTE = "majority-vote"
SHARPNESS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the vote: log odds that one vote adds
TINY = 1e-9  # nats; a lead of less is rounding
# Simplest first: parameters a worker, then parameters of the tasks and of the crowd.
WITHOUT_FEATURES = (VOTE, "wawa", "one-coin", "mace", "glad", "dawid-skene", "ibcc", "ebcc")
WITH_FEATURES = (VOTE, "aggregated(dawid-skene)", "raykar", "crowdlayer", "conal", "aggnet")
SETTINGS: dict[str, dict[str, Any]] = {"raykar": {"cross_fit": 5}}  # of the above, where not the default


class Entry(NamedTuple):
    """One candidate: log-likelihoods are nats per held-out answer, higher is better; None where it failed."""

    candidate: str
    rank: int | None  # 1 is the highest mean
    log_likelihood: float | None  # mean over the held-out answers
    standard_error: float | None
    to_best: float | None  # difference to the highest mean: 0 or less
    to_best_error: float | None
    to_vote: float | None  # difference to majority vote
    to_vote_error: float | None
    seconds: float  # all folds together
    failure: str | None  # why it has no score
    warnings: tuple[str, ...]  # what it said while it was fitted


@dataclass(frozen=True, eq=False, repr=False)
class Choice:
    """Candidates with their scores; `str(choice)` is a table and what it means in words.

    Attributes
    ----------
    best_ : str
        The candidate chosen: not always the first in rank, see `choose`.
    best_model_ : model
        The same, not fitted: a truth model's classifier (`Aggregated`) where that was judged.
    entries : list of Entry
        In the order of simplicity, majority vote first.
    scores : dict of str to array
        Log-likelihood of each held-out answer, by candidate; those that failed are not here.
    rows : int array
        Which answers were held out: row numbers of the answers, as in the arrays of `scores`.
    """

    criterion: Criterion
    folds: int
    repeats: int
    best_: str
    best_model_: Any
    entries: list[Entry]
    scores: dict[str, Array]
    rows: Array
    n_tasks: int  # of which an answer was held out
    n_never: int  # answers that were never held out

    @property
    def ranking_(self) -> list[str]:
        """Candidates by rank; those that failed are left out."""
        return [entry.candidate for entry in self._sorted() if entry.rank is not None]

    @property
    def words(self) -> str:
        """What the table means."""
        by_name = {entry.candidate: entry for entry in self.entries}
        vote, chosen, first = self.entries[0], by_name[self.best_], by_name[self.ranking_[0]]
        lead = _plus_minus(None if chosen.to_best is None else -chosen.to_best, chosen.to_best_error)
        if len(self.scores) == 1:
            return f"Only {self.best_} could be scored: there was nothing to choose from."
        if chosen is vote:
            text = "Nothing beats majority vote by more than its own error: keep majority vote."
            return text if first is vote else f"{text} {first.candidate} leads by {lead}."
        over_vote = f", {_plus_minus(chosen.to_vote, chosen.to_vote_error)} against majority vote"
        text = f"Chosen: {self.best_}" + ("." if chosen.to_vote is None else f"{over_vote}.")
        if first is not chosen:
            text += f" {first.candidate} leads it by {lead}: not more than its error, so it does not take its place."
        return text

    def to_arrow(self) -> pa.Table:
        """One row a candidate, by rank, those that failed last; `chosen` marks the one to take."""
        rows = [{**entry._asdict(), "chosen": entry.candidate == self.best_} for entry in self._sorted()]
        kinds = {name: pa.float64() for name in Entry._fields} | {
            "candidate": pa.string(), "rank": pa.int64(), "failure": pa.string(), "warnings": pa.list_(pa.string()),
            "chosen": pa.bool_(),
        }  # fmt: skip
        return pa.Table.from_pylist(rows, schema=pa.schema(list(kinds.items())))

    def to_frame(self) -> Any:
        """The same as a pandas table."""
        return self.to_arrow().to_pandas()

    def as_dict(self) -> dict[str, Any]:
        """Everything but the score of each answer, ready for JSON."""
        names = ("criterion", "folds", "repeats", "best_", "n_tasks", "n_never", "words")
        return {
            **{name.rstrip("_"): getattr(self, name) for name in names},
            "n_answers": len(self.rows),
            "candidates": self.to_arrow().to_pylist(),
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
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
        notes = "".join(f"<p>{escape(text)}</p>" for text in self._notes())
        return f"<table><tr>{head}</tr>{rows}</table>{notes}"

    def _sorted(self) -> list[Entry]:
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
            rank = "failed" if entry.rank is None else str(entry.rank)
            rows.append([rank, entry.candidate + mark, *figures, f"{entry.seconds:.1f}"])
        return rows

    def _notes(self) -> list[str]:
        held = f"{len(self.rows):,} answers to {self.n_tasks:,} tasks held out in {self.folds} folds"
        never = f", {self.n_never:,} answers never" if self.n_never else ""
        times = "" if self.repeats == 1 else f", {self.repeats} times over"
        notes = [self.words, f"Criterion {self.criterion!r}: {held}{times}{never}; ± is one standard error."]
        notes += [f"{entry.candidate} failed: {entry.failure}" for entry in self.entries if entry.failure]
        notes += [f"{entry.candidate} warned: {text}" for entry in self.entries for text in entry.warnings]
        return notes


def choose(
    answers: Answers,
    X: Any = None,
    candidates: Candidate | Iterable[Candidate] | Mapping[str, Candidate] | None = None,
    *,
    criterion: Criterion = "common",
    folds: int = 5,
    repeats: int = 1,
    random_state: int = 0,
    n_jobs: int = 1,
    callback: Callback | None = None,
) -> Choice:
    """Rank candidates by the log-likelihood of held-out answers, and choose one.

    Parameters
    ----------
    answers : Answers
        What the workers said. Their `truth` is not looked at.
    X : features, optional
        As in the learners; without it only truth models can be candidates.
    candidates : models or registry names, in order of simplicity, or mapping of labels to them
        Truth models and learners alike; different settings are different models. Majority vote is always among them,
        and first. A handful of quick methods unless given.
    criterion : {"common", "own", "tasks"}
        What is predicted and how, see the top of this module. "common" judges what is believed of the tasks, "tasks"
        the classifier on tasks it has not seen.
    folds, repeats : int
        How many parts the answers are split into, and how many times over, from new folds.
    random_state : int
        Seed of the folds. The candidates keep their own.
    n_jobs : int
        Fits at once, each in a process of its own; -1 takes all cores. Results do not depend on it.
    callback : callable, optional
        Called after each fit with a mapping: candidate, fold, done, total, seconds, log_likelihood, failure.

    Returns
    -------
    Choice
        `best_` by this rule: begin with the simplest; as long as some candidate leads it by more than the standard
        error of the lead, the first of these takes its place. So nothing leads the one chosen by more than its error.
        A candidate that cannot be fitted is listed with the reason.

    Examples
    --------
    >>> from crowdwise import DawidSkene, simulate
    >>> from crowdwise.choose import choose
    >>> answers = simulate.simulate(400, n_workers=10, answers_per_task=5, workers="class-dependent", seed=1)
    >>> choice = choose(answers, candidates=["one-coin", DawidSkene(max_iter=20)])
    >>> choice.ranking_[-1]
    'majority-vote'
    """
    given = _named(candidates, X is not None)
    _check(answers, X, criterion, folds, repeats, random_state, n_jobs)
    deal = task_folds if criterion == "tasks" else answer_folds
    splits = [deal(answers, folds, np.random.default_rng([random_state, repeat])) for repeat in range(repeats)]
    rows = np.flatnonzero(splits[0] >= 0)  # the same in each repeat
    if len(rows) < LEAST_HIDDEN:
        message = (
            f"only {len(rows)} answers can be held out, {LEAST_HIDDEN} are needed: too few tasks have two or more."
        )
        raise CrowdwiseError(message)
    jobs = [(name, repeat, fold) for repeat in range(repeats) for fold in range(folds) for name in given]
    results = Parallel(n_jobs=n_jobs, return_as="generator")(
        delayed(_score)(given[name], X, answers, splits[repeat] == fold, criterion) for name, repeat, fold in jobs
    )
    total = {name: np.zeros(answers.n_answers) for name in given}  # summed over repeats
    outcomes: dict[str, list[_Outcome]] = {name: [] for name in given}
    for done, ((name, repeat, fold), outcome) in enumerate(zip(jobs, results, strict=True), 1):
        outcomes[name].append(outcome)
        if outcome.scores is not None:
            total[name][splits[repeat] == fold] += outcome.scores
        if callback is not None:
            mean = None if outcome.scores is None or not len(outcome.scores) else float(outcome.scores.mean())
            callback({
                "candidate": name, "fold": repeat * folds + fold, "done": done, "total": len(jobs),
                "seconds": outcome.seconds, "log_likelihood": mean, "failure": outcome.failure,
            })  # fmt: skip
    scores = {
        name: total[name][rows] / repeats for name in given if not any(outcome.failure for outcome in outcomes[name])
    }
    if not scores:
        reasons = "; ".join(f"{name}: {_first(outcomes[name])}" for name in given)
        message = f"no candidate could be scored ({reasons})."
        raise CrowdwiseError(message)
    held = answers.take(rows)
    best = pick(scores, held)
    return Choice(
        criterion, folds, repeats, best, judged(given[best], criterion), _entries(outcomes, scores, held), scores, rows,
        n_tasks=len(np.unique(held.task)), n_never=answers.n_answers - len(rows),
    )  # fmt: skip


# Which answers are held out


def answer_folds(answers: Answers, folds: int, rng: np.random.Generator) -> Array:
    """Fold of each answer, (answers,); -1 where it is never held out. No task has all its answers in one fold.

    Answers are dealt out in turn, task by task in random order, so the folds are of equal size and the answers of a
    task fall into different ones.

    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 3], list("abcaba"), list("xxyxyx"))
    >>> np.bincount(answer_folds(answers, 2, np.random.default_rng(0)) + 1).tolist()  # never, first, second
    [1, 3, 2]
    """
    can = np.ones(answers.n_answers, bool) if answers.pseudo is None else ~answers.pseudo
    # A task that keeps answers made by a model keeps something, even when all of its workers' answers are held out.
    can &= np.diff(answers.task_starts)[answers.task] > 1
    order = np.lexsort((rng.random(answers.n_answers), rng.permutation(answers.n_tasks)[answers.task]))
    order = order[can[order]]
    fold = np.full(answers.n_answers, -1)
    fold[order] = np.arange(len(order)) % folds
    return fold


def task_folds(answers: Answers, folds: int, rng: np.random.Generator) -> Array:
    """Fold of each answer, (answers,), the same for all answers of a task; -1 for answers made by a model."""
    answered = np.flatnonzero(np.diff(answers.task_starts))
    of_task = np.full(answers.n_tasks, -1)
    of_task[rng.permutation(answered)] = np.arange(len(answered)) % folds
    fold = of_task[answers.task]
    return fold if answers.pseudo is None else np.where(answers.pseudo, -1, fold)


# One fit


class _Outcome(NamedTuple):
    scores: Array | None  # (held answers,)
    seconds: float
    failure: str | None
    warnings: tuple[str, ...]


def _score(candidate: Candidate, X: Any, answers: Answers, held: Array, criterion: Criterion) -> _Outcome:
    """Fit a candidate without the held answers and ask it for them; whatever goes wrong becomes the reason."""
    start = time.perf_counter()
    kept, hidden = answers.take(np.flatnonzero(~held)), answers.take(np.flatnonzero(held))
    scores, failure = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            scores = held_out(fitted(candidate, X, kept, criterion), X, kept, hidden, criterion)
            if not np.isfinite(scores).all():
                scores, failure = None, "held-out answers have no finite log-likelihood"
        except Exception as error:  # a failing candidate must not take the others' results with it
            failure = f"{type(error).__name__}: {error}"
    said = tuple(dict.fromkeys(str(warning.message) for warning in caught))
    return _Outcome(scores, time.perf_counter() - start, failure, said)


def judged(candidate: Candidate, criterion: Criterion) -> Any:
    """The model that a criterion judges, not fitted: for "tasks", a truth model is the classifier of its labels."""
    model: Any = make(candidate) if isinstance(candidate, str) else clone(candidate)
    if criterion == "tasks" and isinstance(model, TruthModel):
        from crowdwise.learn.aggregated import Aggregated

        return Aggregated(model)
    return model


def fitted(candidate: Candidate, X: Any, kept: Answers, criterion: Criterion) -> Any:
    """The same, fitted on the answers kept."""
    model = judged(candidate, criterion)
    if isinstance(model, TruthModel):
        return model.fit(kept)
    if X is None:
        message = "it learns from features: give X."
        raise ParameterError(message)
    return model.fit(X, kept)


def held_out(model: Any, X: Any, kept: Answers, held: Answers, criterion: Criterion) -> Array:
    """Log probability of each held answer, (held,), under a model fitted on those kept."""
    if criterion == "own" and isinstance(model, CrowdClassifier):
        return model.answer_log_likelihood(X, held)
    if criterion == "own" and hasattr(model, "confusion_"):
        says = model.confusion_[held.worker, :, held.label]  # (held, classes)
        return np.log(np.maximum((says * model.proba_[held.task]).sum(axis=1), FLOOR))
    beliefs = [model.proba_]  # (tasks, classes)
    if isinstance(model, MajorityVote):
        beliefs = _vote_beliefs(kept)
    elif criterion == "tasks":
        asked = np.diff(held.task_starts)[:, None] > 0  # (tasks, 1)
        beliefs = [np.where(asked, model.predict_proba(X), model.proba_)]
    return max((log_likelihood(kept, held, belief) for belief in beliefs), key=np.sum)


def _vote_beliefs(kept: Answers) -> list[Array]:
    """What a vote may mean, (tasks, classes) each: its shares, or odds that grow with each vote."""
    votes = kept.counts(dense=True)
    assert isinstance(votes, np.ndarray)
    ahead = votes - votes.max(axis=1, keepdims=True)  # (tasks, classes): 0 or less
    odds = [np.exp(sharpness * ahead) for sharpness in SHARPNESS]
    return [vote_shares(kept), *(odd / odd.sum(axis=1, keepdims=True) for odd in odds)]


# What the scores mean


def paired(difference: Array, held: Answers) -> tuple[float, float]:
    """Mean of a figure over held-out answers (weighted, where they are) and its standard error, clustered by task."""
    weight = np.ones(len(difference)) if held.weight is None else held.weight
    mean = float(np.average(difference, weights=weight))
    by_task = np.bincount(held.task, weight * (difference - mean), minlength=held.n_tasks)
    return mean, float(np.sqrt(np.square(by_task).sum()) / weight.sum())


def pick(scores: Mapping[str, Array], held: Answers) -> str:
    """The rule of `choose`; `scores` in order of simplicity. It ends, for each step leads to a higher mean."""

    def leads(name: str, over: str) -> bool:
        lead, error = paired(scores[name] - scores[over], held)
        return lead > error + TINY

    best = next(iter(scores))
    while (better := next((name for name in scores if leads(name, best)), None)) is not None:
        best = better
    return best


def _entries(outcomes: Mapping[str, list[_Outcome]], scores: Mapping[str, Array], held: Answers) -> list[Entry]:
    means = {name: paired(score, held)[0] for name, score in scores.items()}
    order = sorted(means, key=means.__getitem__, reverse=True)
    vote = scores.get(next(iter(outcomes)))
    entries = []
    for name, runs in outcomes.items():
        figures: tuple[Any, ...] = (None,) * 7
        if name in scores:
            own, best = scores[name], scores[order[0]]
            against = (None, None) if vote is None else paired(own - vote, held)
            figures = (order.index(name) + 1, *paired(own, held), *paired(own - best, held), *against)
        said = tuple(dict.fromkeys(text for run in runs for text in run.warnings))
        seconds = sum(run.seconds for run in runs)
        entries.append(Entry._make((name, *figures, seconds, _first(runs), said)))
    return entries


def _first(runs: Sequence[_Outcome]) -> str | None:
    return next((run.failure for run in runs if run.failure), None)


def _plus_minus(value: float | None, error: float | None, sign: str = "+") -> str:
    return "" if value is None or error is None else f"{value:{sign}.4f} ± {error:.4f}"


# What is given


def _named(candidates: Any, with_features: bool) -> dict[str, Candidate]:
    """Candidates by label, majority vote first."""
    if candidates is None:
        names = WITH_FEATURES if with_features else WITHOUT_FEATURES
        candidates = [make(name, **SETTINGS[name]) if name in SETTINGS else name for name in names]
    if isinstance(candidates, (str, BaseEstimator)):
        candidates = [candidates]
    if isinstance(candidates, Mapping):
        pairs = [(str(label), candidate) for label, candidate in candidates.items()]
    else:
        pairs = [(c if isinstance(c, str) else " ".join(str(c).split()), c) for c in candidates]
    for label, candidate in pairs:
        fits = isinstance(candidate, (str, TruthModel, CrowdClassifier))
        require(fits, f"candidate {label!r}", candidate, "a truth model, a learner, or the registry name of one")
        if isinstance(candidate, str):
            line(candidate)  # a name that does not exist is a slip, not a candidate that fails
        elif kept := [n for n, v in candidate.get_params().items() if n.endswith("checkpoint") and v is not None]:
            message = f"candidate {label!r} has {kept[0]} set: fits of all folds would share that file. Leave it out."
            raise ParameterError(message)
    labels = [label for label, _ in pairs]
    twice = sorted({label for label in labels if labels.count(label) > 1})
    require(not twice, "candidates", twice, "each candidate once, or a mapping that gives each a label of its own")
    named = dict(pairs)
    votes = [label for label, c in named.items() if c == VOTE or isinstance(c, MajorityVote)]
    if votes:
        return {votes[0]: named.pop(votes[0]), **named}
    require(VOTE not in named, "candidates", VOTE, "another label: this one is majority vote's")
    return {VOTE: VOTE, **named}


def _check(answers: Any, X: Any, criterion: Any, folds: Any, repeats: Any, random_state: Any, n_jobs: Any) -> None:
    require(
        isinstance(answers, Answers), "answers", type(answers).__name__, "Answers, from crowdwise.read or from_frame"
    )
    known = ("common", "own", "tasks")
    require(criterion in known, "criterion", criterion, "one of " + ", ".join(map(repr, known)))
    require(is_whole(folds, 2), "folds", folds, "a whole number, 2 or more")
    require(is_whole(repeats, 1), "repeats", repeats, "a whole number, 1 or more")
    require(is_whole(random_state, 0), "random_state", random_state, "a whole number, 0 or more")
    require(is_whole(n_jobs, -1) and n_jobs != 0, "n_jobs", n_jobs, "a whole number, 1 or more, or -1 for all cores")
    if criterion == "tasks" and X is None:
        message = "criterion='tasks' predicts answers from features alone: give X, or take criterion='common'."
        raise ParameterError(message)
