"""Agreement between workers. No truth is needed.

    n[t, c]  answers c to task t          n[t] their sum over c, m[c] their sum over tasks with two answers or more

    pairwise agreement  = sum_t sum_c n[t, c] (n[t, c] - 1)  /  sum_t n[t] (n[t] - 1)
    Krippendorff alpha  = 1 - observed / expected disagreement, nominal
                observed = sum_t (n[t]^2 - sum_c n[t, c]^2) / (n[t] - 1) / m   tasks with one answer do not count
                expected = sum_c m[c] (m - m[c]) / (m (m - 1))                 m = sum_c m[c]
    Fleiss kappa        = (P - E) / (1 - E), P = pairwise agreement, E = sum_c (m[c] / m)^2

Krippendorff, "Content Analysis" (1980); Fleiss, "Measuring nominal scale agreement among many raters", Psychological
Bulletin 76 (1971), for tasks that all have the same number of answers. All are computed from vote counts in one pass,
linear in answers. Weights are not used. If every answer names the same class, the coefficients are 0/0; this is perfect
agreement, and 1 is returned. If no task has two answers, they are undefined, and None is returned.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit

from crowdwise._core.logarithms import x_log_y
from crowdwise.answers import Answers, as_answers

Array = np.ndarray[Any, np.dtype[Any]]


class PairCounts(NamedTuple):
    """The counts from which all coefficients are computed, over tasks with two answers or more."""

    pairs: int  # ordered pairs of answers to one task
    agreeing: int
    disagreement: float  # disagreeing pairs, divided by n[t] - 1 in each task
    votes: Array  # (classes,): m[c]
    fewest: int  # smallest and largest number of answers per answered task
    most: int


def count_pairs(answers: Answers) -> PairCounts:
    """Count pairs of answers to the same task, in one pass."""
    votes = np.zeros(answers.n_classes, np.int64)
    return PairCounts(*_count_pairs(answers.task_starts, answers.label, votes))


def pairwise_agreement(answers: Any) -> float | None:
    """Return the share of agreeing pairs among all pairs of answers to the same task; None without a pair.

    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2], list("abcab"), list("xxyyy"))
    >>> pairwise_agreement(answers)
    0.5
    """
    return agreement_from_counts(count_pairs(as_answers(answers)))


def krippendorff_alpha(answers: Any) -> float | None:
    """Return nominal Krippendorff's alpha: 1 is perfect agreement, 0 chance, below 0 worse than chance.

    It is correct with missing answers, that is, with different numbers of answers per task.

    >>> answers = Answers.from_arrays([1, 1, 2, 2, 3, 3], list("ababab"), ["yes", "yes", "no", "no", "yes", "no"])
    >>> round(krippendorff_alpha(answers), 4)
    0.4444
    """
    return alpha_from_counts(count_pairs(as_answers(answers)))


def fleiss_kappa(answers: Any) -> float | None:
    """Return Fleiss' kappa; None unless all answered tasks have the same number of answers, at least two.

    >>> answers = Answers.from_arrays([1, 1, 2, 2, 3, 3], list("ababab"), ["yes", "yes", "no", "no", "yes", "no"])
    >>> round(fleiss_kappa(answers), 4)
    0.3333
    """
    return kappa_from_counts(count_pairs(as_answers(answers)))


def agreement_from_counts(count: PairCounts) -> float | None:
    """Return the pairwise agreement."""
    return count.agreeing / count.pairs if count.pairs else None


def alpha_from_counts(count: PairCounts) -> float | None:
    """Return Krippendorff's alpha."""
    if not count.pairs:
        return None
    if not count.disagreement:
        return 1.0
    votes = count.votes.astype(float)
    n = float(votes.sum())
    observed, expected = count.disagreement / n, float((votes * (n - votes)).sum()) / (n * (n - 1))
    return 1 - observed / expected


def kappa_from_counts(count: PairCounts) -> float | None:
    """Return Fleiss' kappa."""
    if not count.pairs or count.fewest != count.most:
        return None
    if count.agreeing == count.pairs:
        return 1.0
    chance = float(((count.votes / count.votes.sum()) ** 2).sum())
    return (count.agreeing / count.pairs - chance) / (1 - chance)


def consistency(answers: Answers, codes: Array, skill: Array) -> Array:
    """Return the posterior probability of each task's label `codes`, (tasks,), given one accuracy `skill` per worker.

    The prior and the errors of workers are uniform over classes. If all classes have probability zero (workers of
    accuracy 1 contradict each other), the consistency is 0, as crowd-kit defines it.

    >>> answers = Answers.from_arrays([1, 1], ["a", "b"], ["x", "y"])
    >>> consistency(answers, np.array([0]), np.array([0.9, 0.5])).round(2).tolist()
    [0.9]
    """
    skill = np.asarray(skill, dtype=float)
    with np.errstate(divide="ignore"):  # an accuracy of 0 or 1 makes answers impossible: -inf is correct
        right, wrong = np.log(skill), np.log((1 - skill) / max(answers.n_classes - 1, 1))  # (workers,)
    return _consistency(
        answers.task_starts, answers.worker, answers.label, right, wrong, np.asarray(codes), answers.n_classes
    )


def uncertainty(answers: Answers, skill: Array | None = None, by: Literal["task", "worker"] = "task") -> Array:
    """Return the entropy, in nats, of the labels of each task or each worker.

    With `skill`, an answer of a worker of accuracy s counts s for its class and (1 - s) / (classes - 1) for each other
    one, as in crowd-kit. A task or worker without answers has the entropy of the uniform distribution.

    >>> answers = Answers.from_arrays([1, 1, 2, 2], list("abab"), ["yes", "no", "yes", "yes"])
    >>> uncertainty(answers).round(3).tolist(), uncertainty(answers, by="worker").round(3).tolist()
    ([0.693, 0.0], [0.0, 0.693])
    """
    k = answers.n_classes
    group, n = (answers.task, answers.n_tasks) if by == "task" else (answers.worker, answers.n_workers)
    right = np.ones(answers.n_answers) if skill is None else np.asarray(skill, dtype=float)[answers.worker]
    wrong = (1 - right) / max(k - 1, 1)  # (answers,)
    cell = group.astype(np.int64) * k + answers.label
    votes = np.bincount(cell, right - wrong, minlength=n * k).reshape(n, k)
    votes += np.bincount(group, wrong, minlength=n)[:, None]
    total = votes.sum(axis=1, keepdims=True)
    share = np.where(total > 0, votes, 1.0) / np.where(total > 0, total, k)
    return 0.0 - x_log_y(share, share).sum(axis=1)  # never -0.0


@njit(cache=True, error_model="numpy")
def _count_pairs(starts: Array, label: Array, votes: Array) -> tuple[int, int, float, Array, int, int]:
    """Return the fields of `PairCounts`; `votes` (classes,) must be zeros and is filled."""
    task_votes = np.zeros(votes.shape[0], np.int64)  # of the current task
    pairs, agreeing, disagreement = 0, 0, 0.0
    fewest, most = label.shape[0], 0
    for t in range(starts.shape[0] - 1):
        n = starts[t + 1] - starts[t]
        if n:
            fewest, most = min(fewest, n), max(most, n)
        if n < 2:
            continue
        agree = 0
        for a in range(starts[t], starts[t + 1]):
            agree += 2 * task_votes[label[a]]  # an ordered pair each way with every equal answer before it
            task_votes[label[a]] += 1
        for a in range(starts[t], starts[t + 1]):
            votes[label[a]] += 1
            task_votes[label[a]] = 0
        pairs += n * (n - 1)
        agreeing += agree
        disagreement += (n * (n - 1) - agree) / (n - 1)
    return pairs, agreeing, disagreement, votes, fewest, most


@njit(cache=True, error_model="numpy")
def _consistency(
    starts: Array, worker: Array, label: Array, right: Array, wrong: Array, codes: Array, n_classes: int
) -> Array:
    """Return the softmax over classes of the log-likelihood of each task's answers, at the class in `codes`."""
    out = np.empty(starts.shape[0] - 1)
    score = np.empty(n_classes)
    for t in range(out.shape[0]):
        score[:] = 0.0
        for a in range(starts[t], starts[t + 1]):
            for c in range(n_classes):
                score[c] += right[worker[a]] if c == label[a] else wrong[worker[a]]
        top = score.max()
        if top == -np.inf:
            out[t] = 0.0
            continue
        total = 0.0
        for c in range(n_classes):
            total += np.exp(score[c] - top)
        out[t] = np.exp(score[codes[t]] - top) / total
    return out
