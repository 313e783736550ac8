"""Fit each candidate without each fold, and compare the scores."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np

from crowdwise._core.registry import find_method
from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers, as_answers
from crowdwise.choose.candidates import DEFAULT, VOTE, default_candidates, label_of
from crowdwise.choose.checkpoint import FitStore
from crowdwise.choose.choice import Choice, first_failure, mean_with_error, pick, score_candidates
from crowdwise.choose.fold_fits import Callback, FoldFits
from crowdwise.choose.scores import Candidate, Criterion, Outcome, answer_folds, model_to_score, task_folds
from crowdwise.errors import CrowdwiseError, ParameterError
from crowdwise.learn.adapter import as_model
from crowdwise.truth.adapter import is_own
from crowdwise.truth.methods.majority_vote import MajorityVote
from crowdwise.truth.vote_check import MIN_HELD_OUT

MAX_FOLDS = 100  # also of repeats: each is a fit of every candidate


def choose(
    answers: Any,
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
    answers : Answers or data frame
        The workers' answers. Their `truth` is not used.
    X : features, optional
        Features of the tasks. Without them only truth models can be candidates.
    candidates : models or registry names, in order of simplicity, or mapping of labels to them
        Truth models and learners, ours or your own; the same method with other settings is another candidate. Majority
        vote is always one of them, and first. Default: a few quick methods.
    default : str, optional
        Label of the candidate to prefer among those that held-out answers cannot distinguish, instead of the simplest.
        JointEM if there are features and no candidates are given.
    criterion : {"common", "own", "tasks"}
        What is predicted and how, see `crowdwise.choose`. "common" scores the labels of the tasks, "tasks" the
        classifier on tasks without answers.
    folds, repeats : int
        Number of folds, and of repetitions with new folds: up to 100 each. Every candidate is fitted `folds * repeats`
        times.
    random_state : int
        Seed of the folds. Candidates have their own.
    n_jobs : int
        Number of parallel fits, each in its own process; -1 uses all cores. Results do not depend on it.
    checkpoint : path, optional
        Folder that stores each finished fit. A rerun, for instance after the process was killed, reuses them and gives
        identical results. Different problems can share a folder.
    time_budget : float, optional
        Seconds. After the first fold the slowest candidates are skipped until the other folds fit in, and listed with
        the reason; majority vote is never skipped. A running fit is not stopped.
    callback : callable, optional
        Called after each fit with a mapping: candidate, fold, done, total, seconds, log_likelihood, failure, and kept
        (whether it was read from the checkpoint).

    Returns
    -------
    Choice
        `best_` by this rule: start with the default, or the simplest. While some candidate leads it by more than the
        standard error of the lead, the first of these replaces it. So no candidate leads the chosen one by more than
        one standard error. A candidate that cannot be fitted is listed with the reason.

    Examples
    --------
    >>> from crowdwise import DawidSkene, simulate
    >>> from crowdwise.choose import choose
    >>> answers = simulate.simulate(400, n_workers=10, answers_per_task=5, workers="class-dependent", seed=1)
    >>> choice = choose(answers, candidates=["one-coin", DawidSkene(max_iter=20)])
    >>> choice.ranking_[-1]
    'majority-vote'
    """
    answers, models = as_answers(answers), label_candidates(candidates, X is not None)
    if candidates is None and X is not None and default is None:
        default = DEFAULT
    require(default is None or default in models, "default", default, f"the label of a candidate: {', '.join(models)}")
    _check(X, criterion, folds, repeats, random_state, n_jobs, time_budget)
    deal = task_folds if criterion == "tasks" else answer_folds
    splits = [deal(answers, folds, np.random.default_rng([random_state, repeat])) for repeat in range(repeats)]
    rows = np.flatnonzero(splits[0] >= 0)  # the same in each repeat
    if len(rows) < MIN_HELD_OUT:
        message = (
            f"only {len(rows)} answers can be held out, but {MIN_HELD_OUT} are needed. Only answers to tasks with more "
            "than one can be."
        )
        raise CrowdwiseError(message)
    most = int(splits[0].max()) + 1  # folds with answers
    what = "tasks" if criterion == "tasks" else "answers"
    require(folds <= most, "folds", folds, f"at most {most}: only that many {what} can be held out")
    store = None if checkpoint is None else FitStore(checkpoint, answers, X, criterion)
    start = time.perf_counter()
    models = _plan_trainings(models, X, answers, criterion)
    searching = time.perf_counter() - start
    fits = FoldFits(models, X, answers, criterion, splits, folds, n_jobs, store, callback)
    total = {name: np.zeros(answers.n_answers) for name in models}  # summed over repeats
    outcomes: dict[str, list[Outcome]] = {name: [] for name in models}
    for (name, repeat, fold), outcome in fits.run_all(time_budget, searching).items():
        outcomes[name].append(outcome)
        if outcome.scores is not None:
            total[name][splits[repeat] == fold] += outcome.scores
    scores = {
        name: total[name][rows] / repeats for name in models if not any(outcome.failure for outcome in outcomes[name])
    }
    if not scores:
        reasons = "; ".join(f"{name}: {first_failure(outcomes[name])}" for name in models)
        message = f"no candidate could be scored: {reasons}."
        raise CrowdwiseError(message)
    held = answers.take(rows)
    best = pick(scores, held, default)
    lead = None
    if default is not None and default in scores and best != default:
        lead = mean_with_error(scores[best] - scores[default], held)
    return Choice(
        criterion, folds, repeats, best, model_to_score(models[best], criterion), models,
        score_candidates(outcomes, scores, held), scores, rows,
        n_tasks=len(np.unique(held.task)), n_never=answers.n_answers - len(rows), default=default, over_default=lead,
    )  # fmt: skip


def label_candidates(candidates: Any, with_features: bool) -> dict[str, Candidate]:
    """Return the candidates by label, majority vote first."""
    if candidates is None:
        candidates = default_candidates(with_features)
    if isinstance(candidates, str) or is_own(candidates):
        candidates = [candidates]
    if isinstance(candidates, Mapping):
        models = [_model_or_name(c, f"candidate {label!r}") for label, c in candidates.items()]
        pairs = list(zip(map(str, candidates), models, strict=True))
    else:
        pairs = [(label_of(c), c) for c in (_model_or_name(c, "candidate") for c in candidates)]
    for label, candidate in pairs:
        if isinstance(candidate, str):
            find_method(candidate)  # an unknown name is an error, not a candidate that fails
        elif paths := [n for n, v in candidate.get_params().items() if n.endswith("checkpoint") and v is not None]:
            message = (
                f"candidate {label!r} has {paths[0]} set: the fits of all folds would share that file. Set it to None."
            )
            raise ParameterError(message)
    labels = [label for label, _ in pairs]
    duplicates = sorted({label for label in labels if labels.count(label) > 1})
    require(not duplicates, "candidates", duplicates, "each candidate once, or a mapping with a label for each")
    named = dict(pairs)
    votes = [label for label, c in named.items() if c == VOTE or isinstance(c, MajorityVote)]
    if votes:
        return {votes[0]: named.pop(votes[0]), **named}
    require(VOTE not in named, "candidates", VOTE, "another label: this one is reserved for majority vote")
    return {VOTE: VOTE, **named}


def _model_or_name(candidate: Any, what: str) -> Candidate:
    return candidate if isinstance(candidate, str) else as_model(candidate, what)


def _plan_trainings(
    models: dict[str, Candidate], X: Any, answers: Answers, criterion: Criterion
) -> dict[str, Candidate]:
    """Find how long to train each network, once on all answers: a search in every fold would take most of the time."""
    if X is None or find_spec("torch") is None:
        return models
    from crowdwise.learn.network.plans import plan_ahead

    built: dict[str, Candidate] = {}
    for name, candidate in models.items():
        try:
            built[name] = model_to_score(candidate, criterion)
        except Exception:  # its fits will fail with the reason
            built[name] = candidate
    return plan_ahead(built, X, answers)


def _check(X: Any, criterion: Any, folds: Any, repeats: Any, random_state: Any, n_jobs: Any, time_budget: Any) -> None:
    known = ("common", "own", "tasks")
    require(criterion in known, "criterion", criterion, "one of " + ", ".join(map(repr, known)))
    for name, value, least in (("folds", folds, 2), ("repeats", repeats, 1)):
        valid = is_integer(value, least) and value <= MAX_FOLDS
        require(valid, name, value, f"an integer from {least} to {MAX_FOLDS}: every candidate is fitted each time")
    require(is_integer(random_state, 0), "random_state", random_state, "an integer of 0 or more")
    require(is_integer(n_jobs, -1) and n_jobs != 0, "n_jobs", n_jobs, "an integer of 1 or more, or -1 for all cores")
    if time_budget is not None:
        require(is_number(time_budget) and time_budget > 0, "time_budget", time_budget, "a number of seconds above 0")
    if criterion == "tasks" and X is None:
        message = "criterion='tasks' predicts answers from features alone: pass X, or use criterion='common'."
        raise ParameterError(message)
