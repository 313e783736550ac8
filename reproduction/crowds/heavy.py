"""Heavily imbalanced binary tasks that replace the six of DASC's figure 8 (Data1 and Data2), which are not available.

The question is "is it class c?", for images with known features. Sizes, number of workers, answers, ratios R of answers
and Rg of truth, and accuracy of workers are those of the paper's Table 3; images, features and answers are not. From
Rg, R and the mean accuracy A follow how often workers are right on either class, with p = 1/(1 + Rg) of the truth and
q = 1/(1 + R) of the answers positive:

    A = p sensitivity + (1 - p) specificity,    q = p sensitivity + (1 - p)(1 - specificity)

A worker who errs twice as often as the mean does so on both classes. (The paper's text names labels 3, 4, 5 and 12 of
Data1, its table 2, 4, 9 and 12; names here are the table's.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from crowdwise._core.validation import require
from crowdwise.errors import ParameterError
from crowdwise.simulate.answers import answer
from crowdwise.simulate.balance import Array, Seed
from reproduction.crowds.drawing import (
    TrainTest,
    balanced,
    check_moments,
    draw_rows,
    match_moments,
    streams,
    two_classes,
    uniform_confusion,
    with_task_ids,
)


class Heavy(NamedTuple):
    """One row of the paper's Table 3."""

    n_train: int
    n_test: int
    n_workers: int
    answers_per_worker: float
    ratio: float  # Rg, of truth
    answer_ratio: float  # R, of answers
    accuracy: tuple[float, float]  # of workers: mean, deviation


HEAVY = {
    "data1-2": Heavy(1258, 200, 15, 347.8, 5.989, 6.530, (0.927, 0.025)),
    "data1-4": Heavy(1258, 200, 15, 348.1, 10.541, 8.003, (0.925, 0.023)),
    "data1-9": Heavy(1258, 200, 15, 347.1, 7.169, 7.073, (0.914, 0.038)),
    "data1-12": Heavy(1158, 300, 15, 318.3, 4.732, 4.903, (0.955, 0.030)),
    "data2-3": Heavy(500, 200, 18, 188.5, 3.587, 3.104, (0.898, 0.041)),
    "data2-4": Heavy(500, 200, 18, 193.9, 5.024, 4.667, (0.891, 0.048)),
}


def heavy_binary(X: Any, y: Any, positive: Any, shape: str | Heavy = "data1-2", *, seed: Seed = 0) -> TrainTest:
    """Simulate a crowd that is asked "is it class c?", which is rarely true; see above.

    Parameters
    ----------
    X : (tasks, features) array
        Features.
    y : (tasks,) int codes
        Classes of the images.
    positive : int or sequence of int
        The class, or classes, for which the answer is yes.
    shape : str or Heavy
        The set of the paper that it replaces: "data1-2", "data1-4", "data1-9", "data1-12", "data2-3", "data2-4";
        or custom sizes.
    seed : int or Generator
        The same seed gives the same set.

    Returns
    -------
    TrainTest
        `X, answers, X_test, y_test`; class 1 is the positive one. Task ids are rows of the input `X`.

    Examples
    --------
    >>> X, y = np.arange(300.0)[:, None], np.tile([0, 1, 2], 100)
    >>> data = heavy_binary(X, y, 2, Heavy(100, 20, 5, 40.0, 4.0, 4.0, (0.9, 0.05)))
    >>> data.answers, np.bincount(data.answers.truth).tolist(), np.bincount(data.y_test).tolist()
    (Answers(100 tasks, 5 workers, 200 answers, 2 classes), [80, 20], [10, 10])
    """
    heavy = HEAVY.get(shape) if isinstance(shape, str) else shape
    require(isinstance(heavy, Heavy), "shape", shape, f"{', '.join(HEAVY)}, or a Heavy")
    assert heavy is not None
    mean, sd = check_moments(heavy.accuracy)
    X, y = np.asarray(X), np.asarray(y)
    code = two_classes(y, (np.setdiff1d(y, positive), positive))
    if X.ndim != 2 or len(X) != len(code):
        message = f"X of shape {X.shape}: pass one row for each of the {len(code)} tasks in y."
        raise ParameterError(message)
    n_positive = round(heavy.n_train / (1 + heavy.ratio))
    split, make, answering = streams(seed, 3)
    test, train = draw_rows(code, [balanced(heavy.n_test, 2), [heavy.n_train - n_positive, n_positive]], split)
    accuracy = match_moments(make.random(heavy.n_workers), mean, sd, heavy.answers_per_worker)  # (workers,)
    errs = (1 - accuracy[:, None]) / (1 - mean) * (1 - _skill(heavy))  # (workers, classes)
    answers = answer(
        code[train], uniform_confusion(1 - np.minimum(errs, 1)),
        heavy.n_workers * heavy.answers_per_worker / heavy.n_train, seed=answering,
    )  # fmt: skip
    return TrainTest(X[train], with_task_ids(answers, train), X[test], code[test])


def _skill(heavy: Heavy) -> Array:
    """Return specificity and sensitivity of the crowd."""
    p, q, mean = 1 / (1 + heavy.ratio), 1 / (1 + heavy.answer_ratio), heavy.accuracy[0]
    specificity = (1 + (mean - q) / (1 - p)) / 2
    skill = np.array([specificity, (mean - (1 - p) * specificity) / p])
    fits = mean < 1 and ((skill >= 0) & (skill <= 1)).all()
    require(bool(fits), "shape", heavy, "an accuracy below 1 that allows for these two ratios")
    return skill
