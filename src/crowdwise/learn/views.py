"""Ways to look at features before a Gaussian classifier does: which one helps is a question for the answers.

    plain      as they are            root      signed square root, for counts and activations with a long tail
    standard   each of variance one   rank      each as the quantiles of a normal, for features on odd scales

Each is centred, turned to its main axes and cut to as many of them as the tasks can bear (`n_axes`), then scaled as a
whole to a mean variance of one. The axes keep their own variances: small ones are mostly noise, and shrinkage sees to
them. A view is a scikit-learn pipeline fitted to features alone. It is fitted once, to all tasks, and not in each fold:
cross-fitting keeps a task's answers from those who judge it, and no answer enters here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler

from crowdwise.learn.base import Array

VIEWS = ("plain", "root", "standard", "rank")
FEWEST, MOST, TASKS_PER_AXIS = 64, 256, 32
FAR = 3.0  # deviations: the lowest and highest value of a feature would be at infinity
QUANTILES = 1000
_KEPT = {  # what a fitted step needs to transform
    QuantileTransformer: ("quantiles_", "references_"),
    StandardScaler: ("mean_", "scale_"),
    PCA: ("mean_", "components_"),
}


def n_axes(n_tasks: int, n_features: int) -> int:
    """Main axes that are kept: one for 32 tasks, but at least 64 and at most 256.

    >>> n_axes(1_000, 512), n_axes(8_000, 256), n_axes(8_000, 12), n_axes(100_000, 512)
    (64, 250, 12, 256)
    """
    return min(n_features, max(n_tasks - 1, 1), MOST, max(FEWEST, n_tasks // TASKS_PER_AXIS))


def fit_view(name: str, x: Array) -> tuple[Pipeline, Array]:
    """A view fitted to features (tasks, features), and what it makes of them, (tasks, axes)."""
    x = np.asarray(x, np.float64)
    steps = _steps(name, min(QUANTILES, len(x)))
    turned = make_pipeline(*steps, PCA(n_axes(*x.shape), svd_solver="covariance_eigh"))
    with np.errstate(invalid="ignore"):  # of features that are all constant, axes have no share of the variance
        seen = turned.fit_transform(x)
    scale = 1 / np.sqrt(max(float(np.square(seen).mean()), 1e-300))
    axes = turned[-1]
    axes.components_ = np.ascontiguousarray(axes.components_ * scale)  # as from a file: sums are added in one order
    return turned, seen * scale


def numbers_of(view: Pipeline) -> dict[str, Array]:
    """What a fitted view has learned, by step and name."""
    return {
        f"{step}/{name}": getattr(fitted, name)
        for step, fitted in view.steps
        for name in _KEPT.get(type(fitted), ())
        if getattr(fitted, name) is not None
    }  # fmt: skip


def view_from(view: str, transformer: dict[str, Array]) -> Pipeline:
    """The view of this name that had learned these numbers.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> view, seen = fit_view("rank", x)
    >>> bool(np.allclose(view_from("rank", numbers_of(view)).transform(x), seen))
    True
    """
    made = make_pipeline(*_steps(view, QUANTILES), PCA())
    for key, value in transformer.items():
        step, _, attribute = key.partition("/")
        setattr(made.named_steps[step], attribute, value)
    return made


def _steps(name: str, n_quantiles: int) -> list[Any]:
    centred = StandardScaler(with_std=False)  # first: PCA takes the mean off its products, which loses digits
    if name == "root":
        return [FunctionTransformer(signed_root), centred]
    if name == "standard":
        return [StandardScaler()]
    if name == "rank":
        ranks = QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=0)
        return [ranks, FunctionTransformer(np.clip, kw_args={"a_min": -FAR, "a_max": FAR})]
    return [centred]


def signed_root(x: Array) -> Array:
    """Square root that keeps the sign.

    >>> signed_root(np.array([-4.0, 9.0])).tolist()
    [-2.0, 3.0]
    """
    return np.sign(x) * np.sqrt(np.abs(x))
