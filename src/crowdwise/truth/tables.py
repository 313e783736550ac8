"""What a fitted model says, as two tables: one row a task, and one row a worker.

    belief[a]          = proba[task[a], label[a]]                                           a = answer, w = worker
    quality[w]         = mean of belief over w's answers                                    expected share of right ones
    informativeness[w] = sum_cl prior[c] confusion[w, c, l] log2(confusion[w, c, l] / said[w, l])    bits an answer
    said[w, l]         = sum_c prior[c] confusion[w, c, l]

A worker's own answer has a say in what is held to be true, so `quality` and `agreement_with_consensus` flatter workers
whose tasks have one or two answers. The interval about `quality` at 95 % makes up for it:

    "peers"    holds Wilson's interval about the quality by what others say (`truth.peer_quality`), of as "
    "many answers as that
               is known from, and Wilson's about the agreement with the labels
    "belief"   Wilson's about `quality`, of as many answers to tasks of known truth as would tell as much (Louis, 1982):
               shared - sum of belief (1 - belief) / (quality (1 - quality)), of answers to tasks that others answered
               too. One pass; it trusts the model's belief, and is too narrow where that is too sure: where answers are
               few or classes many, and of voting methods.

`benchmarks/statistical_checks.py` measures how often each holds the true accuracy. Column names follow cleanlab's
quality tables where the meaning is the same. Everything is counted over the answers, and over the
(worker, label) pairs that occur.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numba import njit
from scipy.special import rel_entr

from crowdwise.answers import Answers, Pairs
from crowdwise.answers.encoding import take_by_code
from crowdwise.truth import peer_quality
from crowdwise.truth.base import Array, TruthModel

_NORMAL_95 = 1.959963984540054  # two-sided 95 % of the normal distribution
PEER_CELLS = 3_000_000  # answers x classes up to which workers are judged by their peers: a few seconds
MAX_CONFUSION_CELLS = 20_000_000  # dense matrices beyond this are not built: their column is left empty


def label_table(model: TruthModel) -> pa.Table:
    """The label of each task, how sure it is, and what else it could be.

    Returns
    -------
    pyarrow.Table
        `task`; `label`; `confidence`, the probability of the label; `runner_up`, the next most probable class (empty
        when no other has any probability); `agreement`, the share of the task's answers that say the label (empty
        without answers); `answers`, how many there are; and `decided` for models that leave tasks open.

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
    """Columns of `label_table`, of any belief (tasks, classes) and labels (tasks,)."""
    count = np.diff(answers.task_starts)  # (tasks,)
    agreed = _agreeing(answers.task_starts, answers.label, codes)  # (tasks,)
    second = _runner_up(proba, codes)  # (tasks,), -1 where there is none
    return {
        "task": answers.task_ids,
        "label": answers.class_ids.take(pa.array(codes)),
        "confidence": proba[np.arange(answers.n_tasks), codes],
        "runner_up": answers.class_ids.take(pa.array(second, mask=second < 0)),
        "agreement": share_of(agreed, count),
        "answers": count,
    }


def worker_table(model: TruthModel, interval: Literal["peers", "belief"] | None = None) -> pa.Table:
    """How good each worker is, as far as the model can tell.

    Parameters
    ----------
    model : fitted truth model
    interval : {"peers", "belief"}, optional
        How the interval is found, as said at the top. By peers unless answers times classes are more than `PEER_CELLS`:
        that goes through all of them up to twenty times.

    Returns
    -------
    pyarrow.Table
        `worker`; `answers`; `quality`, the expected share of right answers, with its 95 % interval `quality_low` to
        `quality_high`; `agreement_with_consensus`, the share of answers equal to the inferred label;
        `informativeness` in bits an answer, for models with confusion matrices (else empty); `worst_class`, the class
        whose choice by this worker is least often confirmed (the most frequent one of equals; empty when all were);
        and `skill` or `ability` for models that give each worker one.

    Examples
    --------
    >>> from crowdwise import Answers, MajorityVote
    >>> answers = Answers.from_arrays([1, 1, 1, 2], ["a", "b", "c", "a"], ["cat", "cat", "dog", "dog"])
    >>> worker_table(MajorityVote().fit(answers)).column("worst_class").to_pylist()
    [None, None, 'dog']
    """
    answers, codes = model._fitted, model.codes_
    count = np.diff(answers.worker_starts)  # (workers,)
    agrees = says_label(answers, codes)  # (answers,)
    belief = model.proba_[answers.task, answers.label]  # (answers,)
    expected = np.bincount(answers.worker, belief, minlength=answers.n_workers)
    agreed = np.bincount(answers.worker, agrees, minlength=answers.n_workers)
    if (interval or ("peers" if answers.n_answers * answers.n_classes <= PEER_CELLS else "belief")) == "peers":
        low, high = peer_interval(answers, model.proba_, expected, agreed)
    else:
        low, high = belief_interval(expected, count, *shared_doubt(answers, belief, answers.worker, answers.n_workers))
    bits = _information(model)
    worst = worst_label(answers, agrees, model.proba_[np.arange(answers.n_tasks), codes])
    table = pa.table(
        {
            "worker": answers.worker_ids,
            "answers": count,
            "quality": share_of(expected, count),
            "quality_low": low,
            "quality_high": high,
            "agreement_with_consensus": share_of(agreed, count),
            "informativeness": pa.nulls(len(count), pa.float64()) if bits is None else bits,
            "worst_class": answers.class_ids.take(pa.array(worst, mask=worst < 0)),
        }
    )
    for name in ("skill", "ability"):
        if hasattr(model, f"{name}_"):
            table = table.append_column(name, pa.array(getattr(model, f"{name}_")))
    return table


def peer_interval(answers: Answers, proba: Array, expected: Array, agreed: Array) -> tuple[Array, Array]:
    """Interval (workers,) of quality by what others say, of a belief (tasks, classes) and its sums over each worker."""
    count = np.diff(answers.worker_starts)
    wrong = peer_quality.errors_of(
        peer_quality.smoothed(peer_quality.crowd_counts(answers, peer_quality.pair_counts(answers, proba)))
    )
    quality, known, _, _ = peer_quality.quality_by_peers(answers, peer_quality.base_of(answers, proba), wrong)
    low, high = both_intervals(quality, known, agreed, count)
    own = expected / np.maximum(count, 1)
    return np.minimum(low, np.where(count, own, 1.0)), np.maximum(high, np.where(count, own, 0.0))


def both_intervals(quality: Array, known: Array, agreed: Array, count: Array) -> tuple[Array, Array]:
    """What holds the interval by peers, and that by the labels."""
    low, high = wilson(quality * known, known)
    label_low, label_high = wilson(agreed, count)
    return np.minimum(low, label_low), np.maximum(high, label_high)


def shared_doubt(answers: Answers, belief: Array, of: Array, n: int) -> tuple[Array, Array]:
    """Sums over answers to tasks that others answered too, by what each answer belongs to: of 1, and of their doubt."""
    shared = ~peer_quality.are_alone(answers)
    return np.bincount(of, shared, minlength=n), np.bincount(of, shared * belief * (1 - belief), minlength=n)


def belief_interval(expected: Array, count: Array, shared: Array, doubt: Array) -> tuple[Array, Array]:
    """Interval (workers,) of quality by the model's belief alone, from sums over each worker's answers.

    >>> [round(float(x), 2) for x in belief_interval(np.array(8.0), np.array(10), np.array(10), np.array(0.0))]
    [0.49, 0.94]
    >>> belief_interval(np.array(8.0), np.array(10), np.array(0), np.array(0.0))  # nobody else answered these tasks
    (np.float64(0.0), np.float64(1.0))
    """
    middle = (expected + 1) / (count + 2)
    known = np.maximum(shared - doubt / (middle * (1 - middle)), 0.0)
    return wilson(expected / np.maximum(count, 1) * known, known)


def wilson(successes: Array, trials: Array) -> tuple[Array, Array]:
    """Wilson's 95 % interval of a share; 0 to 1 where nothing was tried. Both may be expected ones.

    >>> [round(float(bound), 3) for bound in wilson(np.array(8.0), np.array(10))]
    [0.49, 0.943]
    """
    z2 = _NORMAL_95**2
    share = successes / np.where(trials > 0, trials, 1)  # trials may be less than one
    middle = (successes + z2 / 2) / (trials + z2)
    spread = np.sqrt(trials * share * (1 - share) + z2 / 4) * _NORMAL_95 / (trials + z2)
    return np.maximum(middle - spread, 0.0), np.minimum(middle + spread, 1.0)


def information(confusion: Array, class_prior: Array) -> Array:
    """Bits that one answer of each worker tells about the truth: mutual information under the class prior.

    >>> information(np.array([np.eye(2), np.full((2, 2), 0.5)]), np.array([0.5, 0.5])).tolist()
    [1.0, 0.0]
    """
    joint = class_prior[:, None] * confusion  # (workers, truth, labels)
    said = joint.sum(axis=1, keepdims=True)  # (workers, 1, labels)
    return np.maximum(rel_entr(joint, class_prior[:, None] * said).sum(axis=(1, 2)) / np.log(2), 0.0)


def _information(model: TruthModel) -> Array | None:
    answers = model._fitted
    if answers.n_workers * answers.n_classes**2 > MAX_CONFUSION_CELLS:
        return None
    confusion = getattr(model, "confusion_", None)
    if confusion is None:
        return None
    return information(confusion, getattr(model, "class_prior_", model.proba_.mean(axis=0)))


def says_label(answers: Answers, codes: Array) -> Array:
    """Whether each answer says the inferred label."""
    return answers.label == take_by_code(codes, answers.task)


def share_of(part: Array, whole: Array) -> pa.Array:
    """Ratio of two counts, empty where the second is zero."""
    return pa.array(part / np.maximum(whole, 1), mask=whole == 0)


def worst_label(answers: Answers, agrees: Array, confidence: Array) -> Array:
    """Label of each worker's pair that is least often confirmed, -1 where all always are.

    Of equals the pair with more answers counts, then the one on tasks whose label is surer.
    """
    pairs = answers.pairs
    n_pairs = len(pairs.label)
    given = np.bincount(pairs.of_answer, minlength=n_pairs)  # (pairs,)
    confirmed = np.bincount(pairs.of_answer, agrees, minlength=n_pairs)
    sure = np.bincount(pairs.of_answer, confidence[answers.task], minlength=n_pairs)
    return worst_pair(pairs, given, confirmed, sure)


def worst_pair(pairs: Pairs, given: Array, confirmed: Array, sure: Array) -> Array:
    """`worst_label` from sums over the answers of each pair, (pairs,): of 1, of confirmed ones, of confidences."""
    n_workers = len(pairs.worker_starts) - 1
    share, sure = confirmed / given, np.round(sure / given, 9)  # equals are equal in whatever order they were added
    worker = np.repeat(np.arange(n_workers), np.diff(pairs.worker_starts))
    order = np.lexsort((-sure, -given, share, worker))  # each worker's worst pair comes first in the worker's run
    label = np.where(share[order] < 1, pairs.label[order], -1)
    worst = np.full(n_workers, -1, np.int32)
    busy = np.diff(pairs.worker_starts) > 0
    worst[busy] = label[pairs.worker_starts[:-1][busy]]
    return worst


@njit(cache=True)
def _agreeing(starts: Array, label: Array, codes: Array) -> Array:
    """How many answers to each task say its label."""
    agreed = np.zeros(codes.shape[0], np.int64)
    for t in range(codes.shape[0]):
        for a in range(starts[t], starts[t + 1]):
            agreed[t] += label[a] == codes[t]
    return agreed


@njit(cache=True)
def _runner_up(proba: Array, codes: Array) -> Array:
    """Most probable class of each task beside the chosen one; -1 when no other has any probability."""
    second = np.full(proba.shape[0], -1, np.int32)
    for t in range(proba.shape[0]):
        best = 0.0
        for c in range(proba.shape[1]):
            if c != codes[t] and proba[t, c] > best:
                best = proba[t, c]
                second[t] = c
    return second
