"""Ways to look at features before a Gaussian classifier does: which one helps is a question for the answers.

    plain      as they are            root      signed square root, for counts and activations with a long tail
    standard   each of variance one   rank      each as the quantiles of a normal, for features on odd scales
    kernel     waves of random direction and phase along the main axes of `rank` (random Fourier features; Rahimi and
               Recht 2007): main axes of these bend, and tell classes apart that lie in several pieces

Each is centred, turned to its main axes and cut to as many of them as the tasks can bear (`n_axes`), then scaled as a
whole to a mean variance of one. The axes keep their own variances: small ones are mostly noise, and shrinkage sees to
them. A view is a scikit-learn pipeline fitted to features alone. It is fitted once, to all tasks, and not in each fold:
cross-fitting keeps a task's answers from those who judge it, and no answer enters here.
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
FAR = 3.0  # deviations: the lowest and highest value of a feature would be at infinity
QUANTILES = 1000


def n_axes(n_tasks: int, n_features: int) -> int:
    """Main axes that are kept: one for 8 tasks, but at least 64 and at most 256.

    >>> n_axes(300, 512), n_axes(1_000, 512), n_axes(8_000, 12), n_axes(100_000, 512)
    (64, 125, 12, 256)
    """
    return min(n_features, max(n_tasks - 1, 1), MOST, max(FEWEST, n_tasks // TASKS_PER_AXIS))


class MainAxes(TransformerMixin, BaseEstimator):
    """Principal components, as many as the tasks can bear, scaled as a whole to a mean variance of one.

    Unlike scikit-learn's it centres before it multiplies, which keeps the digits of features with an offset, and bears
    a single task.
    """

    def fit(self, X: Array, y: None = None) -> Self:
        """Find the axes."""
        self.mean_ = X.mean(axis=0)
        centred = X - self.mean_
        wide = X.shape[1] > len(X)  # then tasks span all that there is, and have fewer products
        _, axes = np.linalg.eigh((centred @ centred.T if wide else centred.T @ centred) / len(X))  # the largest last
        axes = axes[:, ::-1][:, : n_axes(*X.shape)].T
        if wide:
            axes = axes @ centred
            length = np.linalg.norm(axes, axis=1, keepdims=True)
            axes /= np.where(length > 1e-9 * length.max(), length, np.inf)  # of length one, or nothing is there
        axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
        size = np.square(centred @ axes.T).mean()
        self.axes_ = np.ascontiguousarray(axes / np.sqrt(size if size > 0 else 1.0))  # as from a file
        return self

    def transform(self, X: Array) -> Array:
        """Features (tasks, features) along the axes, (tasks, axes)."""
        return np.asarray((X - self.mean_) @ self.axes_.T)


_KEPT = {  # what a fitted step needs to transform
    QuantileTransformer: ("quantiles_", "references_"),
    StandardScaler: ("mean_", "scale_"),
    MainAxes: ("mean_", "axes_"),
    RBFSampler: ("random_weights_", "random_offset_"),
}


def fit_view(name: str, x: Array) -> tuple[Pipeline, Array]:
    """A view fitted to features (tasks, features), and what it makes of them, (tasks, axes)."""
    x = np.asarray(x, np.float64)
    view = make_pipeline(*_steps(name, min(QUANTILES, len(x)), n_axes(*x.shape)), MainAxes())
    return view, view.fit_transform(x)


def numbers_of(view: Pipeline) -> dict[str, Array]:
    """What a fitted view has learned, by step and name."""
    return {
        f"{step}/{name}": getattr(fitted, name)
        for step, fitted in view.steps
        for name in _KEPT.get(type(fitted), ())
    }  # fmt: skip


def view_from(view: str, transformer: dict[str, Array]) -> Pipeline:
    """The view of this name that had learned these numbers.

    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> view, seen = fit_view("rank", x)
    >>> bool(np.allclose(view_from("rank", numbers_of(view)).transform(x), seen))
    True
    """
    made = make_pipeline(*_steps(view, QUANTILES, 1), MainAxes())
    for key, value in transformer.items():
        step, _, attribute = key.partition("/")
        setattr(made.named_steps[step], attribute, value)
    return made


def _steps(name: str, n_quantiles: int, n_axes: int) -> list[Any]:
    if name == "root":
        return [FunctionTransformer(signed_root)]
    if name == "standard":
        return [StandardScaler()]
    if name == "kernel":  # as wide as two tasks are apart: the mean square of that is 2 for each axis
        waves = RBFSampler(gamma=0.5 / n_axes, n_components=WAVES, random_state=0)
        return [*_steps("rank", n_quantiles, n_axes), MainAxes(), waves]
    if name == "rank":
        # scaled first: scikit-learn takes all values within 1e-7 of the lowest for it
        ranks = QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=0)
        return [StandardScaler(), ranks, FunctionTransformer(np.clip, kw_args={"a_min": -FAR, "a_max": FAR})]
    return []


def signed_root(x: Array) -> Array:
    """Square root that keeps the sign.

    >>> signed_root(np.array([-4.0, 9.0])).tolist()
    [-2.0, 3.0]
    """
    return np.sign(x) * np.sqrt(np.abs(x))
