"""Workers judged by what others say, so that nobody confirms himself.

A worker's own answer has a say in what is held true: where tasks have one or two answers nearly everybody looks right,
and an interval about that share is far too narrow. So an answer a, label l of worker w, is judged by the others alone:

    peers[a, c]  proportional to base[c] * product over the other answers b to the task of P(label[b] | c, worker[b])
    P(l | c, w)  = quality[w] if l = c else (1 - quality[w]) wrong[c, l]
    wrong[c, l]  what the crowd says of tasks of class c when it errs
    right[a]     = peers[a, l]                              how likely the answer is, up to a factor, if it is right
    amiss[a]     = sum over c of peers[a, c] wrong[c, l]                                      and if it is wrong
    p[a]         = quality[w] right[a] / (quality[w] right[a] + (1 - quality[w]) amiss[a])

    quality[w]   the most likely one: the mean of p over w's answers
    known[w]     = answers - sum of p (1 - p) / (quality (1 - quality))        what EM calls missing information (Louis,
                 1982) taken off: as many answers to tasks of known truth would tell as much of w

Quality and peers' belief are found in turn. Of a worker whose tasks nobody else answered nothing is known: an average
quality, known from no answer. `heeds`, the share of answers that follow the truth and not the worker's habit, is found
likewise, with right[a] against the share of l among the worker's labels.

It holds as far as workers err on their own: where they are misled together, their agreement counts as being right. And
a worker has one quality for all classes: one who overlooks a rare class and is right of all else looks too good.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import xlogy

from crowdwise.answers import Answers
from crowdwise.truth.base import Array

CAUTION = 2.0  # answers of the average worker that each worker's shares are mixed with
TRUST = 4.0  # the same for quality: peers of few answers are no better known than by the crowd
START = 0.7  # quality, between guessing and perfection
ROUNDS, STEPS = 20, 5  # of quality and peers' belief in turn; of EM in each
EDGE = 1e-3  # nobody is held to be always right, or always wrong


class PeerQuality(NamedTuple):
    """What others' answers say of each worker, (workers,) arrays."""

    quality: Array
    known: Array  # answers to tasks of known truth that would tell as much of the quality
    heeds: Array
    heeds_known: Array
    nats: Array  # log-likelihood of the worker's labels by the best matrix, beyond that of labels that heed nothing
    unknown: Array  # nats there were to tell: the entropy of the truth of the tasks answered
    freedom: Array  # degrees of freedom of that matrix


def peer_quality_of(answers: Answers, base: Array, wrong: Array) -> PeerQuality:
    """Judge each worker by the others.

    Parameters
    ----------
    answers : Answers
    base : (classes,) array
        What is believed of a task without any answer (`base_of`); above 0.
    wrong : (classes, labels) array
        What is said by one who errs.
    """
    worker, pairs, n = answers.worker, answers.pairs, np.diff(answers.worker_starts)
    who, given = workers_of_pairs(answers), np.bincount(pairs.of_answer, minlength=len(pairs.label))
    alone = are_alone(answers)
    quality, known, right, counts = quality_by_peers(answers, base, wrong)
    said = np.bincount(answers.label, minlength=answers.n_classes) / max(answers.n_answers, 1)  # (labels,)
    habit = (given + said[pairs.label]) / (n[who] + 1)  # (pairs,)
    by_habit = np.where(alone, 1.0, habit[pairs.of_answer])  # (answers,)
    heeds = mixture(right, by_habit, worker, np.full(len(n), 0.5), mean=0.5, weight=CAUTION, steps=10 * STEPS)
    seen = seen_of(answers, counts)  # (workers, classes)
    for _ in range(2 * STEPS):  # the most likely matrix of each worker, by EM
        channel = counts / np.maximum(seen_of(answers, counts)[who], EDGE**2)  # (pairs, classes): P(label | class)
        _, _, counts, nats = look(answers, quality, base, wrong, channel)
    nats = nats - np.bincount(who, xlogy(given, given / n[who]), len(n))
    unknown = xlogy(n, n) - xlogy(seen, seen).sum(axis=1)
    freedom = np.maximum((seen > 0.5).sum(axis=1) - 1, 0) * np.maximum(np.diff(pairs.worker_starts) - 1, 0)
    return PeerQuality(quality, known, *heeds, nats, unknown, freedom)


def quality_by_peers(answers: Answers, base: Array, wrong: Array) -> tuple[Array, Array, Array, Array]:
    """`quality` and `known` of each worker, and of the last round `right` (answers,) and the counts of `look`."""
    everybody, alone = np.zeros(answers.n_answers, np.int8), are_alone(answers)
    mean, quality = np.array([START]), np.full(answers.n_workers, START)
    for _ in range(ROUNDS):
        right, amiss, counts, _ = look(answers, quality, base, wrong)
        right[alone] = amiss[alone] = 1.0
        mean, _ = mixture(right, amiss, everybody, mean, mean=0.5, weight=TRUST, steps=STEPS)
        before = quality
        quality, known = mixture(right, amiss, answers.worker, quality, mean=float(mean[0]), weight=TRUST, steps=STEPS)
        if np.abs(quality - before).max(initial=0.0) < EDGE:
            break
    return quality, known, right, counts


def are_alone(answers: Answers) -> Array:
    """Which answers (answers,) nobody can confirm: those that are their task's only one."""
    return (np.diff(answers.task_starts) == 1)[answers.task]


def mixture(
    good: Array, bad: Array, worker: Array, start: Array, *, mean: float, weight: float, steps: int
) -> tuple[Array, Array]:
    """Share of each worker's answers that come from the first of two sources, and how many answers it is known from.

    `good` and `bad` (answers,) say how likely each answer is from either; each worker's share is mixed with `weight`
    answers of share `mean`. EM from `start`, `steps` of it at most.

    >>> right = np.array([1.0, 1.0, 1.0, 0.0])
    >>> share, known = mixture(right, 1 - right, np.zeros(4, int), np.array([0.5]), mean=0.5, weight=2, steps=9)
    >>> share.round(3).tolist(), known.tolist()
    ([0.667], [4.0])
    """
    share, n = start, len(start)
    count = np.bincount(worker, minlength=n)
    for _ in range(steps):
        from_good = share[worker] * good
        p = from_good / np.maximum(from_good + (1 - share[worker]) * bad, 1e-300)  # (answers,)
        before, share = share, (np.bincount(worker, p, n) + weight * mean) / (count + weight)
        share = np.clip(share, EDGE, 1 - EDGE)
        if np.abs(share - before).max(initial=0.0) < EDGE / 10:
            break
    missing = np.bincount(worker, p * (1 - p), n) / (share * (1 - share))
    return share, np.maximum(count - missing, 0.0)


def look(
    answers: Answers, quality: Array, base: Array, wrong: Array, channel: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """What the others say of each answer: `right`, `amiss`, `pair_counts` of their belief, nats of each worker.

    With `channel`, P(label | class) of each pair as (pairs, classes), the answer itself has a say in the counts.
    """
    pairs = answers.pairs
    if channel is None:
        channel = np.ones((len(pairs.label), answers.n_classes))
    return _peers(answers.task_starts, answers.worker, answers.label, quality, base, wrong, channel, pairs.of_answer)


def base_of(answers: Answers, proba: Array) -> Array:
    """What is believed of a task without any answer, (classes,): the mean of `proba` and of the labels given.

    >>> answers = Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"])
    >>> base_of(answers, np.array([[1.0, 0.0], [1.0, 0.0]])).tolist()
    [0.75, 0.25]
    """
    k = answers.n_classes
    said = np.bincount(answers.label, minlength=k) / max(answers.n_answers, 1)  # holds off a belief that collapsed
    return np.maximum((proba.mean(axis=0) + said) / 2, EDGE / k)


def pair_counts(answers: Answers, belief: Array) -> Array:
    """How many tasks of each class every (worker, label) pair was said of, expected: (pairs, classes).

    >>> answers = Answers.from_arrays([1, 2, 3], ["a", "a", "b"], ["x", "x", "y"])
    >>> pair_counts(answers, np.array([[1, 0], [0.25, 0.75], [0, 1]])).tolist()
    [[1.25, 0.75], [0.0, 1.0]]
    """
    of_answer, n_pairs = answers.pairs.of_answer, len(answers.pairs.label)
    columns = [np.bincount(of_answer, belief[answers.task, c], n_pairs) for c in range(answers.n_classes)]
    return np.stack(columns, axis=1)


def workers_of_pairs(answers: Answers) -> Array:
    """The worker of each (worker, label) pair, (pairs,)."""
    return np.repeat(np.arange(answers.n_workers), np.diff(answers.pairs.worker_starts))


def seen_of(answers: Answers, counts: Array) -> Array:
    """How many tasks of each class every worker answered, expected: (workers, classes)."""
    who = workers_of_pairs(answers)
    return np.stack([np.bincount(who, column, answers.n_workers) for column in counts.T], axis=1)


def crowd_counts(answers: Answers, counts: Array) -> Array:
    """How often each label was said of each class by all workers, expected: (classes, labels)."""
    return np.stack([np.bincount(answers.pairs.label, column, answers.n_classes) for column in counts.T])


def smoothed(total: Array) -> Array:
    """Rows of counts as shares; an answer more, spread evenly, keeps each above 0.

    >>> smoothed(np.array([[2.0, 1.0], [0.0, 0.0]])).tolist()
    [[0.625, 0.375], [0.5, 0.5]]
    """
    return (total + 1 / total.shape[1]) / (total.sum(axis=1, keepdims=True) + 1)


def errors_of(average: Array) -> Array:
    """What is said of each class by one who errs, (classes, labels): rows sum to one, nothing on the diagonal.

    >>> errors_of(np.array([[0.8, 0.2], [0.5, 0.5]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    wrong = average + EDGE
    np.fill_diagonal(wrong, 0.0)
    return wrong / np.maximum(wrong.sum(axis=1, keepdims=True), EDGE)


@njit(cache=True)
def _peers(
    task_starts: Array,
    worker: Array,
    label: Array,
    quality: Array,
    base: Array,
    wrong: Array,
    channel: Array,
    pair: Array,
) -> tuple[Array, Array, Array, Array]:
    """`look`, task by task."""
    k = wrong.shape[0]
    right, amiss = np.empty(len(label)), np.empty(len(label))
    counts, nats = np.zeros(channel.shape), np.zeros(len(quality))
    log_p, p, q = np.empty(k), np.empty(k), np.empty(k)
    log_right, log_error, log_wrong = np.log(quality), np.log1p(-quality), np.log(np.maximum(wrong, 1e-300))
    log_base = np.log(base)
    for t in range(len(task_starts) - 1):
        first, last = task_starts[t], task_starts[t + 1]
        log_p[:] = log_base
        for a in range(first, last):
            for c in range(k):
                log_p[c] += log_right[worker[a]] if c == label[a] else log_error[worker[a]] + log_wrong[c, label[a]]
        p[:] = np.exp(log_p - log_p.max())
        for a in range(first, last):
            total, error = 0.0, 1 - quality[worker[a]]
            for c in range(k):  # divided by what the answer itself contributed
                q[c] = p[c] / (quality[worker[a]] if c == label[a] else max(error * wrong[c, label[a]], 1e-300))
                total += q[c]
            right[a], amiss[a], said = q[label[a]] / total, 0.0, 1e-300
            for c in range(k):
                q[c] /= total
                amiss[a] += q[c] * wrong[c, label[a]]
                said += q[c] * channel[pair[a], c]
            for c in range(k):
                counts[pair[a], c] += q[c] * channel[pair[a], c] / said
            nats[worker[a]] += np.log(said)
    return right, amiss, counts, nats
