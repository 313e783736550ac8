"""Loops that several truth models share, as functions on arrays.

Tasks are split into a fixed number of chunks, whatever the number of threads, and partial sums are added in chunk
order: results are the same to the last bit for any number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from crowdwise.truth.kernels.threads import compiled, run

Array = np.ndarray[Any, np.dtype[Any]]

FLOOR = 1e-10  # replaces a count or probability of zero: improbable, never impossible
PADDING = 16  # numbers after a thread's own row, so that no two threads write to one cache line: twice as fast
CHUNKS = 8


def chunk_bounds(starts: Array) -> Array:
    """Return the bounds of chunks of tasks with about the same number of answers each, (chunks + 1,)."""
    bounds = np.searchsorted(starts, np.linspace(0, starts[-1], CHUNKS + 1), side="left").astype(np.int64)
    bounds[0], bounds[-1] = 0, len(starts) - 1
    return bounds


def vote_shares(starts: Array, label: Array, weight: Array, proba: Array) -> None:
    """Set proba[t] to the vote shares of task t; equal shares for a task without answers."""
    run(_vote_shares, len(starts) - 1, starts, label, weight, proba)


@compiled
def _vote_shares(first, end, starts, label, weight, proba):
    weighted = weight.shape[0] > 0
    n_classes = proba.shape[1]
    for t in range(first, end):
        proba[t, :] = 0.0
        total = 0.0
        for a in range(starts[t], starts[t + 1]):
            vote = weight[a] if weighted else 1.0
            proba[t, label[a]] += vote
            total += vote
        for c in range(n_classes):
            proba[t, c] = proba[t, c] / total if total > 0 else 1.0 / n_classes


def weighted_scores(starts: Array, label: Array, score: Array, scores: Array) -> None:
    """Set scores[t, l] to the sum of score[a] over the answers a to task t with label l."""
    run(_weighted_scores, len(starts) - 1, starts, label, score, scores)


@compiled
def _weighted_scores(first, end, starts, label, score, scores):
    for t in range(first, end):
        scores[t, :] = 0.0
        for a in range(starts[t], starts[t + 1]):
            scores[t, label[a]] += score[a]


def softmax_rows(scores: Array, log_sum: Array) -> None:
    """Turn rows of log weights into probabilities, in place, and set `log_sum` to each row's log-sum-exp."""
    run(_softmax_rows, len(scores), scores, log_sum)


@compiled
def _softmax_rows(first, end, scores, log_sum):
    for t in range(first, end):
        top = scores[t].max()
        total = 0.0
        for c in range(scores.shape[1]):
            scores[t, c] = np.exp(scores[t, c] - top)
            total += scores[t, c]
        for c in range(scores.shape[1]):
            scores[t, c] /= total
        log_sum[t] = top + np.log(total)


def best_classes(proba: Array, tolerance: float, best: Array, tied: Array) -> None:
    """Set `best` to the first most probable class of each row, `tied` to the number of classes within `tolerance`."""
    run(_best_classes, len(proba), proba, tolerance, best, tied)


@compiled
def _best_classes(first, end, proba, tolerance, best, tied):
    for t in range(first, end):
        top = 0
        for c in range(1, proba.shape[1]):
            if proba[t, c] > proba[t, top]:
                top = c
        count = 0
        for c in range(proba.shape[1]):
            count += proba[t, c] >= proba[t, top] - tolerance
        best[t] = top
        tied[t] = count
