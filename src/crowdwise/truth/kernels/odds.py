"""E-step of models in which an answer favours only the class it names (OneCoin, MACE): one pass over the answers.

    proba[t, c]  proportional to class_prior[c] * product over the answers a to t that say c of odds[source[a]]
    agreed[s]    = sum over the answers a of source s of proba[task[a], label[a]]

A source is what the odds depend on: the worker (OneCoin), or the worker and the label (MACE). An iteration costs
answers plus tasks x classes, not answers x classes.
"""

from __future__ import annotations

import numpy as np

from crowdwise.answers import Answers
from crowdwise.truth.base import Array, weights_of
from crowdwise.truth.kernels.shared import PADDING, chunk_bounds
from crowdwise.truth.kernels.threads import compiled, run

_SHORT = 16  # for tasks of up to this many answers odds may be multiplied,
_LARGEST = 40.0  # if all log odds are within this: e^(16 x 40) does not overflow


def expect(
    answers: Answers, source: Array, log_odds: Array, class_prior: Array, gold: Array | None, proba: Array | None = None
) -> tuple[Array, Array, float]:
    """Run the E-step; return `agreed` (sources,), the expected tasks per class, and the sum of the log normalisers.

    Parameters
    ----------
    answers : Answers
    source : (answers,) int array
        The entry of `log_odds` (sources,) for each answer.
    class_prior : (classes,) array
    gold : (tasks,) int32 array or None
        Known classes, -1 where unknown.
    proba : (tasks, classes) array, optional
        Filled with the posteriors.
    """
    bounds = chunk_bounds(answers.task_starts)
    chunks = len(bounds) - 1
    agreed, sizes, log_sum = np.zeros((chunks, len(log_odds))), np.zeros((chunks, len(class_prior))), np.zeros(chunks)
    short = _SHORT if answers.weight is None and np.abs(log_odds).max() < _LARGEST else 0
    run(
        _pass, chunks, answers.task_starts, source, answers.label, weights_of(answers), log_odds, class_prior,
        np.empty(0, np.int32) if gold is None else gold, bounds, short, agreed, sizes, log_sum,
        np.empty((0, 0)) if proba is None else proba, parts=chunks,
    )  # fmt: skip
    return agreed.sum(axis=0), sizes.sum(axis=0), float(log_sum.sum())


@compiled
def _pass(
    first_chunk: int, end_chunk: int, starts: Array, source: Array, label: Array, weight: Array, log_odds: Array,
    class_prior: Array, gold: Array, bounds: Array, short: int, agreed: Array, sizes: Array, log_sum: Array,
    proba: Array,
) -> None:  # fmt: skip
    """Compute the posteriors of the tasks and add them to each chunk's sums.

    For tasks of up to `short` answers the odds are multiplied, which saves the exponentials; for longer ones logs are
    added.
    """
    weighted = weight.shape[0] > 0
    n_classes = class_prior.shape[0]
    log_prior, odds = np.log(class_prior), np.exp(np.minimum(log_odds, 700.0))
    for chunk in range(first_chunk, end_chunk):
        count = agreed[chunk]
        size = np.zeros(n_classes + PADDING)[:n_classes]
        row = np.empty(n_classes + PADDING)[:n_classes]  # posterior of the current task
        total_log = 0.0
        for t in range(bounds[chunk], bounds[chunk + 1]):
            first, end = starts[t], starts[t + 1]
            fixed = gold[t] if gold.shape[0] > 0 else -1
            shift = 0.0
            if end - first <= short:
                for c in range(n_classes):
                    row[c] = class_prior[c]
                for a in range(first, end):
                    row[label[a]] *= odds[source[a]]
            else:
                for c in range(n_classes):
                    row[c] = log_prior[c]
                for a in range(first, end):
                    row[label[a]] += log_odds[source[a]] * (weight[a] if weighted else 1.0)
                shift = row[fixed] if fixed >= 0 else row.max()
                for c in range(n_classes):
                    row[c] = np.exp(row[c] - shift) if fixed < 0 or c == fixed else 0.0
            total = 0.0
            for c in range(n_classes):
                if fixed >= 0 and c != fixed:
                    row[c] = 0.0
                total += row[c]
            total_log += shift + np.log(total)
            for c in range(n_classes):
                row[c] *= 1 / total
                size[c] += row[c]
            if proba.shape[0] > 0:
                proba[t] = row
            for a in range(first, end):
                count[source[a]] += row[label[a]] * (weight[a] if weighted else 1.0)
        sizes[chunk] = size
        log_sum[chunk] = total_log
