"""Crowds of low accuracy on CIFAR10-H, as DASC and CrowdInG chose them: real votes and errors, redrawn.

The two papers used the worst workers of CIFAR10-H, but do not say which, and answers with worker ids are available for
only 500 of its 10,000 images. `long_tailed_subset` (DASC) and `low_quality_subset` (CrowdInG) rebuild their sets.

Real
    Images, truth, and how the crowd voted on each image (`counts`). The workers: those of the lowest accuracy on the
    500 images; their order from worst to best; the wrong answers they gave there, by true class.
Drawn
    The training and test images, who answers which, and each answer. With probability 1 - e[w], an answer is one of
    the real votes for that image; otherwise worker w errs, following the real errors of that worker:

        errors[w, c, l]  ~  wrong[w, c, l] + 5 tail[c, l]
        tail[c, l]       ~  sum over w of wrong[w, c, l] + 5 crowd[c, l]

    wrong: wrong answers on the 500 images, about 10 per worker, hence shrunk to those of all chosen workers, and these
    to wrong votes on all images (rows of tail and crowd sum to one). Workers are ranked by accuracy, shrunk likewise.
    Answers per task: zero-truncated Poisson, which results when a few of many workers are kept, each of whom answered
    about 200 random images. It explains both papers: 49 workers leave 1.57 answers on an image that has any
    (published 1.54), 103 leave 8,726 such images and 2.36 (published 8,687 and 2.37).
Calibrated
    e[w]: so that accuracies of workers have the published mean and deviation, keeping their order and, up to scale,
    their distances. CrowdInG gives no deviation; there the shrunk accuracies keep theirs.
    Which classes are rare: DASC does not say. Of 200 random orders we take the one for which the expected ratio of
    the most to the least frequent answer is closest to the published one. (In the order of class codes it would be
    2.1, in nine of ten random orders from 2.0 to 3.7; published: 3.09.)

No accuracy of any method was used to choose this.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from crowdwise._core.validation import is_integer, is_number, require
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.simulate.answers import assign, draw_labels
from crowdwise.simulate.balance import Array, Seed, shares, split
from reproduction.crowds.drawing import (
    Subset,
    balanced,
    check_moments,
    class_codes,
    draw_rows,
    match_moments,
    require_answers,
    streams,
)

SHRINK = 5.0  # pseudo-answers behind a worker's accuracy and behind each row of errors


def long_tailed_subset(
    counts: Any,
    y: Any,
    answers: Answers,
    *,
    n_tasks: int = 2837,
    n_workers: int = 49,
    n_answers: int = 4370,
    ratio: float = 5.0,
    answer_ratio: float = 3.093,
    accuracy: tuple[float, float | None] = (0.556, 0.197),
    n_test: int = 1000,
    seed: Seed = 0,
) -> Subset:
    """Draw DASC's CIFAR10-H: long-tailed classes, few answers, workers of low accuracy; see above.

    Parameters
    ----------
    counts : (tasks, classes) array
        Real votes.
    y : (tasks,) int codes
        Truth.
    answers : Answers
        Answers of real workers to some of the tasks. Ids of tasks are rows of `counts`, ids of classes its columns.
    n_tasks, n_workers, n_answers, n_test : int
        Sizes. The test set has equally many tasks of each class.
    ratio, answer_ratio : float
        Tasks of the largest class to those of the smallest (falling geometrically), and the same of answers.
    accuracy : (mean, deviation)
        Of the workers; None keeps the deviation of the real ones.
    seed : int or Generator
        The same seed gives the same set, and the same test tasks for any training size.

    Returns
    -------
    Subset
        Rows to train on, their answers with `truth` (ids of tasks are rows), rows to test on.

    Examples
    --------
    >>> y = np.repeat([0, 1], 50)
    >>> votes = np.where(np.eye(2)[y], 9, 1)
    >>> real = Answers.from_arrays([0, 1, 60, 0, 61, 1], list("aabbcc"), [0, 0, 1, 1, 0, 0])
    >>> train, answers, test = long_tailed_subset(
    ...     votes, y, real, n_tasks=50, n_workers=2, n_answers=60, ratio=4, n_test=10
    ... )
    >>> answers, sorted(np.bincount(answers.truth).tolist()), np.bincount(y[test]).tolist()
    (Answers(50 tasks, 2 workers, 60 answers, 2 classes), [10, 40], [5, 5])
    """
    votes, y = _check(counts, y, n_tasks, n_workers, n_answers)
    low = _lowest(votes, y, answers, n_workers, accuracy, n_answers)
    order, rows, draw = streams(seed, 3)
    share = _order(shares(ratio, votes.shape[1]), _mean_confusion(votes, y, low), answer_ratio, order)
    test, train = draw_rows(y, [balanced(n_test, votes.shape[1]), split(n_tasks, share)], rows)
    return Subset(train, _draw_answers(votes, y, train, low, n_answers, draw), test)


def low_quality_subset(
    counts: Any,
    y: Any,
    answers: Answers,
    *,
    n_tasks: int = 8687,
    n_workers: int = 103,
    n_answers: int = 20_600,
    accuracy: tuple[float, float | None] = (0.782, None),
    seed: Seed = 0,
) -> Subset:
    """Draw CrowdInG's CIFAR-10H: workers of low accuracy, about 200 answers each; see above.

    According to the paper, its test set is the 10,000 images of CIFAR-10's validation set, but these are the images of
    CIFAR-10H itself. Here the test set is the remaining images.

    Parameters
    ----------
    counts, y, answers, n_tasks, n_workers, n_answers, accuracy, seed
        As in `long_tailed_subset`; training tasks are drawn regardless of class.

    Returns
    -------
    Subset
        Rows to train on, their answers with `truth` (ids of tasks are rows), rows to test on.

    Examples
    --------
    >>> y = np.repeat([0, 1], 50)
    >>> votes = np.where(np.eye(2)[y], 9, 1)
    >>> real = Answers.from_arrays([0, 1, 60, 0, 61, 1], list("aabbcc"), [0, 0, 1, 1, 0, 0])
    >>> train, answers, test = low_quality_subset(votes, y, real, n_tasks=80, n_workers=2, n_answers=100)
    >>> answers, len(test)
    (Answers(80 tasks, 2 workers, 100 answers, 2 classes), 20)
    """
    votes, y = _check(counts, y, n_tasks, n_workers, n_answers)
    low = _lowest(votes, y, answers, n_workers, accuracy, n_answers)
    require(n_tasks < len(y), "n_tasks", n_tasks, f"fewer than all {len(y)}, so that some are left to test on")
    rows, draw = streams(seed, 2)
    (train,) = draw_rows(np.zeros_like(y), [[n_tasks]], rows)
    return Subset(train, _draw_answers(votes, y, train, low, n_answers, draw), np.setdiff1d(np.arange(len(y)), train))


class _Low(NamedTuple):
    """The chosen workers."""

    ids: Array
    skill: Array  # (workers,) target accuracy
    errors: Array  # (workers, classes, classes), zero on the diagonal


def _check(counts: Any, y: Any, n_tasks: int, n_workers: int, n_answers: int) -> tuple[Array, Array]:
    """Validate the input; return shares of votes and codes of the truth."""
    votes, y = np.asarray(counts, dtype=float), class_codes(y)
    fits = votes.ndim == 2 and len(votes) == len(y) and np.isfinite(votes).all() and (votes >= 0).all()
    if not fits or (votes.sum(axis=1) == 0).any() or (y < 0).any() or y.max() >= votes.shape[1]:
        message = (
            f"counts of shape {votes.shape}: pass (tasks, classes) for {len(y)} tasks, at least one vote per task."
        )
        raise ParameterError(message)
    for name, value, least in (("n_tasks", n_tasks, 1), ("n_workers", n_workers, 1), ("n_answers", n_answers, n_tasks)):
        require(is_integer(value, least), name, value, f"an integer, {least} or more")
    require(n_answers <= n_tasks * n_workers, "n_answers", n_answers, f"at most {n_tasks} tasks x {n_workers} workers")
    return votes / votes.sum(axis=1, keepdims=True), y


def _lowest(
    votes: Array, y: Array, answers: Answers, n_workers: int, accuracy: tuple[float, float | None], n_answers: int
) -> _Low:
    """Return the workers of lowest accuracy, their target accuracy, and the distribution of their errors."""
    mean, sd = check_moments(accuracy)
    require_answers(answers)
    for name, ids, n in (("tasks", answers.tasks, len(y)), ("classes", answers.classes, votes.shape[1])):
        if ids.dtype.kind not in "iu" or ids.min() < 0 or ids.max() >= n:
            message = f"answers: ids of {name} must be integers in 0..{n - 1}, as in counts."
            raise ParameterError(message)
    require(n_workers <= answers.n_workers, "n_workers", n_workers, f"at most {answers.n_workers}, those in answers")
    n_classes = votes.shape[1]
    truth, label = y[answers.tasks[answers.task]], answers.classes[answers.label]
    right = np.bincount(answers.worker, truth == label, minlength=answers.n_workers)
    n_given = np.bincount(answers.worker, minlength=answers.n_workers)
    shrunk = (right + SHRINK * votes[np.arange(len(y)), y].mean()) / (n_given + SHRINK)
    chosen = np.argsort(shrunk, kind="stable")[:n_workers]  # worst first
    place = np.full(answers.n_workers, -1)
    place[chosen] = np.arange(n_workers)
    wrong = np.zeros((n_workers, n_classes, n_classes))
    errs = (place[answers.worker] >= 0) & (truth != label)
    np.add.at(wrong, (place[answers.worker[errs]], truth[errs], label[errs]), 1)
    crowd = _confusion(votes, y) + 1e-9  # a class without errors is confused with any other
    crowd[np.arange(n_classes), np.arange(n_classes)] = 0
    tail = wrong.sum(axis=0) + SHRINK * crowd / crowd.sum(axis=1, keepdims=True)
    errors = wrong + SHRINK * tail / tail.sum(axis=1, keepdims=True)
    errors /= errors.sum(axis=2, keepdims=True)
    return _Low(answers.workers[chosen], match_moments(shrunk[chosen], mean, sd, n_answers / n_workers), errors)


def _confusion(votes: Array, y: Array) -> Array:
    """Return the confusion of the crowd over all tasks; rows of classes without tasks are uniform."""
    out = np.full((votes.shape[1], votes.shape[1]), 1e-12)
    np.add.at(out, y, votes)
    return out / out.sum(axis=1, keepdims=True)


def _mean_confusion(votes: Array, y: Array, low: _Low) -> Array:
    """Return the expected confusion of all chosen workers together."""
    err = np.clip(1 - low.skill / votes[np.arange(len(y)), y].mean(), 0, 1)  # (workers,)
    mean: Array = (1 - err.mean()) * _confusion(votes, y) + (err[:, None, None] * low.errors).mean(axis=0)
    return mean


def _order(share: Array, confusion: Array, answer_ratio: float, rng: np.random.Generator) -> Array:
    """Return the shares in the order of classes, out of 200, whose answers come closest to the ratio."""
    require(is_number(answer_ratio) and answer_ratio >= 1, "answer_ratio", answer_ratio, "a number, 1 or more")
    orders = rng.permuted(np.tile(share, (200, 1)), axis=1)  # (orders, classes)
    expected = orders @ confusion
    best: Array = orders[np.argmin(np.abs(np.log(expected.max(axis=1) / expected.min(axis=1) / answer_ratio)))]
    return best


def _draw_answers(votes: Array, y: Array, rows: Array, low: _Low, n_answers: int, rng: np.random.Generator) -> Answers:
    """Draw answers of the chosen workers to the tasks at these rows."""
    many, who, slip, what = rng.spawn(4)
    n_tasks, n_workers, n_classes = len(rows), len(low.ids), votes.shape[1]
    task, worker = assign(n_tasks, n_workers, _poisson(n_tasks, n_answers, n_workers, many), seed=who)
    truth, vote = y[rows], votes[rows]
    right = vote[np.arange(n_tasks), truth][task]  # probability that a vote for the task is right
    clear = np.bincount(worker, right, minlength=n_workers) / np.maximum(np.bincount(worker, minlength=n_workers), 1)
    err = np.clip(1 - low.skill / np.maximum(clear, 1e-9), 0, 1)  # (workers,)
    errs = slip.random(len(task)) < err[worker]
    chance = np.where(errs[:, None], low.errors[worker, truth[task]], vote[task])  # (answers, classes)
    return Answers.from_codes(
        task, worker, draw_labels(chance, what.random(len(task))), tasks=rows, workers=low.ids,
        classes=n_classes, truth=truth.astype(np.int32),
    )  # fmt: skip


def _poisson(n: int, total: int, most: int, rng: np.random.Generator) -> Array:
    """Integers from 1 to `most` with this sum: zero-truncated Poisson, then adjusted at random to the sum."""
    mean = total / n
    rate = brentq(lambda r: r / -np.expm1(-r) - mean, 1e-9, mean + 1) if mean > 1 else 1e-9
    first = -np.log1p(rng.random(n) * np.expm1(-rate)) / rate  # time of the first event, given that there is one
    count = np.minimum(1 + rng.poisson(rate * np.clip(1 - first, 0, 1)), most)
    while off := total - int(count.sum()):
        room = np.flatnonzero(count < most if off > 0 else count > 1)
        count[rng.permutation(room)[: abs(off)]] += np.sign(off)
    return count
