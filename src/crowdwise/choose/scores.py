"""Which answers are held out, and how likely a candidate finds them."""

from __future__ import annotations

import time
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from crowdwise._core.registry import make
from crowdwise.answers import Answers
from crowdwise.choose.temperature import readings, softened, too_many, vote_limit
from crowdwise.errors import CrowdwiseError, ParameterError
from crowdwise.evaluate.calibration import vote_belief
from crowdwise.learn.base import CrowdClassifier
from crowdwise.truth.base import TruthModel, vote_shares
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.majority_vote import MajorityVote
from crowdwise.truth.vote_check import log_likelihood, log_likelihood_of_tasks

Array = np.ndarray[Any, np.dtype[Any]]
Candidate = TruthModel | CrowdClassifier | str
Criterion = Literal["common", "own", "tasks"]

SHARPNESS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the vote: log odds that one vote adds
MOST_NUMBERS = 10_000_000  # in the confusion matrices of all workers; more, where there are answers to learn them from
PER_ANSWER = 100  # numbers


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


class CaughtWarning(NamedTuple):
    """A warning of a fit: the name of its class, and its text."""

    category: str
    text: str


class Outcome(NamedTuple):
    """Of one fit."""

    scores: Array | None  # (held answers,)
    seconds: float
    failure: str | None
    warnings: tuple[CaughtWarning, ...]
    readings: Array | None = None  # (3, temperatures), see `temperature`


def score(candidate: Candidate, X: Any, answers: Answers, held: Array, criterion: Criterion) -> Outcome:
    """Fit a candidate without the held answers and ask it for them; whatever goes wrong becomes the reason."""
    start = time.perf_counter()
    kept, hidden = answers.take(np.flatnonzero(~held)), answers.take(np.flatnonzero(held))
    scores, failure, sums = None, None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            model = fitted(candidate, X, kept, criterion)
            belief = believed(model, X, hidden, criterion)
            scores = held_out(model, X, kept, hidden, criterion, belief)
            if not np.isfinite(scores).all():
                scores, failure = None, "held-out answers have no finite log-likelihood"
            else:
                sums = readings(kept, hidden, softened(model, belief, kept))
        except Exception as error:  # a failing candidate must not take the others' results with it
            scores, failure = None, f"{type(error).__name__}: {error}"
    found = (CaughtWarning(warning.category.__name__, str(warning.message)) for warning in caught)
    return Outcome(scores, time.perf_counter() - start, failure, tuple(dict.fromkeys(found)), sums)


def judged(candidate: Candidate, criterion: Criterion) -> Any:
    """The model that a criterion judges, not fitted: for "tasks", a truth model is the classifier of its labels."""
    model: Any = make(candidate) if isinstance(candidate, str) else clone(candidate)
    if criterion == "tasks" and isinstance(model, TruthModel):
        from crowdwise.learn.methods.aggregated import Aggregated

        return Aggregated(model)
    return model


def fitted(candidate: Candidate, X: Any, kept: Answers, criterion: Criterion) -> Any:
    """The same, fitted on the answers kept; not if it has a confusion matrix for each worker, and they are huge."""
    model = judged(candidate, criterion)
    if isinstance(model, TruthModel):
        most = max(MOST_NUMBERS, PER_ANSWER * kept.n_answers)
        if hasattr(type(model), "confusion_") and kept.n_workers * kept.n_classes**2 > most:
            message = (
                f"not tried: a confusion matrix of {kept.n_classes:,} classes for each of {kept.n_workers:,} workers "
                f"takes long to learn, and {kept.n_answers:,} answers say little about it."
            )
            raise CrowdwiseError(message)
        return model.fit(kept)
    if X is None:
        message = "it learns from features: give X."
        raise ParameterError(message)
    return model.fit(X, kept)


def believed(model: Any, X: Any, held: Answers, criterion: Criterion) -> Array:
    """What a fitted model believes of the tasks, (tasks, classes): for "tasks", by features alone where asked."""
    if criterion != "tasks":
        return model.proba_
    asked = np.diff(held.task_starts)[:, None] > 0  # (tasks, 1)
    return np.where(asked, model.predict_proba(X), model.proba_)


def held_out(
    model: Any, X: Any, kept: Answers, held: Answers, criterion: Criterion, belief: Array | None = None
) -> Array:
    """Log probability of each held answer, (held,), under a model fitted on those kept, and its belief where known.

    For "tasks" it is that of all answers to the task together, in equal parts to each.
    """
    if criterion == "own" and isinstance(model, CrowdClassifier):
        return model.answer_log_likelihood(X, held)
    if criterion == "own" and hasattr(model, "confusion_"):
        says = model.confusion_[held.worker, :, held.label]  # (held, classes)
        return np.log(np.maximum((says * model.proba_[held.task]).sum(axis=1), FLOOR))
    if isinstance(model, MajorityVote):  # what a vote may mean: its shares, or odds that grow with each vote
        tried = (vote_limit(kept),) if too_many(kept, held) else SHARPNESS
        beliefs = [vote_shares(kept), *(vote_belief(kept, sharpness) for sharpness in tried)]
    else:
        beliefs = [believed(model, X, held, criterion) if belief is None else belief]
    likely = log_likelihood_of_tasks if criterion == "tasks" else log_likelihood
    return max((likely(kept, held, belief) for belief in beliefs), key=np.sum)
