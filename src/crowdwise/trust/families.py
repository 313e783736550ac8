"""Find families: groups of workers whose answers agree more than the truth and everybody's skill explain.

No estimate of the truth is used, because a family pulls every estimate towards its own mistakes. If workers err
independently given the truth, the covariances of their answers have low rank, whatever their confusion matrices are:

    Z[w, t]    label of worker w for task t as a 0/1 vector, minus w's mean          K classes, d = K - 1
    M[i, j]    = mean over their common tasks of Z[i, t] Z[j, t]'                                     (K, K)
               = confusion[i]' (diag(prior) - prior prior') confusion[j]             rank d, one factor U[w] per worker
               = U[i] U[j]'      for every pair i, j who err independently

The factors are fitted to all pairs by weighted least squares, in coordinates that whiten the noise. Pairs whose
agreement exceeds the fit are left out and the factors are fitted again, from several starts; the best truncated loss
wins. So most pairs, not most answers, decide what is normal. This is the "low rank plus sparse" idea of Ratner et al.
(2019) and Varma et al. (2019), with a mask instead of a penalty. Then, for every pair with n common tasks:

    excess[i, j]   = trace(M[i, j] - U[i] U[j]')                                  agreement beyond the expected one
    rho[i, j]      = excess / sqrt(V[i] V[j]),   V[w] = 1 - sum of squared label shares - trace(U[w] U[w]')
    z[i, j]        = excess / its standard error under the fit, corrected for skewness (Cornish-Fisher), and for a
                     bulk of pairs that is wider than theory says (tasks hard for all, classes with an order)

A family starts with a pair significant at `LEVEL` after Bonferroni's correction over all pairs, and grows by the worker
or family whose summed z with it is significant over all workers. Excess below `MIN_RHO`, or far below what the family
has inside, joins nobody. Tasks that are hard for everyone raise every pair and are absorbed by the factors.

Fails when few independent sources remain: three of six workers who err together may be as well explained as the three
others. If two fits are equally good and suspect different pairs, nobody is named. Two families and nobody else cannot
be told from the truth. Families whose pairs share few tasks, below about (5 / rho)^2, are missed; pairs with fewer than
`MIN_COMMON` are not tested.
Cost: one pass over pairs of answers to a task, at most `MAX_ANSWER_PAIRS` (tasks are sampled beyond that), and
`MAX_CELLS` numbers for the tables of pairs; larger crowds are refused.

Ratner, Hancock, Dunnmon, Sala, Pandey, Re, "Training complex models with multi-task weak supervision", AAAI 2019.
Varma, Sala, He, Ratner, Re, "Learning dependency structures for weak supervision models", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import cut_tree, linkage
from scipy.linalg import null_space
from scipy.spatial.distance import squareform
from scipy.stats import norm

from crowdwise.answers import Answers
from crowdwise.errors import TooLargeError
from crowdwise.evaluate.metrics import Array

MIN_COMMON = 15  # common tasks of a pair
MAX_ANSWER_PAIRS = 10_000_000  # pairs of answers to one task; tasks are sampled if there are more
MAX_CELLS = 20_000_000  # pairs of workers x classes^2
LEVEL = 0.02  # probability of naming anybody in a crowd without families
MIN_RHO, MIN_RATIO = 0.1, 0.3  # least excess of a link, and least share of the excess inside the families it joins
RIDGE = 10.0  # common tasks that the crowd's mean factor counts for in each worker's factor
MIN_SHARE = 0.02  # rarer classes are whitened as if they had this share, or their noise would dominate
SWEEPS, ROUNDS, CUT = 15, 4, 2.5  # least-squares sweeps, rounds of leaving out pairs with z above CUT
SUSPECT, TIE = 3.5, 10.0  # z of a suspicious pair; difference of losses (9 per pair) that decides between two fits
MAX_LINKAGE = 1000  # workers up to which clusters of similar workers are tried as starts


class WorkerPairs(NamedTuple):
    """Pairs of workers with enough common tasks; arrays have one row per pair."""

    i: Array
    j: Array
    common: Array  # number of common tasks, among those sampled
    joint: Array  # (pairs, K, K) counts of (label of i, label of j)


class FamilyFit(NamedTuple):
    """Families, and the excess agreement of each pair."""

    family: Array  # (workers,) number of the family, or -1
    pairs: WorkerPairs
    rho: Array  # (pairs,) excess correlation of errors, -1 to 1
    z: Array  # (pairs,)
    ambiguous: bool  # whether different families explain the answers equally well; then none is named


class Moments(NamedTuple):
    """Covariances of the labels of each pair, and the coordinates in which they are fitted."""

    rows: Array  # (pairs, K) label shares of worker i on the common tasks
    columns: Array  # (pairs, K) of worker j
    covariance: Array  # (pairs, K, K): M
    whitened: Array  # (pairs, d, d): M in whitened coordinates
    back: Array  # (K, d): whitened coordinates -> classes


def find_families(
    answers: Answers, known: Array | None = None, *, copies: Array | None = None, seed: int = 0
) -> FamilyFit:
    """Find families, or measure the excess agreement of the `known` ones, (workers,) numbers or -1.

    `copies` (workers,) numbers groups of identical workers, or -1. They are families from the start: their agreement
    is not taken for the normal one, even if they are half of the crowd. `seed` draws the sample of tasks, which is
    needed only above `MAX_ANSWER_PAIRS`.
    """
    pairs = count_pairs(answers, seed)
    i, j, m = pairs.i, pairs.j, answers.n_workers
    family = np.full(m, -1) if known is None else known
    if not len(i):
        return FamilyFit(family, pairs, np.empty(0), np.empty(0), ambiguous=False)
    moments = compute_moments(pairs, np.bincount(answers.label, minlength=answers.n_classes) / answers.n_answers)
    variance = 1 - np.square(label_shares(answers)).sum(axis=1)  # (workers,)
    apart = family if copies is None else copies
    factors, ambiguous = fit_robustly(pairs, moments, variance, ~same(apart, pairs))
    rho, z = measure(pairs, moments, factors, variance)
    if known is not None or ambiguous:
        return FamilyFit(family, pairs, rho, z, ambiguous=ambiguous and known is None)
    first = np.arange(m)  # (workers,)
    for number in range(apart.max(initial=-1) + 1):
        first[apart == number] = np.flatnonzero(apart == number)[0]
    for _ in range(ROUNDS):
        before, family = family, group(i, j, z, rho, first)
        if (family == before).all():
            break
        factors = fit(pairs, moments, ~same(family, pairs), first_factors(pairs, moments, m))
        rho, z = measure(pairs, moments, factors, variance)
        z /= bulk_spread(z[~same(family, pairs)])
    return FamilyFit(family, pairs, rho, z, ambiguous=False)


def measure(pairs: WorkerPairs, moments: Moments, factors: Array, variance: Array) -> tuple[Array, Array]:
    """Return rho and z of each pair, (pairs,) each; `variance` (workers,) is that of the labels of each worker."""
    excess, z = residuals(pairs, moments, factors)
    explained = np.square(moments.back @ factors).sum(axis=(1, 2))
    inside = np.maximum(variance - explained, 0.1 * variance + 1e-3)  # (workers,): V
    return np.clip(excess / np.sqrt(inside[pairs.i] * inside[pairs.j]), -1.0, 1.0), z


def count_pairs(answers: Answers, seed: int = 0) -> WorkerPairs:
    """Count the labels of each pair of workers on their common tasks."""
    m, k = answers.n_workers, answers.n_classes
    count = np.diff(answers.task_starts).astype(np.int64)
    share = MAX_ANSWER_PAIRS / max(int((count * (count - 1) // 2).sum()), 1)
    drawn = np.random.default_rng(seed).random(answers.n_tasks) < share  # random() < 1: all of them if share >= 1
    rows = np.flatnonzero(drawn[answers.task])
    task, worker, label = answers.task[rows], answers.worker[rows].astype(np.int64), answers.label[rows]
    keys, cells = [np.empty(0, np.int64)], [np.empty(0, np.int32)]
    for step in range(1, int(count[drawn].max(initial=1))):  # answers to a task are adjacent
        row = np.flatnonzero(task[step:] == task[:-step])
        one, other, label_one, label_other = worker[row], worker[row + step], label[row], label[row + step]
        keys.append(np.minimum(one, other) * m + np.maximum(one, other))
        cells.append(np.where(one < other, label_one * k + label_other, label_other * k + label_one))
    key, place, common = np.unique(np.concatenate(keys), return_inverse=True, return_counts=True)
    kept = common >= MIN_COMMON
    if int(kept.sum()) * k * k > MAX_CELLS:
        message = (
            f"{int(kept.sum())} pairs of workers with {k} classes are too many to compare "
            f"(limit: {MAX_CELLS // (k * k)} pairs). Pass the answers of fewer workers, for example the busiest ones."
        )
        raise TooLargeError(message)
    inside = kept[place]
    cell = (np.cumsum(kept) - 1)[place[inside]] * k * k + np.concatenate(cells)[inside]
    joint = np.bincount(cell, minlength=int(kept.sum()) * k * k).reshape(-1, k, k)
    return WorkerPairs(key[kept] // m, key[kept] % m, common[kept], joint)


def compute_moments(pairs: WorkerPairs, share: Array) -> Moments:
    """Return the covariances of each pair; `share` (K,) are the label shares of the crowd."""
    n = pairs.common[:, None]
    rows, columns = pairs.joint.sum(axis=2) / n, pairs.joint.sum(axis=1) / n
    covariance = pairs.joint / n[:, :, None] - rows[:, :, None] * columns[:, None, :]
    covariance *= n[:, :, None] / (n[:, :, None] - 1)
    root = np.sqrt(np.maximum(share, MIN_SHARE))  # (K,)
    basis = null_space(root[None, :])  # (K, d): rows and columns of M sum to zero
    whiten = basis.T / root  # (d, K)
    return Moments(rows, columns, covariance, whiten @ covariance @ whiten.T, root[:, None] * basis)


def first_factors(pairs: WorkerPairs, moments: Moments, n_workers: int) -> Array:
    """Return the factor of the average pair for every worker, (workers, d, d)."""
    mean = np.average(moments.whitened, axis=0, weights=pairs.common)
    value, vector = np.linalg.eigh((mean + mean.T) / 2)
    return np.repeat((vector * np.sqrt(np.maximum(value, 0.01)))[None], n_workers, axis=0)


def fit(pairs: WorkerPairs, moments: Moments, used: Array, factors: Array) -> Array:
    """Return the factors (workers, d, d) that explain the `used` pairs, by alternating ridge regressions."""
    worker, peer = np.concatenate([pairs.i, pairs.j]), np.concatenate([pairs.j, pairs.i])
    order = np.flatnonzero(np.tile(used, 2))
    order = order[np.argsort(worker[order], kind="stable")]
    if not len(order):
        return factors
    target = np.concatenate([moments.whitened, moments.whitened.transpose(0, 2, 1)])[order]
    weight = np.tile(pairs.common, 2)[order, None, None].astype(float)
    peer, (who, start) = peer[order], np.unique(worker[order], return_index=True)
    ridge = RIDGE * np.eye(factors.shape[1])
    for _ in range(SWEEPS):
        other = factors[peer]  # (2 pairs, d, d)
        left = np.add.reduceat(weight * (target @ other), start)  # (who, d, d)
        right = np.add.reduceat(weight * (other.transpose(0, 2, 1) @ other), start)
        left, right = left + ridge @ factors.mean(axis=0), right + ridge
        solved = np.linalg.solve(right, left.transpose(0, 2, 1)).transpose(0, 2, 1)
        factors = factors.copy()
        factors[who] = (factors[who] + solved) / 2  # half a step, or two workers could alternate forever
    return factors


def fit_robustly(pairs: WorkerPairs, moments: Moments, variance: Array, allowed: Array) -> tuple[Array, bool]:
    """Return the factors that explain most `allowed` pairs, and whether the choice is ambiguous.

    Of several starts, the one with the least truncated loss wins. The choice is ambiguous if another one is nearly as
    good and suspects entirely different pairs.
    """
    first = first_factors(pairs, moments, len(variance))
    fits, suspects, losses = [], [], []
    for used in starts(pairs, moments, variance):
        factors = fit(pairs, moments, used & allowed, first)
        for _ in range(ROUNDS):
            factors = fit(pairs, moments, (residuals(pairs, moments, factors)[1] < CUT) & allowed, factors)
        z = residuals(pairs, moments, factors)[1][allowed]
        fits.append(factors)
        suspects.append(z > SUSPECT)
        losses.append(np.minimum(np.square(z), 9.0).sum())
    best = int(np.argmin(losses))
    ambiguous = any(
        loss < losses[best] + TIE and other.any() and suspects[best].any() and not (other & suspects[best]).any()
        for loss, other in zip(losses, suspects, strict=True)
    )
    return fits[best], ambiguous


def starts(pairs: WorkerPairs, moments: Moments, variance: Array) -> Iterator[Array]:
    """Yield which pairs to fit first, (pairs,): all, then those across clusters of workers with similar answers."""
    n_workers = len(variance)
    yield np.ones(len(pairs.i), bool)
    if not 4 <= n_workers <= MAX_LINKAGE:
        return
    trace = np.trace(moments.covariance, axis1=1, axis2=2)
    similar = np.clip(trace / np.sqrt(variance[pairs.i] * variance[pairs.j] + 1e-9), -1.0, 1.0)
    distance = np.full((n_workers, n_workers), 1 - np.median(similar))
    distance[pairs.i, pairs.j] = distance[pairs.j, pairs.i] = 1 - similar
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), "average")
    for n_clusters in sorted({round(n_workers * share) for share in (0.8, 0.6, 0.45, 0.3)} | {4, 3}):
        if 3 <= n_clusters < n_workers:
            cluster = cut_tree(tree, n_clusters).ravel()
            yield cluster[pairs.i] != cluster[pairs.j]


def residuals(pairs: WorkerPairs, moments: Moments, factors: Array) -> tuple[Array, Array]:
    """Return the excess agreement and z of each pair, (pairs,) each."""
    rows, columns = moments.rows, moments.columns
    fitted = factors[pairs.i] @ factors[pairs.j].transpose(0, 2, 1)  # (pairs, d, d)
    fitted = moments.back @ fitted @ moments.back.T  # (pairs, K, K)
    null = np.maximum(rows[:, :, None] * columns[:, None, :] + fitted, 1e-4)  # joint distribution if independent
    null /= null.sum(axis=(1, 2), keepdims=True)
    influence = np.eye(rows.shape[1]) - columns[:, :, None] - rows[:, None, :]  # of a task on the trace of M
    influence -= (null * influence).sum(axis=(1, 2), keepdims=True)
    variance = np.maximum((null * influence**2).sum(axis=(1, 2)), 1e-12)
    skewness = (null * influence**3).sum(axis=(1, 2)) / variance**1.5 / np.sqrt(pairs.common)
    excess = np.trace(moments.covariance - fitted, axis1=1, axis2=2)
    z = excess / np.sqrt(variance / pairs.common)
    return excess, z - skewness * (z * z - 1) / 6


def bulk_spread(z: Array) -> float:
    """Return the spread of z of pairs outside families, at least 1; their lower half, as families only raise z."""
    if not len(z):
        return 1.0
    low, middle = np.quantile(z, [0.159, 0.5])
    return max(1.0, float(middle - low))


def group(i: Array, j: Array, z: Array, rho: Array, first: Array) -> Array:
    """Return the family of each worker or -1, (workers,), by joining the most significant link first.

    `first` (workers,) is the first member of each worker's family at the start: the worker, unless they have copies.
    """
    n_workers, family = len(first), first.copy()
    seed_bar, join_bar = norm.isf(LEVEL / len(z)), norm.isf(LEVEL / n_workers)
    while True:
        one, other = np.minimum(family[i], family[j]), np.maximum(family[i], family[j])
        key, place, size = np.unique(one * n_workers + other, return_inverse=True, return_counts=True)
        one, other = key // n_workers, key % n_workers
        mean_rho, score = np.bincount(place, rho) / size, np.bincount(place, z) / np.sqrt(size)
        inside = one == other
        own = np.full(n_workers, -np.inf)  # mean excess inside each family
        own[one[inside]] = mean_rho[inside]
        most = np.maximum(own[one], own[other])
        bar = np.where(np.isfinite(most), join_bar, seed_bar)
        linked = ~inside & (score > bar) & (mean_rho > np.maximum(MIN_RHO, MIN_RATIO * most))
        if not linked.any():
            break
        best = np.flatnonzero(linked)[score[linked].argmax()]
        family[family == other[best]] = one[best]
    size = np.bincount(family, minlength=n_workers)
    number = np.full(n_workers, -1)
    named = np.flatnonzero(size > 1)
    number[named[np.argsort(-size[named], kind="stable")]] = np.arange(len(named))
    return number[family]


def same(family: Array, pairs: WorkerPairs) -> Array:
    """Return which pairs are inside a family, (pairs,)."""
    return (family[pairs.i] == family[pairs.j]) & (family[pairs.i] >= 0)


def label_shares(answers: Answers) -> Array:
    """Return the share of each label among each worker's answers, (workers, K)."""
    k = answers.n_classes
    cell = answers.worker.astype(np.int64) * k + answers.label
    count = np.bincount(cell, minlength=answers.n_workers * k).reshape(-1, k)
    return count / np.maximum(count.sum(axis=1, keepdims=True), 1)
