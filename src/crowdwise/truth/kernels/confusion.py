"""The inner loops of EM over confusion matrices: posteriors from a table of probabilities, counts from posteriors.

Layout
    starts   (tasks + 1,)        answers to task t are starts[t]:starts[t + 1]
    pair     (answers,)          the (worker, label) pair of each answer (`Answers.pairs`)
    table    (pairs, width)      P(this worker says this label | truth c): an answer reads one row, one cache line
    width                        classes padded to 2, 4 or a multiple of 8 (`simd.padded`); padding holds zeros
    bounds   (chunks + 1,)       chunks of tasks (`shared.chunk_bounds`): partial sums are added in chunk order
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from crowdwise.answers.encoding import stable_order, take_by_code
from crowdwise.answers.encoding import starts as pair_starts
from crowdwise.truth.kernels.shared import CHUNKS, FLOOR, PADDING, Array, chunk_bounds
from crowdwise.truth.kernels.simd import (
    aligned,
    padded,
    prefetch,
    row_add,
    row_add_scaled,
    row_copy,
    row_multiply,
    row_scale,
    row_sum,
    vector_width,
)
from crowdwise.truth.kernels.threads import compiled, run

_PRODUCT_ANSWERS = 8  # products of up to this many probabilities above FLOOR / answers cannot underflow
_AHEAD = 16  # rows are prefetched this many answers ahead
_FUSED_BYTES = 24 << 20  # counts up to this size stay in cache during a pass over all tasks


@cache
def _em_pass(lanes: int, fixed_width: int) -> Callable[..., None]:
    """Compile the fused pass of E-step and counting for rows of `fixed_width`; 0 means any multiple of `lanes`."""

    @compiled
    def em_pass(
        first_chunk,
        end_chunk,
        starts,
        pair,
        weight,
        prior,
        table,
        log_table,
        gold,
        hard,
        bounds,
        counts,
        totals,
        bound,
        proba,
    ):
        width = fixed_width if fixed_width else table.shape[1]  # a compile-time constant for up to 8 classes
        last = pair.shape[0] - 1
        weighted = weight.shape[0] > 0
        shared_prior = prior.shape[0] == 1
        keep_proba = proba.shape[0] > 0
        keep_counts = counts.shape[1] > 0
        for chunk in range(first_chunk, end_chunk):
            count = counts[chunk]
            count[:] = 0.0
            row = np.zeros(width + PADDING)[:width]  # posterior of the current task, before and after normalising
            total = np.zeros(width + PADDING)[:width]
            log_likelihood = 0.0
            product = 1.0  # product of several tasks' likelihoods, to save logarithms
            for t in range(bounds[chunk], bounds[chunk + 1]):
                first, end = starts[t], starts[t + 1]
                prior_row = 0 if shared_prior else t * width
                fixed = -1
                if gold.shape[0] > 0:
                    fixed = gold[t]
                if end - first <= _PRODUCT_ANSWERS and not weighted:
                    for b in range(0, width, lanes):
                        row_copy(row, b, prior, prior_row + b, lanes)
                    for a in range(first, end):
                        ahead = np.int64(pair[min(a + _AHEAD, last)]) * width
                        prefetch(table, ahead)
                        if keep_counts:
                            prefetch(count, ahead)
                        at = np.int64(pair[a]) * width
                        for b in range(0, width, lanes):
                            row_multiply(row, b, table, at + b, lanes)
                    shift = 0.0
                else:
                    for c in range(width):
                        p = prior[0 if shared_prior else t, c]
                        row[c] = np.log(p) if p > 0 else -np.inf
                    for a in range(first, end):
                        at = np.int64(pair[a]) * width
                        if weighted:
                            for b in range(0, width, lanes):
                                row_add_scaled(row, b, log_table, at + b, weight[a], lanes)
                        else:
                            for b in range(0, width, lanes):
                                row_add(row, b, log_table, at + b, lanes)
                    # Relative to the maximum, the exponential of a known class could underflow to zero.
                    shift = row[fixed] if fixed >= 0 else row.max()
                    for c in range(width):
                        row[c] = np.exp(row[c] - shift) if fixed < 0 or c == fixed else 0.0
                if hard and fixed < 0:
                    fixed = np.argmax(row)
                if fixed >= 0:  # known, or a hard decision: probability 1 for one class
                    likelihood = row[fixed]
                    row[:] = 0.0
                    row[fixed] = 1.0
                else:
                    likelihood = 0.0
                    for b in range(0, width, lanes):
                        likelihood += row_sum(row, b, lanes)
                    for b in range(0, width, lanes):
                        row_scale(row, b, 1.0 / likelihood, lanes)
                log_likelihood += shift
                if likelihood > 1e-100:
                    product *= likelihood
                    if product < 1e-100 or product > 1e100:
                        log_likelihood += np.log(product)
                        product = 1.0
                else:
                    log_likelihood += np.log(max(likelihood, 1e-300))
                for b in range(0, width, lanes):
                    row_add(total, b, row, b, lanes)
                if keep_proba:
                    for c in range(proba.shape[1]):
                        proba[t, c] = row[c]
                if keep_counts:
                    for a in range(first, end):
                        at = np.int64(pair[a]) * width
                        if weighted:
                            for b in range(0, width, lanes):
                                row_add_scaled(count, at + b, row, b, weight[a], lanes)
                        else:
                            for b in range(0, width, lanes):
                                row_add(count, at + b, row, b, lanes)
            totals[chunk] = total
            bound[chunk] = log_likelihood + np.log(product)

    return em_pass


@cache
def _count_pass(lanes: int, fixed_width: int) -> Callable[..., None]:
    """Compile the counting pass for large tables: pair by pair, so that counts are written once and in order."""

    @compiled
    def count_pass(first_pair, end_pair, pair_starts, task, weight, proba, counts):
        width = fixed_width if fixed_width else counts.shape[1]
        last = task.shape[0] - 1
        for p in range(first_pair, end_pair):
            counts[p, :] = 0.0
            for a in range(pair_starts[p], pair_starts[p + 1]):
                prefetch(proba, np.int64(task[min(a + _AHEAD, last)]) * width)
                at = np.int64(task[a]) * width
                for b in range(0, width, lanes):
                    if weight.shape[0] > 0:
                        row_add_scaled(counts, p * width + b, proba, at + b, weight[a], lanes)
                    else:
                        row_add(counts, p * width + b, proba, at + b, lanes)

    return count_pass


class ConfusionWork:
    """The arrays of EM over confusion matrices, allocated once for a set of answers.

    If the counts fit in cache, each task's posterior is added to them at once, in one pass over the answers. Larger
    counts would be read from memory for every answer. Then the posteriors are stored, and a second pass counts them
    pair by pair.
    """

    counts: Array
    log_table: Array
    n_classes: int
    pairs: Any
    shape: tuple[int, int]
    starts: Array
    table: Array
    weight: Array | Array

    def __init__(self, starts: Array, pairs: Any, weight: Array | None, n_classes: int) -> None:
        self.starts, self.pairs, self.n_classes = starts, pairs, n_classes
        self.weight = np.empty(0) if weight is None else weight
        self.width: int = padded(n_classes)
        self.shape = vector_width(self.width), self.width if self.width <= 8 else 0  # selects the kernel
        n_pairs, n_tasks = len(pairs.label), len(starts) - 1
        self.bounds: Array = chunk_bounds(starts)
        self.table = aligned(n_pairs, self.width)
        longest = int(np.diff(starts).max()) if n_tasks else 0
        self.needs_logs: bool = weight is not None or longest > _PRODUCT_ANSWERS
        self.log_table = aligned(n_pairs, self.width) if self.needs_logs else self.table
        self.counts = aligned(n_pairs, self.width)
        self._totals, self._bound = np.zeros((CHUNKS, self.width)), np.zeros(CHUNKS)
        self.fused: bool = n_pairs * self.width * 8 <= _FUSED_BYTES
        copies = CHUNKS if self.fused else 0
        self._partial = aligned(copies * n_pairs, self.width).reshape(copies, n_pairs, self.width)
        if not self.fused:
            order = stable_order(pairs.of_answer, n_pairs)
            self._pair_starts = pair_starts(pairs.of_answer, n_pairs)
            self._task_by_pair = take_by_code(np.repeat(np.arange(n_tasks, dtype=np.int32), np.diff(starts)), order)
            self._weight_by_pair = self.weight[order] if weight is not None else self.weight
            self._proba = aligned(n_tasks, self.width)

    def set_table(self, table: Array) -> None:
        """Set the probabilities of each pair: (pairs, classes), each above zero."""
        self.table[:, : self.n_classes] = table
        if self.needs_logs:
            np.log(self.table[:, : self.n_classes], out=self.log_table[:, : self.n_classes])

    def set_log_table(self, log_table: Array) -> None:
        """Set the log weights of each pair (in variational Bayes, the expected log probabilities)."""
        np.exp(log_table, out=self.table[:, : self.n_classes])
        if self.needs_logs:
            self.log_table[:, : self.n_classes] = log_table

    def e_step(
        self,
        prior: Array,
        gold: Array | None,
        *,
        hard: bool = False,
        counts: bool = True,
        proba: Array | None = None,
    ) -> tuple[Array, Array, float]:
        """Run the E-step under the present table.

        Parameters
        ----------
        prior : (classes,) or (tasks, classes) array
            Probability of each class before any answer.
        gold : (tasks,) int32 array or None
            Known classes, -1 where unknown.
        hard : bool
            Whether each task gets probability 1 for its most probable class.
        counts : bool
            Whether to compute confusion counts.
        proba : (tasks, classes) array, optional
            Filled with the posteriors.

        Returns
        -------
        counts : (pairs, classes) array
            Expected number of answers of each pair to tasks of each class. Overwritten by the next call.
        totals : (classes,) array
            Expected number of tasks of each class.
        log_likelihood : float
        """
        prior_rows = np.ascontiguousarray(np.atleast_2d(prior), dtype=np.float64)  # the kernels index it flat
        if self.width > self.n_classes:
            prior_rows = np.pad(prior_rows, ((0, 0), (0, self.width - self.n_classes)))
        keep = np.empty((0, 0)) if proba is None else proba
        partial = self._partial if counts and self.fused else np.empty((CHUNKS, 0, self.width))
        run(
            _em_pass(*self.shape), CHUNKS, self.starts, self.pairs.of_answer, self.weight, prior_rows,
            self.table, self.log_table, np.empty(0, np.int32) if gold is None else gold, hard,
            self.bounds, partial, self._totals, self._bound, self._proba if counts and not self.fused else keep,
            parts=CHUNKS,
        )  # fmt: skip
        k = self.n_classes
        if counts and self.fused:
            add_chunks(partial, self.counts)
        elif counts:
            columns = self._pair_starts, self._task_by_pair, self._weight_by_pair
            run(_count_pass(*self.shape), len(self.counts), *columns, self._proba, self.counts)
            if proba is not None:
                proba[:] = self._proba[:, :k]
        return self.counts[:, :k], self._totals.sum(axis=0)[:k], float(self._bound.sum())

    def posterior(self, prior: Array, gold: Array | None) -> Array:
        """Return the posteriors (tasks, classes) under the present table.

        Call this last: the result may share memory with the buffers of `e_step`.
        """
        in_place = not self.fused and self.width == self.n_classes
        proba = self._proba if in_place else np.empty((len(self.starts) - 1, self.n_classes))
        self.e_step(prior, gold, counts=False, proba=proba)
        return proba

    def count(self, proba: Array) -> Array:
        """Return the confusion counts under these posteriors (tasks, classes): the input of the first M-step."""
        self.table[:, : self.n_classes] = 1.0  # uninformative answers: the posterior is the prior
        if self.needs_logs:
            self.log_table[:] = 0.0
        return self.e_step(proba, None)[0]


def add_chunks(partial: Array, out: Array) -> None:
    """Sum partial counts over chunks, in chunk order."""
    run(_add_chunks, len(out), partial, out)


@compiled
def _add_chunks(first, end, partial, out):
    for i in range(first, end):
        for c in range(out.shape[1]):
            total = 0.0
            for chunk in range(partial.shape[0]):
                total += partial[chunk, i, c]
            out[i, c] = total


def confusion_rows(
    counts: Array, label: Array, worker_starts: Array, prior: Array, table: Array, totals: Array, log_prior: Array
) -> None:
    """Normalise counts into probabilities: table[pair, c] = P(label of the pair | truth c).

    Pseudo-counts `prior[w, l, c]` (a first axis of length 1 means the same for all workers) are added for every label,
    including labels never used; sums below FLOOR are raised to it. `totals[w, c]` is set to the normaliser and
    `log_prior[w]` to the worker's part of the log prior.
    """
    run(_confusion_rows, len(worker_starts) - 1, counts, label, worker_starts, prior, table, totals, log_prior)


@compiled
def _confusion_rows(first, end, counts, label, worker_starts, prior, table, totals, log_prior):
    n_classes: int = counts.shape[1]
    same_prior = prior.shape[0] == 1  # for all workers
    base = np.zeros(n_classes)
    entropy = 0.0  # sum of prior * log prior: the contribution of unused labels, without the normaliser
    for w in range(first, end):
        mine = prior[0 if same_prior else w]  # (labels, classes)
        if w == first or not same_prior:
            base[:] = 0.0
            entropy = 0.0
            for labels in range(n_classes):
                for c in range(n_classes):
                    if mine[labels, c] > 0:
                        base[c] += mine[labels, c]
                        entropy += mine[labels, c] * np.log(mine[labels, c])
        total = totals[w]
        total[:] = base
        penalty = entropy
        for p in range(worker_starts[w], worker_starts[w + 1]):
            for c in range(n_classes):
                extra = mine[label[p], c]
                value = max(counts[p, c] + extra, FLOOR)
                table[p, c] = value
                total[c] += value - extra
                if extra > 0:
                    penalty += extra * (np.log(value) - np.log(extra))
        for c in range(n_classes):
            if base[c] > 0:
                penalty -= base[c] * np.log(total[c])
        log_prior[w] = penalty
        for p in range(worker_starts[w], worker_starts[w + 1]):
            for c in range(n_classes):
                table[p, c] /= total[c]
