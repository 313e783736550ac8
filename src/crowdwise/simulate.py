"""Crowds with known truth: make tasks, make workers, let them answer.

    truth       how many tasks, and how uneven the classes are              `draw_truth`, `shares`
    crowd       a confusion matrix for each worker, from named kinds        `crowd`
    assignment  who answers what: sparse, uneven, no worker twice on a task `assign`
    answers     what they say: own confusion, blurred by difficulty,        `answer`
                or led astray together

`simulate` runs the four in turn; `digits_crowd` gives real images with a simulated crowd. Everything follows from
`seed`, an integer or a numpy Generator. Each piece draws from a stream of its own: the same seed gives the same truth
whatever the crowd, and the same assignment whatever is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numba import njit

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError

Array = np.ndarray[Any, np.dtype[Any]]
Seed = int | np.random.Generator
Balance = Literal["even", "long-tail"] | float | Array
Workers = str | Mapping[str, float] | Array

LONG_TAIL = 10.0  # "long-tail" is a fall from 1 to 1/10


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


def shares(balance: Balance, n: int) -> Array:
    """Shares of n classes (or workers) that sum to one.

    "even" is 1/n each; a number is the ratio of the largest to the smallest, the shares falling geometrically between
    them; "long-tail" is a ratio of 10; an array is taken as it is, up to its sum.

    >>> shares(4.0, 3).round(3).tolist()
    [0.571, 0.286, 0.143]
    """
    if isinstance(balance, str):
        if balance not in ("even", "long-tail"):
            message = f"balance {balance!r}: use 'even', 'long-tail', the ratio of largest to smallest, or shares."
            raise ParameterError(message)
        balance = 1.0 if balance == "even" else LONG_TAIL
    value = np.asarray(balance, dtype=float)
    if value.ndim == 0:
        if not (np.isfinite(value) and value >= 1):
            message = f"balance {balance}: the ratio of the largest share to the smallest is 1 or more."
            raise ParameterError(message)
        value = value ** -np.linspace(0, 1, n)
    if value.shape != (n,) or not np.isfinite(value).all() or (value < 0).any() or value.sum() <= 0:
        message = f"balance of shape {value.shape}: give {n} shares, finite, none negative, not all zero."
        raise ParameterError(message)
    return value / value.sum()


def split(n: int, share: Array) -> Array:
    """Whole counts that sum to n, as near to the shares as they can be (largest remainders).

    >>> split(10, np.array([0.55, 0.25, 0.2])).tolist()
    [6, 2, 2]
    """
    exact = n * share
    counts = np.floor(exact).astype(np.int64)
    counts[np.argsort(counts - exact, kind="stable")[: n - counts.sum()]] += 1
    return counts


def draw_truth(n_tasks: int, n_classes: int, class_balance: Balance = "even", *, seed: Seed = 0) -> Array:
    """True classes in random order; their counts are as asked, not merely on average."""
    truth = np.repeat(np.arange(n_classes, dtype=np.int32), split(n_tasks, shares(class_balance, n_classes)))
    np.random.default_rng(seed).shuffle(truth)
    return truth


# Workers


def crowd(
    n_workers: int,
    n_classes: int,
    workers: Workers = "mixed",
    *,
    accuracy: tuple[float, float] = (0.4, 0.95),
    similar: Array | None = None,
    seed: Seed = 0,
) -> Array:
    """Confusion matrices [worker, truth, label] of a crowd.

    Parameters
    ----------
    n_workers, n_classes : int
        Size.
    workers : str, mapping or array
        A kind; kinds and their shares, e.g. ``{"hammer": 0.6, "spammer": 0.4}``; or the matrices themselves, as many as
        there are. Kinds:

        - "hammer": always right
        - "one-coin": one accuracy, errors even over the other classes
        - "class-dependent": better at some classes than at others, with errors of its own
        - "adversary": knows, and says another class, always the same one for a class
        - "spammer": does not look; has favourite classes
        - "uniform-guess": does not look; each class as often
        - "mixed": 80 % class-dependent, 10 % one-coin, 5 % spammer, 5 % uniform-guess
    accuracy : (low, high)
        Range of the skill of one-coin, class-dependent and adversary workers.
    similar : (classes, classes) array, optional
        How alike classes look (the diagonal does not matter): where class-dependent workers' errors tend to go.
    seed : int or Generator
        The same seed gives the same crowd.

    Examples
    --------
    >>> crowd(2, 3, "uniform-guess").round(2)[0].tolist()
    [[0.33, 0.33, 0.33], [0.33, 0.33, 0.33], [0.33, 0.33, 0.33]]
    """
    if isinstance(workers, np.ndarray):
        return _checked(workers, n_classes)
    low, high = accuracy
    if not 0 <= low <= high <= 1:
        message = f"accuracy={accuracy}: give a range (low, high) within 0 and 1."
        raise ParameterError(message)
    mixture = MIXED if workers == "mixed" else {workers: 1.0} if isinstance(workers, str) else workers
    for kind in mixture:
        if kind not in KINDS:
            message = f"no workers {kind!r}: use {', '.join(KINDS)}, mixed, or a mapping of these to shares."
            raise ParameterError(message)
    if n_classes == 1:
        return np.ones((n_workers, 1, 1))
    rng = np.random.default_rng(seed)
    alike = np.ones((n_classes, n_classes)) if similar is None else np.array(similar, dtype=float)
    if alike.shape != (n_classes, n_classes) or not np.isfinite(alike).all() or (alike < 0).any():
        message = f"similar of shape {alike.shape}: give {n_classes} x {n_classes} finite numbers, none negative."
        raise ParameterError(message)
    alike += 1e-9  # a class that looks like no other is confused with any
    np.fill_diagonal(alike, 0)
    alike /= alike.sum(axis=1, keepdims=True)
    counts = split(n_workers, shares(np.array(list(mixture.values())), len(mixture)))
    places = np.split(rng.permutation(n_workers), np.cumsum(counts)[:-1])  # where the workers of each kind stand
    confusion = np.empty((n_workers, n_classes, n_classes))
    for kind, place in zip(mixture, places, strict=True):
        confusion[place] = KINDS[kind](rng.uniform(low, high, size=len(place)), alike, rng)
    return confusion


# A kind makes matrices [n, truth, label] from n skills, how alike classes look (rows sum to one), and a generator.


def _one_coin(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    right = np.eye(len(alike))
    return np.where(right, skill[:, None, None], (1 - skill[:, None, None]) / (len(alike) - 1))


def _hammer(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    return _one_coin(np.ones(len(skill)), alike, rng)


def _uniform_guess(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    return _one_coin(np.full(len(skill), 1 / len(alike)), alike, rng)


def _class_dependent(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    n, k = len(skill), len(alike)
    spread = 8.0  # pseudo-answers behind each class's accuracy and each row of errors: lower is more uneven
    right = rng.beta(spread * skill[:, None] + 1e-9, spread * (1 - skill[:, None]) + 1e-9, size=(n, k))
    rows = rng.standard_gamma(spread * alike, size=(n, k, k))  # Dirichlet, once divided by their sum
    rows *= ((1 - right) / rows.sum(axis=2))[:, :, None]
    rows[:, np.arange(k), np.arange(k)] = right
    return rows


def _adversary(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    rows = _one_coin(skill, alike, rng)
    shift = rng.integers(1, len(alike), size=len(skill))
    instead = (np.arange(len(alike)) + shift[:, None]) % len(alike)  # (n, truth): the row of which class it follows
    return np.take_along_axis(rows, instead[:, :, None], axis=1)


def _spammer(skill: Array, alike: Array, rng: np.random.Generator) -> Array:
    habit = rng.dirichlet(np.full(len(alike), 0.3), size=len(skill))  # (n, labels)
    return np.repeat(habit[:, None, :], len(alike), axis=1)


KINDS: dict[str, Callable[[Array, Array, np.random.Generator], Array]] = {
    "hammer": _hammer,
    "one-coin": _one_coin,
    "class-dependent": _class_dependent,
    "adversary": _adversary,
    "spammer": _spammer,
    "uniform-guess": _uniform_guess,
}
MIXED = {"class-dependent": 0.8, "one-coin": 0.1, "spammer": 0.05, "uniform-guess": 0.05}


def _checked(confusion: Array, n_classes: int) -> Array:
    confusion = np.ascontiguousarray(confusion, dtype=float)
    fits = confusion.ndim == 3 and confusion.shape[1:] == (n_classes, n_classes)
    if not fits or (confusion < 0).any() or not np.allclose(confusion.sum(axis=2), 1):
        message = (
            f"confusion of shape {confusion.shape}: give [worker, truth, label] with {n_classes} classes, "
            f"none negative, rows that sum to one."
        )
        raise ParameterError(message)
    return confusion


# Answers


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
    """Let workers of known confusion answer tasks of known truth.

    Parameters
    ----------
    truth : int codes
        True class of each task.
    confusion : (workers, classes, classes) array
        P(worker says l | truth c) as [w, c, l]; see `crowd`.
    answers_per_task, activity
        See `assign`.
    difficulty : float or array
        Probability that a worker cannot make out the task and guesses, 0 to 1: one for each task, or the mean of what
        is drawn for each (Beta of concentration 2: at 0.5 every difficulty is as likely).
    together : float
        Probability, 0 to 1, that an answer to a misleading task follows the lure all workers see in it. Half of the
        tasks mislead, each towards one wrong class: errors are then no longer independent given the truth.
    classes : sequence, optional
        Ids of the classes; 0, 1, 2, ... if not given.
    seed : int or Generator
        The same seed gives the same answers.

    Returns
    -------
    Answers
        With `truth` set.

    Examples
    --------
    >>> answer([0, 1, 1], crowd(5, 2, "hammer"), 3).label.tolist()
    [0, 0, 0, 1, 1, 1, 1, 1, 1]
    """
    confusion = _checked(confusion, confusion.shape[-1])
    n_workers, n_classes, _ = confusion.shape
    truth = np.asarray(truth)
    if truth.dtype.kind not in "iub" or not ((truth >= 0) & (truth < n_classes)).all():
        message = f"truth is an array of class codes, whole numbers in 0..{n_classes - 1}; this one is not."
        raise ParameterError(message)
    truth = np.ascontiguousarray(truth, dtype=np.int32)
    who, what, hard, mislead = np.random.default_rng(seed).spawn(4)
    task, worker = assign(len(truth), n_workers, answers_per_task, activity=activity, seed=who)
    blur = _difficulty(difficulty, len(truth), hard)
    if not 0 <= together <= 1:
        message = f"together={together}: give a probability, 0 to 1."
        raise ParameterError(message)
    lure = _lures(truth, n_classes, mislead) if together and n_classes > 1 else np.full(len(truth), -1, np.int32)
    label = _say(task, worker, truth, confusion, blur, lure, together, what)
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
    """Who answers what: task and worker of each answer, sorted, no worker twice on a task.

    Parameters
    ----------
    n_tasks, n_workers : int
        Size.
    answers_per_task : float or int array
        Their mean, from 1 to the number of workers: tasks get the whole number below or above it. Or one for each task.
    activity : (workers,) array, optional
        Workers are drawn in proportion to it, without replacement on a task; even if not given.
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
    fits = count.ndim == 0 or (count.shape == (n_tasks,) and count.dtype.kind in "iu")
    if not fits or not ((count >= 1) & (count <= available)).all():
        message = (
            f"answers_per_task={answers_per_task}: give a mean (or {n_tasks} whole numbers) from 1 to {available}, "
            f"the number of workers; each answers a task once."
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


def _difficulty(difficulty: float | Array, n_tasks: int, rng: np.random.Generator) -> Array:
    value = np.asarray(difficulty, dtype=float)
    if value.shape not in ((), (n_tasks,)) or not ((value >= 0) & (value <= 1)).all():
        message = f"difficulty={difficulty}: give a mean, or one for each of {n_tasks} tasks, between 0 and 1."
        raise ParameterError(message)
    if value.ndim == 0 and 0 < value < 1:
        return rng.beta(2 * value, 2 * (1 - value), size=n_tasks)
    return np.broadcast_to(value, n_tasks).copy()


def _lures(truth: Array, n_classes: int, rng: np.random.Generator) -> Array:
    """The wrong class each task looks like, -1 for tasks that do not mislead.

    A class has two subtypes: a plain one, and one that all workers are drawn to take for the same other class.
    """
    towards = (np.arange(n_classes) + rng.integers(1, n_classes, size=n_classes)) % n_classes  # (classes,)
    return np.where(rng.random(len(truth)) < 0.5, towards[truth], -1).astype(np.int32)


@njit(cache=True)
def _draw_workers(start: Array, cumulative: Array, weight: Array, rng: np.random.Generator) -> Array:
    """Distinct workers for each task, in proportion to their weight, sorted within the task.

    A draw that repeats a worker is drawn again; after 30 in vain one is drawn from those left, so that tasks answered
    by nearly everyone cost no more than the workers they have.
    """
    n_workers = weight.shape[0]
    total = cumulative[-1]
    # guide[i]: first worker whose cumulative weight passes i / n_workers of the total. The walk from there is short.
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
def _say(
    task: Array,
    worker: Array,
    truth: Array,
    confusion: Array,
    difficulty: Array,
    lure: Array,
    together: float,
    rng: np.random.Generator,
) -> Array:
    """Draw what is said: the lure, a guess, or a label from the worker's row of confusion."""
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
            said = n_classes - 1
            for c in range(n_classes):
                u -= row[c]
                if u < 0:
                    said = c
                    break
            while row[said] == 0:  # rounding must not lead to a label that is never said
                said -= 1
            label[a] = said
    return label


# Embedded data


def digits_crowd(seed: Seed = 0) -> tuple[Array, Answers]:
    """Long-tailed digits, answered by a simulated crowd: scikit-learn's 8 x 8 images with 40 workers.

    Of class c a share is kept that falls geometrically from 1 (zeros) to 1/10 (nines). Workers differ in skill and
    activity, give about 2.5 answers a task, and confuse digits that look alike.

    Returns
    -------
    X : (tasks, 64) array
        Pixels from 0 to 16; rows follow `answers.tasks`.
    answers : Answers
        With `truth` set.

    Examples
    --------
    >>> X, answers = digits_crowd()
    >>> X.shape, answers
    ((738, 64), Answers(738 tasks, 40 workers, 1845 answers, 10 classes))
    """
    from sklearn.datasets import load_digits

    keep, make, speak = np.random.default_rng(seed).spawn(3)
    X, y = load_digits(return_X_y=True)
    rank = np.empty(len(y))  # each image's place among its class, 0 to 1, in random order
    for c in range(10):
        of_class = np.flatnonzero(y == c)
        rank[of_class] = keep.permutation(len(of_class)) / len(of_class)
    kept = np.flatnonzero(rank < (LONG_TAIL ** -np.linspace(0, 1, 10))[y])
    X, y = X[kept], y[kept]
    confusion = crowd(40, 10, accuracy=(0.5, 1.0), similar=look_alike(X, y), seed=make)
    return X, answer(y, confusion, 2.5, activity=shares("long-tail", 40), seed=speak)


def look_alike(X: Array, y: Array, sharpness: float = 4.0) -> Array:
    """How alike classes look, (classes, classes): nearer means, compared to the average distance, are more alike."""
    means = np.stack([X[y == c].mean(axis=0) for c in range(int(y.max()) + 1)])  # (classes, features)
    distance = np.linalg.norm(means[:, None] - means, axis=2)
    return np.exp(-sharpness * distance / distance[distance > 0].mean())
