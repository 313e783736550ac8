"""Answers that get worse as tasks get harder: the two simulations of the difficulty paper.

Structural: a worker is right more often if a reference, such as a classifier trained on the truth, is more certain.

    d_t                              = (p_t - 1/2)^2; for C classes (sum over c of p_tc^2 - 1/C) / 2
    lambda[w, c]                     = 4 logit(skill[w, c]); for C classes (logit(skill) + log(C - 1)) / (largest d)
    P(worker w is right | truth c)   = sigmoid(lambda[w, c] d_t); for C classes e / (e + C - 1), e = exp(lambda d)

`skill` is thus reached if p_t is 0 or 1; if p_t is 1/2, all workers guess. skill[:, 1] is the sensitivity and
skill[:, 0] the specificity of the paper's five workers. Their accuracy is far lower: 58.5 % on its Gaussian data.

Unstructured ("non-structural" there): each answer is wrong with probability 1 / (3 + k), k drawn at random for that
answer alone. Such answers look like those of workers who err equally often on all tasks (in 0.203 of answers).
`per="task"`, our addition, draws k once per task: some tasks are then truly harder than others, for reasons that the
features do not show.

Xu, Zhang, Zhang and Zhang, "Data difficulty specified crowdsourcing". Errors in the text:

    p = 1 / (1 + w'x)          lacks an exponential: p = sigmoid(w'x), w = (1, 1), as the authors' code has it. That is
                               not the true class probability, sigmoid(2 w'x), so tasks are harder than necessary
    2000 points                are 1000 to train on and 1000 to test on
    k in {0, ..., 5}           the code has {0, ..., 4}: errors=1 / np.arange(3, 8), wrong in 0.219 of answers
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit, logit

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.simulate.answers import assign
from crowdwise.simulate.balance import Array, Seed
from reproduction.crowds.drawing import streams

# The paper's workers: specificity and sensitivity, (workers, classes).
SKILL = np.column_stack([[0.6, 0.7, 0.6, 0.7, 0.7], [0.8, 0.6, 0.6, 0.7, 0.6]])
ERRORS = 1 / np.arange(3, 9)  # the paper's error rates: 1 / (3 + k)


class Mixture(NamedTuple):
    """Training tasks, reference probability of class 1 (`p`), and test tasks."""

    X: Array  # (tasks, features)
    truth: Array  # (tasks,) codes
    p: Array  # (tasks,)
    X_test: Array
    truth_test: Array


def gaussian_mixture(
    n_train: int = 1000, n_test: int = 1000, *, constant: bool = False, seed: Seed | Literal["paper"] = 0
) -> Mixture:
    """Draw two classes, normal around (1, 1) and (-1, -1) with variance 1: the first data of the difficulty paper.

    The best possible rule, x1 + x2 > 0, is right on 92.1 % of tasks.

    Parameters
    ----------
    n_train, n_test : int
        Tasks, half of each class; class 1 comes first.
    constant : bool
        Whether features end in a 1, as in the paper. Our classifiers have a bias of their own.
    seed : int, Generator or "paper"
        "paper" gives exactly the points of the paper (the best rule is right on 94.1 % of its test tasks).

    Examples
    --------
    >>> X, truth, p, X_test, truth_test = gaussian_mixture(seed="paper")
    >>> float(np.mean((X.sum(axis=1) > 0) == truth)), float(np.mean((X_test.sum(axis=1) > 0) == truth_test))
    (0.916, 0.941)
    """
    require(isinstance(constant, (bool, np.bool_)), "constant", constant, "True or False")
    for name, value in (("n_train", n_train), ("n_test", n_test)):
        require(is_integer(value, 0), name, value, "an integer number of tasks, 0 or more")
    rngs: Any
    if isinstance(seed, str):
        if seed != "paper" or (n_train, n_test) != (1000, 1000):
            message = (
                f"seed={seed!r}: use an integer, or 'paper', which has 1000 tasks to train on and 1000 to test on."
            )
            raise ParameterError(message)
        rngs = [np.random.RandomState(1228)] * 2  # one stream of numpy's legacy generator, as in the paper
    else:
        rngs = streams(seed, 2)
    X, truth = _clouds(rngs[0], n_train)
    X_test, truth_test = _clouds(rngs[1], n_test)
    p = expit(X.sum(axis=1))
    if constant:
        X, X_test = (np.column_stack([x, np.ones(len(x))]) for x in (X, X_test))
    return Mixture(X, truth, p, X_test, truth_test)


def _clouds(rng: Any, n: int) -> tuple[Array, Array]:
    sizes = {1: n - n // 2, 0: n // 2}
    X = [np.column_stack([rng.standard_normal(m), rng.standard_normal(m)]) + 2 * c - 1 for c, m in sizes.items()]
    return np.vstack(X), np.repeat(np.array(list(sizes), np.int32), list(sizes.values()))


def structural_answers(
    truth: Any,
    p: Any,
    skill: Any = SKILL,
    *,
    answers_per_task: float | Array | None = None,
    classes: Any = None,
    seed: Seed = 0,
) -> Answers:
    """Simulate workers whose accuracy grows with the clarity of a task; see the equations above.

    Parameters
    ----------
    truth : int codes
        True class of each task.
    p : (tasks,) or (tasks, classes) array
        Reference probability of class 1, or of each class. Only its distance from uniform matters.
    skill : (workers, classes) array
        P(worker is right | truth c) on the clearest tasks, above 0 and below 1.
    answers_per_task : float or int array, optional
        As in `assign` (default: every worker answers every task).
    classes : sequence, optional
        Ids of the classes (default: 0, 1, 2, ...).
    seed : int or Generator
        The same seed gives the same answers.

    Returns
    -------
    Answers
        With `truth` set.

    Examples
    --------
    >>> data = gaussian_mixture()
    >>> structural_answers(data.truth, data.p)
    Answers(1000 tasks, 5 workers, 5000 answers, 2 classes)
    """
    skill = np.asarray(skill, dtype=float)
    if skill.ndim != 2 or skill.shape[1] < 2 or not ((skill > 0) & (skill < 1)).all():
        message = f"skill of shape {skill.shape}: pass (workers, classes), each above 0 and below 1."
        raise ParameterError(message)
    n_classes = skill.shape[1]
    truth = _codes(truth, n_classes)
    p = np.asarray(p, dtype=float)
    p = np.column_stack([1 - p, p]) if p.ndim == 1 else p  # (tasks, classes)
    if p.shape != (len(truth), n_classes) or not ((p >= 0) & (p <= 1)).all() or not np.allclose(p.sum(axis=1), 1):
        message = f"p: pass {len(truth)} x {n_classes} probabilities with rows that sum to 1 (two classes: of class 1)."
        raise ParameterError(message)
    who, what = streams(seed, 2)
    task, worker = _assign(truth, len(skill), answers_per_task, who)
    guess = np.log(n_classes - 1)
    easiness = (np.square(p).sum(axis=1) - 1 / n_classes) / (
        1 - 1 / n_classes
    )  # (tasks,): 1 if one class has probability 1
    odds = logit(skill[worker, truth[task]]) + guess  # (answers,) log odds over a guess, on the clearest task
    right = expit(odds * easiness[task] - guess)
    return _draw_answers(truth, task, worker, right, skill.shape, classes, what)


def unstructured_answers(
    truth: Any,
    n_workers: int = 5,
    n_classes: int = 2,
    *,
    errors: Any = ERRORS,
    per: Literal["answer", "task"] = "answer",
    answers_per_task: float | Array | None = None,
    classes: Any = None,
    seed: Seed = 0,
) -> Answers:
    """Simulate workers who err at random rates; see above.

    Parameters
    ----------
    truth : int codes
        True class of each task.
    n_workers, n_classes : int
        Size of the crowd, and number of classes; a wrong answer is any other class.
    errors : sequence of float
        Error rates, equally likely.
    per : {"answer", "task"}
        Draw a rate for each answer (the paper), or one for each task and all its answers.
    answers_per_task, classes, seed
        As in `structural_answers`.

    Examples
    --------
    >>> answers = unstructured_answers(np.repeat([0, 1], 5000))
    >>> round(float(np.mean(answers.label != answers.truth[answers.task])), 2)
    0.2
    """
    errors = np.asarray(errors, dtype=float)
    if errors.ndim != 1 or not len(errors) or not ((errors >= 0) & (errors <= 1)).all():
        message = f"errors={errors}: pass at least one rate, each from 0 to 1."
        raise ParameterError(message)
    if per not in ("answer", "task"):
        message = f"per={per!r}: use 'answer' or 'task'."
        raise ParameterError(message)
    truth = _codes(truth, n_classes)
    who, how, what = streams(seed, 3)
    task, worker = _assign(truth, n_workers, answers_per_task, who)
    rate = how.choice(errors, size=len(task)) if per == "answer" else how.choice(errors, size=len(truth))[task]
    return _draw_answers(truth, task, worker, 1 - rate, (n_workers, n_classes), classes, what)


def _codes(truth: Any, n_classes: int) -> Array:
    truth = np.asarray(truth)
    if truth.ndim != 1 or truth.dtype.kind not in "iub" or not ((truth >= 0) & (truth < n_classes)).all():
        message = f"truth must be an array of class codes, integers in 0..{n_classes - 1}."
        raise ParameterError(message)
    return truth.astype(np.int32)


def _assign(truth: Array, n_workers: int, answers_per_task: Any, rng: np.random.Generator) -> tuple[Array, Array]:
    return assign(len(truth), n_workers, n_workers if answers_per_task is None else answers_per_task, seed=rng)


def _draw_answers(
    truth: Array, task: Array, worker: Array, right: Array, shape: Any, classes: Any, rng: np.random.Generator
) -> Answers:
    """Draw answers that are right with these probabilities, otherwise any other class."""
    n_workers, n_classes = shape
    wrong = rng.random(len(task)) >= right
    label = (truth[task] + wrong * rng.integers(1, n_classes, size=len(task))) % n_classes
    return Answers.from_codes(
        task, worker, label, tasks=len(truth), workers=n_workers, classes=n_classes if classes is None else classes,
        truth=truth,
    )  # fmt: skip
