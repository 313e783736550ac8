"""Fused losses: loss and gradients of a crowd layer in one pass over the answers of a batch.

With torch operations, most of the time for a batch of 64 tasks is overhead: each small operation costs as much as the
arithmetic of all of them. Here one compiled loop goes through the answers once and computes the gradients.

    f = softmax(logits)                                      (rows, classes)
    p = softmax(f[row] matrix[worker])[label]                CrowdLayer: an arbitrary matrix per worker
    p = sum over c of f[row, c] confusion[worker, label, c]  AnnoReg: a confusion matrix, transposed
    p = softmax(s f[row] common + (1 - s) f[row] matrix[worker])[label], s = sigmoid(v[row] . u[worker])     CoNAL
    loss = sum over answers of scale * weight * (1 - p)^gamma * -log p
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from crowdwise.learn.base import Array
from crowdwise.learn.network.batches import Batch
from crowdwise.learn.network.torch_support import Tensor, torch

UNROLLED = 16  # up to this many classes, a pass is compiled for the exact number
_compiled: Any = njit(
    cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
)  # allows vectorised sums


def matrix_gradients(logits: Tensor, matrix: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of a batch with a matrix (classes, labels) per worker; gradients by logits and matrices."""
    return _gradients(_matrix_pass, logits, matrix, batch)


def confusion_gradients(logits: Tensor, confusion: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss of a batch with a confusion (labels, classes) per worker; gradients by logits and confusions."""
    return _gradients(_confusion_pass, logits, confusion, batch)


def confusion_from_logits(logits: Tensor) -> Tensor:
    """Return the softmax over labels of logits (workers, labels, classes); torch is slow along a short middle axis.

    >>> confusion_from_logits(torch.zeros(1, 2, 3))
    tensor([[[0.5000, 0.5000, 0.5000],
             [0.5000, 0.5000, 0.5000]]])
    """
    values = logits.detach().numpy()
    out = np.empty_like(values)
    _subtract_max(values, out)
    np.exp(out, out=out)
    _normalise(out)
    return torch.from_numpy(out)


def backpropagate_confusion(slope: Tensor, confusion: Tensor, cost: Tensor) -> float:
    """Convert gradients by confusions to gradients by their logits, in place; return the penalty.

    The penalty, whose gradient is included, is the sum over workers of `cost` (workers,) times the trace.
    """
    return float(_backpropagate_labels(slope.numpy(), confusion.numpy(), cost.numpy()))


def conal_gradients(
    logits: Tensor, tasks: Tensor, common: Tensor, matrix: Tensor, workers: Tensor, batch: Batch
) -> tuple[Tensor, list[Tensor]]:
    """Return the loss of a batch that mixes workers' and common matrices; gradients by the first five arguments.

    `tasks` (models * rows, width) and `workers` (models * workers, width) are embeddings, normalised or not.
    """
    inputs = [values.detach().numpy() for values in (logits, tasks, common, matrix, workers)]
    slopes = [np.zeros_like(values) for values in inputs]
    weight = np.empty(0, np.float32) if batch.weight is None else batch.weight
    scale = batch.n_models / len(batch.row)
    answers = batch.row, batch.worker, batch.label, weight
    loss = _conal_pass(*inputs, *answers, scale, batch.gamma, len(batch.task) // batch.n_models, *slopes)
    return torch.tensor(loss), [torch.from_numpy(slope) for slope in slopes]


def _gradients(
    kernel: Callable[[int], Any], logits: Tensor, table: Tensor, batch: Batch
) -> tuple[Tensor, Tensor, Tensor]:
    values, cells = logits.detach().numpy(), table.detach().numpy()
    d_values, d_cells = np.zeros_like(values), np.zeros_like(cells)
    weight = np.empty(0, np.float32) if batch.weight is None else batch.weight
    run = kernel(values.shape[1] if values.shape[1] <= UNROLLED else 0)
    scale = batch.n_models / len(batch.row)
    loss = run(values, cells, batch.row, batch.worker, batch.label, weight, scale, batch.gamma, d_values, d_cells)
    return torch.tensor(loss), torch.from_numpy(d_values), torch.from_numpy(d_cells)


@cache
def _matrix_pass(fixed: int) -> Any:
    """Return the compiled pass for this number of classes, or for any number if 0."""

    @_compiled
    def run(
        logits: Array, maps: Array, row: Array, worker: Array, label: Array, weight: Array, scale: float, gamma: float,
        d_logits: Array, d_maps: Array,
    ) -> float:  # fmt: skip
        n_classes = fixed if fixed else logits.shape[1]  # a constant for the compiler, which unrolls small loops
        f = _softmax(logits, n_classes)
        z = np.empty(n_classes, np.float32)
        loss = 0.0
        for a in range(len(row)):
            i, w = row[a], worker[a]
            z[:] = 0.0
            for c in range(n_classes):
                for k in range(n_classes):
                    z[k] += f[i, c] * maps[w, c, k]
            top = z.max()
            total = np.float32(0.0)
            for k in range(n_classes):
                z[k] = np.exp(z[k] - top)
                total += z[k]
            value, pull = _focal(z[label[a]] / total, scale * weight[a] if len(weight) else scale, gamma)
            loss += value
            for k in range(n_classes):
                z[k] *= np.float32(pull) / total
            z[label[a]] -= np.float32(pull)  # now the gradient by the logits of the worker
            for c in range(n_classes):
                back = np.float32(0.0)
                for k in range(n_classes):
                    back += maps[w, c, k] * z[k]
                    d_maps[w, c, k] += f[i, c] * z[k]
                d_logits[i, c] += back  # by f, until `_backpropagate_softmax`
        _backpropagate_softmax(f, d_logits, n_classes)
        return loss

    return run


@cache
def _confusion_pass(fixed: int) -> Any:
    """Return the compiled pass for this number of classes, or for any number if 0."""

    @_compiled
    def run(
        logits: Array, table: Array, row: Array, worker: Array, label: Array, weight: Array, scale: float, gamma: float,
        d_logits: Array, d_table: Array,
    ) -> float:  # fmt: skip
        n_classes = fixed if fixed else logits.shape[1]
        f = _softmax(logits, n_classes)
        loss = 0.0
        for a in range(len(row)):
            i, w, k = row[a], worker[a], label[a]
            p = np.float32(0.0)
            for c in range(n_classes):
                p += f[i, c] * table[w, k, c]
            value, pull = _focal(p, scale * weight[a] if len(weight) else scale, gamma)
            loss += value
            slope = np.float32(pull / max(p, np.float32(1e-30)))
            for c in range(n_classes):
                d_logits[i, c] -= slope * table[w, k, c]
                d_table[w, k, c] -= slope * f[i, c]
        _backpropagate_softmax(f, d_logits, n_classes)
        return loss

    return run


@_compiled
def _conal_pass(
    logits: Array, tasks: Array, common: Array, maps: Array, workers: Array,
    row: Array, worker: Array, label: Array, weight: Array, scale: float, gamma: float, n_rows: int,
    d_logits: Array, d_tasks: Array, d_common: Array, d_maps: Array, d_workers: Array,
) -> float:  # fmt: skip
    n_classes, width = logits.shape[1], tasks.shape[1]
    f = _softmax(logits, n_classes)
    shared = np.zeros_like(f)  # f common
    for i in range(len(f)):
        for c in range(n_classes):
            for k in range(n_classes):
                shared[i, k] += f[i, c] * common[i // n_rows, c, k]
    d_shared, own, z = np.zeros_like(f), np.empty(n_classes, np.float32), np.empty(n_classes, np.float32)
    loss = 0.0
    for a in range(len(row)):
        i, w = row[a], worker[a]
        near = np.float32(0.0)
        for j in range(width):
            near += tasks[i, j] * workers[w, j]
        s = np.float32(1.0) / (np.float32(1.0) + np.exp(-near))
        own[:] = 0.0
        for c in range(n_classes):
            for k in range(n_classes):
                own[k] += f[i, c] * maps[w, c, k]
        top = np.float32(-np.inf)
        for k in range(n_classes):
            z[k] = s * shared[i, k] + (1 - s) * own[k]
            top = max(top, z[k])
        total = np.float32(0.0)
        for k in range(n_classes):
            z[k] = np.exp(z[k] - top)
            total += z[k]
        value, pull = _focal(z[label[a]] / total, scale * weight[a] if len(weight) else scale, gamma)
        loss += value
        for k in range(n_classes):
            z[k] *= np.float32(pull) / total
        z[label[a]] -= np.float32(pull)
        apart = np.float32(0.0)
        for k in range(n_classes):
            apart += z[k] * (shared[i, k] - own[k])
            d_shared[i, k] += s * z[k]
            z[k] *= 1 - s
        apart *= s * (1 - s)
        for j in range(width):
            d_tasks[i, j] += apart * workers[w, j]
            d_workers[w, j] += apart * tasks[i, j]
        for c in range(n_classes):
            back = np.float32(0.0)
            for k in range(n_classes):
                back += maps[w, c, k] * z[k]
                d_maps[w, c, k] += f[i, c] * z[k]
            d_logits[i, c] += back
    for i in range(len(f)):
        for c in range(n_classes):
            for k in range(n_classes):
                d_logits[i, c] += common[i // n_rows, c, k] * d_shared[i, k]
                d_common[i // n_rows, c, k] += f[i, c] * d_shared[i, k]
    _backpropagate_softmax(f, d_logits, n_classes)
    return loss


@_compiled
def _softmax(logits: Array, n_classes: int) -> Array:
    f = np.empty((len(logits), n_classes), np.float32)
    for i in range(len(logits)):
        top = logits[i].max()
        total = np.float32(0.0)
        for c in range(n_classes):
            f[i, c] = np.exp(logits[i, c] - top)
            total += f[i, c]
        for c in range(n_classes):
            f[i, c] /= total
    return f


@_compiled
def _backpropagate_softmax(f: Array, slope: Array, n_classes: int) -> None:
    """Convert gradients by probabilities to gradients by their logits, in place."""
    for i in range(len(f)):
        mean = np.float32(0.0)
        for c in range(n_classes):
            mean += f[i, c] * slope[i, c]
        for c in range(n_classes):
            slope[i, c] = f[i, c] * (slope[i, c] - mean)


@_compiled
def _subtract_max(values: Array, out: Array) -> None:
    """Subtract the maximum over labels, so that no exponential overflows."""
    n_workers, n_labels, n_classes = values.shape
    top = np.empty(n_classes, np.float32)
    for w in range(n_workers):
        top[:] = values[w, 0]
        for k in range(1, n_labels):
            for c in range(n_classes):
                top[c] = max(top[c], values[w, k, c])
        for k in range(n_labels):
            for c in range(n_classes):
                out[w, k, c] = values[w, k, c] - top[c]


@_compiled
def _normalise(values: Array) -> None:
    """Normalise over labels, in place."""
    n_workers, n_labels, n_classes = values.shape
    total = np.empty(n_classes, np.float32)
    for w in range(n_workers):
        total[:] = 0.0
        for k in range(n_labels):
            for c in range(n_classes):
                total[c] += values[w, k, c]
        for k in range(n_labels):
            for c in range(n_classes):
                values[w, k, c] /= total[c]


@_compiled
def _backpropagate_labels(slope: Array, confusion: Array, cost: Array) -> float:
    n_workers, n_labels, n_classes = slope.shape
    mean, total = np.empty(n_classes, np.float32), 0.0
    for w in range(n_workers):
        mean[:] = 0.0
        for c in range(n_classes):
            slope[w, c, c] += cost[w]
            total += cost[w] * confusion[w, c, c]
        for k in range(n_labels):
            for c in range(n_classes):
                mean[c] += slope[w, k, c] * confusion[w, k, c]
        for k in range(n_labels):
            for c in range(n_classes):
                slope[w, k, c] = confusion[w, k, c] * (slope[w, k, c] - mean[c])
    return total


@_compiled
def _focal(p: Any, weight: float, gamma: float) -> tuple[float, float]:
    """Return the loss of an answer with probability p, and minus its derivative by log p."""
    if p < 1e-30:  # not `max`, which would hide a NaN
        p = np.float32(1e-30)
    log_p = np.log(p)
    if gamma == 0:
        return -weight * log_p, weight
    rest = max(1.0 - p, 1e-12)
    return -weight * rest**gamma * log_p, weight * (rest**gamma - gamma * p * rest ** (gamma - 1) * log_p)
