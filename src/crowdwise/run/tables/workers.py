"""The table of workers: how good each worker is.

`quality` is the share of right answers, with the 95% interval `quality_low` to `quality_high`. If the labels have a
calibrated confidence, both follow it, and the interval allows for labels of one crowd or worker that are wrong together
(`trust.worker_quality`). Otherwise two figures say how often a worker is right. The one by peers
(`truth.peer_quality`) never counts a worker's own answer, but assumes one quality for all classes. The one by the
labels (`agreement_with_consensus`) is too high, as the worker's own answers influence the labels. The interval covers
the 95% Wilson intervals of both, and `quality` is the figure by peers, capped at the upper bound of the figure by the
labels. Where workers are misled together, it is too high, and its interval too narrow.

Coverage, for workers with 20 tasks of known truth or more (`python -m benchmarks worker-quality`; table and deviations
learned without the crowd). With labels of a run, the interval holds the share of right answers of 96 % of the workers
of 18 real crowds in the mean, and of 98 % in 30 crowds whose workers err independently; without calibration of 65 % and
99 %. In each crowd, in brackets without calibration: bluebird 100 (87), d_possent 95 (94), dog 100 (65), face 100 (18),
fej2013 97 (47), leaves 100 (41), rte 92 (97), s_rel 91 (65), weather_cf 100 (100), web 100 (76), zencrowd_us 97 (88),
trec_dl23 100 (0), product 95 (89), LabelMe 97 (78), Music 100 (76), cifar10n 100 (100), medical_treats 74 (18),
medical_causes 96 (22). The price is width: .38 instead of .21 in the mean of the real crowds, .39 instead of .32 in the
independent ones, which the answers cannot tell from the others.

A spammer answers no better than chance. The rule has three parts: `MIN_ANSWERS` answers or more; the share of answers
that depend on the truth rather than on the worker's habit has an upper 95% bound below `MAX_HEED`; and the answers
predict those of other workers no better than chance (twice the gain in log-likelihood by the worker's best matrix is
within `DEVIATIONS` standard deviations of chi-squared), or by less than the share `TRIFLE` of what could be gained. The
last part spares workers who know the truth and answer something else, for all classes or some: they have a low
`quality_high` and a high `informativeness`. The rule needs about 50 answers per worker.

`flag` says what is wrong with a worker, in this order:

    always answers X          all answers are X, where others are expected (`peer_quality.constant_label`)
    answers at random         a spammer by the rule above
    answers against the truth informative, but less often right than a guess: the upper bound of quality, if each label
                              errs alone, is below one in the number of classes
    copies W                  gives the same answers as W, who gave as many or more (`trust.copies`)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from crowdwise.answers import Answers
from crowdwise.errors import ParameterError
from crowdwise.trust.worker_quality import WorkerQuality, quality_by_labels
from crowdwise.truth import tables
from crowdwise.truth.base import Array
from crowdwise.truth.peer_quality import (
    CAUTION,
    PeerQuality,
    constant_label,
    crowd_counts,
    pair_counts,
    peer_quality_of,
    smoothed,
    tasks_per_class,
    workers_of_pairs,
)
from crowdwise.truth.tables import both_intervals, equals_label, information, ratio_column, wilson, worst_label

MIN_ANSWERS = 5  # a worker with fewer is never called a spammer
MAX_HEED = 0.45
TRIFLE = 0.02
DEVIATIONS = 3.5


def rate_workers(
    answers: Answers,
    proba: Array,
    codes: Array,
    *,
    seconds: Array | None = None,
    copies: Sequence[Array] = (),
    calibrated: bool = False,
    gold: Array | None = None,
) -> pa.Table:
    """Return the table of workers: quality, worst confusion, and what is wrong with them, if anything.

    Parameters
    ----------
    answers : Answers
    proba : (tasks, classes) array
        Class probabilities.
    codes : (tasks,) int array
        The label of each task.
    seconds : (answers,) array, optional
        How long each answer took; NaN if unknown.
    copies : sequence of int arrays, optional
        Groups of workers, as codes, who copy one another.
    calibrated : bool
        Whether `proba` is calibrated, on other crowds or on gold.
    gold : (tasks,) int array, optional
        Codes of known labels, -1 unknown. They make the interval narrower if `proba` is calibrated.

    Returns
    -------
    pyarrow.Table
        One row per worker: `worker`; `answers`, their number; `quality`, the share of right answers, and its interval
        `quality_low` to `quality_high`, as described above; `agreement_with_consensus`, the share of answers equal to
        the label; `informativeness`, the information per answer in bits (empty if the confusion matrices do not fit in
        memory); `worst_class`, the class they are least often confirmed on; `worst_confusion`, "truth -> answer", the
        one with most answers beyond those expected from the crowd (empty if all answers equal the labels, or no wrong
        answer is expected at least once); `worst_confusion_share`, P(answer | truth), mixed with 2 answers of the
        average worker; `spammer`, whether they answer no better than chance; `flag`, what is wrong, or empty;
        `seconds`, the median.

    Examples
    --------
    >>> from crowdwise import DawidSkene, simulate
    >>> crowd = {"one-coin": 0.9, "spammer": 0.1}
    >>> answers = simulate.simulate(500, n_workers=10, answers_per_task=3, workers=crowd, seed=1)
    >>> model = DawidSkene().fit(answers)
    >>> rate_workers(answers, model.proba_, model.codes_).column("spammer").to_pylist().count(True)
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
    peers = peer_quality_of(answers, proba)
    agrees = equals_label(answers, codes)  # (answers,)
    agreed = np.bincount(answers.worker, agrees, minlength=len(n))  # (workers,)
    if calibrated:
        rated = quality_by_labels(answers, proba, codes, gold)
    else:
        capped = np.minimum(peers.quality, wilson(agreed, n)[1])
        by_peers = wilson(peers.quality * peers.known, peers.known)[1]
        rated = WorkerQuality(capped, *both_intervals(peers.quality, peers.known, agreed, n), by_peers)
    worst = worst_label(answers, agrees, proba[np.arange(answers.n_tasks), codes])
    bits = _bits(answers, counts, average, proba.mean(axis=0))
    confused, share = _worst_confusion(answers, counts, average, agreed == n)
    constant = constant_label(answers, proba)
    spammer = ((n >= MIN_ANSWERS) & _is_spammer(peers)) | (constant >= 0)
    against = (n >= MIN_ANSWERS) & ~spammer & (rated.high_alone < 1 / k)
    return pa.table(
        {
            "worker": answers.worker_ids,
            "answers": n,
            "quality": pa.array(rated.quality, mask=n == 0),
            "quality_low": rated.low,
            "quality_high": rated.high,
            "agreement_with_consensus": ratio_column(agreed, n),
            "informativeness": pa.nulls(len(n), pa.float64()) if bits is None else pa.array(bits, mask=n == 0),
            "worst_class": answers.class_ids.take(pa.array(worst, mask=worst < 0)),
            "worst_confusion": confused,
            "worst_confusion_share": share,
            "spammer": spammer,
            "flag": pa.array(_flags(answers, constant, spammer, against, copies), pa.string()),
            "seconds": _median_seconds(answers, seconds),
        }
    )


def _is_spammer(peers: PeerQuality) -> Array:
    """Apply the rule described above, (workers,) bools."""
    _, heeds_high = wilson(peers.attention * peers.attention_known, peers.attention_known)
    chance = (peers.freedom + DEVIATIONS * np.sqrt(2.0 * peers.freedom)) / 2  # chi-squared is twice a log-likelihood
    trifle = peers.freedom / 2 + TRIFLE * peers.unknown
    return (heeds_high < MAX_HEED) & ((peers.nats <= chance) | (peers.nats <= trifle))


def _flags(
    answers: Answers, constant: Array, spammer: Array, against: Array, copies: Sequence[Array]
) -> list[str | None]:
    """Return what is wrong with each worker, or None."""
    n, names = np.diff(answers.worker_starts), answers.workers.tolist()
    flags = np.select([spammer, against], ["answers at random", "answers against the truth"], "").astype(object)
    for w in np.flatnonzero(constant >= 0):
        if spammer[w]:
            flags[w] = f"always answers {answers.classes.tolist()[constant[w]]}"
    for group in copies:
        original = group[np.argmax(n[group])]  # the first of those with most answers
        for w in group:
            if w != original and not flags[w]:
                flags[w] = f"copies {names[original]}"
    return [flag or None for flag in flags.tolist()]


def _bits(answers: Answers, counts: Array, average: Array, prior: Array) -> Array | None:
    """Information per answer of each worker, in bits; None if the confusion matrices do not fit in memory."""
    k, n_workers = answers.n_classes, answers.n_workers
    if n_workers * k**2 > tables.MAX_CONFUSION_CELLS:
        return None
    confusion = np.zeros((n_workers, k, k))
    confusion[workers_of_pairs(answers), :, answers.pairs.label] = counts
    confusion += CAUTION * average
    confusion /= confusion.sum(axis=2, keepdims=True)
    return information(confusion, prior)


def _worst_confusion(
    answers: Answers, counts: Array, average: Array, always_agrees: Array
) -> tuple[pa.Array, pa.Array]:
    """Text and share of each worker's worst confusion; empty if all answers are labels, or none is expected wrong."""
    pairs, who = answers.pairs, workers_of_pairs(answers)
    rows = np.arange(len(who))
    seen = tasks_per_class(answers, counts)[who]  # (pairs, classes): expected tasks of each class of the worker
    usual = average[:, pairs.label].T  # (pairs, classes): P(average worker gives the label | class)
    beyond = np.where(counts >= 1, counts - seen * usual, -np.inf)
    beyond[rows, pairs.label] = -np.inf
    truth = beyond.argmax(axis=1)  # (pairs,)
    most = beyond[rows, truth]
    order = np.lexsort((-most, who))  # the worst pair of each worker comes first
    busy = (np.diff(pairs.worker_starts) > 0) & ~always_agrees
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
    """Median time of each worker's answers; empty if unknown."""
    times = np.full(answers.n_answers, np.nan) if seconds is None else np.asarray(seconds, dtype=float)
    known = np.flatnonzero(np.isfinite(times))
    order = known[np.lexsort((times[known], answers.worker[known]))]  # by worker, then time
    n = np.bincount(answers.worker[known], minlength=answers.n_workers)
    timed, first = np.flatnonzero(n), (np.cumsum(n) - n)[n > 0]
    median = np.full(answers.n_workers, np.nan)
    middle = [times[order[first + half]] for half in ((n[timed] - 1) // 2, n[timed] // 2)]
    median[timed] = (middle[0] + middle[1]) / 2
    return pa.array(median, mask=n == 0)
