"""Means from a few gold values and many predictions, with intervals: prediction-powered inference.

    y[i]   gold value of task i of the sample, for example whether a label is right          n of them
    f[i]   prediction of y[i], made without using y[i]; known for all N tasks
    w[i]   weight of gold task i: inversely proportional to its inclusion probability pi[i]; sums to 1

    gold alone           sum_i w[i] y[i]
    prediction-powered   sum_i w[i] (y[i] - lam f[i]) + lam mean of f over all tasks

The second term corrects the first for the luck of the draw. Any `lam` is valid: 1 is classical PPI (Angelopoulos et
al., Science 382, 2023), 0 is gold alone, and the slope of y on f has the smallest variance: PPI++ (Angelopoulos, Duchi
and Zrnic, arXiv 2311.01453) or, in survey sampling, the regression estimator. `ppi_mean` is the published method
with its normal interval. `rectified_mean` is the one that `estimate` uses. It differs in three ways:

1. The tasks are a finite population and gold is drawn from it without replacement, so that the mean of f is known
   exactly and the variance is, for strata h (one, unless gold was drawn by strata) and v = w unless gold was drawn
   in several rounds (`trust.gold_sample`),

       V(e) = sum_i v[i]^2 (1 - pi[i]) (e[i] - mean of e in h)^2 n[h] / (n[h] - 1)           e = y - lam f

   With `population="source"` the interval is of the process that the tasks came from: V grows by Var(y) / N.
2. Residuals are leave-one-out ones, e[i] / (1 - leverage[i]), because `lam` is estimated from the same gold values.
3. Normal intervals fail for shares near 0 or 1. The gain enters as an effective sample size instead:

       1 / n_eff = V(y - lam f) / V(y) * 1 / n

   in Wilson's interval of a share, and in Bonett and Price's (2012) of a difference of two shares. Gold alone uses
   the same formulas with n, and n_eff is at least n: in a single draw the prediction-powered interval is wider only
   if the estimate moves towards one half. With few values that differ from the most common one, the ratio of
   variances is unreliable, and is moved towards 1.

Fails when gold is not a random sample with the stated probabilities (for example, only easy tasks have gold), and when
predictions of gold tasks have used their gold labels. Neither can be seen in the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import norm, t

from crowdwise._core.validation import is_number, require
from crowdwise.errors import GoldError
from crowdwise.trust.gold_sample import GoldSample

Array = np.ndarray[Any, np.dtype[Any]]
Population = Literal["tasks", "source"]

MIN_GOLD = 10  # with fewer gold values, no interval is given
PRIOR_GOLD = 10.0  # the slope of y on f counts as this many gold values of slope 1
PRIOR_VALUES = 0.5  # the ratio of variances counts as this many observations of "no gain"
PRIOR_DESIGN = 6.0  # the same for the gain of an unequal design: heavy tasks are rare, and so are their errors


class Interval(NamedTuple):
    """A point estimate and the ends of its confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class IntervalEstimate:
    """An estimate from gold and predictions together, beside the one from gold alone.

    Attributes
    ----------
    value, low, high : float
        The prediction-powered estimate and its confidence interval.
    gold_value, gold_low, gold_high : float
        The same from gold alone.
    n_gold, n_tasks : int
        Number of gold values, and of tasks that the estimate is about.
    lam : float
        Weight of the predictions; 0 means that they were not used.
    """

    value: float
    low: float
    high: float
    gold_value: float
    gold_low: float
    gold_high: float
    n_gold: int
    n_tasks: int
    lam: float

    @property
    def width(self) -> float:
        """Width of the interval."""
        return self.high - self.low

    @property
    def gold_width(self) -> float:
        """Width of the interval from gold alone."""
        return self.gold_high - self.gold_low

    def __str__(self) -> str:
        gold = f"{self.gold_value:.3f} [{self.gold_low:.3f}, {self.gold_high:.3f}]"
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}], gold alone {gold}, {self.n_gold} gold"


def ppi_mean(
    gold_values: Any,
    gold_predictions: Any,
    predictions: Any,
    *,
    lam: float | None = None,
    alpha: float = 0.05,
    gold_weights: Any = None,
) -> Interval:
    """Return the mean of a population by prediction-powered inference, with its normal interval, as published.

    Parameters
    ----------
    gold_values, gold_predictions : (n,) sequences
        True values of the labelled sample and their predictions.
    predictions : (N,) sequence
        Predictions of the unlabelled sample.
    lam : float, optional
        Weight of the predictions: 1 is classical PPI, 0 the mean of the gold values. By default it is estimated so
        that the variance is smallest, and limited to 0..1 (PPI++).
    alpha : float
        One minus the confidence level.
    gold_weights : (n,) sequence, optional
        Relative weights of the labelled sample, for example inverse inclusion probabilities.

    Examples
    --------
    >>> ppi_mean([1, 0, 1, 1], [1, 0, 0, 1], [1, 0, 1, 0, 1, 1, 1, 0], lam=1).value
    0.875
    """
    y, f, rest = (np.asarray(values, dtype=float) for values in (gold_values, gold_predictions, predictions))
    require(y.ndim == 1 and y.shape == f.shape and len(y) > 1, "gold_predictions", f.shape, f"the shape {y.shape}")
    require(rest.ndim == 1 and len(rest) > 1, "predictions", rest.shape, "a sequence of two numbers or more")
    require(is_number(alpha) and 0 < alpha < 1, "alpha", alpha, "a number between 0 and 1")
    n, n_rest = len(y), len(rest)
    w = np.ones(n) if gold_weights is None else np.asarray(gold_weights, dtype=float) * n / np.sum(gold_weights)
    if lam is None:
        centre = rest.mean() + (w * (y - f)).mean()
        one, other = w * (y - centre), w * (f - centre)  # (n,), the gradients of the loss in the paper
        covariance = (one - one.mean()) @ (other - other.mean()) / n
        variance = np.concatenate([other, rest - centre]).var(ddof=1)
        lam = float(np.clip(covariance / variance / (1 + n / n_rest), 0, 1)) if variance > 0 else 0.0
    residual = w * (y - lam * f)  # (n,)
    value = lam * rest.mean() + residual.mean()
    error = np.sqrt(lam**2 * rest.var() / n_rest + residual.var() / n)
    half = norm.isf(alpha / 2) * error
    return Interval(float(value), float(value - half), float(value + half))


def rectified_mean(
    y: Array,
    f: Array,
    rows: Array,
    sample: GoldSample,
    *,
    lam: float | None = None,
    alpha: float = 0.05,
    population: Population = "tasks",
    signed: bool = False,
) -> IntervalEstimate:
    """Estimate the mean of y over all tasks from gold tasks and predictions, with an interval for small samples.

    Parameters
    ----------
    y : (gold,) array
        Gold values, 0 or 1 (-1, 0 or 1 with `signed`).
    f : (tasks,) array
        Predictions for all tasks, gold tasks included.
    rows : (gold,) int array
        Positions of the gold tasks in `f`.
    sample : GoldSample
        How the gold tasks were drawn.
    lam : float, optional
        Weight of the predictions. By default the slope of y on f, moved towards 1 and not below 0.
    alpha : float
        One minus the confidence level.
    population : {"tasks", "source"}
        Whether the mean is that of these tasks, or that of the process they came from.
    signed : bool
        Whether values are differences of two 0/1 values.

    Examples
    --------
    >>> from crowdwise.trust.gold_sample import uniform_sample
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.random(2000) < 0.3
    >>> f = np.where(truth, 0.8, 0.2) + rng.normal(0, 0.1, 2000)
    >>> found = rectified_mean(truth[:100], f, np.arange(100), uniform_sample(100, 2000))
    >>> found.width < 0.5 * found.gold_width
    True
    """
    n = len(y)
    if n < MIN_GOLD:
        message = f"{n} gold values are too few for an interval; at least {MIN_GOLD} are needed."
        raise GoldError(message)
    mean_f, var_f = float(f.mean()), float(f.var())
    y, f, w = np.asarray(y, dtype=float), f[rows], sample.weight  # (gold,)
    bound = -1.0 if signed else 0.0
    mean_y, gold_f = float(np.clip(w @ y, bound, 1.0)), float(w @ f)  # a sum of weights may exceed 1 by rounding
    spread = float(w @ (f - gold_f) ** 2)
    if lam is None:
        prior = PRIOR_GOLD / n * var_f
        slope = (float(w @ ((f - gold_f) * (y - mean_y))) + prior) / max(spread + prior, 1e-12)
        lam = max(slope, 0.0) if var_f > 1e-12 else 0.0
    value = float(np.clip(mean_y + lam * (mean_f - gold_f), bound, 1.0))
    r_gold, ratio = _relative_variance(y, mean_y, sample), 1.0
    _, counts = np.unique(y, return_counts=True)
    if lam > 0 and len(counts) > 1:
        leverage = w * (1 + (f - gold_f) ** 2 / max(spread, 1e-12))  # (gold,)
        residual = (y - mean_y - lam * (f - gold_f)) / np.maximum(1 - leverage, 0.1)
        alone = _variance((y - mean_y) / (1 - w), sample)
        few = n - int(counts.max())
        degrees = max(n - 1 - len(np.unique(sample.stratum)), 1)
        quantiles = (t.isf(alpha / 2, degrees) / norm.isf(alpha / 2)) ** 2
        ratio = quantiles * _variance(residual, sample) / alone if alone > 0 else 1.0
        ratio = min((few * ratio + PRIOR_VALUES) / (few + PRIOR_VALUES), 1.0)
    elif len(counts) == 1:  # the slope of a constant is 0, whatever was asked for
        value, lam = mean_y, 0.0
    source = 1 / sample.n_tasks if population == "source" else 0.0
    discordant = float(w @ np.abs(y)) if signed else None
    low, high = share_interval(value, ratio * r_gold + source, alpha, discordant)
    gold_low, gold_high = share_interval(mean_y, r_gold + source, alpha, discordant)
    return IntervalEstimate(value, low, high, mean_y, gold_low, gold_high, n, sample.n_tasks, float(lam))


def _variance(e: Array, sample: GoldSample) -> float:
    """Return V(e), the design variance of the weighted mean of e."""
    v, stratum = sample.spread, sample.stratum
    total = np.bincount(stratum, v)  # (strata,)
    size = np.bincount(stratum)
    mean = np.bincount(stratum, v * e) / np.where(total > 0, total, 1)
    correction = size / np.maximum(size - 1, 1)
    return float(np.sum(v**2 * (1 - sample.inclusion) * (e - mean[stratum]) ** 2 * correction[stratum]))


def _relative_variance(y: Array, mean_y: float, sample: GoldSample) -> float:
    """Return 1 / n for the variance of the weighted mean of y: its share of the variance of y.

    For unequal weights it is Kish's, which ignores how y depends on the weights, corrected by the estimated
    variance in so far as there are enough values to estimate it.
    """
    kish = float(np.sum(sample.spread**2 * (1 - sample.inclusion)))
    variance = float(sample.weight @ (y - mean_y) ** 2)
    if sample.uniform or variance <= 1e-12:
        return kish
    _, counts = np.unique(y, return_counts=True)
    few = len(y) - int(counts.max())
    return (few * _variance(y, sample) / variance + PRIOR_DESIGN * kish) / (few + PRIOR_DESIGN)


def share_interval(value: float, r: float, alpha: float = 0.05, discordant: float | None = None) -> tuple[float, float]:
    """Return Wilson's interval of a share, or Bonett and Price's of a difference, for a sample of 1 / r values.

    >>> tuple(round(end, 3) for end in share_interval(0.5, 0.01))  # 50 of 100
    (0.404, 0.596)
    """
    z = float(norm.isf(alpha / 2))
    if discordant is None:
        centre = (value + z**2 * r / 2) / (1 + z**2 * r)
        half = z * np.sqrt(r * value * (1 - value) + (z * r) ** 2 / 4) / (1 + z**2 * r)
        return float(max(min(centre - half, value), 0.0)), float(min(max(centre + half, value), 1.0))
    centre, rate = value / (1 + 2 * r), (max(discordant, abs(value)) + 2 * r) / (1 + 2 * r)
    half = z * np.sqrt(max(rate - centre**2, 0.0) * r / (1 + 2 * r))
    return float(max(centre - half, -1.0)), float(min(centre + half, 1.0))
