"""Workers with a bias, a scale and a variance of their own, and a hierarchy over workers; normal or Student t noise.

    truth[t]  = centre + x[t],  x[t] ~ N(0, width^2)                                            t = task
    rating[a] = centre + bias[w] + stretch[w] * x[t] + noise[a]                                 a = answer by worker w
    noise[a]  ~ N(0, 1 / (precision[w] * u[a])),  u[a] ~ Gamma(degrees / 2, degrees / 2)        u = 1: normal noise
    bias[w] ~ N(0, beta^2)   stretch[w] ~ N(1, gamma^2)   precision[w] ~ Gamma(shape, rate)

    E   q(x[t])              normal: weighted regression of t's ratings on the workers' bias and stretch
        q(u[a])              Gamma: ratings far from what is expected count less
    M   q(bias, stretch)     normal, 2 x 2 per worker: regression of w's ratings on the tasks
        q(precision)         Gamma
        width, beta, gamma, shape, rate    maximise the bound, in closed form but for `shape` (Newton)

    bound = evidence lower bound of this variational approximation: never above the log-likelihood, and never falls

The five numbers in the last line describe the population of workers, so a worker with few ratings is an average one.
The standard error of a task contains, besides that of x[t], what the ratings cannot say about centre and unit of the
scale: that the average worker has no bias is only known up to beta / sqrt(workers).

Raykar et al., "Learning from crowds", JMLR 11 (2010), section 5, with bias and scale, and a hierarchy. It fails when
workers share a bias, and on ratings that pile up at an end of the range, which are not normal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import special

from crowdwise._core.validation import is_number, require
from crowdwise.answers import Ratings
from crowdwise.kinds.ratings.base import RatingModel, task_weights
from crowdwise.truth.base import Array, Callback
from crowdwise.truth.em import run_em

LEAST = 1e-6  # variances, relative to that of all ratings, stay above this
LEAST_SHAPE = 10.0  # the population of precisions counts like at least twice as many ratings of each worker


MIN_TASKS = 20  # with ratings in both halves, to compare them


class Work(NamedTuple):
    """Arrays of one fit. Ratings are standardised: mean 0 and variance 1 over all of them."""

    task: Array  # (answers,)
    worker: Array  # (answers,)
    y: Array  # (answers,): the ratings
    weight: Array  # (answers,)
    n_tasks: int
    n_workers: int
    known: Array  # (tasks,): known x, NaN where unknown


class Parameters(NamedTuple):
    """Posteriors of the workers and the population."""

    mean: Array  # (workers, 2): of bias and stretch
    cov: Array  # (workers, 2, 2)
    shape: Array  # (workers,): of the Gamma posterior of the precision
    rate: Array  # (workers,)
    width2: float
    beta2: float
    gamma2: float
    prior_shape: float
    prior_rate: float
    u: Array  # (answers,): where the E-step starts


class Statistics(NamedTuple):
    """Posteriors of the tasks and ratings."""

    x: Array  # (tasks,)
    variance: Array  # (tasks,)
    u: Array  # (answers,)


class GaussianWorkers(RatingModel):
    """Workers with a bias, a scale and a variance of their own, estimated together with the values.

    Parameters
    ----------
    stretch : bool
        Whether workers also differ in how far they spread their ratings.
    max_iter : int
        Largest number of iterations.
    tol : float
        Rise of the bound per answer at which the iteration stops; 0 runs all `max_iter` iterations.
    random_state : int
        Seed for breaking ties between two levels of a scale.

    Attributes
    ----------
    bias_ : (workers,) array
        By how much each worker rates higher than the average worker.
    stretch_ : (workers,) array
        How far each worker spreads their ratings, relative to the average worker.
    spread_ : (workers,) array
        Standard deviation of each worker's noise.
    population_ : dict of str to float
        Standard deviations over workers of bias and stretch, and over tasks of the truth.

    Examples
    --------
    >>> from crowdwise import GaussianWorkers, Ratings
    >>> ratings = Ratings.from_arrays([1, 1, 2, 2, 3, 3], list("ababab"), [10.0, 14.5, 20.0, 24.0, 31.0, 34.5])
    >>> GaussianWorkers().fit(ratings).value_.round().tolist()
    [12.0, 22.0, 33.0]
    """

    degrees: float | None = None  # of the noise; None is normal noise

    converged_: bool
    history_: list[float]
    n_iter_: int
    standard_error_: Array
    value_: Array

    def __init__(self, *, stretch: bool = True, max_iter: int = 500, tol: float = 1e-6, random_state: int = 0) -> None:
        self.stretch = stretch
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    monotone = True
    bias_: Array
    stretch_: Array
    spread_: Array

    def _fit(self, answers: Ratings, gold: Array | None, rng: np.random.Generator, callback: Callback | None) -> None:  # type: ignore[override]
        weight = task_weights(answers)
        centre = float(np.average(answers.value, weights=weight))
        unit = float(np.sqrt(np.average((answers.value - centre) ** 2, weights=weight))) or 1.0
        known = np.full(answers.n_tasks, np.nan) if gold is None else (gold - centre) / unit
        y = (answers.value - centre) / unit
        work = Work(answers.task, answers.worker, y, weight, answers.n_tasks, answers.n_workers, known)
        parameters, self.history_, self.converged_ = self._run(work, callback)
        self.n_iter_ = len(self.history_)
        x, error = self._estimates(work, parameters)
        self.inflation_ = self._error_of_halves(work, rng)
        self.value_, self.standard_error_ = centre + unit * x, unit * self.inflation_ * error
        self._fix_gold(gold)
        self.bias_, self.stretch_ = unit * parameters.mean[:, 0], parameters.mean[:, 1].copy()
        self.spread_ = unit * np.sqrt(parameters.rate / parameters.shape)
        deviations = np.sqrt([parameters.beta2, parameters.gamma2, parameters.width2])
        self.population_ = dict(zip(("bias", "stretch", "truth"), (deviations * [unit, 1, unit]).tolist(), strict=True))

    def _run(self, work: Work, callback: Callback | None) -> tuple[Parameters, list[float], bool]:
        parameters: Parameters
        parameters, history, converged = run_em(self, work, self._start(work), len(work.y), callback)
        return parameters, history, converged

    def _estimates(self, work: Work, parameters: Parameters) -> tuple[Array, Array]:
        """Return x and its standard error, (tasks,) each."""
        x, variance, u = self._tasks(work, parameters)
        mean, cov, at = parameters.mean, parameters.cov, work.worker
        pull = work.weight * u * (parameters.shape / parameters.rate)[at] * mean[at, 1] * variance[work.task]
        own = cov[at, 0, 0] + 2 * cov[at, 0, 1] * x[work.task] + cov[at, 1, 1] * x[work.task] ** 2
        workers = np.bincount(work.task, pull**2 * own, work.n_tasks)  # what is not known about the workers
        anchor = (parameters.beta2 + parameters.gamma2 * x**2) / work.n_workers
        if self.degrees is not None:  # what one rating says about a centre, averaged over u, is less than E[u] suggests
            variance = variance * (self.degrees + 3) / (self.degrees + 1)
        return x, np.sqrt(variance + np.where(np.isfinite(work.known), 0, workers + anchor))

    def _error_of_halves(self, work: Work, rng: np.random.Generator) -> float:
        """Return by how much the standard errors are too small: estimates from two halves of the ratings differ more.

        Each half has about half of the ratings of every task. The factor makes 90 % intervals of the difference hold.
        """
        half = _halves(work.task, rng)
        if not half.any() or half.all():
            return 1.0
        parts = []
        for rows in (np.flatnonzero(half), np.flatnonzero(~half)):
            part = work._replace(
                task=work.task[rows], worker=work.worker[rows], y=work.y[rows], weight=work.weight[rows]
            )
            parts.append(self._estimates(part, self._run(part, None)[0]))
        (x, error), (other, other_error) = parts
        both = np.isin(np.arange(work.n_tasks), work.task[half]) & np.isin(np.arange(work.n_tasks), work.task[~half])
        both &= np.isnan(work.known)
        if both.sum() < MIN_TASKS:
            return 1.0
        ratio = np.abs(x - other)[both] / np.hypot(error, other_error)[both]
        return max(float(np.quantile(ratio, 0.9) / -special.ndtri(0.05)), 1.0)

    def _start(self, work: Work) -> Parameters:
        """Return average workers; population from the variance between and within tasks."""
        total = np.maximum(np.bincount(work.task, work.weight, work.n_tasks), 1e-12)
        mean = np.bincount(work.task, work.weight * work.y, work.n_tasks) / total
        within = float(np.average((work.y - mean[work.task]) ** 2, weights=work.weight))
        within = min(max(within, 0.05), 0.95)
        start = np.tile([0.0, 1.0], (work.n_workers, 1))
        ones = np.ones(work.n_workers)
        gamma2 = 0.1 if self.stretch else 0.0
        cov = np.tile(np.diag([0.25 * within, gamma2]), (work.n_workers, 1, 1))
        shape = LEAST_SHAPE * ones
        population = (1 - within, 0.25 * within, gamma2, LEAST_SHAPE, LEAST_SHAPE * within)
        return Parameters(start, cov, shape, within * shape, *population, u=np.ones(len(work.y)))

    def _error_of_expert(self) -> Array:
        people, away = self.population_, self.value_ - float(np.mean(self._ratings.value))
        return np.hypot(people["bias"], people["stretch"] * away)

    # The steps of EM

    def _e_step(self, work: Work, parameters: Parameters) -> tuple[Statistics, float]:
        statistics = self._tasks(work, parameters)
        return statistics, self._bound(work, parameters, statistics)

    def _m_step(self, work: Work, statistics: Statistics, old: Parameters) -> Parameters:
        x, variance, u = statistics
        at, n = work.worker, work.n_workers
        precision = old.shape / old.rate
        r = work.weight * u * precision[at]
        square = (x**2 + variance)[work.task]
        xs = x[work.task]
        inverse = np.zeros((n, 2, 2))
        inverse[:, 0, 0] = np.bincount(at, r, n) + 1 / old.beta2
        inverse[:, 0, 1] = inverse[:, 1, 0] = np.bincount(at, r * xs, n)
        inverse[:, 1, 1] = np.bincount(at, r * square, n) + 1 / max(old.gamma2, LEAST)
        stretched = np.bincount(at, r * work.y * xs, n) + 1 / max(old.gamma2, LEAST)
        target = np.stack([np.bincount(at, r * work.y, n), stretched], axis=1)
        if self.stretch:
            cov = np.linalg.inv(inverse)
            mean = np.einsum("wij,wj->wi", cov, target)
        else:
            cov = np.zeros((n, 2, 2))
            cov[:, 0, 0] = 1 / inverse[:, 0, 0]
            mean = np.stack([(target[:, 0] - inverse[:, 0, 1]) * cov[:, 0, 0], np.ones(n)], axis=1)
        expected = residuals(work, mean, cov, statistics)
        shape = old.prior_shape + np.bincount(at, work.weight, n) / 2
        rate = old.prior_rate + np.bincount(at, work.weight * u * expected, n) / 2
        beta2 = max(float((mean[:, 0] ** 2 + cov[:, 0, 0]).mean()), LEAST)
        gamma2 = max(float(((mean[:, 1] - 1) ** 2 + cov[:, 1, 1]).mean()), LEAST) if self.stretch else 0.0
        width2 = max(float((x**2 + variance).mean()), LEAST)
        average = float((shape / rate).mean())
        gap = np.log(average) - float((special.digamma(shape) - np.log(rate)).mean())
        prior_shape = min(max(gamma_shape(gap), LEAST_SHAPE), 1e4)
        return Parameters(mean, cov, shape, rate, width2, beta2, gamma2, prior_shape, prior_shape / average, u)

    def _tasks(self, work: Work, parameters: Parameters) -> Statistics:
        """Return the posteriors of the tasks, and of u, given the workers'; two rounds, since each needs the other."""
        mean, cov = parameters.mean, parameters.cov
        precision = (parameters.shape / parameters.rate)[work.worker] * work.weight
        square = (mean[:, 1] ** 2 + cov[:, 1, 1])[work.worker]
        cross = (mean[:, 0] * mean[:, 1] + cov[:, 0, 1])[work.worker]
        u = parameters.u
        for _ in range(1 if self.degrees is None else 2):
            r = precision * u
            total = np.bincount(work.task, r * square, work.n_tasks) + 1 / parameters.width2
            x = np.bincount(work.task, r * (mean[work.worker, 1] * work.y - cross), work.n_tasks) / total
            known = np.isfinite(work.known)
            x, variance = np.where(known, work.known, x), np.where(known, 0.0, 1 / total)
            if self.degrees is None:
                break
            expected = residuals(work, mean, cov, Statistics(x, variance, u))
            u = (self.degrees + 1) / (self.degrees + precision / work.weight * expected)
        return Statistics(x, variance, u)

    def _bound(self, work: Work, parameters: Parameters, statistics: Statistics) -> float:
        """Return the evidence lower bound."""
        mean, cov, shape, rate, width2, beta2, gamma2, prior_shape, prior_rate, _ = parameters
        x, variance, _ = statistics
        log_precision = special.digamma(shape) - np.log(rate)  # (workers,): expected
        precision = (shape / rate)[work.worker]
        expected = residuals(work, mean, cov, statistics)
        constant = log_precision[work.worker] - np.log(2 * np.pi)
        terms: Array
        if self.degrees is None:
            terms = 0.5 * (constant - precision * expected)
        else:  # u integrated out, at its best: minus Kullback-Leibler divergence from its prior
            nu = self.degrees
            fixed = special.gammaln((nu + 1) / 2) - special.gammaln(nu / 2) + 0.5 * nu * np.log(nu / 2)
            terms = 0.5 * constant + fixed - 0.5 * (nu + 1) * np.log((nu + precision * expected) / 2)
        total = float((work.weight * terms).sum())
        free = np.isnan(work.known)
        square = (x**2 + variance)[free]
        total = total + 0.5 * float((np.log(variance[free] / width2) + 1 - square / width2).sum())
        total -= 0.5 * float((work.known[~free] ** 2 / width2 + np.log(width2)).sum())
        if self.stretch:
            away = mean - [0.0, 1.0]
            prior = np.array([beta2, gamma2])
            _, log_det = np.linalg.slogdet(cov)
            spread = (away**2 + np.diagonal(cov, axis1=1, axis2=2)) / prior
            total += 0.5 * float((log_det - np.log(prior).sum() + 2 - spread.sum(axis=1)).sum())
        else:
            var = cov[:, 0, 0]
            total += 0.5 * float((np.log(var / beta2) + 1 - (mean[:, 0] ** 2 + var) / beta2).sum())
        divergence = (shape - prior_shape) * special.digamma(shape) - special.gammaln(shape)
        divergence += special.gammaln(prior_shape) + prior_shape * (np.log(rate) - np.log(prior_rate))
        divergence += shape * (prior_rate - rate) / rate
        return total - float(divergence.sum())


class StudentWorkers(GaussianWorkers):
    """`GaussianWorkers` with Student t noise: a rating far from the others of its task counts less.

    Parameters
    ----------
    degrees : float
        Degrees of freedom of the noise; the lower, the less a distant rating counts.
    stretch, max_iter, tol, random_state
        As in `GaussianWorkers`.

    Examples
    --------
    >>> from crowdwise import Ratings, StudentWorkers
    >>> rows = [(t, w, 10.0 * t + (t * w) % 3) for t in range(9) for w in range(5)] + [(4, 5, 99.0)]
    >>> model = StudentWorkers().fit(Ratings.from_arrays(*zip(*rows)))
    >>> bool(abs(model.value_[4] - 41) < 1.5)
    True
    """

    degrees: float

    def __init__(
        self, degrees: float = 4.0, *, stretch: bool = True, max_iter: int = 500, tol: float = 1e-6,
        random_state: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(stretch=stretch, max_iter=max_iter, tol=tol, random_state=random_state)
        self.degrees = degrees

    def _check_parameters(self) -> None:
        positive = self.degrees is not None and is_number(self.degrees) and self.degrees > 0
        require(positive, "degrees", self.degrees, "a number above 0")


def _halves(task: Array, rng: np.random.Generator) -> Array:
    """Return a mask of the ratings of the first half: of each task, half of the ratings, rounded at random."""
    order = np.lexsort((rng.random(len(task)), task))
    mask = np.empty(len(task), bool)
    first = rng.integers(0, 2, int(task.max(initial=0)) + 1)
    starts = np.concatenate([[0], np.cumsum(np.bincount(task))])
    mask[order] = (np.arange(len(task)) - starts[task[order]] + first[task[order]]) % 2 == 0
    return mask


def residuals(work: Work, mean: Array, cov: Array, statistics: Statistics) -> Array:
    """Return the expected squared noise of each rating, (answers,)."""
    x, variance = statistics.x[work.task], statistics.variance[work.task]
    bias, stretch = mean[work.worker].T
    own = cov[work.worker]
    away = work.y - bias - stretch * x
    return np.asarray(
        away**2 + own[:, 0, 0] + 2 * own[:, 0, 1] * x + own[:, 1, 1] * x**2 + (stretch**2 + own[:, 1, 1]) * variance
    )


def gamma_shape(gap: float) -> float:
    """Return the shape of a Gamma distribution from the log of its mean minus the mean of its log (Newton).

    >>> round(gamma_shape(float(np.log(3.0) - special.digamma(3.0))), 6)
    3.0
    """
    gap = max(gap, 1e-6)
    shape = (3 - gap + np.sqrt((gap - 3) ** 2 + 24 * gap)) / (12 * gap)
    for _ in range(8):
        slope = 1 / shape - special.polygamma(1, shape)
        shape = max(shape - (np.log(shape) - special.digamma(shape) - gap) / slope, shape / 4)
    return float(shape)
