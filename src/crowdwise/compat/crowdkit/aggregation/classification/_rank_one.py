"""crowd-kit's estimator of MMSR, step by step, from the pairs of workers who share tasks instead of dense matrices.

    C[w, v] = (classes * agreement of w and v on their common tasks - 1) / (classes - 1), -1 / (classes - 1) without any
    F       = half the smallest number of partners of a worker, rounded down, minus 1

    1  v[w] = mean over partners of |C[w, partner]| / u[partner] without extreme values, then u from v, and so on
    2  sign[w] from the eigenvector of the walk on the graph of signs of C whose eigenvalue is nearest to -1: workers
       with C < 0 are neighbours, workers with C > 0 are joined by a node in between
    3  skill[w] = sign[w] * u[w] / sqrt(norm of u / norm of v), kept away from 1 and from -1 / (classes - 1)

Without extreme values: the F lowest ratios are left out, or those below the previous v[w] if fewer than F are; likewise
at the other end. If a worker has only one or no partner, F is -1, and crowd-kit's slices then keep the largest ratio
of every worker. Workers without common tasks count as C < 0 in step 2. Both are kept, for equal results; if more than a
tenth of the pairs share no task, the signs become arbitrary, and a warning recommends the other estimator.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, eigsh

from crowdwise.answers import Answers
from crowdwise.errors import CrowdwiseWarning
from crowdwise.truth.base import Array
from crowdwise.truth.kernels.threads import compiled, run, threads_for
from crowdwise.truth.methods.mmsr import shared_tasks

DENSE = 300  # up to this many nodes, all eigenvectors are computed at once
MAX_UNSHARED = 0.1  # share of pairs of workers without common tasks above which the signs are unreliable


def estimate_weights(
    answers: Answers, order: Array, n_iter: int, tol: float, random_state: int | None
) -> tuple[Array, list[float]]:
    """Return the weight of each worker's vote, (workers,), and the change in each iteration.

    Parameters
    ----------
    answers : Answers
    order : (workers,) int array
        The workers in the order in which they take crowd-kit's random numbers.
    n_iter, tol, random_state
        As in `MMSR`.
    """
    n_classes, n_tasks, n_workers = max(answers.n_classes, 2), answers.n_tasks, answers.n_workers
    starts, partner, common, agreed = shared_tasks(answers)
    covariance = (n_classes * agreed / common - 1) / (n_classes - 1)  # (pairs,): C
    unshared = 1 - len(partner) / max(n_workers * (n_workers - 1), 1)
    if unshared > MAX_UNSHARED and n_workers > 1:
        message = (
            f"{unshared:.0%} of the pairs of workers share no task, and crowd-kit's estimator of MMSR takes them to "
            f"disagree. Use MMSR(estimator='crowdwise')."
        )
        warnings.warn(message, CrowdwiseWarning, stacklevel=3)
    left_out = int(np.diff(starts).min() // 2) - 1  # F
    u = np.empty(n_workers)
    u[order] = np.random.RandomState(random_state).uniform(size=n_workers)
    v = u.copy()
    size, history = np.abs(covariance), []
    with threads_for(answers.n_answers):
        for _ in range(n_iter):
            u_before, v_before = u.copy(), v.copy()
            run(trimmed_means, n_workers, starts, partner, size, u, left_out, n_tasks, v)
            run(trimmed_means, n_workers, starts, partner, size, v, left_out, n_tasks, u)
            history.append(change_of_product(u, v, u_before, v_before))
            if history[-1] < tol:
                break
    skill = u / np.sqrt(np.linalg.norm(u) / np.linalg.norm(v)) * signs(starts, partner, covariance, n_classes)
    margin = 1 / np.sqrt(n_tasks)
    skill = np.maximum(np.minimum(skill, 1 - margin), margin - 1 / (n_classes - 1))
    accuracy = (skill * (n_classes - 1) + 1) / n_classes
    return np.log(accuracy * (n_classes - 1) / (1 - accuracy)), history


def change_of_product(u: Array, v: Array, u_before: Array, v_before: Array) -> float:
    """Return the Frobenius norm of the change of u v^T, without the matrix.

    >>> u, v, a, b = np.random.default_rng(0).normal(size=(4, 3))
    >>> bool(np.isclose(change_of_product(u, v, a, b), np.linalg.norm(np.outer(u, v) - np.outer(a, b))))
    True
    """
    du, dv = u - u_before, v - v_before  # u v^T - a b^T = u dv^T + du b^T
    square = (u @ u) * (dv @ dv) + (du @ du) * (v_before @ v_before) + 2 * (u @ du) * (dv @ v_before)
    return float(np.sqrt(max(square, 0.0)))


def signs(starts: Array, partner: Array, covariance: Array, n_classes: int) -> Array:
    """Return +1, -1 or 0 for each worker, the majority +1."""
    n = len(starts) - 1
    matrix = csr_array((covariance, partner, starts), shape=(n, n))
    unshared = n - np.diff(starts)  # including each worker's own cell
    used = np.flatnonzero(matrix.sum(axis=1) - unshared / (n_classes - 1))  # crowd-kit leaves out rows that sum to 0
    side = np.zeros(n)
    if len(used):
        matrix = matrix[used][:, used].tocoo()
        vector = np.sign(last_eigenvector(matrix.row, matrix.col, matrix.data, len(used)))
        side[used] = np.sign(vector.sum()) * vector
    return side


def last_eigenvector(row: Array, col: Array, covariance: Array, n: int) -> Array:
    """Return the workers' part of the eigenvector with the smallest eigenvalue of the graph of signs."""
    above = np.flatnonzero((covariance > 0) & (row < col))
    n_nodes = n + len(above)
    joins = np.concatenate([row[above], col[above]]), np.tile(np.arange(len(above)), 2)
    joined = csr_array((np.ones(2 * len(above)), joins), shape=(n, len(above)))  # workers x nodes in between
    # Nearly all pairs of workers may share no task, and these are neighbours: we subtract the others from all pairs.
    apart = covariance >= 0
    others = csr_array((np.ones(apart.sum()), (row[apart], col[apart])), shape=(n, n))
    degree = np.concatenate([n - others.sum(axis=1) + joined.sum(axis=1), np.full(len(above), 2.0)])
    root = 1 / np.sqrt(np.maximum(degree, 1e-300))

    def walk(vector: Array) -> Array:
        scaled = root * vector.ravel()
        workers, nodes = scaled[:n], scaled[n:]
        neighbours = workers.sum() - others @ workers + joined @ nodes
        return root * np.concatenate([neighbours, joined.T @ workers])

    if n_nodes <= DENSE:
        dense = np.column_stack([walk(column) for column in np.eye(n_nodes)])
        return np.linalg.eigh(dense)[1][:n, 0]
    first = np.random.default_rng(0).normal(size=n_nodes)
    operator = LinearOperator((n_nodes, n_nodes), matvec=walk, dtype=float)
    return eigsh(operator, 1, which="SA", v0=first)[1][:n, 0]


@compiled
def trimmed_means(
    first: int, end: int, starts: Array, partner: Array, size: Array, divisor: Array, left_out: int, n_tasks: int,
    value: Array,
) -> None:  # fmt: skip
    """Set the value of workers first to end to the mean of size / divisor over partners, without extreme ratios."""
    for w in range(first, end):
        ratios = np.empty(starts[w + 1] - starts[w])
        n = 0
        for pair in range(starts[w], starts[w + 1]):
            if divisor[partner[pair]] != 0:
                ratios[n] = size[pair] / divisor[partner[pair]]
                n += 1
        ratios = np.sort(ratios[:n])
        below = 0
        while below < n and ratios[below] < value[w]:
            below += 1
        low = below if below < left_out else min(left_out, n)
        if left_out < 0:
            low = max(n + left_out, 0)
        above = 0
        while above < n - low and ratios[n - 1 - above] > value[w]:
            above += 1
        high = n - above if above < left_out else n - max(left_out, 0)
        if high - low == 1 and ratios[low] == 0:
            value[w] = 1 / np.sqrt(n_tasks)
        elif high > low:
            value[w] = ratios[low:high].mean()
