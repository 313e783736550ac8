"""Assign workers to tasks, and draw their answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.simulate.balance import Array, Seed, shares
from crowdwise.simulate.workers import check_confusion


def answer(
    truth: Any,
    confusion: Array,
    answers_per_task: float | Array = 2.5,
    *,
    activity: Array | None = None,
    difficulty: float | Array = 0.0,
    together: float = 0.0,
    classes: Any = None,
    seed: Seed = 0,
) -> Answers:
    """Draw answers of workers with known confusion matrices to tasks of known truth.

    Parameters
    ----------
    truth : int codes
        True class of each task.
    confusion : (workers, classes, classes) array
        P(worker w answers l | truth c) as [w, c, l]; see `crowd`.
    answers_per_task, activity
        See `assign`.
    difficulty : float or array
        Probability, 0 to 1, that a worker cannot recognise the class and guesses. One value per task, or the mean of
        values drawn from a Beta distribution of concentration 2 (uniform for a mean of 0.5).
    together : float
        Probability, 0 to 1, that an answer to a misleading task is the wrong class that the task suggests to all
        workers. Half of the tasks are misleading. Errors are then not independent given the truth.
    classes : sequence, optional
        Ids of the classes; 0, 1, 2, ... by default.
    seed : int or Generator
        The same seed gives the same answers.

    Returns
    -------
    Answers
        With `truth` set.

    Examples
    --------
    >>> from crowdwise.simulate import crowd
    >>> answer([0, 1, 1], crowd(5, 2, "hammer"), 3).label.tolist()
    [0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    confusion = check_confusion(confusion, confusion.shape[-1])
    n_workers, n_classes, _ = confusion.shape
    truth = np.asarray(truth)
    if truth.dtype.kind not in "iub" or not ((truth >= 0) & (truth < n_classes)).all():
        message = f"invalid truth: pass an array of class codes, integers in 0..{n_classes - 1}."
        raise ParameterError(message)
    truth = np.ascontiguousarray(truth, dtype=np.int32)
    assignment_rng, label_rng, difficulty_rng, lure_rng = np.random.default_rng(seed).spawn(4)
    task, worker = assign(len(truth), n_workers, answers_per_task, activity=activity, seed=assignment_rng)
    guess_probability = _task_difficulty(difficulty, len(truth), difficulty_rng)
    if not 0 <= together <= 1:
        message = f"together={together}: pass a probability, 0 to 1."
        raise ParameterError(message)
    lure = _draw_lures(truth, n_classes, lure_rng) if together and n_classes > 1 else np.full(len(truth), -1, np.int32)
    label = _draw_answers(task, worker, truth, confusion, guess_probability, lure, together, label_rng)
    return Answers.from_codes(
        task, worker, label, tasks=len(truth), workers=n_workers, classes=n_classes if classes is None else classes,
        truth=truth,
    )  # fmt: skip


def assign(
    n_tasks: int,
    n_workers: int,
    answers_per_task: float | Array = 2.5,
    *,
    activity: Array | None = None,
    seed: Seed = 0,
) -> tuple[Array, Array]:
    """Return the task and worker of each answer, sorted; no worker answers a task twice.

    Parameters
    ----------
    n_tasks, n_workers : int
        Number of tasks and of workers.
    answers_per_task : float or int array
        Mean number of answers per task, from 1 to the number of workers; each task gets the integer below or above it.
        Or one number per task.
    activity : (workers,) array, optional
        Workers are drawn in proportion to it, without replacement within a task; uniformly by default.
    seed : int or Generator
        The same seed gives the same assignment.

    Examples
    --------
    >>> task, worker = assign(4, 3, 1.5)
    >>> len(task), np.bincount(task).tolist()
    (6, [2, 1, 2, 1])
    """
    rng = np.random.default_rng(seed)
    weight = shares("even" if activity is None else activity, n_workers)
    available = int((weight > 0).sum())
    count = np.asarray(answers_per_task)
    is_valid = count.ndim == 0 or (count.shape == (n_tasks,) and count.dtype.kind in "iu")
    if not is_valid or not ((count >= 1) & (count <= available)).all():
        message = (
            f"answers_per_task={answers_per_task}: pass a mean (or {n_tasks} integers) from 1 to {available}, "
            f"the number of workers; each worker answers a task at most once."
        )
        raise ParameterError(message)
    if count.ndim == 0:
        total = round(float(count) * n_tasks)
        count = np.full(n_tasks, total // max(n_tasks, 1), np.int64)
        count[rng.permutation(n_tasks)[: total - count.sum()]] += 1
    start = np.zeros(n_tasks + 1, np.int64)
    np.cumsum(count, out=start[1:])
    worker = _draw_workers(start, np.cumsum(weight), weight, rng)
    return np.repeat(np.arange(n_tasks, dtype=np.int32), count), worker


def _task_difficulty(difficulty: float | Array, n_tasks: int, rng: np.random.Generator) -> Array:
    value = np.asarray(difficulty, dtype=float)
    if value.shape not in ((), (n_tasks,)) or not ((value >= 0) & (value <= 1)).all():
        message = f"difficulty={difficulty}: pass a mean, or one value for each of {n_tasks} tasks, between 0 and 1."
        raise ParameterError(message)
    if value.ndim == 0 and 0 < value < 1:
        return rng.beta(2 * value, 2 * (1 - value), size=n_tasks)
    return np.broadcast_to(value, n_tasks).copy()


def _draw_lures(truth: Array, n_classes: int, rng: np.random.Generator) -> Array:
    """Return the wrong class that each task suggests, -1 for tasks that are not misleading.

    Each class has two subtypes: a plain one, and one that all workers tend to mistake for the same other class.
    """
    towards = (np.arange(n_classes) + rng.integers(1, n_classes, size=n_classes)) % n_classes  # (classes,)
    return np.where(rng.random(len(truth)) < 0.5, towards[truth], -1).astype(np.int32)


@njit(cache=True)
def _draw_workers(start: Array, cumulative: Array, weight: Array, rng: np.random.Generator) -> Array:
    """Draw distinct workers for each task in proportion to their weight, sorted within the task.

    A draw that repeats a worker is rejected. After 30 rejections, a worker is drawn from the remaining ones, so that
    tasks answered by nearly everyone take time linear in the number of workers.
    """
    n_workers = weight.shape[0]
    total = cumulative[-1]
    # guide[i]: first worker whose cumulative weight exceeds i / n_workers of the total: the search starts there.
    guide = np.empty(n_workers, np.int64)
    w = 0
    for i in range(n_workers):
        while w < n_workers - 1 and cumulative[w] <= total * i / n_workers:
            w += 1
        guide[i] = w
    taken = np.full(n_workers, -1, np.int64)  # the last task that took this worker
    out = np.empty(start[-1], np.int32)
    for t in range(start.shape[0] - 1):
        for a in range(start[t], start[t + 1]):
            tries = 0
            while True:
                if tries < 30:
                    u = rng.random()
                    w = guide[int(u * n_workers)]
                    while w < n_workers - 1 and cumulative[w] <= u * total:
                        w += 1
                else:
                    left = 0.0
                    for v in range(n_workers):
                        if taken[v] != t:
                            left += weight[v]
                    u = rng.random() * left
                    for v in range(n_workers):
                        if taken[v] != t and weight[v] > 0:
                            w = v
                            u -= weight[v]
                            if u < 0:
                                break
                tries += 1
                if taken[w] != t and weight[w] > 0:
                    break
            taken[w] = t
            out[a] = w
        out[start[t] : start[t + 1]].sort()
    return out


@njit(cache=True)
def _draw_answers(
    task: Array,
    worker: Array,
    truth: Array,
    confusion: Array,
    difficulty: Array,
    lure: Array,
    together: float,
    rng: np.random.Generator,
) -> Array:
    """Draw the label of each answer: the lure, a guess, or a label from the worker's row of the confusion matrix."""
    n_classes = confusion.shape[2]
    label = np.empty(task.shape[0], np.int32)
    for a in range(task.shape[0]):
        t = task[a]
        if lure[t] >= 0 and rng.random() < together:
            label[a] = lure[t]
        elif difficulty[t] > 0 and rng.random() < difficulty[t]:
            label[a] = int(rng.random() * n_classes)
        else:
            row = confusion[worker[a], truth[t]]
            u = rng.random()
            drawn = n_classes - 1
            for c in range(n_classes):
                u -= row[c]
                if u < 0:
                    drawn = c
                    break
            while row[drawn] == 0:  # rounding must not lead to a label of probability zero
                drawn -= 1
            label[a] = drawn
    return label


def draw_labels(proba: Array, uniform: Array) -> Array:
    """Draw a label (answers,) from each distribution (answers, classes), with uniform numbers (answers,) in [0, 1).

    >>> draw_labels(np.array([[0.25, 0.75], [0.25, 0.75]]), np.array([0.2, 0.3])).tolist()
    [0, 1]
    """
    cumulative = proba.cumsum(axis=1)
    return (uniform[:, None] * cumulative[:, -1:] >= cumulative[:, :-1]).sum(axis=1)
