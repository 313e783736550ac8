"""The results of a fitted model as two tables: one row per task, and one row per worker.

    belief[a]          = proba[task[a], label[a]]                                           a = answer, w = worker
    quality[w]         = mean of belief over w's answers                                    expected share of right ones
    informativeness[w] = sum_cl prior[c] confusion[w, c, l] log2(confusion[w, c, l] / marginal[w, l])  bits per answer
    marginal[w, l]     = sum_c prior[c] confusion[w, c, l]

A worker's own answers influence the inferred labels, so `quality` and `agreement_with_consensus` are too high for
workers whose tasks have one or two answers. The 95 % interval of `quality` allows for that. There are two kinds:

    "peers"    contains two Wilson intervals: one of the worker's quality as judged by the other workers' answers
               (`truth.peer_quality`), with the effective number of answers behind it as the sample size, and one of
               the agreement with the labels
    "belief"   Wilson's interval of `quality`. Its sample size is the number of answers to tasks of known truth that
               would carry as much information (Louis, 1982): shared - sum of belief (1 - belief) / (quality
               (1 - quality)), over the answers to tasks that others answered too. It takes one pass over the answers.
               It trusts the model's probabilities and is too narrow where they are overconfident: with few answers,
               with many classes, and for voting methods.

`benchmarks/statistical_checks.py` measures how often each interval contains the true accuracy. Column names follow
cleanlab's quality tables where the meaning is the same. Time and memory grow with the number of answers and of
distinct (worker, label) pairs.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numba import njit

from crowdwise._core.logarithms import x_log_y
from crowdwise.answers import Answers, Pairs
from crowdwise.answers.encoding import take_by_code
from crowdwise.truth import peer_quality
from crowdwise.truth.base import Array, TruthModel

_NORMAL_95 = 1.959963984540054  # two-sided 95 % of the normal distribution
PEER_CELLS = 3_000_000  # answers x classes up to which intervals use the peers' answers: a few seconds
MAX_CONFUSION_CELLS = 20_000_000  # larger dense matrices are not built; `informativeness` is then empty


def label_table(model: TruthModel) -> pa.Table:
    """Return the label of each task, its confidence and the runner-up.

    Returns
    -------
    pyarrow.Table
        `task`; `label`; `confidence`, the probability of the label; `runner_up`, the next most probable class (empty
        if no other class has any probability); `agreement`, the share of the task's answers equal to the label (empty
        without answers); `answers`, their number; and `decided` for models that leave tasks undecided.

    Examples
    --------
    >>> from crowdwise import Answers, MajorityVote
    >>> answers = Answers.from_arrays([1, 1, 1, 2], ["a", "b", "c", "a"], ["cat", "cat", "dog", "dog"])
    >>> label_table(MajorityVote().fit(answers)).slice(0, 1).to_pylist()
    [{'task': 1, 'label': 'cat', 'confidence': 0.666..., 'runner_up': 'dog', 'agreement': 0.666..., 'answers': 3}]
    """
    table = pa.table(label_columns(model._fitted, model.proba_, model.codes_))
    decided = getattr(model, "decided_", None)
    return table if decided is None else table.append_column("decided", pa.array(decided))


def label_columns(answers: Answers, proba: Array, codes: Array) -> dict[str, Any]:
    """Return the columns of `label_table` for any probabilities (tasks, classes) and label codes (tasks,)."""
    count = np.diff(answers.task_starts)  # (tasks,)
    agreed = _count_agreeing(answers.task_starts, answers.label, codes)  # (tasks,)
    second = _runner_up(proba, codes)  # (tasks,), -1 where there is none
    return {
        "task": answers.task_ids,
        "label": answers.class_ids.take(pa.array(codes)),
        "confidence": proba[np.arange(answers.n_tasks), codes],
        "runner_up": answers.class_ids.take(pa.array(second, mask=second < 0)),
        "agreement": ratio_column(agreed, count),
        "answers": count,
    }


def worker_table(model: TruthModel, interval: Literal["peers", "belief"] | None = None) -> pa.Table:
    """Return each worker's estimated quality.

    Parameters
    ----------
    model : fitted truth model
    interval : {"peers", "belief"}, optional
        Kind of interval, as described at the top of this module. The default is "peers", which makes up to twenty
        passes over the answers, and "belief" if answers x classes exceed `PEER_CELLS`.

    Returns
    -------
    pyarrow.Table
        `worker`; `answers`; `quality`, the expected share of right answers, with its 95 % interval `quality_low` to
        `quality_high`; `agreement_with_consensus`, the share of answers equal to the inferred label;
        `informativeness` in bits per answer, for models with confusion matrices (else empty); `worst_class`, the
        label of this worker that least often equals the inferred one (the most frequent one of equals; empty if all
        answers do); and `skill` or `ability` for models that estimate one per worker.

    Examples
    --------
    >>> from crowdwise import Answers, MajorityVote
    >>> answers = Answers.from_arrays([1, 1, 1, 2], ["a", "b", "c", "a"], ["cat", "cat", "dog", "dog"])
    >>> worker_table(MajorityVote().fit(answers)).column("worst_class").to_pylist()
    [None, None, 'dog']
    """
    answers, codes = model._fitted, model.codes_
    count = np.diff(answers.worker_starts)  # (workers,)
    agrees = equals_label(answers, codes)  # (answers,)
    belief = model.proba_[answers.task, answers.label]  # (answers,)
    expected = np.bincount(answers.worker, belief, minlength=answers.n_workers)
    agreed = np.bincount(answers.worker, agrees, minlength=answers.n_workers)
    if (interval or ("peers" if answers.n_answers * answers.n_classes <= PEER_CELLS else "belief")) == "peers":
        low, high = peer_interval(answers, model.proba_, expected, agreed)
    else:
        n_shared, variance = shared_sums(answers, belief, answers.worker, answers.n_workers)
        low, high = belief_interval(expected, count, n_shared, variance)
    bits = _information(model)
    worst = worst_label(answers, agrees, model.proba_[np.arange(answers.n_tasks), codes])
    table = pa.table(
        {
            "worker": answers.worker_ids,
            "answers": count,
            "quality": ratio_column(expected, count),
            "quality_low": low,
            "quality_high": high,
            "agreement_with_consensus": ratio_column(agreed, count),
            "informativeness": pa.nulls(len(count), pa.float64()) if bits is None else bits,
            "worst_class": answers.class_ids.take(pa.array(worst, mask=worst < 0)),
        }
    )
    for name in ("skill", "ability"):
        if hasattr(model, f"{name}_"):
            table = table.append_column(name, pa.array(getattr(model, f"{name}_")))
    return table


def peer_interval(answers: Answers, proba: Array, expected: Array, agreed: Array) -> tuple[Array, Array]:
    """Return the interval (workers,) of quality as judged by the other workers' answers.

    `proba` is (tasks, classes); `expected` and `agreed` are (workers,) sums over each worker's answers.
    """
    count = np.diff(answers.worker_starts)
    quality, known = peer_quality.quality_by_peers(answers, proba)
    low, high = both_intervals(quality, known, agreed, count)
    own = expected / np.maximum(count, 1)
    return np.minimum(low, np.where(count, own, 1.0)), np.maximum(high, np.where(count, own, 0.0))


def both_intervals(quality: Array, known: Array, agreed: Array, count: Array) -> tuple[Array, Array]:
    """Return the smallest interval that contains both the peers' interval and that of the agreement with the labels."""
    low, high = wilson(quality * known, known)
    label_low, label_high = wilson(agreed, count)
    return np.minimum(low, label_low), np.maximum(high, label_high)


def shared_sums(answers: Answers, belief: Array, group: Array, n_groups: int) -> tuple[Array, Array]:
    """Return, per group, sums over the answers to tasks with several answers: their number, and belief (1 - belief).

    `group` (answers,) is the group of each answer, for example its worker. Both results are (groups,).
    """
    shared = ~peer_quality.is_only_answer(answers)
    n_shared = np.bincount(group, shared, minlength=n_groups)
    return n_shared, np.bincount(group, shared * belief * (1 - belief), minlength=n_groups)


def belief_interval(expected: Array, count: Array, n_shared: Array, variance: Array) -> tuple[Array, Array]:
    """Return the interval (workers,) of quality from the model's probabilities alone, given sums per worker.

    >>> [round(float(x), 2) for x in belief_interval(np.array(8.0), np.array(10), np.array(10), np.array(0.0))]
    [0.49, 0.94]
    >>> belief_interval(np.array(8.0), np.array(10), np.array(0), np.array(0.0))  # no one else answered these tasks
    (np.float64(0.0), np.float64(1.0))
    """
    middle = (expected + 1) / (count + 2)
    known = np.maximum(n_shared - variance / (middle * (1 - middle)), 0.0)
    return wilson(expected / np.maximum(count, 1) * known, known)


def wilson(successes: Array, trials: Array) -> tuple[Array, Array]:
    """Return Wilson's 95 % interval of a share; 0 to 1 without trials. Counts may be fractional (expected counts).

    >>> [round(float(bound), 3) for bound in wilson(np.array(8.0), np.array(10))]
    [0.49, 0.943]
    """
    z2 = _NORMAL_95**2
    share = successes / np.where(trials > 0, trials, 1)  # trials may be less than one
    middle = (successes + z2 / 2) / (trials + z2)
    half_width = np.sqrt(trials * share * (1 - share) + z2 / 4) * _NORMAL_95 / (trials + z2)
    return np.maximum(middle - half_width, 0.0), np.minimum(middle + half_width, 1.0)


def information(confusion: Array, class_prior: Array) -> Array:
    """Return the mutual information of each worker's answer and the truth, in bits, under the class prior.

    >>> information(np.array([np.eye(2), np.full((2, 2), 0.5)]), np.array([0.5, 0.5])).tolist()
    [1.0, 0.0]
    """
    joint = class_prior[:, None] * confusion  # (workers, truth, labels)
    marginal = joint.sum(axis=1, keepdims=True)  # (workers, 1, labels)
    independent = class_prior[:, None] * marginal  # (workers, truth, labels)
    nats = x_log_y(joint, joint / np.where(joint > 0, independent, 1)).sum(axis=(1, 2))
    return np.maximum(nats / np.log(2), 0.0)


def _information(model: TruthModel) -> Array | None:
    answers = model._fitted
    if answers.n_workers * answers.n_classes**2 > MAX_CONFUSION_CELLS:
        return None
    confusion = getattr(model, "confusion_", None)
    if confusion is None:
        return None
    return information(confusion, getattr(model, "class_prior_", model.proba_.mean(axis=0)))


def equals_label(answers: Answers, codes: Array) -> Array:
    """Return whether each answer equals the inferred label of its task, (answers,)."""
    return answers.label == take_by_code(codes, answers.task)


def ratio_column(numerator: Array, denominator: Array) -> pa.Array:
    """Return the ratio of two counts as a column, empty where the denominator is zero."""
    return pa.array(numerator / np.maximum(denominator, 1), mask=denominator == 0)


def worst_label(answers: Answers, agrees: Array, confidence: Array) -> Array:
    """Return the label of each worker that least often equals the inferred one, -1 if all their answers do.

    Among equals, the label with more answers wins, then the one on tasks of higher confidence.
    """
    pairs = answers.pairs
    n_pairs = len(pairs.label)
    count = np.bincount(pairs.of_answer, minlength=n_pairs)  # (pairs,)
    confirmed = np.bincount(pairs.of_answer, agrees, minlength=n_pairs)
    confidences = np.bincount(pairs.of_answer, confidence[answers.task], minlength=n_pairs)
    return worst_pair(pairs, count, confirmed, confidences)


def worst_pair(pairs: Pairs, count: Array, confirmed: Array, confidences: Array) -> Array:
    """`worst_label` from sums over the answers of each pair, (pairs,): of 1, of confirmed ones, of confidences."""
    n_workers = len(pairs.worker_starts) - 1
    share = confirmed / count
    confidence = np.round(confidences / count, 9)  # rounded: equal means stay equal in any order of summation
    worker = np.repeat(np.arange(n_workers), np.diff(pairs.worker_starts))
    order = np.lexsort((-confidence, -count, share, worker))  # the first of each worker's pairs is the worst
    label = np.where(share[order] < 1, pairs.label[order], -1)
    worst = np.full(n_workers, -1, np.int32)
    has_answers = np.diff(pairs.worker_starts) > 0
    worst[has_answers] = label[pairs.worker_starts[:-1][has_answers]]
    return worst


@njit(cache=True)
def _count_agreeing(starts: Array, label: Array, codes: Array) -> Array:
    """Return how many answers to each task equal its label."""
    agreed = np.zeros(codes.shape[0], np.int64)
    for t in range(codes.shape[0]):
        for a in range(starts[t], starts[t + 1]):
            agreed[t] += label[a] == codes[t]
    return agreed


@njit(cache=True)
def _runner_up(proba: Array, codes: Array) -> Array:
    """Return the second most probable class of each task; -1 if no other class has any probability."""
    second = np.full(proba.shape[0], -1, np.int32)
    for t in range(proba.shape[0]):
        best = 0.0
        for c in range(proba.shape[1]):
            if c != codes[t] and proba[t, c] > best:
                best = proba[t, c]
                second[t] = c
    return second
