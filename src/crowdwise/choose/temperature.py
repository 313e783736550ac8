"""Calibration without ground truth: a temperature per candidate, from held-out answers.

    belief_T[t, c] = belief[t, c]^(1 / T), normalised        T above 1: less confident; for majority vote, a vote
                                                             adds 1 / T to the log odds, at most `vote_limit`

The log-likelihood of a held-out answer l of worker w to task t is computed in three ways:

    workers    log sum_c belief_T[t, c] confusion[w, c, l]   the common worker model of `choose`, from belief_T and the
                                                             training answers
    crowd      log sum_c belief_T[t, c] confusion[c, l]      one confusion for all workers, the most likely one for
                                                             the held-out answers (by EM)
    mixture    log (a belief_T[t, l] + (1 - a) share[l])     one number: a share `a` of the answers is the truth, the
                                                             rest follows the label frequencies

Each has a T under which the held-out answers of all folds are most likely. The result is that of "workers" or, if
higher, the geometric mean of the other two. A confusion matrix per worker can explain wrong beliefs, so "workers"
leaves a belief overconfident, the more costly error. A free confusion matrix can compensate for an underconfident
belief, and the mixture mistakes confusions of classes for uncertainty, so these two err in opposite directions. A
belief becomes more confident (T below 1) only as far as all three agree. `benchmarks/calibration.py` measures it.

Limits: errors that most workers share are invisible. Held-out answers repeat them, so a belief that is wrong with the
crowd stays as confident as before. And T comes from fits on part of the answers, which are slightly less confident than
the fit on all answers that it is applied to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from crowdwise.answers import Answers
from crowdwise.evaluate.calibration import tempered, vote_belief
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods.majority_vote import MajorityVote
from crowdwise.truth.vote_check import log_likelihood

Array = np.ndarray[Any, np.dtype[Any]]

TEMPERATURES = np.geomspace(0.25, 16.0, 13)  # tried; steps of sqrt(2), including 1
MOST_ANSWERS = 3_000_000  # above this no temperature is searched: each one takes a pass over all answers
MOST_WORK = 300_000_000  # answers * classes^2; the same limit for many classes: 30,000 answers with 100 classes
SAMPLE = 20_000  # held-out answers used: a few numbers do not need more
CELLS = 10_000_000  # answers * classes * temperatures; with many classes, fewer answers are used
STEPS = 20  # of EM, and of the bisection for `a`
TIED = 1e-6  # nats in total; temperatures within this are tied, and the one nearest 1 is preferred


def belief_at_temperature(model: Any, belief: Array, answers: Answers) -> Callable[[float], Array]:
    """Return the belief of a fitted model as a function of temperature; majority vote's is from its votes."""
    if isinstance(model, MajorityVote):
        limit = vote_limit(answers)
        return lambda temperature: vote_belief(answers, min(1 / temperature, limit))
    return lambda temperature: tempered(belief, temperature)


def vote_limit(answers: Answers) -> float:
    """Return the most that one vote can add to the log odds of its class, if errors are independent.

        log (a / ((1 - a) q))        a: share of answers that are right; q: of the wrong ones, share of the likeliest
        alike = a^2 + (1 - a)^2 q    how often two answers to a task agree: both right, or wrong in the same way

    q is estimated from pairs that disagree: the share of the most frequent label against each label. One more pair is
    assumed to disagree, so that `a` stays below 1. Without any pairs, a vote adds nearly nothing.

    >>> yes_no = Answers.from_arrays(np.repeat(np.arange(500), 2), ["x", "y"] * 500, (["no"] * 9 + ["yes"]) * 100)
    >>> round(vote_limit(yes_no), 2)  # 4 of 5 pairs agree: a = 0.89
    2.06
    """
    counts = answers.counts()  # (tasks, classes), sparse
    assert not isinstance(counts, np.ndarray)
    pairs = (counts.T @ counts).tocoo()  # (classes, classes)
    row, column = pairs.coords
    apart = row != column
    likeliest = np.zeros(answers.n_classes)
    np.maximum.at(likeliest, row[apart], pairs.data[apart])
    itself = answers.n_answers if answers.weight is None else np.square(answers.weight).sum()
    differ, same = pairs.data[apart].sum(), pairs.data[~apart].sum() - itself
    q = likeliest.sum() / differ if differ else 1.0
    alike = same / (same + differ + 1)
    a = (q + np.sqrt(max(alike * (1 + q) - q, 0.0))) / (1 + q)
    return max(float(np.log(a / ((1 - a) * q))), 1 / TEMPERATURES[-1])


def is_too_large(kept: Answers, held: Answers) -> bool:
    """Return whether repeated passes over these answers would take too long."""
    n_answers = kept.n_answers + held.n_answers
    return n_answers > MOST_ANSWERS or n_answers * kept.n_classes**2 > MOST_WORK


def temperature_curves(kept: Answers, held: Answers, at: Callable[[float], Array]) -> Array | None:
    """Return the log-likelihood of held-out answers in each of the three ways, (3, temperatures); None if too large."""
    if is_too_large(kept, held):
        return None
    held, seen = _sample(held), _sample(kept)
    weight = np.ones(held.n_answers) if held.weight is None else held.weight
    share = np.bincount(kept.label, kept.weight, minlength=kept.n_classes) + 0.5
    share /= share.sum()
    workers = np.empty(len(TEMPERATURES))
    belief = np.empty((len(TEMPERATURES), held.n_answers, held.n_classes))
    start = np.empty((len(TEMPERATURES), held.n_classes, held.n_classes))  # (temperatures, classes, labels)
    for i, temperature in enumerate(TEMPERATURES):
        by_task = at(float(temperature))  # (tasks, classes)
        workers[i] = weight @ log_likelihood(kept, held, by_task)
        belief[i], start[i] = by_task[held.task], by_task[seen.task].T @ _indicator(seen)
    start += 0.1 / held.n_classes
    start /= start.sum(axis=2, keepdims=True)
    believed = belief[:, np.arange(held.n_answers), held.label]  # (temperatures, answers)
    return np.stack([workers, crowd_curve(belief, held, start), mixture_curve(believed, share[held.label], weight)])


def crowd_curve(belief: Array, held: Answers, start: Array) -> Array:
    """Return the maxima over confusion of sums of weight * log sum_c belief[T, a, c] confusion[T, c, label[a]], by EM.

    `belief` is (temperatures, answers, classes), `start` a confusion (temperatures, classes, labels); two answers
    distributed as `start` are added to each class.
    """
    weight = np.ones(held.n_answers) if held.weight is None else held.weight
    groups = []  # by label, since answers with the same label share a column of the confusion
    for label in range(held.n_classes):
        given = np.flatnonzero(held.label == label)
        groups.append((np.ascontiguousarray(belief[:, given].transpose(0, 2, 1)), weight[given]))
    confusion = start
    for _ in range(STEPS):
        counts = 2 * start
        for label, (of_label, mass) in enumerate(groups):  # (temperatures, classes, answers), (answers,)
            column = confusion[:, None, :, label]  # (temperatures, 1, classes)
            share = mass / np.maximum(column @ of_label, FLOOR)  # (temperatures, 1, answers)
            counts[:, :, label] += (of_label @ share.transpose(0, 2, 1) * column.transpose(0, 2, 1))[:, :, 0]
        confusion = counts / counts.sum(axis=2, keepdims=True)
    out = np.zeros(len(belief))
    for label, (of_label, mass) in enumerate(groups):
        out += np.log(np.maximum(confusion[:, None, :, label] @ of_label, FLOOR))[:, 0] @ mass
    return out


def mixture_curve(believed: Array, chance: Array, weight: Array) -> Array:
    """Return the maxima over `a` from 0 to 1 of sums of weight * log(a believed + (1 - a) chance), (temperatures,).

    `believed` is (temperatures, answers), the others (answers,).

    >>> mixture_curve(np.array([[1.0, 1.0, 0.0]]), np.full(3, 0.5), np.ones(3)).round(4).tolist()  # a = 1/3
    [-1.9095]
    """
    gain = believed - chance
    low, high = np.zeros((len(gain), 1)), np.ones((len(gain), 1))
    for _ in range(STEPS):  # the sum is concave in a: bisect on the sign of its slope
        a = (low + high) / 2
        rising = (gain / np.maximum(chance + a * gain, FLOOR) @ weight > 0)[:, None]
        low, high = np.where(rising, a, low), np.where(rising, high, a)
    return np.log(np.maximum(chance + (low + high) / 2 * gain, FLOOR)) @ weight


def best_temperature(sums: Iterable[Array | None]) -> float | None:
    """Return the temperature for the curves (3, temperatures) of all folds; None if some are missing."""
    curves = list(sums)
    present = [curve for curve in curves if curve is not None]
    if not present or len(present) < len(curves):
        return None
    workers, crowd, mixture = (_peak(row) for row in np.sum(present, axis=0))
    best = max(workers, np.sqrt(crowd * mixture))
    if best < 1:
        best = min(max(workers, crowd, mixture), 1.0)
    # Three digits are precise enough, and hide rounding that depends on the number of threads.
    return float(f"{best:.3g}")


def calibrated(model: Any, temperature: float) -> Array:
    """Return the belief (tasks, classes) of a fitted model at this temperature; gold stays certain.

    >>> from crowdwise import DawidSkene, simulate
    >>> model = DawidSkene().fit(simulate.simulate(200, seed=1))
    >>> bool(calibrated(model, 2.0).max() < model.proba_.max())
    True
    """
    proba = belief_at_temperature(model, model.proba_, model.answers_)(temperature)
    gold = getattr(model, "gold_", None)
    return proba if gold is None else np.where((gold >= 0)[:, None], model.proba_, proba)


def _sample(answers: Answers) -> Answers:
    """Return evenly spaced answers if there are many; tasks, workers and classes are unchanged."""
    most = min(SAMPLE, CELLS // (len(TEMPERATURES) * answers.n_classes))
    if answers.n_answers <= most:
        return answers
    return answers.take(np.linspace(0, answers.n_answers - 1, most).astype(np.int64))


def _indicator(answers: Answers) -> Array:
    """Return the one-hot labels of the answers times their weights, (answers, labels)."""
    indicator = np.zeros((answers.n_answers, answers.n_classes))
    indicator[np.arange(answers.n_answers), answers.label] = 1.0 if answers.weight is None else answers.weight
    return indicator


def _peak(row: Array) -> float:
    """Return the temperature of a curve's maximum, by a parabola through the best point and its neighbours."""
    log = np.log(TEMPERATURES)
    near = np.flatnonzero(row >= row.max() - TIED)
    i = int(near[np.argmin(np.abs(log[near]))])
    if len(near) > 1 or i in (0, len(row) - 1):
        return float(TEMPERATURES[i])
    below, top, above = row[i - 1 : i + 2]
    return float(np.exp(log[i] + (log[1] - log[0]) * (below - above) / (below - 2 * top + above) / 2))
