"""How sure may a belief be? A temperature for each candidate, from held-out answers, without ground truth.

    belief_T[t, c] = belief[t, c]^(1 / T), normalised        T above 1: less sure; majority vote: a vote adds 1 / T to
                                                             the log odds of its class, but no more than `vote_limit`

How likely a held-out answer l of worker w to task t is can be read in three ways:

    workers    log sum_c belief_T[t, c] confusion[w, c, l]   the common worker model of `choose`, from belief_T and the
                                                             answers kept
    crowd      log sum_c belief_T[t, c] confusion[c, l]      all workers alike; one confusion, the most likely one for
                                                             the held-out answers (by EM)
    coin       log (a belief_T[t, l] + (1 - a) share[l])     the same with one number: a share `a` of the answers is the
                                                             truth, the rest falls as answers fall

Each has a T under which the held-out answers of all folds are most likely. Taken is that of the workers or, if higher,
the geometric mean of the other two. A confusion for each worker explains much away that a belief got wrong, and leaves
it too sure, which is the error that costs; a confusion that is free can make up for a belief that is not sure enough,
and a coin takes confusions of classes for doubt: these two err to either side. Surer than it was (T below 1) a belief
becomes only as far as all three agree. `benchmarks/calibration.py` measures it.

What it cannot see: errors that most workers share. Held-out answers repeat them, so a belief that is wrong with the
crowd is as sure as before. And T comes from fits on a part of the answers, which are a little less sure than the fit on
all, that it is then used for.
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

TEMPERATURES = np.geomspace(0.25, 16.0, 13)  # tried; steps of the root of 2, 1 among them
MOST_ANSWERS = 3_000_000  # beyond, no temperature is looked for: each one tried goes through all answers
MOST_WORK = 300_000_000  # answers * classes^2; the same, for crowds of many classes: 30,000 answers of 100
SAMPLE = 20_000  # answers that are looked at, of those held out: a few numbers do not need more
CELLS = 10_000_000  # answers * classes * temperatures; with many classes, fewer answers are looked at
STEPS = 20  # of EM, and halvings of the interval that holds `a`
TIED = 1e-6  # nats, of all answers together; temperatures closer than this are alike, and 1 is preferred


def softened(model: Any, belief: Array, answers: Answers) -> Callable[[float], Array]:
    """The belief of a model fitted on these answers at any temperature; majority vote's comes from its votes."""
    if isinstance(model, MajorityVote):
        limit = vote_limit(answers)
        return lambda temperature: vote_belief(answers, min(1 / temperature, limit))
    return lambda temperature: tempered(belief, temperature)


def vote_limit(answers: Answers) -> float:
    """The most that one vote can add to the log odds of its class against its rival, if answers err independently.

        log (a / ((1 - a) q))        a: share of answers that are right; q: of the wrong ones, share of the likeliest
        alike = a^2 + (1 - a)^2 q    how often two answers to a task agree: both right, or wrong in the same way

    q is read off the pairs that disagree: of the labels that stand against a label, the share of the most frequent one.
    One pair more is taken to disagree, so that `a` stays below 1; with no pairs at all a vote adds next to nothing.

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


def too_many(kept: Answers, held: Answers) -> bool:
    """Whether going through these answers again and again would take too long."""
    n_answers = kept.n_answers + held.n_answers
    return n_answers > MOST_ANSWERS or n_answers * kept.n_classes**2 > MOST_WORK


def readings(kept: Answers, held: Answers, at: Callable[[float], Array]) -> Array | None:
    """Log-likelihood of held answers, (3, temperatures), read in each way; None where there are too many."""
    if too_many(kept, held):
        return None
    held, seen = _sample(held), _sample(kept)
    weight = np.ones(held.n_answers) if held.weight is None else held.weight
    share = np.bincount(kept.label, kept.weight, minlength=kept.n_classes) + 0.5
    share /= share.sum()
    workers = np.empty(len(TEMPERATURES))
    belief = np.empty((len(TEMPERATURES), held.n_answers, held.n_classes))
    start = np.empty((len(TEMPERATURES), held.n_classes, held.n_classes))  # (temperatures, classes, labels)
    for i, temperature in enumerate(TEMPERATURES):
        of_tasks = at(float(temperature))  # (tasks, classes)
        workers[i] = weight @ log_likelihood(kept, held, of_tasks)
        belief[i], start[i] = of_tasks[held.task], of_tasks[seen.task].T @ _indicator(seen)
    start += 0.1 / held.n_classes
    start /= start.sum(axis=2, keepdims=True)
    says = belief[:, np.arange(held.n_answers), held.label]  # (temperatures, answers)
    return np.stack([workers, crowd(belief, held, start), coin(says, share[held.label], weight)])


def crowd(belief: Array, held: Answers, start: Array) -> Array:
    """The highest sums of weight * log sum_c belief[T, a, c] confusion[T, c, label[a]], (temperatures,), by EM.

    `belief` is (temperatures, answers, classes), `start` a confusion (temperatures, classes, labels); two answers as
    by `start` are added to each class.
    """
    indicator = _indicator(held)  # (answers, labels), weighted
    confusion = start
    for _ in range(STEPS):
        joint = belief * confusion.transpose(0, 2, 1)[:, held.label]  # (temperatures, answers, classes)
        joint /= np.maximum(joint.sum(axis=2, keepdims=True), FLOOR)
        counts = joint.transpose(0, 2, 1) @ indicator + 2 * start
        confusion = counts / counts.sum(axis=2, keepdims=True)
    likely = (belief * confusion.transpose(0, 2, 1)[:, held.label]).sum(axis=2)  # (temperatures, answers)
    return np.log(np.maximum(likely, FLOOR)) @ indicator.sum(axis=1)


def coin(believed: Array, chance: Array, weight: Array) -> Array:
    """The highest sums of weight * log(a believed + (1 - a) chance) over all `a` from 0 to 1, (temperatures,).

    `believed` is (temperatures, answers), the others (answers,).

    >>> coin(np.array([[1.0, 1.0, 0.0]]), np.full(3, 0.5), np.ones(3)).round(4).tolist()  # a = 1/3: 2/3, 2/3 and 1/3
    [-1.9095]
    """
    gain = believed - chance
    low, high = np.zeros((len(gain), 1)), np.ones((len(gain), 1))
    for _ in range(STEPS):  # the sum is concave in a: halve the interval where its slope changes sign
        a = (low + high) / 2
        rising = (gain / np.maximum(chance + a * gain, FLOOR) @ weight > 0)[:, None]
        low, high = np.where(rising, a, low), np.where(rising, high, a)
    return np.log(np.maximum(chance + (low + high) / 2 * gain, FLOOR)) @ weight


def best_temperature(sums: Iterable[Array | None]) -> float | None:
    """The temperature for the readings (3, temperatures) of all folds; None where some are missing."""
    found = list(sums)
    given = [reading for reading in found if reading is not None]
    if not given or len(given) < len(found):
        return None
    workers, crowd, coin = (_peak(row) for row in np.sum(given, axis=0))
    best = max(workers, np.sqrt(crowd * coin))
    if best < 1:
        best = min(max(workers, crowd, coin), 1.0)
    # Three digits are more than it is worth, and hide how many threads a product was summed by.
    return float(f"{best:.3g}")


def calibrated(model: Any, temperature: float) -> Array:
    """Belief (tasks, classes) of a fitted model at this temperature; known labels stay certain.

    >>> from crowdwise import DawidSkene, simulate
    >>> model = DawidSkene().fit(simulate.simulate(200, seed=1))
    >>> bool(calibrated(model, 2.0).max() < model.proba_.max())
    True
    """
    proba = softened(model, model.proba_, model.answers_)(temperature)
    gold = getattr(model, "gold_", None)
    return proba if gold is None else np.where((gold >= 0)[:, None], model.proba_, proba)


def _sample(answers: Answers) -> Answers:
    """Some answers, evenly spaced, if there are many; tasks, workers and classes stay as they are."""
    most = min(SAMPLE, CELLS // (len(TEMPERATURES) * answers.n_classes))
    if answers.n_answers <= most:
        return answers
    return answers.take(np.linspace(0, answers.n_answers - 1, most).astype(np.int64))


def _indicator(answers: Answers) -> Array:
    """Which label each answer is, (answers, labels): its weight there, 0 elsewhere."""
    indicator = np.zeros((answers.n_answers, answers.n_classes))
    indicator[np.arange(answers.n_answers), answers.label] = 1.0 if answers.weight is None else answers.weight
    return indicator


def _peak(row: Array) -> float:
    """Where a curve over the temperatures is highest: the top of the parabola through the best one and those beside."""
    log = np.log(TEMPERATURES)
    near = np.flatnonzero(row >= row.max() - TIED)
    i = int(near[np.argmin(np.abs(log[near]))])
    if len(near) > 1 or i in (0, len(row) - 1):
        return float(TEMPERATURES[i])
    below, top, above = row[i - 1 : i + 2]
    return float(np.exp(log[i] + (log[1] - log[0]) * (below - above) / (below - 2 * top + above) / 2))
