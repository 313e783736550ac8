"""Simulated crowds with known truth: draw tasks, draw workers, and let them answer.

    truth       number of tasks, and balance of the classes                  `draw_truth`, `shares`
    crowd       one confusion matrix per worker, from named kinds            `crowd`
    assignment  which worker answers which task, each task at most once      `assign`
    answers     drawn from the confusion matrices, made worse by difficult   `answer`
                tasks or by errors that workers share

`simulate` combines the four steps; `digits_crowd` returns real images with a simulated crowd, and `rating_crowd`
ratings. The simulated crowds of the papers are in `reproduction.crowds`, outside the package.

Everything is determined by `seed`, an integer or a numpy Generator. Each step has its own random stream: the same seed
gives the same truth for any crowd, and the same assignment for any answers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.simulate.answers import answer, assign
from crowdwise.simulate.balance import Array, Balance, Seed, draw_truth, shares, split
from crowdwise.simulate.comparisons import comparisons
from crowdwise.simulate.digits import digits_crowd, look_alike
from crowdwise.simulate.ratings import rating_crowd
from crowdwise.simulate.workers import Workers, crowd

__all__ = [
    "answer",
    "assign",
    "comparisons",
    "crowd",
    "digits_crowd",
    "draw_truth",
    "look_alike",
    "rating_crowd",
    "shares",
    "simulate",
    "split",
]


def simulate(
    n_tasks: int | None = None,
    *,
    truth: Any = None,
    n_workers: int = 40,
    n_classes: int | None = None,
    answers_per_task: float | Array = 2.5,
    class_balance: Balance = "even",
    workers: Workers = "mixed",
    accuracy: tuple[float, float] = (0.4, 0.95),
    activity: Balance = "long-tail",
    difficulty: float | Array = 0.0,
    together: float = 0.0,
    classes: Any = None,
    seed: Seed = 0,
) -> Answers:
    """Simulate the answers of a crowd to tasks of known truth.

    Parameters
    ----------
    n_tasks : int, optional
        Number of tasks; 1000 unless `truth` is passed.
    truth : int codes, optional
        The true class of each task; drawn by default.
    n_workers, n_classes : int
        Number of workers and of classes (4 classes unless `truth`, `classes` or `workers` imply another number).
    answers_per_task : float or int array
        Mean number of answers per task, at least 1: with 2.5, half of the tasks have 2 and half have 3. Or one number
        per task.
    class_balance, activity : "even", "long-tail", number or array
        Shares of the classes among the tasks, and of the workers among the answers; see `shares`.
    workers, accuracy
        Kinds of workers and their accuracy; see `crowd`.
    difficulty, together
        Difficulty of tasks, and shared errors; see `answer`.
    classes : sequence, optional
        Ids of the classes.
    seed : int or Generator
        The same seed gives the same answers.

    Returns
    -------
    Answers
        With `truth` set.

    Examples
    --------
    >>> answers = simulate(200, n_workers=10, n_classes=3, class_balance=4)
    >>> answers
    Answers(200 tasks, 10 workers, 500 answers, 3 classes)
    >>> np.bincount(answers.truth).tolist()
    [114, 57, 29]
    """
    truth_rng, crowd_rng, answer_rng = np.random.default_rng(seed).spawn(3)
    if n_classes is None:
        if classes is not None:
            n_classes = len(classes)
        elif isinstance(workers, np.ndarray):
            n_classes = workers.shape[-1]
        else:
            n_classes = 4 if truth is None else int(np.max(truth)) + 1
    if truth is None:
        truth = draw_truth(1000 if n_tasks is None else n_tasks, n_classes, class_balance, seed=truth_rng)
    elif n_tasks not in (None, len(truth)):
        message = f"n_tasks={n_tasks}, but truth has {len(truth)} tasks: pass only one of them."
        raise ParameterError(message)
    confusion = crowd(n_workers, n_classes, workers, accuracy=accuracy, seed=crowd_rng)
    return answer(
        truth, confusion, answers_per_task,
        activity=shares(activity, len(confusion)), difficulty=difficulty, together=together,
        classes=classes, seed=answer_rng,
    )  # fmt: skip
