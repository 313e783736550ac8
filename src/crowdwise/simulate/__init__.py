"""Crowds with known truth: make tasks, make workers, let them answer.

    truth       how many tasks, and how uneven the classes are              `draw_truth`, `shares`
    crowd       a confusion matrix for each worker, from named kinds        `crowd`
    assignment  who answers what: sparse, uneven, no worker twice on a task `assign`
    answers     what they say: own confusion, blurred by difficulty,        `answer`
                or led astray together

`simulate` runs the four in turn; `digits_crowd` gives real images with a simulated crowd. The crowds that the papers
simulate are in `reproduction.crowds`, outside the package.

Everything follows from `seed`, an integer or a numpy Generator. Each piece draws from a stream of its own: the same
seed gives the same truth whatever the crowd, and the same assignment whatever is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.simulate.answers import answer, assign
from crowdwise.simulate.balance import Array, Balance, Seed, draw_truth, shares, split
from crowdwise.simulate.digits import digits_crowd, look_alike
from crowdwise.simulate.workers import Workers, crowd

__all__ = [
    "answer",
    "assign",
    "crowd",
    "digits_crowd",
    "draw_truth",
    "look_alike",
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
    """Make answers of a crowd to tasks of known truth.

    Parameters
    ----------
    n_tasks : int, optional
        How many tasks, 1000 unless `truth` is given.
    truth : int codes, optional
        The true class of each task, in place of drawing it.
    n_workers, n_classes : int
        Size of the crowd, and number of classes (4 unless `truth`, `classes` or `workers` say otherwise).
    answers_per_task : float or int array
        Mean number of answers a task, at least 1; 2.5 gives half of the tasks 2 and half 3. Or a number for each task.
    class_balance, activity : "even", "long-tail", number or array
        Share of each class among the tasks, and of each worker among the answers; see `shares`.
    workers, accuracy
        What the workers are like; see `crowd`.
    difficulty, together
        What makes answers worse; see `answer`.
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
    tasks, make, speak = np.random.default_rng(seed).spawn(3)
    if n_classes is None:
        if classes is not None:
            n_classes = len(classes)
        elif isinstance(workers, np.ndarray):
            n_classes = workers.shape[-1]
        else:
            n_classes = 4 if truth is None else int(np.max(truth)) + 1
    if truth is None:
        truth = draw_truth(1000 if n_tasks is None else n_tasks, n_classes, class_balance, seed=tasks)
    elif n_tasks not in (None, len(truth)):
        message = f"n_tasks={n_tasks}, but truth holds {len(truth)} tasks: give one of the two."
        raise ParameterError(message)
    confusion = crowd(n_workers, n_classes, workers, accuracy=accuracy, seed=make)
    return answer(
        truth, confusion, answers_per_task,
        activity=shares(activity, len(confusion)), difficulty=difficulty, together=together,
        classes=classes, seed=speak,
    )  # fmt: skip
