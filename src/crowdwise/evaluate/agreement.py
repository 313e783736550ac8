"""Do workers agree with one another? No truth needed.

    n[t, c]  answers to task t that say c          n[t] their sum, m[c] their sum over the tasks of two answers or more

    pairwise agreement  = sum_t sum_c n[t, c] (n[t, c] - 1)  /  sum_t n[t] (n[t] - 1)
    Krippendorff alpha  = 1 - observed / expected disagreement, nominal
                observed = sum_t (n[t]^2 - sum_c n[t, c]^2) / (n[t] - 1)       tasks of one answer say nothing
                expected = sum_c m[c] (m - m[c]) / (m - 1)                     m = sum_c m[c]
    Fleiss kappa        = (P - E) / (1 - E), P = pairwise agreement, E = sum_c (m[c] / m)^2

Krippendorff, "Content Analysis" (1980); Fleiss, "Measuring nominal scale agreement among many raters", Psychological
Bulletin 76 (1971), for tasks that all have the same number of answers. All are read off vote counts in one pass, linear
in answers. Weights are not used. Where every answer names the same class the coefficients are 0/0: that is perfect
agreement, and 1 here. Without a task of two answers they are undefined: None.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numba import njit
from scipy.special import entr

from crowdwise.answers import Answers

Array = np.ndarray[Any, np.dtype[Any]]


class PairCounts(NamedTuple):
    """What every coefficient is made of; tasks of fewer than two answers are left out of all."""

    pairs: int  # ordered pairs of answers to one task
    agreeing: int
    disagreement: float  # disagreeing pairs, those of each task divided by n[t] - 1
    votes: Array  # (classes,): m[c]
    fewest: int  # answers to a task that has any
    most: int


def count_pairs(answers: Answers) -> PairCounts:
    """Count pairs of answers to the same task, in one pass."""
    votes = np.zeros(answers.n_classes, np.int64)
    return PairCounts(*_count_pairs(answers.task_starts, answers.label, votes))


def pairwise_agreement(answers: Answers) -> float | None:
    """Share of agreeing pairs among all pairs of answers to the same task; None without a pair.

    >>> answers = Answers.from_arrays([1, 1, 1, 2, 2], list("abcab"), list("xxyyy"))
    >>> pairwise_agreement(answers)
    0.5
    """
    return agreement_of(count_pairs(answers))


def krippendorff_alpha(answers: Answers) -> float | None:
    """Agreement beyond chance, nominal, right with missing answers: 1 perfect, 0 chance, below 0 worse than chance.

    >>> answers = Answers.from_arrays([1, 1, 2, 2, 3, 3], list("ababab"), ["yes", "yes", "no", "no", "yes", "no"])
    >>> round(krippendorff_alpha(answers), 4)
    0.4444
    """
    return alpha_of(count_pairs(answers))


def fleiss_kappa(answers: Answers) -> float | None:
    """Agreement beyond chance where all answered tasks have the same number of answers, two or more; else None.

    >>> answers = Answers.from_arrays([1, 1, 2, 2, 3, 3], list("ababab"), ["yes", "yes", "no", "no", "yes", "no"])
    >>> round(fleiss_kappa(answers), 4)
    0.3333
    """
    return kappa_of(count_pairs(answers))


def agreement_of(count: PairCounts) -> float | None:
    """Pairwise agreement from counts."""
    return count.agreeing / count.pairs if count.pairs else None


def alpha_of(count: PairCounts) -> float | None:
    """Krippendorff's alpha from counts."""
    if not count.pairs:
        return None
    if not count.disagreement:
        return 1.0
    votes = count.votes.astype(float)
    expected = (votes * (votes.sum() - votes)).sum() / (votes.sum() - 1)
    return 1 - count.disagreement / float(expected)


def kappa_of(count: PairCounts) -> float | None:
    """Fleiss' kappa from counts."""
    if not count.pairs or count.fewest != count.most:
        return None
    if count.agreeing == count.pairs:
        return 1.0
    chance = float(((count.votes / count.votes.sum()) ** 2).sum())
    return (count.agreeing / count.pairs - chance) / (1 - chance)


def consistency(answers: Answers, codes: Array, skill: Array) -> Array:
    """Posterior probability of each task's label `codes`, (tasks,), given one accuracy for each worker.

    Errors are even over the other classes and so is the prior. A label ruled out together with all others (workers of
    accuracy 1 who contradict each other) has consistency 0, as crowd-kit defines it.

    >>> answers = Answers.from_arrays([1, 1], ["a", "b"], ["x", "y"])
    >>> consistency(answers, np.array([0]), np.array([0.9, 0.5])).round(2).tolist()
    [0.9]
    """
    skill = np.asarray(skill, dtype=float)
    with np.errstate(divide="ignore"):  # an accuracy of 0 or 1 rules answers out: log 0 is right
        right, wrong = np.log(skill), np.log((1 - skill) / max(answers.n_classes - 1, 1))  # (workers,)
    return _consistency(
        answers.task_starts, answers.worker, answers.label, right, wrong, np.asarray(codes), answers.n_classes
    )


def uncertainty(answers: Answers, skill: Array | None = None, by: Literal["task", "worker"] = "task") -> Array:
    """Entropy, in nats, of the labels each task got or each worker gave.

    With `skill`, an answer of accuracy s counts s for its class and (1 - s) / (classes - 1) for each other one, as in
    crowd-kit. A task or worker without answers has the entropy of even shares.

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
    return entr(np.where(total > 0, votes, 1.0) / np.where(total > 0, total, k)).sum(axis=1)


@njit(cache=True, error_model="numpy")
def _count_pairs(starts: Array, label: Array, votes: Array) -> tuple[int, int, float, Array, int, int]:
    """Fields of PairCounts; `votes` (classes,) comes as zeros and is filled."""
    here = np.zeros(votes.shape[0], np.int64)  # votes of the present task
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
            agree += 2 * here[label[a]]  # one more ordered pair each way with every equal answer before it
            here[label[a]] += 1
        for a in range(starts[t], starts[t + 1]):
            votes[label[a]] += 1
            here[label[a]] = 0
        pairs += n * (n - 1)
        agreeing += agree
        disagreement += (n * (n - 1) - agree) / (n - 1)
    return pairs, agreeing, disagreement, votes, fewest, most


@njit(cache=True, error_model="numpy")
def _consistency(
    starts: Array, worker: Array, label: Array, right: Array, wrong: Array, codes: Array, n_classes: int
) -> Array:
    """Softmax over classes of the log-likelihood of each task's answers, at the class given."""
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
