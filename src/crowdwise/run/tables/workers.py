"""How good each worker is: the table `workers.csv`.

Two figures say how often a worker is right. By what others say (`truth.peer_quality`) nobody confirms himself, but a
worker has one quality for all classes. By the labels (`agreement_with_consensus`) the worker has a say in what is held
true, which flatters. The interval `quality_low` to `quality_high` holds Wilson's, at 95 %, of both; `quality` is the
first, and at most the upper bound of the second, as what flatters a worker is the most that can be believed.

In simulated crowds of 40 workers and 1,000 tasks with 1.5 to 5 answers each, classes even or up to 20 to 1, it holds
the true accuracy 94 to 99 times in 100; with one answer a task it is nearly 0 to 1. On real tasks workers are misled
together, which no answer can show. Of workers with 20 answers or more it holds the share of right answers, about labels
of Dawid-Skene, so many times in 100 (in brackets: the interval by others alone; these sets were looked at when the rule
was chosen): LabelMe 81 (81), Music 76 (76), product 88 (69), bluebird 97 (28), d_possent 94 (86), dog 70 (65), face 23
(18), fej2013 58 (47), leaves 41 (38), rte 97 (91), s_rel 74 (41), weather_cf 100 (100), web 87 (77), zencrowd_us 88
(79). About labels of one-coin workers it is less: product 79, bluebird 31, s_rel 46. Where it fails, `quality` is
mostly too high.

A spammer's answers tell next to nothing of the truth. The rule: `LEAST` answers or more; a share of answers that
follow the truth and not the worker's habit whose upper 95 % bound is below `HEEDS`; and labels that tell no more of
what others say than chance would (twice the log-likelihood by the worker's best matrix, beyond labels that heed
nothing, is within two deviations of chi-squared), or less than the share `TRIFLE` of what there is to tell. By the last
condition one who knows and says something else, for all classes or for some, is no spammer: low `quality_high` and high
`informativeness` tell this worker from a spammer. It takes about 50 answers.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.truth import tables
from crowdwise.truth.base import Array
from crowdwise.truth.peer_quality import (
    CAUTION,
    PeerQuality,
    base_rates,
    crowd_counts,
    error_distribution,
    pair_counts,
    peer_quality_of,
    smoothed,
    tasks_per_class,
    workers_of_pairs,
)
from crowdwise.truth.tables import both_intervals, equals_label, information, ratio_column, wilson, worst_label

LEAST = 5  # answers, below which nobody is called a spammer
HEEDS = 0.3
TRIFLE = 0.02


def judge(
    answers: Answers,
    proba: Array,
    codes: Array,
    *,
    seconds: Array | None = None,
) -> pa.Table:
    """How good each worker is, what is confused with what, and who does not look.

    Parameters
    ----------
    answers : Answers
    proba : (tasks, classes) array
        How probable each class is.
    codes : (tasks,) int array
        The label of each task.
    seconds : (answers,) array, optional
        How long each answer took, NaN where unknown.

    Returns
    -------
    pyarrow.Table
        A row a worker: `worker`; `answers`; `quality`, the share of right answers, and its interval `quality_low` to
        `quality_high`, as said at the top; `agreement_with_consensus`, the share equal to the label;
        `informativeness`, bits an answer (empty where the matrices would not fit in memory); `worst_class`, the one
        least often confirmed; `worst_confusion`, "truth -> said", the one with most answers beyond those that the crowd
        would have given (empty where no wrong label is expected once); `worst_confusion_share`, P(said | truth), mixed
        with 2 answers of the average worker; `spammer`; `seconds`, the median.

    Examples
    --------
    >>> from crowdwise import DawidSkene, simulate
    >>> crowd = {"one-coin": 0.9, "spammer": 0.1}
    >>> answers = simulate.simulate(500, n_workers=10, answers_per_task=3, workers=crowd, seed=1)
    >>> model = DawidSkene().fit(answers)
    >>> judge(answers, model.proba_, model.codes_).column("spammer").to_pylist().count(True)
    1
    """
    k = answers.n_classes
    shapes = {
        "proba": (proba, (answers.n_tasks, k)),
        "codes": (codes, (answers.n_tasks,)),
        "seconds": (seconds, (answers.n_answers,)),
    }
    for name, (array, shape) in shapes.items():
        if array is not None and np.shape(array) != shape:
            message = f"{name} has shape {np.shape(array)}; these answers need {shape}."
            raise ParameterError(message)
    n = np.diff(answers.worker_starts)  # (workers,)
    counts = pair_counts(answers, proba)  # (pairs, classes)
    average = smoothed(crowd_counts(answers, counts))  # (classes, labels)
    told = peer_quality_of(answers, base_rates(answers, proba), error_distribution(average))
    agrees = equals_label(answers, codes)  # (answers,)
    agreed = np.bincount(answers.worker, agrees, minlength=len(n))  # (workers,)
    low, high = both_intervals(told.quality, told.known, agreed, n)
    worst = worst_label(answers, agrees, proba[np.arange(answers.n_tasks), codes])
    bits = _bits(answers, counts, average, proba.mean(axis=0))
    confused, share = _worst_confusion(answers, counts, average)
    return pa.table(
        {
            "worker": answers.worker_ids,
            "answers": n,
            "quality": pa.array(np.minimum(told.quality, wilson(agreed, n)[1]), mask=n == 0),
            "quality_low": low,
            "quality_high": high,
            "agreement_with_consensus": ratio_column(agreed, n),
            "informativeness": pa.nulls(len(n), pa.float64()) if bits is None else pa.array(bits, mask=n == 0),
            "worst_class": answers.class_ids.take(pa.array(worst, mask=worst < 0)),
            "worst_confusion": confused,
            "worst_confusion_share": share,
            "spammer": (n >= LEAST) & _spams(told),
            "seconds": _median_seconds(answers, seconds),
        }
    )


def _spams(told: PeerQuality) -> Array:
    """Who does not look at the tasks, by the rule at the top."""
    _, heeds_high = wilson(told.attention * told.attention_known, told.attention_known)
    chance = (told.freedom + 2 * np.sqrt(2.0 * told.freedom)) / 2  # chi-squared is twice a log-likelihood
    trifle = told.freedom / 2 + TRIFLE * told.unknown
    return (heeds_high < HEEDS) & ((told.nats <= chance) | (told.nats <= trifle))


def _bits(answers: Answers, counts: Array, average: Array, prior: Array) -> Array | None:
    """Bits an answer of each worker, by matrices counted by the belief; None where they would not fit in memory."""
    k, n_workers = answers.n_classes, answers.n_workers
    if n_workers * k**2 > tables.MAX_CONFUSION_CELLS:
        return None
    confusion = np.zeros((n_workers, k, k))
    confusion[workers_of_pairs(answers), :, answers.pairs.label] = counts
    confusion += CAUTION * average
    confusion /= confusion.sum(axis=2, keepdims=True)
    return information(confusion, prior)


def _worst_confusion(answers: Answers, counts: Array, average: Array) -> tuple[pa.Array, pa.Array]:
    """Text of each worker's worst confusion and its share, both empty where no wrong label is expected once."""
    pairs, who = answers.pairs, workers_of_pairs(answers)
    rows = np.arange(len(who))
    seen = tasks_per_class(answers, counts)[who]  # (pairs, classes): tasks per class of the pair's worker
    usual = average[:, pairs.label].T  # (pairs, classes): P(the average worker says the pair's label | class)
    beyond = np.where(counts >= 1, counts - seen * usual, -np.inf)
    beyond[rows, pairs.label] = -np.inf
    truth = beyond.argmax(axis=1)  # (pairs,)
    most = beyond[rows, truth]
    order = np.lexsort((-most, who))  # each worker's worst pair comes first in the worker's run
    busy = np.diff(pairs.worker_starts) > 0
    worst = np.full(answers.n_workers, -1)
    worst[busy] = order[pairs.worker_starts[:-1][busy]]
    found = np.flatnonzero(worst >= 0)
    found = found[most[worst[found]] > -np.inf]
    pair, c = worst[found], truth[worst[found]]
    place = np.full(answers.n_workers, -1)
    place[found] = np.arange(len(found))
    where = pa.array(place, mask=place < 0)
    names = answers.class_ids.cast(pa.string())
    text = pc.binary_join_element_wise(names.take(pa.array(c)), names.take(pa.array(pairs.label[pair])), " -> ")
    share = (counts[pair, c] + CAUTION * usual[pair, c]) / (seen[pair, c] + CAUTION)
    return text.take(where), pa.array(share).take(where)


def _median_seconds(answers: Answers, seconds: Array | None) -> pa.Array:
    """Median time of each worker's answers, empty where none is known."""
    times = np.full(answers.n_answers, np.nan) if seconds is None else np.asarray(seconds, dtype=float)
    known = np.flatnonzero(np.isfinite(times))
    order = known[np.lexsort((times[known], answers.worker[known]))]  # by worker, then time
    n = np.bincount(answers.worker[known], minlength=answers.n_workers)
    timed, first = np.flatnonzero(n), (np.cumsum(n) - n)[n > 0]
    median = np.full(answers.n_workers, np.nan)
    middle = [times[order[first + half]] for half in ((n[timed] - 1) // 2, n[timed] // 2)]
    median[timed] = (middle[0] + middle[1]) / 2
    return pa.array(median, mask=n == 0)
