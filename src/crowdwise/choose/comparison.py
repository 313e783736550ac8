"""Fit each candidate without each fold, and compare."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from crowdwise._core.registry import find_method
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.choose.candidates import DEFAULT, VOTE, default_candidates
from crowdwise.choose.checkpoint import Keep
from crowdwise.choose.choice import Choice, entries_of, first_failure, paired, pick
from crowdwise.choose.fold_fits import Callback, Fits
from crowdwise.choose.scores import Candidate, Criterion, Outcome, answer_folds, judged, task_folds
from crowdwise.errors import CrowdwiseError, ParameterError
from crowdwise.learn.base import CrowdClassifier
from crowdwise.truth.base import TruthModel
from crowdwise.truth.methods.majority_vote import MajorityVote
from crowdwise.truth.vote_check import MIN_HELD_OUT

MAX_FOLDS = 100  # and repeats: each is a fit of every candidate


def choose(
    answers: Answers,
    X: Any = None,
    candidates: Candidate | Iterable[Candidate] | Mapping[str, Candidate] | None = None,
    *,
    default: str | None = None,
    criterion: Criterion = "common",
    folds: int = 5,
    repeats: int = 1,
    random_state: int = 0,
    n_jobs: int = 1,
    checkpoint: str | os.PathLike[str] | None = None,
    time_budget: float | None = None,
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
    default : str, optional
        Label of the candidate to take among those that cannot be told apart, in place of the simplest. JointEM where
        there are features and no candidates are given.
    criterion : {"common", "own", "tasks"}
        What is predicted and how, see `crowdwise.choose`. "common" judges what is believed of the tasks, "tasks"
        the classifier on tasks it has not seen.
    folds, repeats : int
        How many parts the answers are split into, and how many times over, from new folds: up to 100 each. Every
        candidate is fitted `folds * repeats` times.
    random_state : int
        Seed of the folds. The candidates keep their own.
    n_jobs : int
        Fits at once, each in a process of its own; -1 takes all cores. Results do not depend on it.
    checkpoint : path, optional
        Folder where each finished fit is kept: when the same is chosen again, say because the run was killed, these are
        not done again, and the results are the same to the last bit. Problems can share a folder.
    time_budget : float, optional
        Seconds. After the first fold the slowest candidates are left out until the other folds fit, and listed with the
        reason; majority vote is never left out. A fit that has begun is not stopped.
    callback : callable, optional
        Called after each fit with a mapping: candidate, fold, done, total, seconds, log_likelihood, failure, and kept
        (taken from the checkpoint).

    Returns
    -------
    Choice
        `best_` by this rule: begin with the default, or the simplest; as long as some candidate leads it by more than
        the standard error of the lead, the first of these takes its place. So nothing leads the one chosen by more than
        its error.
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
    if candidates is None and X is not None and default is None:
        default = DEFAULT
    require(default is None or default in given, "default", default, f"the label of a candidate: {', '.join(given)}")
    _check(answers, X, criterion, folds, repeats, random_state, n_jobs, time_budget)
    deal = task_folds if criterion == "tasks" else answer_folds
    splits = [deal(answers, folds, np.random.default_rng([random_state, repeat])) for repeat in range(repeats)]
    rows = np.flatnonzero(splits[0] >= 0)  # the same in each repeat
    if len(rows) < MIN_HELD_OUT:
        message = (
            f"only {len(rows)} answers can be held out, {MIN_HELD_OUT} are needed: too few tasks have two or more."
        )
        raise CrowdwiseError(message)
    most = int(splits[0].max()) + 1  # folds that hold something
    what = "tasks" if criterion == "tasks" else "answers"
    require(folds <= most, "folds", folds, f"{most} or fewer: no more {what} can be held out")
    keep = None if checkpoint is None else Keep(checkpoint, answers, X, criterion)
    fits = Fits(given, X, answers, criterion, splits, folds, n_jobs, keep, callback)
    total = {name: np.zeros(answers.n_answers) for name in given}  # summed over repeats
    outcomes: dict[str, list[Outcome]] = {name: [] for name in given}
    for (name, repeat, fold), outcome in fits.all(time_budget).items():
        outcomes[name].append(outcome)
        if outcome.scores is not None:
            total[name][splits[repeat] == fold] += outcome.scores
    scores = {
        name: total[name][rows] / repeats for name in given if not any(outcome.failure for outcome in outcomes[name])
    }
    if not scores:
        reasons = "; ".join(f"{name}: {first_failure(outcomes[name])}" for name in given)
        message = f"no candidate could be scored ({reasons})."
        raise CrowdwiseError(message)
    held = answers.take(rows)
    best = pick(scores, held, default)
    lead = None
    if default is not None and default in scores and best != default:
        lead = paired(scores[best] - scores[default], held)
    return Choice(
        criterion, folds, repeats, best, judged(given[best], criterion), entries_of(outcomes, scores, held), scores,
        rows, n_tasks=len(np.unique(held.task)), n_never=answers.n_answers - len(rows), default=default,
        over_default=lead,
    )  # fmt: skip


def _named(candidates: Any, with_features: bool) -> dict[str, Candidate]:
    """Candidates by label, majority vote first."""
    if candidates is None:
        candidates = default_candidates(with_features)
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
            find_method(candidate)  # a name that does not exist is a slip, not a candidate that fails
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


def _check(
    answers: Any, X: Any, criterion: Any, folds: Any, repeats: Any, random_state: Any, n_jobs: Any, time_budget: Any
) -> None:
    require(
        isinstance(answers, Answers), "answers", type(answers).__name__, "Answers, from crowdwise.read or from_frame"
    )
    known = ("common", "own", "tasks")
    require(criterion in known, "criterion", criterion, "one of " + ", ".join(map(repr, known)))
    for name, value, least in (("folds", folds, 2), ("repeats", repeats, 1)):
        fits = is_integer(value, least) and value <= MAX_FOLDS
        require(fits, name, value, f"a whole number from {least} to {MAX_FOLDS}: all candidates are fitted each time")
    require(is_integer(random_state, 0), "random_state", random_state, "a whole number, 0 or more")
    require(is_integer(n_jobs, -1) and n_jobs != 0, "n_jobs", n_jobs, "a whole number, 1 or more, or -1 for all cores")
    if time_budget is not None:
        require(is_number(time_budget) and time_budget > 0, "time_budget", time_budget, "a number of seconds above 0")
    if criterion == "tasks" and X is None:
        message = "criterion='tasks' predicts answers from features alone: give X, or take criterion='common'."
        raise ParameterError(message)
