"""Metrics of inferred ratings against known values, and agreement between the workers of ratings.

    mae       mean absolute error            within_one  share of labels at most one level away
    qwk       quadratic weighted kappa = 1 - sum w O / sum w E,  w = (i - j)^2, O observed and E chance counts
    alpha     Krippendorff: 1 - observed / expected disagreement of pairs of ratings, with a distance
                  interval (a - b)^2    ratio ((a - b) / (a + b))^2    ordinal (difference of mean ranks)^2
    ICC       one-way ICC(1), two-way random ICC(2,1), two-way mixed ICC(3,1) of a single rating, from the variance
              components of the ratings that are there (Henderson's method 1, which needs no complete table)

Krippendorff, "Content Analysis" (1980). Shrout and Fleiss, "Intraclass correlations", Psychological Bulletin 86 (1979);
Henderson, "Estimation of variance and covariance components", Biometrics 9 (1953). An undefined figure is None.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from crowdwise._core.validation import require
from crowdwise.answers import Ratings, as_kind

Array = np.ndarray[Any, np.dtype[Any]]


def mean_absolute_error(truth: Any, predicted: Any) -> float | None:
    """Return the mean distance of predicted from known values; NaN marks an unknown one.

    >>> mean_absolute_error([1, 5, np.nan], [2, 5, 3])
    0.5
    """
    truth, predicted = _known(truth, predicted)
    return float(abs(truth - predicted).mean()) if len(truth) else None


def within_one(truth: Any, predicted: Any) -> float | None:
    """Return the share of labels at most one level from the known one.

    >>> within_one([1, 5, 3], [2, 3, 3])
    0.6666666666666666
    """
    truth, predicted = _known(truth, predicted)
    return float((abs(truth - predicted) <= 1 + 1e-9).mean()) if len(truth) else None


def quadratic_weighted_kappa(truth: Any, predicted: Any) -> float | None:
    """Return Cohen's kappa of two sets of levels with squared distances as weights; None if it is undefined.

    >>> round(quadratic_weighted_kappa([1, 2, 3, 3], [1, 2, 3, 2]), 3)
    0.8
    """
    truth, predicted = _known(truth, predicted)
    if not len(truth):
        return None
    chance = truth.var() + predicted.var() + (truth.mean() - predicted.mean()) ** 2
    return float(1 - ((truth - predicted) ** 2).mean() / chance) if chance > 0 else None


def evaluate_ratings(model: Any, truth: Any, level: float = 0.9) -> dict[str, float | None]:
    """Return the scores of a fitted model for ratings: errors, kappa, and how often intervals contain the truth.

    >>> import crowdwise as cw
    >>> ratings = cw.simulate.rating_crowd(100, seed=1)
    >>> sorted(evaluate_ratings(cw.Median().fit(ratings), ratings.truth))
    ['correlation', 'exact', 'inside', 'mae', 'qwk', 'rmse', 'within_one']
    """
    known = np.asarray(truth, dtype=float)
    ratings = model.answers_
    label = model.value_ if ratings.numeric else ratings.values[model.codes_]
    actual, predicted = _known(known, label)
    low, high = model.interval(level).T
    inside = ((low <= known) & (known <= high))[np.isfinite(known)]
    value = model.value_[np.isfinite(known)]
    varied = len(actual) > 1 and actual.std() > 0 and value.std() > 0
    return {
        "mae": mean_absolute_error(known, label),
        "rmse": float(np.sqrt(((actual - predicted) ** 2).mean())) if len(actual) else None,
        "correlation": float(np.corrcoef(actual, value)[0, 1]) if varied else None,
        "exact": float((abs(actual - predicted) < 1e-9).mean()) if len(actual) else None,
        "within_one": within_one(known, label),
        "qwk": quadratic_weighted_kappa(known, label),
        "inside": float(inside.mean()) if len(inside) else None,
    }


def rating_alpha(ratings: Any, distance: Literal["ordinal", "interval", "ratio"] = "ordinal") -> float | None:
    """Return Krippendorff's alpha of ratings: 1 is perfect agreement, 0 chance; None if no task has two ratings.

    Parameters
    ----------
    ratings : Ratings or data frame
        Missing ratings are allowed.
    distance : {"ordinal", "interval", "ratio"}

    Examples
    --------
    >>> round(rating_alpha(Ratings.from_arrays([1, 1, 2, 2, 3, 3], list("ababab"), [1, 2, 3, 3, 5, 4])), 3)
    0.902
    """
    ratings = as_kind(ratings, Ratings.kind, "rating_alpha")
    require(distance in ("ordinal", "interval", "ratio"), "distance", distance, "'ordinal', 'interval' or 'ratio'")
    n = np.diff(ratings.task_starts)
    rows = n[ratings.task] > 1
    if not rows.any():
        return None
    task, code, size = ratings.task[rows], ratings.label[rows], n[ratings.task[rows]]
    k = ratings.n_classes
    totals = np.bincount(code, minlength=k).astype(float)  # (values,)
    if distance == "ratio":
        return _ratio_alpha(task, ratings.values[code], size, ratings.values, totals)
    # Ordinal distances are differences of positions, as interval distances are.
    position = ratings.values if distance == "interval" else np.cumsum(totals) - totals / 2
    x = position[code]
    total = totals.sum()
    mean = np.bincount(task, x) / np.maximum(np.bincount(task), 1)
    observed = (2 * (x - mean[task]) ** 2 * size / (size - 1)).sum() / total
    expected = 2 * ((x - x.mean()) ** 2).sum() / (total - 1)
    return float(1 - observed / expected) if expected > 0 else 1.0


def _ratio_alpha(task: Array, value: Array, size: Array, values: Array, totals: Array) -> float:
    """Return alpha with ratio distances, which are not differences: pairs within tasks one by one."""

    def distances(a: Array, b: Array) -> Array:
        total = a + b
        return np.divide(a - b, total, out=np.zeros(np.broadcast(a, b).shape), where=total != 0) ** 2

    observed = 0.0
    starts = np.flatnonzero(np.diff(task, prepend=-1))
    for first, end in zip(starts, np.append(starts[1:], len(task)), strict=True):
        part = value[first:end]
        observed += distances(part[:, None], part[None, :]).sum() / (end - first - 1)
    total = totals.sum()
    used = np.flatnonzero(totals)
    expected = 0.0
    for i in used:
        expected += totals[i] * (totals[used] * distances(values[i : i + 1], values[used])).sum()
    return float(1 - observed / total / (expected / (total * (total - 1)))) if expected > 0 else 1.0


def intraclass_correlation(ratings: Any) -> dict[str, float | None]:
    """Return ICC(1), ICC(2,1) and ICC(3,1): the share of the variance of one rating that is due to the tasks.

    ICC(1) treats all differences between workers as noise, ICC(2,1) separates their biases but counts them, and
    ICC(3,1) leaves biases out. On a complete table, these are the coefficients of Shrout and Fleiss.

    >>> task, worker = [1, 1, 2, 2, 3, 3], list("ababab")
    >>> {name: round(value, 2) for name, value in intraclass_correlation(
    ...     Ratings.from_arrays(task, worker, [1, 2, 3, 4, 5, 6])).items()}
    {'icc1': 0.88, 'icc2': 0.89, 'icc3': 1.0}
    """
    ratings = as_kind(ratings, Ratings.kind, "intraclass_correlation")
    y, n_tasks = ratings.value, ratings.n_tasks
    n = len(y)
    per_task, per_worker = np.diff(ratings.task_starts), np.diff(ratings.worker_starts)
    a, b = int((per_task > 0).sum()), int((per_worker > 0).sum())
    undefined: dict[str, float | None] = dict.fromkeys(("icc1", "icc2", "icc3"))
    if n <= a or a < 2:
        return undefined
    centred = y - y.mean()
    task_sums = np.bincount(ratings.task, centred, n_tasks)
    worker_sums = np.bincount(ratings.worker, centred, ratings.n_workers)
    total, tasks = float((centred**2).sum()), float((task_sums**2 / np.maximum(per_task, 1)).sum())
    workers = float((worker_sums**2 / np.maximum(per_worker, 1)).sum())
    squares_task, squares_worker = float((per_task**2).sum()), float((per_worker**2).sum())
    within = (total - tasks) / (n - a)
    k = (n - squares_task / n) / (a - 1)
    between = max((tasks / (a - 1) - within) / k, 0.0)
    out = undefined | {"icc1": between / (between + within) if between + within > 0 else None}
    cross_task = float((1 / per_worker[ratings.worker]).sum())  # sum over cells of 1 / n of their worker: b
    cross_worker = float((1 / per_task[ratings.task]).sum())  # a
    if b < 2 or n - a - b + 1 <= 0:
        return out
    # Expected sums of squares, uncorrected for the mean of centred ratings: coefficients of task, worker and noise.
    matrix = np.array([
        [n - squares_task / n, cross_worker - squares_worker / n, a - 1],
        [cross_task - squares_task / n, n - squares_worker / n, b - 1],
        [n - squares_task / n, n - squares_worker / n, n - 1],
    ])  # fmt: skip
    var_task, var_worker, noise = np.linalg.solve(matrix, [tasks, workers, total])
    var_task, var_worker, noise = max(var_task, 0.0), max(var_worker, 0.0), max(noise, 0.0)
    everything = var_task + var_worker + noise
    if everything > 0:
        out["icc2"] = float(var_task / everything)
    if var_task + noise > 0:
        out["icc3"] = float(var_task / (var_task + noise))
    return out


def _known(truth: Any, predicted: Any) -> tuple[Array, Array]:
    """Return the known values and their predictions, as floats."""
    truth, predicted = np.asarray(truth, dtype=float), np.asarray(predicted, dtype=float)
    require(truth.shape == predicted.shape, "predicted", predicted.shape, f"values of shape {truth.shape}")
    rows = np.isfinite(truth)
    return truth[rows], predicted[rows]
