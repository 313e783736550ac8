"""Ordinal Dawid-Skene: each worker perceives a task with noise of their own, and cuts at thresholds of their own.

    position[t]  ~ shares over NODES points;  shares ~ Dirichlet(1 + tasks * PULL * normal)    t = task
    perceived[a] = position + spread[w] * scale * noise,  noise ~ N(0, 1)                      a = answer by worker w
    P(answer[a] = l | position) = (1 - LAPSE) P(cut[w, l] < perceived[a] <= cut[w, l + 1]) + LAPSE / K
    cut[w]        ~ N(common, BIAS^2 + SHAPE^2 I)            common ~ N(0, COMMON^2)           l = 1 .. K - 1
    log spread[w] ~ N(typical, SPREAD^2)                     typical ~ N(TYPICAL, 1)
    truth[t]      = l where common[l] < position[t] <= common[l + 1]: what the average worker answers without noise

A worker's bias is the mean of common - cut[w]: above 0 they rate higher than the others. `scale` is 1, and in
`OrdinalGLAD` the difficulty of the task, one of a few values. `normal` is the standard normal distribution.

    E   q[t, x]       proportional to shares[x] * prod over a to t of P(answer[a] | x): as in Dawid-Skene
    M   cut, spread   one Fisher scoring step per worker, halved until the expected log-likelihood rises
        common, typical, shares    in closed form
    proba[t, l] = sum over x of q[t, x] * (share of the cell of x that lies between common[l] and common[l + 1])

    bound = log-likelihood of the answers + log priors (up to a constant)

Instead of the K^2 free probabilities of a confusion matrix, a worker has K parameters, and those of a worker with few
answers are the average worker's. The levels have no free shares, which EM could empty one by one: they follow from
the thresholds. LAPSE, the share of answers that say nothing, keeps one slip from deciding a task. The label is the
median of `proba_`, the level with the least expected absolute error.

The thresholds follow the graded response model of Samejima (1969), the rest Dawid and Skene (1979). It fails when
workers share a bias: what all of them rate one level too high looks like a task one level higher.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from crowdwise.kinds.ratings.base import RatingModel
from crowdwise.kinds.ratings.methods.averages import Mean
from crowdwise.truth.base import Array, Callback
from crowdwise.truth.em import EMModel
from crowdwise.truth.kernels.confusion import ConfusionWork
from crowdwise.truth.kernels.shared import FLOOR

LAPSE = 0.02
BIAS, SHAPE, COMMON, SPREAD = 0.4, 0.2, 3.0, 0.5
TYPICAL = np.log(0.7)
PULL = 0.05  # weight of the normal distribution against the tasks, in the shares of the nodes
NODES = 24
NODE = np.linspace(-2.9, 2.9, NODES)  # positions of the nodes
NODE_PRIOR = np.exp(-0.5 * NODE**2) / np.exp(-0.5 * NODE**2).sum()
CELL = np.append(np.insert((NODE[1:] + NODE[:-1]) / 2, 0, -np.inf), np.inf)  # (nodes + 1,): ends of their cells
HALVINGS = 12
CELLS = 2_000_000  # workers are processed in chunks of so many (worker, state, level) cells


class Work(NamedTuple):
    """Arrays of one fit. A state is a position and, in `OrdinalGLAD`, a difficulty."""

    confusion: ConfusionWork
    gold: Array | None
    n_levels: int
    position: Array  # (states,)
    scale: Array  # (states,): of the noise
    marginal: Array  # (levels,): share of the answers


class Parameters(NamedTuple):
    """The parameters that EM estimates."""

    prior: Array  # (states,)
    cut: Array  # (workers, levels - 1)
    log_spread: Array  # (workers,)
    common: Array  # (levels - 1,)
    typical: float


class OrdinalDawidSkene(RatingModel, EMModel):
    """Workers with a bias, a spread and thresholds of their own on a scale, estimated together with the truth by EM.

    Parameters
    ----------
    max_iter : int
        Largest number of iterations.
    tol : float
        Rise of the bound per answer at which the iteration stops; 0 runs all `max_iter` iterations.
    n_init : int
        Number of starts; the one with the best bound is kept.
    warm_start : bool
        Whether `fit` starts from the posteriors of the previous fit.
    random_state : int
        Seed for the starts.

    Attributes
    ----------
    bias_ : (workers,) array
        How much higher each worker rates than the average one, in standard deviations of the tasks' positions.
    spread_ : (workers,) array
        Standard deviation of each worker's noise, in the same unit.
    cuts_ : (workers, levels - 1) array
        Each worker's thresholds between one level and the next, in the same unit.
    level_prior_ : (levels,) array
        Share of each level.

    Examples
    --------
    >>> from crowdwise import OrdinalDawidSkene, Ratings
    >>> ratings = Ratings.from_arrays([1, 1, 1, 2, 2, 2], list("abcabc"), [1, 1, 2, 5, 5, 4])
    >>> OrdinalDawidSkene().fit(ratings).labels_.tolist()
    [1, 5]
    """

    levels_only = True
    difficulties: tuple[float, ...] = (1.0,)  # scales of the noise of a task
    has_matrices = True

    standard_error_: Array
    value_: Array

    def __init__(
        self,
        *,
        max_iter: int = 200,
        tol: float = 1e-4,
        n_init: int = 1,
        warm_start: bool = False,
        random_state: int = 0,
    ) -> None:
        self.max_iter = max_iter
        self.tol = tol
        self.n_init = n_init
        self.warm_start = warm_start
        self.random_state = random_state

    def _fit(self, answers: Any, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:
        codes = None
        if gold is not None:
            codes = np.where(np.isfinite(gold), answers.nearest(np.nan_to_num(gold)), -1).astype(np.int32)
        super()._fit(answers, codes, rng, callback)
        values = answers.values
        self.value_ = self.proba_ @ values
        self.standard_error_ = np.sqrt(np.maximum(self.proba_ @ values**2 - self.value_**2, 0))

    def _first_posteriors(self, answers: Any, start: int, rng: np.random.Generator) -> Array:
        """Return the first posteriors of a start: those of the mean, or an earlier fit's; later starts add noise."""
        proba = Mean().fit(answers).proba_
        if self.warm_start and self._earlier is not None:
            tasks, earlier_proba = self._earlier_rows(answers)
            proba[tasks, : earlier_proba.shape[1]] = earlier_proba
            proba[tasks, earlier_proba.shape[1] :] = 0.0
        if start:
            proba = 0.5 * proba + 0.5 * rng.dirichlet(np.ones(answers.n_classes), size=answers.n_tasks)
        return proba

    def _prepare(self, answers: Any, gold: Array | None) -> Work:
        n_scales = len(self.difficulties)
        states = ConfusionWork(answers.task_starts, answers.pairs, answers.weight, NODES * n_scales)
        weight = np.ones(answers.n_answers) if answers.weight is None else answers.weight
        marginal = np.bincount(answers.label, weight, answers.n_classes) + 0.5
        return Work(
            states, gold, answers.n_classes, np.tile(NODE, n_scales), np.repeat(self.difficulties, NODES),
            marginal / marginal.sum(),
        )  # fmt: skip

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        n_workers, n_scales = len(work.confusion.pairs.worker_starts) - 1, len(self.difficulties)
        noisy = np.sqrt(1 + np.exp(2 * TYPICAL))  # standard deviation of what an average worker perceives
        common = noisy * special.ndtri(np.cumsum(work.marginal)[:-1])
        within = level_shares(common) * NODE_PRIOR[:, None]  # (nodes, levels)
        nodes = proba @ (within / np.maximum(within.sum(axis=0), FLOOR)).T
        start = Parameters(
            prior=self._first_prior(), cut=np.tile(common, (n_workers, 1)),
            log_spread=np.full(n_workers, TYPICAL), common=common, typical=TYPICAL,
        )  # fmt: skip
        return self._estimate(work, work.confusion.count(np.tile(nodes / n_scales, n_scales)), start.prior, start)

    def _e_step(self, work: Work, parameters: Parameters) -> tuple[Any, float]:
        work.confusion.set_table(self._table(work, parameters))
        counts, totals, log_likelihood = work.confusion.e_step(self._state_prior(work, parameters), None)
        return (counts, totals), log_likelihood + log_prior(parameters) + self._log_prior_of_shares(work, parameters)

    def _m_step(self, work: Work, statistics: Any, parameters: Parameters) -> Parameters:
        counts, totals = statistics
        total = totals + PULL * totals.sum() * self._first_prior()
        return self._estimate(work, counts, total / total.sum(), parameters)

    def _first_prior(self) -> Array:
        """Return normal positions, and equal shares of the difficulties, (states,)."""
        return np.tile(NODE_PRIOR, len(self.difficulties)) / len(self.difficulties)

    def _log_prior_of_shares(self, work: Work, parameters: Parameters) -> float:
        n_tasks = len(work.confusion.starts) - 1
        return float(PULL * n_tasks * (self._first_prior() @ np.log(parameters.prior)))

    def _estimate(self, work: Work, counts: Array, prior: Array, old: Parameters) -> Parameters:
        cut, log_spread = old.cut.copy(), old.log_spread.copy()
        pairs = work.confusion.pairs
        n_workers, (n_states, n_levels) = len(cut), (len(work.position), work.n_levels)
        step = max(1, CELLS // (n_states * n_levels))
        precision = cut_precision(n_levels)
        for first in range(0, n_workers, step):
            end = min(first + step, n_workers)
            begin, stop = pairs.worker_starts[first], pairs.worker_starts[end]
            owner = np.repeat(np.arange(end - first), np.diff(pairs.worker_starts[first : end + 1]))
            expected = np.zeros((end - first, n_states, n_levels))
            expected[owner, :, pairs.label[begin:stop]] = counts[begin:stop]
            improve(work, expected, cut[first:end], log_spread[first:end], old, precision)
        active = np.diff(pairs.worker_starts) > 0
        own = np.eye(n_levels - 1) / COMMON**2
        common = np.linalg.solve(active.sum() * precision + own, precision @ cut[active].sum(axis=0))
        typical = (log_spread[active].sum() / SPREAD**2 + TYPICAL) / (active.sum() / SPREAD**2 + 1)
        cut[~active], log_spread[~active] = common, typical  # workers without answers would only slow it down
        return Parameters(np.maximum(prior, FLOOR), cut, log_spread, common, float(typical))

    def _table(self, work: Work, parameters: Parameters) -> Array:
        """Return P(label of the pair | state), (pairs, states)."""
        pairs = work.confusion.pairs
        owner = np.repeat(np.arange(len(parameters.cut)), np.diff(pairs.worker_starts))
        edges = np.pad(parameters.cut, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
        noise = np.exp(parameters.log_spread)[owner, None] * work.scale  # (pairs, states)
        low, high = (edges[owner, pairs.label + above][:, None] for above in (0, 1))
        inside = special.ndtr((high - work.position) / noise) - special.ndtr((low - work.position) / noise)
        return (1 - LAPSE) * inside + LAPSE / work.n_levels

    def _state_prior(self, work: Work, parameters: Parameters) -> Array:
        """Return the probability of each state, (states,), or (tasks, states) where gold excludes some."""
        if work.gold is None:
            return parameters.prior
        known = np.flatnonzero(work.gold >= 0)
        rows = np.tile(parameters.prior, (len(work.gold), 1))
        inside = np.tile(level_shares(parameters.common), (len(self.difficulties), 1))  # (states, levels)
        rows[known] *= np.maximum(inside.T[work.gold[known]], FLOOR)
        return np.asarray(rows)

    def _posterior(self, work: Work, parameters: Parameters) -> Array:
        return self._levels_of(self._states(work, parameters), parameters)

    def _states(self, work: Work, parameters: Parameters) -> Array:
        """Return the probability of each state, (tasks, states)."""
        work.confusion.set_table(self._table(work, parameters))
        return work.confusion.posterior(self._state_prior(work, parameters), None)

    def _levels_of(self, states: Array, parameters: Parameters) -> Array:
        """Return the probability of each level, (tasks, levels)."""
        nodes = states.reshape(len(states), -1, NODES).sum(axis=1)
        proba = nodes @ level_shares(parameters.common)
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))

    def _store(self, work: Work, parameters: Parameters) -> None:
        self.cuts_ = parameters.cut
        self.bias_ = (parameters.common - parameters.cut).mean(axis=1)
        self.spread_ = np.exp(parameters.log_spread)
        shares = parameters.prior.reshape(-1, NODES).sum(axis=0)
        self.level_prior_ = shares @ level_shares(parameters.common)


def level_shares(common: Array) -> Array:
    """Return the share of each node's cell that lies in each level, (nodes, levels), by its probability."""
    edges = np.concatenate([[-np.inf], common, [np.inf]])
    low = np.maximum(CELL[:-1, None], edges[:-1])
    high = np.maximum(np.minimum(CELL[1:, None], edges[1:]), low)
    inside = special.ndtr(high) - special.ndtr(low)
    return np.asarray(inside / inside.sum(axis=1, keepdims=True))


def cut_precision(n_levels: int) -> Array:
    """Return the precision matrix of a worker's thresholds, (levels - 1, levels - 1)."""
    n = n_levels - 1
    return np.linalg.inv(BIAS**2 * np.ones((n, n)) + SHAPE**2 * np.eye(n))


def log_prior(parameters: Parameters) -> float:
    """Return the log prior of all parameters but the shares of the states, up to a constant."""
    n_levels = parameters.cut.shape[1] + 1
    from_common = parameters.cut - parameters.common
    total = np.einsum("wi,ij,wj->", from_common, cut_precision(n_levels), from_common)
    total += ((parameters.log_spread - parameters.typical) ** 2).sum() / SPREAD**2
    total += (parameters.common**2).sum() / COMMON**2 + (parameters.typical - TYPICAL) ** 2
    return float(-total / 2)


def improve(work: Work, counts: Array, cut: Array, log_spread: Array, old: Parameters, precision: Array) -> None:
    """Take a Fisher scoring step for each worker, in place; `counts` (workers, states, levels) are expected answers.

    u[w, s, k] = (cut[w, k] - position[s]) / noise[w, s];  P[l] = Phi(u[l + 1]) - Phi(u[l]), mixed with LAPSE
    d P[l] / d cut[k]      = slope[k] for l = k - 1, -slope[k] for l = k;  slope = phi(u) / noise
    d P[l] / d log spread  = tilt[l] = u[l] phi(u[l]) - u[l + 1] phi(u[l + 1])
    """
    chance, u, noise = level_chances(work, cut, log_spread)  # (workers, states, levels), (..., levels - 1)
    density = (1 - LAPSE) * np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi)
    slope = density / noise[:, :, None]
    moment = np.pad(u * density, ((0, 0), (0, 0), (1, 1)))
    tilt = moment[:, :, :-1] - moment[:, :, 1:]  # (workers, states, levels)
    ratio = counts / chance
    n_cuts = cut.shape[1]
    shift, stretch = cut - old.common, log_spread - old.typical
    gradient = np.empty((len(cut), n_cuts + 1))
    gradient[:, :-1] = (slope * (ratio[:, :, :-1] - ratio[:, :, 1:])).sum(axis=1) - shift @ precision
    gradient[:, -1] = (tilt * ratio).sum(axis=(1, 2)) - stretch / SPREAD**2
    total = counts.sum(axis=2, keepdims=True)  # (workers, states, 1)
    curvature = np.zeros((len(cut), n_cuts + 1, n_cuts + 1))
    at = np.arange(n_cuts)
    inverse = total / chance
    curvature[:, at, at] = (slope**2 * (inverse[:, :, :-1] + inverse[:, :, 1:])).sum(axis=1)
    beside = -(slope[:, :, :-1] * slope[:, :, 1:] * inverse[:, :, 1:-1]).sum(axis=1)
    curvature[:, at[:-1], at[1:]] = curvature[:, at[1:], at[:-1]] = beside
    weighted = tilt * inverse
    cross = (slope * (weighted[:, :, :-1] - weighted[:, :, 1:])).sum(axis=1)
    curvature[:, :-1, -1] = curvature[:, -1, :-1] = cross
    curvature[:, -1, -1] = (tilt * weighted).sum(axis=(1, 2)) + 1 / SPREAD**2
    curvature[:, :-1, :-1] += precision
    step = np.linalg.solve(curvature, gradient[:, :, None])[:, :, 0]
    step *= np.minimum(1, 1 / np.maximum(np.abs(step).max(axis=1, keepdims=True), 1e-12))

    def objective(rows: Array, cuts: Array, spreads: Array) -> Array:
        """Return the expected log-likelihood plus log prior of these workers; -inf if thresholds cross."""
        chances = level_chances(work, cuts, spreads)[0]
        away = cuts - old.common
        prior = np.einsum("wi,ij,wj->w", away, precision, away) + (spreads - old.typical) ** 2 / SPREAD**2
        value = (counts[rows] * np.log(chances)).sum(axis=(1, 2)) - prior / 2
        return np.where((np.diff(cuts, axis=1) > 0).all(axis=1), value, -np.inf)

    rows = np.arange(len(cut))
    before, size = objective(rows, cut, log_spread), np.ones(len(cut))
    for _ in range(HALVINGS):
        new_cut = cut[rows] + size[rows, None] * step[rows, :-1]
        new_spread = np.clip(log_spread[rows] + size[rows] * step[rows, -1], -4, 3)
        better = objective(rows, new_cut, new_spread) >= before[rows]
        cut[rows[better]], log_spread[rows[better]] = new_cut[better], new_spread[better]
        rows = rows[~better]
        if not len(rows):
            return
        size[rows] /= 2


def level_chances(work: Work, cut: Array, log_spread: Array) -> tuple[Array, Array, Array]:
    """Return P(level | state) of each worker, the standardised thresholds u, and the noise (workers, states)."""
    noise = np.exp(log_spread)[:, None] * work.scale
    u = (cut[:, None, :] - work.position[:, None]) / noise[:, :, None]
    below = np.pad(special.ndtr(u), ((0, 0), (0, 0), (1, 1)), constant_values=((0, 0), (0, 0), (0, 1)))
    return (1 - LAPSE) * np.maximum(np.diff(below, axis=2), 0) + LAPSE / work.n_levels, u, noise
