"""Views: transformations of the features before classification. The answers tell which one helps (`pooling`).

    plain      unchanged               root      signed square root, for counts and activations with a long tail
    standard   variance one each       rank      each as quantiles of a normal, for features on odd scales
    kernel     random Fourier features (Rahimi and Recht 2007) on the principal axes of `rank`: nonlinear, for classes
               that consist of several clusters

Each view is centred, rotated to its principal axes, cut to as many of them as the number of tasks supports (`n_axes`),
and scaled by one factor to a mean variance of one. The axes keep their relative variances: small ones are mostly noise,
which shrinkage suppresses. A view is a scikit-learn pipeline fitted to features alone. It is fitted once to all tasks,
not per fold: cross-fitting hides a task's answers from the classifiers that judge it, and views use no answers.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler

from crowdwise.learn.base import Array

VIEWS = ("plain", "root", "standard", "rank", "kernel")
FEWEST, MOST, TASKS_PER_AXIS = 64, 256, 8
WAVES = 512
FAR = 3.0  # standard deviations: the lowest and highest value of a feature would map to infinity
QUANTILES = 1000


def n_axes(n_tasks: int, n_features: int) -> int:
    """Return the number of principal axes to keep: one per 8 tasks, at least 64 and at most 256.

    >>> n_axes(300, 512), n_axes(1_000, 512), n_axes(8_000, 12), n_axes(100_000, 512)
    (64, 125, 12, 256)
    """
    return min(n_features, max(n_tasks - 1, 1), MOST, max(FEWEST, n_tasks // TASKS_PER_AXIS))


class MainAxes(TransformerMixin, BaseEstimator):
    """Principal components, `n_axes` of them, scaled together to a mean variance of one.

    Unlike scikit-learn's PCA it centres before it multiplies, which keeps the precision of features with a large
    offset, and it accepts a single task.
    """

    def fit(self, X: Array, y: None = None) -> Self:
        """Fit the axes to features (tasks, features)."""
        self.mean_: Any = X.mean(axis=0)
        centred = X - self.mean_
        wide = X.shape[1] > len(X)  # then the Gram matrix of the tasks is the smaller one
        _, axes = np.linalg.eigh((centred @ centred.T if wide else centred.T @ centred) / len(X))  # the largest last
        axes = axes[:, ::-1][:, : n_axes(*X.shape)].T
        if wide:
            axes = axes @ centred
            length = np.linalg.norm(axes, axis=1, keepdims=True)
            axes /= np.where(length > 1e-9 * length.max(), length, np.inf)  # length one, or zero without variance
        axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
        size = np.square(centred @ axes.T).mean()
        self.axes_ = np.ascontiguousarray(
            axes / np.sqrt(size if size > 0 else 1.0)
        )  # the memory layout of a loaded file
        return self

    def transform(self, X: Array) -> Array:
        """Project features (tasks, features) on the axes, (tasks, axes)."""
        return np.asarray((X - self.mean_) @ self.axes_.T)


_FITTED_ATTRIBUTES = {  # what each fitted step needs to transform
    QuantileTransformer: ("quantiles_", "references_"),
    StandardScaler: ("mean_", "scale_"),
    MainAxes: ("mean_", "axes_"),
    RBFSampler: ("random_weights_", "random_offset_"),
}


def fit_view(name: str, x: Array) -> tuple[Pipeline, Array]:
    """Return a view fitted to features (tasks, features), and the transformed features (tasks, axes)."""
    x = np.asarray(x, np.float64)
    view = make_pipeline(*_steps(name, min(QUANTILES, len(x)), n_axes(*x.shape)), MainAxes())
    return view, view.fit_transform(x)


def view_parameters(view: Pipeline) -> dict[str, Array]:
    """Return the fitted attributes of a view, by step and name."""
    return {
        f"{step}/{name}": getattr(fitted, name)
        for step, fitted in view.steps
        for name in _FITTED_ATTRIBUTES.get(type(fitted), ())
    }  # fmt: skip


def restore_view(view: str, transformer: dict[str, Array]) -> Pipeline:
    """Return the view of this name with the fitted attributes that `view_parameters` returned.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> view, transformed = fit_view("rank", x)
    >>> bool(np.allclose(restore_view("rank", view_parameters(view)).transform(x), transformed))
    True
    """
    pipeline = make_pipeline(*_steps(view, QUANTILES, 1), MainAxes())
    for key, value in transformer.items():
        step, _, attribute = key.partition("/")
        setattr(pipeline.named_steps[step], attribute, value)
    return pipeline


def _steps(name: str, n_quantiles: int, n_axes: int) -> list[Any]:
    if name == "root":
        return [FunctionTransformer(signed_root)]
    if name == "standard":
        return [StandardScaler()]
    if name == "kernel":  # bandwidth: the mean squared distance of two tasks, which is 2 per axis
        waves = RBFSampler(gamma=0.5 / n_axes, n_components=WAVES, random_state=0)
        return [*_steps("rank", n_quantiles, n_axes), MainAxes(), waves]
    if name == "rank":
        # scaled first: scikit-learn treats all values within 1e-7 of the lowest as equal to it
        ranks = QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=0)
        return [StandardScaler(), ranks, FunctionTransformer(np.clip, kw_args={"a_min": -FAR, "a_max": FAR})]
    return []


def signed_root(x: Array) -> Array:
    """Return the square root of |x| with the sign of x.

    >>> signed_root(np.array([-4.0, 9.0])).tolist()
    [-2.0, 3.0]
    """
    return np.sign(x) * np.sqrt(np.abs(x))
