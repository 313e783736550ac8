"""The folds of held-out answers, and their log-likelihood under a candidate."""

from __future__ import annotations

import time
import warnings
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from crowdwise._core.registry import make
from crowdwise.answers import Answers
from crowdwise.choose.temperature import belief_at_temperature, is_too_large, temperature_curves, vote_limit
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

SHARPNESS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # log odds that one vote adds, tried for majority vote
MOST_NUMBERS = 10_000_000  # in the confusion matrices of all workers, or PER_ANSWER times the answers if that is more
PER_ANSWER = 100  # numbers per answer


def answer_folds(answers: Answers, folds: int, rng: np.random.Generator) -> Array:
    """Return the fold of each answer, (answers,); -1 if never held out. No task has all its answers in one fold.

    Answers are assigned in turn, task by task in random order, so folds have equal sizes and the answers to a task are
    in different ones.

    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2, 3], list("abcaba"), list("xxyxyx"))
    >>> np.bincount(answer_folds(answers, 2, np.random.default_rng(0)) + 1).tolist()  # never, first, second
    [1, 3, 2]
    """
    can = np.ones(answers.n_answers, bool) if answers.pseudo is None else ~answers.pseudo
    # A task with pseudo-answers keeps these even if all of its workers' answers are held out.
    can &= np.diff(answers.task_starts)[answers.task] > 1
    order = np.lexsort((rng.random(answers.n_answers), rng.permutation(answers.n_tasks)[answers.task]))
    order = order[can[order]]
    fold = np.full(answers.n_answers, -1)
    fold[order] = np.arange(len(order)) % folds
    return fold


def task_folds(answers: Answers, folds: int, rng: np.random.Generator) -> Array:
    """Return the fold of each answer, (answers,), the same for all answers to a task; -1 for pseudo-answers."""
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
    """The result of one fit."""

    scores: Array | None  # (held answers,)
    seconds: float
    failure: str | None
    warnings: tuple[CaughtWarning, ...]
    curves: Array | None = None  # (3, temperatures), see `temperature`


def score(candidate: Candidate, X: Any, answers: Answers, held: Array, criterion: Criterion) -> Outcome:
    """Fit a candidate without the held-out answers and score these. Any error becomes the outcome's failure."""
    start = time.perf_counter()
    kept, hidden = answers.take(np.flatnonzero(~held)), answers.take(np.flatnonzero(held))
    scores, failure, curves = None, None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            model = fit_candidate(candidate, X, kept, criterion)
            belief = task_beliefs(model, X, hidden, criterion)
            scores = held_out(model, X, kept, hidden, criterion, belief)
            if not np.isfinite(scores).all():
                scores, failure = None, "held-out answers have no finite log-likelihood"
            else:
                curves = temperature_curves(kept, hidden, belief_at_temperature(model, belief, kept))
        except Exception as error:  # a failing candidate must not lose the results of the others
            scores, failure = None, f"{type(error).__name__}: {error}"
    issued = (CaughtWarning(warning.category.__name__, str(warning.message)) for warning in caught)
    return Outcome(scores, time.perf_counter() - start, failure, tuple(dict.fromkeys(issued)), curves)


def model_to_score(candidate: Candidate, criterion: Criterion) -> Any:
    """Return the model that a criterion scores, not fitted: for "tasks", the classifier of a truth model's labels."""
    model: Any = make(candidate) if isinstance(candidate, str) else clone(candidate)
    if criterion == "tasks" and isinstance(model, TruthModel):
        from crowdwise.learn.methods.aggregated import Aggregated

        return Aggregated(model)
    return model


def fit_candidate(candidate: Candidate, X: Any, kept: Answers, criterion: Criterion) -> Any:
    """Fit the model on the training answers. Raise if its confusion matrices would be huge."""
    model = model_to_score(candidate, criterion)
    if isinstance(model, TruthModel):
        most = max(MOST_NUMBERS, PER_ANSWER * kept.n_answers)
        if hasattr(type(model), "confusion_") and kept.n_workers * kept.n_classes**2 > most:
            message = (
                f"not tried: {kept.n_workers:,} confusion matrices of {kept.n_classes:,} classes are too many to "
                f"estimate from {kept.n_answers:,} answers."
            )
            raise CrowdwiseError(message)
        return model.fit(kept)
    if X is None:
        message = "learns from features: pass X."
        raise ParameterError(message)
    return model.fit(X, kept)


def task_beliefs(model: Any, X: Any, held: Answers, criterion: Criterion) -> Array:
    """Return a fitted model's belief, (tasks, classes); for "tasks", from features alone for held-out tasks."""
    if criterion != "tasks":
        return model.proba_
    hidden = np.diff(held.task_starts)[:, None] > 0  # (tasks, 1)
    return np.where(hidden, model.predict_proba(X), model.proba_)


def held_out(
    model: Any, X: Any, kept: Answers, held: Answers, criterion: Criterion, belief: Array | None = None
) -> Array:
    """Return the log-likelihood of each held-out answer, (held,), under a fitted model; `belief` saves computing it.

    For "tasks" it is that of all answers to the task together, divided equally over them.
    """
    if criterion == "own" and isinstance(model, CrowdClassifier):
        return model.answer_log_likelihood(X, held)
    if criterion == "own" and hasattr(model, "confusion_"):
        says = model.confusion_[held.worker, :, held.label]  # (held, classes)
        return np.log(np.maximum((says * model.proba_[held.task]).sum(axis=1), FLOOR))
    if isinstance(model, MajorityVote):  # several readings of a vote: its shares, or odds that grow with each vote
        sharpnesses = (vote_limit(kept),) if is_too_large(kept, held) else SHARPNESS
        beliefs = [vote_shares(kept), *(vote_belief(kept, sharpness) for sharpness in sharpnesses)]
    else:
        beliefs = [task_beliefs(model, X, held, criterion) if belief is None else belief]
    likely = log_likelihood_of_tasks if criterion == "tasks" else log_likelihood
    return max((likely(kept, held, belief) for belief in beliefs), key=np.sum)
