"""The quality of workers as judged by the other workers' answers, so that no answer confirms itself.

A worker's own answer influences the inferred label. Where tasks have one or two answers, nearly every worker then
looks right, and an interval around that share is far too narrow. So each answer a (label l by worker w) is judged by
the other answers to its task alone:

    peers[a, c]    proportional to base[c] * product over the other answers b to the task of P(label[b] | c, worker[b])
    P(l | c, w)    = quality[w] if l = c else (1 - quality[w]) wrong[c, l]
    wrong[c, l]    distribution of the crowd's wrong labels for tasks of class c
    if_right[a]    = peers[a, l]                            likelihood of the answer, up to a factor, if it is right
    if_wrong[a]    = sum over c of peers[a, c] wrong[c, l]                                      and if it is wrong
    p[a]           = quality[w] if_right[a] / (quality[w] if_right[a] + (1 - quality[w]) if_wrong[a])

    quality[w]     the maximum likelihood estimate: the mean of p over w's answers
    known[w]       = answers - sum of p (1 - p) / (quality (1 - quality))      the effective number of answers: the
                   number of answers to tasks of known truth that would carry as much information about w. The term
                   subtracted is the missing information of EM (Louis, 1982).

Quality and peers are updated in turn, from the agreement of each worker with the fitted model's labels, so that quality
and labels agree: workers who all give the same answer whatever the task do not confirm each other. For a worker whose
tasks no one else answered there is no evidence: they get the average quality, with an effective number of 0.

`attention`, the share of answers that follow the truth rather than the worker's habit, and `nats`, the information in
the answers, are estimated with peers judged by their whole confusion matrices given the model's probabilities, smoothed
by `CAUTION` answers of the average worker, and with the share of l among the worker's labels in place of if_wrong[a]. A
worker who always gives the same answer has a matrix of equal rows and counts for nothing there.

This holds as far as workers err independently: where they are misled together, their agreement counts as being right.
A worker has one quality for all classes, so one who overlooks a rare class and is otherwise right looks too good.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from crowdwise._core.logarithms import x_log_y
from crowdwise.answers import Answers
from crowdwise.truth.base import Array

CAUTION = 2.0  # pseudo-answers of the average worker in each worker's shares
TRUST = 4.0  # the same for quality: workers with few answers stay close to the crowd's average
START = 0.7  # first quality, between guessing and perfect
ROUNDS, STEPS = 20, 5  # rounds of updating quality and peers in turn; EM steps in each
EDGE = 1e-3  # qualities stay this far from 0 and 1
FEW_ANSWERS = 5  # workers with fewer are not called constant
MIN_OTHERS = 3.0  # expected tasks of other classes from which they are


class PeerQuality(NamedTuple):
    """What the other workers' answers say about each worker, (workers,) arrays."""

    quality: Array
    known: Array  # effective number of answers behind `quality`
    attention: Array
    attention_known: Array  # effective number of answers behind `attention`
    nats: Array  # log-likelihood gain of the worker's best confusion matrix over labels independent of the truth
    unknown: Array  # the most that gain could be: the entropy of the truth of the tasks answered, in nats
    freedom: Array  # degrees of freedom of that matrix


def peer_quality_of(answers: Answers, proba: Array) -> PeerQuality:
    """Judge each worker by the other workers' answers.

    Parameters
    ----------
    answers : Answers
    proba : (tasks, classes) array
        Class probabilities by the fitted model.
    """
    worker, pairs, n = answers.worker, answers.pairs, np.diff(answers.worker_starts)
    pair_worker, pair_size = workers_of_pairs(answers), np.bincount(pairs.of_answer, minlength=len(pairs.label))
    alone = is_only_answer(answers)
    quality, known = quality_by_peers(answers, proba)
    by_model = pair_counts(answers, proba)
    average = smoothed(crowd_counts(answers, by_model))
    said = pair_confusion(answers, by_model, average)
    base, wrong = base_rates(answers, proba), error_distribution(average)
    if_right, _, counts, _ = judge_by_peers(answers, said, base, wrong)
    if_right[alone] = 1.0
    label_share = np.bincount(answers.label, minlength=answers.n_classes) / max(answers.n_answers, 1)  # (labels,)
    habit = (pair_size + label_share[pairs.label]) / (n[pair_worker] + 1)  # (pairs,)
    by_habit = np.where(alone, 1.0, habit[pairs.of_answer])  # (answers,)
    attention = mixture(if_right, by_habit, worker, np.full(len(n), 0.5), mean=0.5, weight=CAUTION, steps=10 * STEPS)
    seen = tasks_per_class(answers, counts)  # (workers, classes)
    for _ in range(2 * STEPS):  # the maximum likelihood matrix of each worker, by EM
        total = tasks_per_class(answers, counts)[pair_worker]
        channel = counts / np.maximum(total, EDGE**2)  # (pairs, classes): P(label | class)
        _, _, counts, nats = judge_by_peers(answers, said, base, wrong, channel)
    nats = nats - np.bincount(pair_worker, x_log_y(pair_size, pair_size / n[pair_worker]), len(n))
    unknown = x_log_y(n, n) - x_log_y(seen, seen).sum(axis=1)
    freedom = np.maximum((seen > 0.5).sum(axis=1) - 1, 0) * np.maximum(np.diff(pairs.worker_starts) - 1, 0)
    return PeerQuality(quality, known, *attention, nats, unknown, freedom)


def constant_label(answers: Answers, proba: Array) -> Array:
    """Return the only label of each worker who should have given others too, (workers,); -1 for all other workers.

    They gave `FEW_ANSWERS` answers or more, and `MIN_OTHERS` of these tasks or more are expected to be of other classes
    by the answers of the others and the model's probabilities, (tasks, classes).

    >>> task, said = np.tile(np.arange(8), 4), np.tile(np.arange(8) % 2, 4)
    >>> answers = Answers.from_arrays(task, np.arange(4).repeat(8), np.where(np.arange(32) < 8, 1, said))
    >>> constant_label(answers, np.eye(2)[np.arange(8) % 2]).tolist()
    [1, -1, -1, -1]
    """
    n, pairs = np.diff(answers.worker_starts), answers.pairs
    single = (np.diff(pairs.worker_starts) == 1) & (n >= FEW_ANSWERS)  # (workers,)
    label = np.full(answers.n_workers, -1)
    if not single.any():
        return label
    average = smoothed(crowd_counts(answers, pair_counts(answers, proba)))
    said = pair_confusion(answers, pair_counts(answers, proba), average)
    counts = judge_by_peers(answers, said, base_rates(answers, proba), error_distribution(average))[2]
    label[single] = pairs.label[pairs.worker_starts[:-1][single]]
    seen = tasks_per_class(answers, counts)  # (workers, classes)
    others = seen.sum(axis=1) - seen[np.arange(len(label)), label]  # expected tasks of other classes
    shared = np.bincount(answers.worker, ~is_only_answer(answers), answers.n_workers)  # only these are evidence
    others *= shared / np.maximum(n, 1)
    return np.where(single & (others >= MIN_OTHERS), label, -1)


def quality_by_peers(answers: Answers, proba: Array) -> tuple[Array, Array]:
    """Return `quality` and `known`, (workers,) each, given the model's probabilities (tasks, classes)."""
    everyone, alone = np.zeros(answers.n_answers, np.int8), is_only_answer(answers)
    wrong = error_distribution(smoothed(crowd_counts(answers, pair_counts(answers, proba))))
    base, count = base_rates(answers, proba), np.diff(answers.worker_starts)
    agreed = np.bincount(answers.worker, proba[answers.task, answers.label], answers.n_workers)
    quality = np.clip((agreed + TRUST * START) / (count + TRUST), EDGE, 1 - EDGE)
    mean = np.array([START])
    for _ in range(ROUNDS):
        if_right, if_wrong, _, _ = judge_by_peers(answers, one_quality(answers, quality, wrong), base, wrong)
        if_right[alone] = if_wrong[alone] = 1.0
        mean, _ = mixture(if_right, if_wrong, everyone, mean, mean=0.5, weight=TRUST, steps=STEPS)
        before = quality
        quality, known = mixture(
            if_right, if_wrong, answers.worker, quality, mean=float(mean[0]), weight=TRUST, steps=STEPS
        )
        if np.abs(quality - before).max(initial=0.0) < EDGE:
            break
    return quality, known


def one_quality(answers: Answers, quality: Array, wrong: Array) -> Array:
    """Return P(label | class) of each (worker, label) pair, (pairs, classes), for workers of one quality each."""
    label, q = answers.pairs.label, quality[workers_of_pairs(answers)]  # (pairs,)
    said = (1 - q)[:, None] * wrong[:, label].T
    said[np.arange(len(label)), label] = q
    return said


def is_only_answer(answers: Answers) -> Array:
    """Return which answers (answers,) are the only one to their task, so that no other can confirm them."""
    return (np.diff(answers.task_starts) == 1)[answers.task]


def mixture(
    good: Array, bad: Array, worker: Array, start: Array, *, mean: float, weight: float, steps: int
) -> tuple[Array, Array]:
    """Return the share of each worker's answers from the first of two sources, and its effective number of answers.

    `good` and `bad` (answers,) are the likelihoods of each answer under the two sources. The prior of each share is
    worth `weight` answers of share `mean`. EM runs from `start` for at most `steps` steps.

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


def judge_by_peers(
    answers: Answers, said: Array, base: Array, wrong: Array, channel: Array | None = None
) -> tuple[Array, Array, Array, Array]:
    """Judge each answer by the other answers to its task.

    `said` is P(label | class) of each (worker, label) pair, (pairs, classes). Returns `if_right` and `if_wrong`
    (answers,); the counts (pairs, classes) of `pair_counts` with the peers' probabilities; and each worker's
    log-likelihood (workers,). With `channel`, another (pairs, classes) array of P(label | class), the answer itself
    also enters the counts.
    """
    pairs = answers.pairs
    if channel is None:
        channel = np.ones((len(pairs.label), answers.n_classes))
    return _peers(
        answers.task_starts, answers.worker, answers.label, np.log(np.maximum(said, 1e-300)), base, wrong, channel,
        pairs.of_answer, answers.n_workers,
    )  # fmt: skip


def pair_confusion(answers: Answers, counts: Array, average: Array) -> Array:
    """Return P(label | class) of each (worker, label) pair, (pairs, classes), with `CAUTION` average answers.

    `counts` is (pairs, classes), as of `pair_counts`; `average` is the crowd's (classes, labels).
    """
    seen = tasks_per_class(answers, counts)[workers_of_pairs(answers)]  # (pairs, classes)
    return (counts + CAUTION * average[:, answers.pairs.label].T) / (seen + CAUTION)


def base_rates(answers: Answers, proba: Array) -> Array:
    """Return P(class) of a task without answers, (classes,): halfway between the mean of `proba` and the label shares.

    >>> answers = Answers.from_arrays([1, 2], ["a", "a"], ["x", "y"])
    >>> base_rates(answers, np.array([[1.0, 0.0], [1.0, 0.0]])).tolist()
    [0.75, 0.25]
    """
    k = answers.n_classes
    label_share = np.bincount(answers.label, minlength=k) / max(answers.n_answers, 1)  # in case `proba` collapsed
    return np.maximum((proba.mean(axis=0) + label_share) / 2, EDGE / k)


def pair_counts(answers: Answers, belief: Array) -> Array:
    """Return the expected number of tasks of each class among the answers of each (worker, label) pair.

    The result is (pairs, classes).

    >>> answers = Answers.from_arrays([1, 2, 3], ["a", "a", "b"], ["x", "x", "y"])
    >>> pair_counts(answers, np.array([[1, 0], [0.25, 0.75], [0, 1]])).tolist()
    [[1.25, 0.75], [0.0, 1.0]]
    """
    of_answer, n_pairs = answers.pairs.of_answer, len(answers.pairs.label)
    columns = [np.bincount(of_answer, belief[answers.task, c], n_pairs) for c in range(answers.n_classes)]
    return np.stack(columns, axis=1)


def workers_of_pairs(answers: Answers) -> Array:
    """Return the worker of each (worker, label) pair, (pairs,)."""
    return np.repeat(np.arange(answers.n_workers), np.diff(answers.pairs.worker_starts))


def tasks_per_class(answers: Answers, counts: Array) -> Array:
    """Return the expected number of tasks of each class that each worker answered, (workers, classes)."""
    pair_worker = workers_of_pairs(answers)
    return np.stack([np.bincount(pair_worker, column, answers.n_workers) for column in counts.T], axis=1)


def crowd_counts(answers: Answers, counts: Array) -> Array:
    """Return the expected number of answers of each label to tasks of each class, all workers: (classes, labels)."""
    return np.stack([np.bincount(answers.pairs.label, column, answers.n_classes) for column in counts.T])


def smoothed(total: Array) -> Array:
    """Return rows of counts as shares; one extra answer, spread evenly, keeps each above 0.

    >>> smoothed(np.array([[2.0, 1.0], [0.0, 0.0]])).tolist()
    [[0.625, 0.375], [0.5, 0.5]]
    """
    return (total + 1 / total.shape[1]) / (total.sum(axis=1, keepdims=True) + 1)


def error_distribution(average: Array) -> Array:
    """Return the distribution of wrong labels for each class, (classes, labels): rows sum to one, diagonal zero.

    >>> error_distribution(np.array([[0.8, 0.2], [0.5, 0.5]])).tolist()
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
    log_said: Array,
    base: Array,
    wrong: Array,
    channel: Array,
    pair: Array,
    n_workers: int,
) -> tuple[Array, Array, Array, Array]:
    """The loop of `judge_by_peers`, task by task."""
    k = wrong.shape[0]
    if_right, if_wrong = np.empty(len(label)), np.empty(len(label))
    counts, nats = np.zeros(channel.shape), np.zeros(n_workers)
    log_p, q = np.empty(k), np.empty(k)
    log_base = np.log(base)
    for t in range(len(task_starts) - 1):
        first, last = task_starts[t], task_starts[t + 1]
        log_p[:] = log_base
        for a in range(first, last):
            log_p += log_said[pair[a]]
        for a in range(first, last):
            q[:] = log_p - log_said[pair[a]]  # without the answer's own contribution
            q[:] = np.exp(q - q.max())
            total = q.sum()
            if_right[a], if_wrong[a], likelihood = q[label[a]] / total, 0.0, 1e-300
            for c in range(k):
                q[c] /= total
                if_wrong[a] += q[c] * wrong[c, label[a]]
                likelihood += q[c] * channel[pair[a], c]
            for c in range(k):
                counts[pair[a], c] += q[c] * channel[pair[a], c] / likelihood
            nats[worker[a]] += np.log(likelihood)
    return if_right, if_wrong, counts, nats
