"""Strengths of items from the outcomes of their comparisons: the likelihood, its maximum, and the covariance there.

    d           = score[left] - score[right] + advantage
    P(left)     = e^(d/2) / Z        P(right) = e^(-d/2) / Z        P(tie) = nu / Z         Z = their sum
    score[i]    ~ Normal(0, spread^2)

Without ties (nu = 0) this is Bradley and Terry's model, P(left) = 1 / (1 + e^-d), else Davidson's (1970). The log-
likelihood is concave in (score, advantage, log nu), and Newton's method finds its maximum in a few steps. The matrix of
second derivatives has an entry per pair that was compared: it is sparse, and dense only where there are few items.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy import linalg
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator, cg

from crowdwise.answers import Comparisons
from crowdwise.errors import TooLargeError
from crowdwise.truth.base import Array

DENSE = 1500  # items up to which the second derivatives are a dense matrix
MAX_COVARIANCE = 8000  # items up to which their covariance is computed: 0.5 GB
FLATTEST = 1e-9  # precision of the score, advantage and log nu without a prior: keeps them finite
_SPREADS = (0.02, 20.0)  # limits of the estimated spread


class Pairs(NamedTuple):
    """The pairs of items that were compared, and how often each outcome occurred, with weights."""

    left: Array  # (pairs,) int
    right: Array  # (pairs,) int
    counts: Array  # (pairs, 3) float64: left won, right won, ties
    n_items: int


class Strengths(NamedTuple):
    """The parameters of the model."""

    score: Array  # (items,)
    advantage: float  # of the left side, in the unit of the scores
    log_nu: float  # -inf without ties
    spread: float  # standard deviation of the scores; inf for no prior


def item_pairs(answers: Comparisons) -> tuple[Pairs, Array]:
    """Return the distinct pairs of items, without counts, and the pair of each task, (tasks,)."""
    key = answers.left.astype(np.int64) * answers.n_items + answers.right  # (tasks,)
    distinct, of_task = np.unique(key, return_inverse=True)
    left, right = np.divmod(distinct, answers.n_items)
    return Pairs(left, right, np.zeros((len(distinct), 3)), answers.n_items), of_task


def outcome_counts(pair: Array, outcome: Array, weight: Array, n_pairs: int) -> Array:
    """Return the weighted number of each outcome of each pair, (pairs, 3)."""
    return np.bincount(3 * pair + outcome, weight, 3 * n_pairs).reshape(n_pairs, 3)


def outcome_logs(pairs: Pairs, at: Strengths) -> Array:
    """Return the log probability of each outcome of each pair, (pairs, 3)."""
    d = at.score[pairs.left] - at.score[pairs.right] + at.advantage
    total = np.logaddexp(np.logaddexp(d / 2, -d / 2), at.log_nu)
    return np.stack([d / 2 - total, -d / 2 - total, at.log_nu - total], axis=1)


def bound(pairs: Pairs, at: Strengths) -> float:
    """Return the log-likelihood plus the log prior of the scores."""
    logs = np.where(pairs.counts > 0, outcome_logs(pairs, at), 0.0)
    return float((pairs.counts * logs).sum()) + log_prior(at)


def log_prior(at: Strengths) -> float:
    """Return the log density of the scores, up to a constant if they have no prior."""
    flat = -0.5 * FLATTEST * float(at.score @ at.score)
    if not np.isfinite(at.spread):
        return flat
    n = len(at.score)
    return flat - 0.5 * float(at.score @ at.score) / at.spread**2 - n * np.log(at.spread * np.sqrt(2 * np.pi))


def newton_step(pairs: Pairs, at: Strengths, *, position: bool) -> tuple[Strengths, float]:
    """Return better parameters after one step of Newton's method, and the largest change of a parameter.

    The step is halved until the bound does not fall.
    """
    ties = np.isfinite(at.log_nu)
    gradient, hessian = _derivatives(pairs, at, position=position, ties=ties)
    step = _solve(hessian, gradient, pairs.n_items)
    start, size = bound(pairs, at), 1.0
    while size > 1e-8:
        moved = _moved(at, size * step, position=position, ties=ties)
        if bound(pairs, moved) >= start - 1e-12 * abs(start):
            return moved, float(np.abs(size * step).max())
        size /= 2
    return at, 0.0


def maximise(
    pairs: Pairs, at: Strengths, *, position: bool, max_iter: int, tol: float
) -> tuple[Strengths, list[float]]:
    """Return the parameters of the highest bound, and the bound after each step."""
    history = [bound(pairs, at)]
    for _ in range(max_iter):
        at, change = newton_step(pairs, at, position=position)
        history.append(bound(pairs, at))
        if change < tol:
            break
    return at, history


def with_estimated_spread(at: Strengths, information: Array | sp.csr_array) -> Strengths:
    """Return the parameters with the spread that is most likely given the scores and how uncertain they are (EM)."""
    variance = 1 / information.diagonal() if information.shape[0] > DENSE else np.diag(centred_inverse(information))
    spread = float(np.sqrt((at.score @ at.score + variance.sum()) / len(at.score)))
    return at._replace(spread=float(np.clip(spread, *_SPREADS)))


def information_matrix(pairs: Pairs, at: Strengths, *, position: bool) -> Array | sp.csr_array:
    """Return the information about the scores, (items, items), that of the prior included.

    The advantage and log nu are integrated out.
    """
    ties = np.isfinite(at.log_nu)
    _, hessian = _derivatives(pairs, at, position=position, ties=ties)
    n = pairs.n_items
    if hessian.shape[0] == n or sp.issparse(hessian):  # one or two parameters are nothing next to a thousand scores
        return hessian[:n, :n]
    inner, border = hessian[n:, n:], hessian[:n, n:]
    return hessian[:n, :n] - border @ np.linalg.solve(inner, border.T)


def centred_inverse(information: Array | sp.csr_array) -> Array:
    """Return the covariance of the scores relative to their mean, (items, items).

    Comparisons say nothing about the mean of the scores, which only the prior holds.
    """
    n = information.shape[0]
    if n > MAX_COVARIANCE:
        message = (
            f"intervals need a covariance of {n:,} x {n:,} items, more than {MAX_COVARIANCE:,}. Select fewer items."
        )
        raise TooLargeError(message)
    dense = information if isinstance(information, np.ndarray) else information.toarray()
    covariance = linalg.pinvh(dense) if n <= 50 else linalg.inv(dense)
    covariance = covariance - covariance.mean(axis=0)
    return covariance - covariance.mean(axis=1, keepdims=True)


def components(pairs: Pairs) -> Array:
    """Return the group of each item, (items,): items of different groups are not linked by any chain of comparisons."""
    n = pairs.n_items
    played = pairs.counts.sum(axis=1) > 0
    graph = sp.coo_array((np.ones(played.sum()), (pairs.left[played], pairs.right[played])), shape=(n, n))
    return csgraph.connected_components(graph.tocsr(), directed=False)[1]


def _derivatives(pairs: Pairs, at: Strengths, *, position: bool, ties: bool) -> tuple[Array, Array | sp.csr_array]:
    """Return the gradient and the negative second derivatives of the bound, scores first, then advantage and log nu."""
    n, left, right = pairs.n_items, pairs.left, pairs.right
    p = np.exp(outcome_logs(pairs, at))  # (pairs, 3)
    total = pairs.counts.sum(axis=1)
    difference = p[:, 0] - p[:, 1]
    slope = (pairs.counts[:, 0] - pairs.counts[:, 1] - total * difference) / 2  # by d
    curve = total * (p[:, 0] + p[:, 1] - difference**2) / 4
    precision = FLATTEST + (0.0 if not np.isfinite(at.spread) else at.spread**-2)
    gradient = np.bincount(left, slope, n) - np.bincount(right, slope, n) - precision * at.score
    diagonal = np.bincount(left, curve, n) + np.bincount(right, curve, n) + precision
    rows, columns = np.concatenate([left, right, np.arange(n)]), np.concatenate([right, left, np.arange(n)])
    hessian = sp.coo_array((np.concatenate([-curve, -curve, diagonal]), (rows, columns)), shape=(n, n)).tocsr()
    borders, extra, corner = [], [], []
    cross = -total * p[:, 2] * difference / 2  # by d and log nu, negated
    if position:
        borders.append(np.bincount(left, curve, n) - np.bincount(right, curve, n))
        extra.append(slope.sum() - FLATTEST * at.advantage)
        corner.append([curve.sum() + FLATTEST, cross.sum()])
    if ties:
        borders.append(np.bincount(left, cross, n) - np.bincount(right, cross, n))
        extra.append((pairs.counts[:, 2] - total * p[:, 2]).sum() - FLATTEST * at.log_nu)
        corner.append([cross.sum(), (total * p[:, 2] * (1 - p[:, 2])).sum() + FLATTEST])
    if borders:
        select = [row for row, used in enumerate((position, ties)) if used]
        border, inner = np.array(borders), np.array(corner)[:, select]  # (extras, items), (extras, extras)
        hessian = sp.block_array(
            [[hessian, sp.csr_array(border.T)], [sp.csr_array(border), sp.csr_array(inner)]]
        ).tocsr()
    return np.concatenate([gradient, extra]), hessian.toarray() if n <= DENSE else hessian


def _solve(hessian: Array | sp.csr_array, gradient: Array, n_items: int) -> Array:
    if n_items <= DENSE:
        return linalg.solve(
            hessian + 1e-12 * np.trace(hessian) / len(hessian) * np.eye(len(hessian)), gradient, assume_a="pos"
        )
    inverse = 1 / hessian.diagonal()
    preconditioner = LinearOperator(hessian.shape, matvec=lambda x: inverse * x)
    return cg(hessian, gradient, rtol=1e-8, maxiter=2000, M=preconditioner)[0]


def _moved(at: Strengths, step: Array, *, position: bool, ties: bool) -> Strengths:
    n = len(at.score)
    extra = list(step[n:])
    advantage = at.advantage + (extra.pop(0) if position else 0.0)
    log_nu = at.log_nu + (extra.pop(0) if ties else 0.0)
    return Strengths(at.score + step[:n], float(advantage), float(log_nu), at.spread)
