"""The quality of workers by labels with calibrated confidence, with an interval that allows for the labels being wrong.

    p[a]        P(answer a is right): the calibrated probability of the class it names; for the only answer to a task,
                which no other answer confirms, the quality that its worker has by peers (`truth.peer_quality`)
    quality[w]  = mean of p over the n[w] answers of worker w

    variance[w] = quality (1 - quality) / n          which tasks w got
                + sum p (1 - p) / n^2                which labels are right, if each errs alone
                + (crowd[w] tau)^2                   the confidences of a crowd are too high or too low together
                + (own[w] sigma[w])^2                the labels of a worker's tasks err together, for or against them
    crowd[w]    = mean over w's answers of d p[a] / d (log odds of the label's confidence)
    own[w]      = mean of p (1 - p)                  the same for the log odds of p

The interval is Wilson's with quality (1 - quality) / variance trials, extended to contain the one by peers, which is
wide where tasks have one or two answers. Where labels are sure, the last two terms are small.

`CROWD` and `WORKER`, the deviations tau and sigma in log odds, are the most likely ones on 18 real crowds with known
truth, which count the same each (`python -m benchmarks worker-quality` prints them, and the coverage on each crowd with
those of the other crowds). Gold labels of random tasks show how far the confidences are off, so they make both smaller:

    tau^2      = 1 / (1 / CROWD^2  + gold tasks x mean of confidence (1 - confidence))
    sigma[w]^2 = 1 / (1 / WORKER^2 + gold tasks that w answered x own[w])

Fails where mistakes that all workers share are more frequent than in the crowds learned from. Workers' intervals of one
crowd miss together: in one crowd in twenty or so, most of them are wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from crowdwise.answers import Answers
from crowdwise.truth.base import Array
from crowdwise.truth.peer_quality import is_only_answer, quality_by_peers
from crowdwise.truth.tables import wilson

CROWD = 0.7
WORKER = 0.55
EDGE = 1e-3  # quality for the variance stays this far from 0 and 1


class WorkerQuality(NamedTuple):
    """Share of right answers of each worker and its 95 % interval, (workers,) arrays."""

    quality: Array
    low: Array
    high: Array
    high_alone: Array  # `high` if each label errs alone: tau = sigma = 0


class Moments(NamedTuple):
    """Sums over the answers of each worker, (workers,) arrays, as defined above."""

    n: Array
    quality: Array
    label_variance: Array  # sum p (1 - p) / n^2
    crowd: Array
    own: Array


def quality_by_labels(
    answers: Answers, proba: Array, codes: Array, gold: Array | None = None, *,
    deviations: tuple[float, float] = (CROWD, WORKER),
) -> WorkerQuality:  # fmt: skip
    """Return the quality of each worker by labels with calibrated confidence.

    Parameters
    ----------
    answers : Answers
    proba : (tasks, classes) array
        Calibrated probabilities; those of gold tasks are 0 and 1.
    codes : (tasks,) int array
        The label of each task.
    gold : (tasks,) int array, optional
        Codes of known labels, -1 unknown.
    deviations : pair of floats
        `CROWD` and `WORKER`.

    Examples
    --------
    >>> import crowdwise as cw
    >>> answers = cw.simulate.simulate(300, n_workers=10, n_classes=3, answers_per_task=5, seed=1)
    >>> labels = cw.trust.calibrated(answers)
    >>> found = quality_by_labels(answers, labels.proba, labels.codes)
    >>> right = [(answers.label == answers.truth[answers.task])[answers.worker == w].mean() for w in range(10)]
    >>> bool(((found.low <= right) & (right <= found.high)).all())
    True
    """
    peers, known = quality_by_peers(answers, proba)
    sums = moments(answers, proba, codes, peers)
    crowd, worker = deviations
    tau, sigma = np.full(answers.n_workers, crowd**2), np.full(answers.n_workers, worker**2)
    if gold is not None and (gold >= 0).any():
        confidence = proba[np.arange(answers.n_tasks), codes]
        unknown = confidence[gold < 0]
        each = float((unknown * (1 - unknown)).mean()) if len(unknown) else 0.0
        checked = np.bincount(answers.worker, gold[answers.task] >= 0, answers.n_workers)
        tau /= 1 + tau * (gold >= 0).sum() * each
        sigma /= 1 + sigma * checked * sums.own
    middle = np.clip(sums.quality, EDGE, 1 - EDGE)
    binomial = middle * (1 - middle)
    peers_low, peers_high = wilson(peers * known, known)

    def interval(variance: Array) -> tuple[Array, Array]:
        trials = np.where(sums.n > 0, binomial / variance, 0.0)
        low, high = wilson(sums.quality * trials, trials)
        return np.minimum(low, peers_low), np.maximum(high, peers_high)

    alone = binomial / np.maximum(sums.n, 1) + sums.label_variance
    low, high = interval(alone + tau * sums.crowd**2 + sigma * sums.own**2)
    return WorkerQuality(sums.quality, low, high, interval(alone)[1])


def moments(answers: Answers, proba: Array, codes: Array, peers: Array) -> Moments:
    """Return the sums over each worker's answers; `peers` (workers,) is their quality by peers."""
    task, worker, n_workers = answers.task, answers.worker, answers.n_workers
    n = np.bincount(worker, minlength=n_workers)
    p = np.where(is_only_answer(answers), peers[worker], proba[task, answers.label])  # (answers,)
    confidence = proba[task, codes[task]]
    slope = np.where(answers.label == codes[task], p * (1 - p), -p * confidence)

    def mean(values: Array) -> Array:
        return np.asarray(np.bincount(worker, values, n_workers) / np.maximum(n, 1))

    own = mean(p * (1 - p))
    return Moments(n, mean(p), own / np.maximum(n, 1), mean(slope), own)
