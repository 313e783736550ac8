"""Personal classifiers: each worker k is a logistic classifier w_k of their own, near a target classifier w_0.

    P(worker k says l of x) = softmax(x w_k)[l]     x has a last entry 1; with two classes sigmoid(x w_k), one column

    minimise    loss + ties + eta / 2 * |w_0|^2
    loss        sum over answers a of -log P(worker[a] says label[a])
    ties        personal:   lam / 2 * sum over workers k of |w_k - w_0|^2
                clustered:  mu / n * sum over pairs j < k of |w_j - w_k|
    n           average number of pairs per worker: with all pairs, the number of workers

The target has no answers; the workers pull it. Personal workers pull it to their mean,

    w_0 = lam * sum over k of w_k / (eta + lam * workers)

clustered ones to their median, since the norm is not squared: a minority of spammers moves it little. Similar workers
merge into clusters. Both problems are convex and solved by L-BFGS: personal with w_0 replaced as above, clustered with
sqrt(|.|^2 + eps^2) for |.|, in rounds of decreasing eps, each from the end of the last. So the objective only falls.
(The paper uses ADMM. On a real crowd of 176 workers this reached a lower value, and sooner.)

Kajino, Tsuboi and Kashima, "A convex formulation for learning from crowds", AAAI 2012 (personal), and "Clustering
crowds", AAAI 2013 (clustered, two classes). As in the authors' code, all pairs have the same weight. More than two
classes, and a subset of the pairs, are our extension.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import log_softmax, softmax

from crowdwise._core.validation import is_integer, require
from crowdwise.answers import Answers
from crowdwise.errors import ConvergenceWarning, ParameterError, TooLargeError
from crowdwise.learn.base import Array, Callback, CrowdClassifier, FitInput
from crowdwise.learn.features import Features
from crowdwise.learn.features.scaling import mean_and_scale

# Returns the value and the gradient of an objective.
Objective = Callable[[Array], tuple[float, Array]]

SMOOTHING = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)  # eps of each round
MAX_CELLS = 100_000_000  # pairs x features


class CPC(CrowdClassifier):
    """A personal classifier per worker, and a target classifier among them.

    Parameters
    ----------
    kind : {"auto", "clustered", "personal"}
        How workers are tied to the target: by distances, so that they form clusters (two classes only), or by squared
        distances. "auto" is clustered with two classes, and personal with more.
    lam, mu : float
        Strength of the ties, personal and clustered. The loss is a sum over answers, so a worker with many answers is
        tied less.
    eta : float or None
        Ridge penalty of the target. None is 10 for personal and 0.1 for clustered classifiers, where |w_0| is at most
        mu / eta. (The defaults were chosen on three real crowds with known truth.)
    pairs : "auto", "all" or int
        Which workers are tied to each other in clusters: all, or each to this number of workers they agree with most
        (and all to the target). "auto" is all for up to 200 workers, and 10 for more: time and memory grow with the
        pairs.
    max_iter : int
        Maximum number of iterations.
    tol : float
        Relative decrease of the objective below which a round stops.
    standardise : bool
        Whether to scale features to mean 0 and standard deviation 1 first.
    random_state : int
        Seed for breaking ties in `labels_`; the fit is deterministic.

    Attributes
    ----------
    coef_ : (classes, features + 1) array
        The target classifier on standardised features, bias last. With two classes the first row is zero.
    worker_coef_ : (workers, classes, features + 1) array
        The classifiers of the workers.
    cluster_ : (workers,) array
        The cluster of each worker, numbered from 0; personal classifiers are clusters of one.

    Examples
    --------
    >>> from crowdwise import CPC, simulate
    >>> X, answers = simulate.digits_crowd()
    >>> model = CPC().fit(X, answers)
    >>> model.coef_.shape, model.answer_proba(X[:3], answers.workers[0]).shape
    ((10, 65), (3, 10))
    """

    proba_: Array

    def __init__(
        self,
        kind: Literal["auto", "clustered", "personal"] = "auto",
        *,
        lam: float = 1.0,
        mu: float = 3.0,
        eta: float | None = None,
        pairs: Literal["auto", "all"] | int = "auto",
        max_iter: int = 5000,
        tol: float = 1e-6,
        standardise: bool = True,
        random_state: int = 0,
    ) -> None:
        self.kind = kind
        self.lam = lam
        self.mu = mu
        self.eta = eta
        self.pairs = pairs
        self.max_iter = max_iter
        self.tol = tol
        self.standardise = standardise
        self.random_state = random_state

    coef_: Array
    worker_coef_: Array
    cluster_: Array
    mean_: Array
    scale_: Array

    def _check_parameters(self) -> None:
        require(self.kind in ("auto", "clustered", "personal"), "kind", self.kind, "'auto', 'clustered' or 'personal'")
        for name, value in (("lam", self.lam), ("mu", self.mu), ("eta", 1.0 if self.eta is None else self.eta)):
            require(0 < value < np.inf, name, value, "a number above 0")
        valid = self.pairs in ("auto", "all") or is_integer(self.pairs, 1)
        require(valid, "pairs", self.pairs, "'auto', 'all' or an integer, 1 or more")
        require(self.max_iter >= 1, "max_iter", self.max_iter, "an integer, 1 or more")
        require(0 <= self.tol < np.inf, "tol", self.tol, "a number, 0 or more")

    def _fit(self, inputs: FitInput) -> None:
        features, answers, weight, gold, _, callback = inputs
        if gold is not None:
            message = "CPC does not infer labels, so it cannot use gold. Leave gold out, or add it as a worker."
            raise ParameterError(message)
        if self.kind == "clustered" and answers.n_classes > 2:
            message = f"kind='clustered' takes two classes; the answers have {answers.n_classes}. Use kind='personal'."
            raise ParameterError(message)
        x = features.matrix()
        self.mean_, self.scale_ = (
            mean_and_scale(features) if self.standardise else (np.zeros(x.shape[1]), np.ones(x.shape[1]))
        )
        x = self._standardise(x)  # (tasks, features + 1)
        if weight is not None:
            weight = weight[answers.task] if answers.weight is None else answers.weight * weight[answers.task]
        loss = AnswerLoss(x, answers, answers.weight if weight is None else weight)
        descent = Descent(self.max_iter, self.tol, self.history_, callback)
        if self.kind == "personal" or answers.n_classes > 2:
            target, own = fit_personal(loss, self.lam, 10.0 if self.eta is None else self.eta, descent)
            self.cluster_ = np.arange(answers.n_workers)
        else:
            pairs = self._worker_pairs(answers, x.shape[1])
            eta = 0.1 if self.eta is None else self.eta
            target, own, self.cluster_ = fit_clustered(loss, pairs, self.mu, eta, descent)
        self.coef_, self.worker_coef_ = by_class(target), by_class(own)
        self.proba_ = softmax(x @ self.coef_.T, axis=1)
        if not descent.converged:
            message = f"CPC did not converge in max_iter={self.max_iter} iterations. Increase max_iter or tol."
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _worker_pairs(self, answers: Answers, n_features: int) -> Array:
        """Return the pairs that are tied, (pairs, 2); see `fit_clustered`."""
        n, pairs = answers.n_workers, self.pairs
        if pairs == "auto":
            pairs = "all" if n <= 200 else 10
        n_pairs = n * (n + 1) // 2 if pairs == "all" else n * (int(pairs) + 1)
        if n_pairs * n_features > MAX_CELLS:
            message = (
                f"pairs={pairs!r} ties {n_pairs:,} pairs of workers, each with {n_features:,} features: too many for "
                "memory. Use a lower number."
            )
            raise TooLargeError(message)
        return all_pairs(n) if pairs == "all" else nearest_pairs(answers, int(pairs))

    def _standardise(self, x: Array) -> Array:
        return np.column_stack([(x.reshape(len(x), -1) - self.mean_) * self.scale_, np.ones(len(x))])

    def _predict_proba(self, features: Features) -> Array:
        return np.concatenate([softmax(self._standardise(b) @ self.coef_.T, axis=1) for b in features.blocks()])

    def _proba_of_answers(self, features: Features, rows: Array, row: Array, worker: Array) -> Array:
        x = self._standardise(features.rows(rows))
        some, index = np.unique(worker, return_inverse=True)
        logits = np.tensordot(x, self.worker_coef_[some], axes=(1, 2))  # (rows, workers, classes)
        return softmax(logits[row, index], axis=1)


class AnswerLoss:
    """The sum over answers of -log P(label), each by the classifier of its worker.

    All answers form one sparse matrix with a block of columns per worker, so that one product serves them all. It takes
    12 bytes per answer and feature.
    """

    weight: Array | Array

    def __init__(self, x: Array, answers: Answers, weight: Array | None) -> None:
        n, size = answers.n_answers, x.shape[1]
        column = answers.worker.astype(np.int64)[:, None] * size + np.arange(size)  # (answers, features)
        self.design = csr_array(
            (x[answers.task].ravel(), column.ravel(), np.arange(n + 1) * size), shape=(n, answers.n_workers * size)
        )
        self.shape = (answers.n_workers, size, 1 if answers.n_classes == 2 else answers.n_classes)
        self.label: Array = answers.label
        self.weight = np.ones(n) if weight is None else weight

    def __call__(self, w: Array) -> tuple[float, Array]:
        """Return value and gradient at classifiers (workers, features, columns)."""
        logits = self.design @ w.reshape(-1, self.shape[2])  # (answers, columns)
        if self.shape[2] == 1:
            logits = np.column_stack([np.zeros(len(logits)), logits])
        log_p = log_softmax(logits, axis=1)  # (answers, classes)
        each = np.arange(len(log_p))
        error = np.exp(log_p)
        error[each, self.label] -= 1
        error *= self.weight[:, None]
        slope = self.design.T @ error[:, -self.shape[2] :]
        return -float(self.weight @ log_p[each, self.label]), slope.reshape(self.shape)


class Descent:
    """L-BFGS in one or more rounds that share a history and a maximum number of iterations."""

    history: list[dict[str, Any]]
    max_iter: int
    tol: float

    def __init__(self, max_iter: int, tol: float, history: list[dict[str, Any]], callback: Callback | None) -> None:
        self.max_iter, self.tol, self.history, self.callback = max_iter, tol, history, callback
        self.converged: bool = True

    def run(self, objective: Objective, start: Array) -> Array:
        """Return the minimum, in the shape of the start."""

        def flat(w: Array) -> tuple[float, Array]:
            value, slope = objective(w.reshape(start.shape))
            return value, slope.ravel()

        left = self.max_iter - len(self.history)
        if left < 1:
            self.converged = False
            return start
        options = {"maxiter": left, "maxfun": 20 * left, "ftol": self.tol, "gtol": 1e-8}
        result = minimize(flat, start.ravel(), jac=True, method="L-BFGS-B", callback=self._record, options=options)
        self.converged &= result.status != 1  # status 2, a failed line search, counts as converged
        return result.x.reshape(start.shape)

    def _record(self, intermediate_result: OptimizeResult) -> None:
        loss = float(intermediate_result.fun)
        self.history.append({"iteration": len(self.history) + 1, "iterations": self.max_iter, "loss": loss})
        if self.callback is not None:
            self.callback(self.history[-1])


def fit_personal(loss: AnswerLoss, lam: float, eta: float, descent: Descent) -> tuple[Array, Array]:
    """Return the target (features, columns) and the workers' classifiers (workers, features, columns)."""

    def target(w: Array) -> Array:
        return lam * w.sum(axis=0) / (eta + lam * len(w))

    def objective(w: Array) -> tuple[float, Array]:
        value, slope = loss(w)
        away = w - target(w)  # the gradient by the target is zero at its optimum
        value += 0.5 * lam * float(np.square(away).sum()) + 0.5 * eta * float(np.square(target(w)).sum())
        return value, slope + lam * away

    w = descent.run(objective, np.zeros(loss.shape))
    return target(w), w


def fit_clustered(
    loss: AnswerLoss, pairs: Array, mu: float, eta: float, descent: Descent
) -> tuple[Array, Array, Array]:
    """Return target, workers' classifiers and clusters; in pairs (pairs, 2) 0 is the target, workers count from 1."""
    n = loss.shape[0]
    pull = mu * n / (2 * len(pairs) - n)  # mu / average number of pairs per worker; n pairs include the target
    sign = np.tile([1.0, -1.0], len(pairs))
    difference = csr_array((sign, pairs.ravel(), 2 * np.arange(len(pairs) + 1)), shape=(len(pairs), n + 1))

    def smoothed(eps: float) -> Objective:
        def objective(w: Array) -> tuple[float, Array]:
            value, slope = loss(w[1:])
            delta = difference @ w[..., 0]  # (pairs, features)
            norm = np.sqrt(np.square(delta).sum(axis=1) + eps**2)
            value += pull * float(norm.sum()) + 0.5 * eta * float(np.square(w[0]).sum())
            total = (difference.T @ (delta * (pull / norm)[:, None]))[..., None]  # (1 + workers, features, 1)
            total[0] += eta * w[0]
            total[1:] += slope
            return value, total

        return objective

    w = np.zeros((n + 1, *loss.shape[1:]))
    for eps in SMOOTHING:
        w = descent.run(smoothed(eps), w)
    merged = pairs[np.linalg.norm(difference @ w[..., 0], axis=1) < 10 * SMOOTHING[-1]]
    graph = coo_array((np.ones(len(merged)), merged.T), shape=(n + 1, n + 1))
    cluster = connected_components(graph, directed=False)[1][1:]
    return w[0], w[1:], np.unique(cluster, return_inverse=True)[1]


def all_pairs(n_workers: int) -> Array:
    """Return every pair (j, k), j < k, of the target (0) and the workers (from 1), as (pairs, 2).

    >>> all_pairs(2).tolist()
    [[0, 1], [0, 2], [1, 2]]
    """
    return np.column_stack(np.triu_indices(n_workers + 1, 1))


def nearest_pairs(answers: Answers, k: int) -> Array:
    """Return the pairs of the target and every worker, and of each worker and the k they agree with most.

    >>> crowd = Answers.from_arrays([1, 1, 1, 2, 2], list("abcab"), list("xxyyy"))
    >>> nearest_pairs(crowd, 1).tolist()
    [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3]]
    """
    n, ones = answers.n_workers, np.ones(answers.n_answers)
    cell = answers.task.astype(np.int64) * answers.n_classes + answers.label
    by_task = csr_array((ones, (answers.worker, answers.task)), shape=(n, answers.n_tasks))
    by_label = csr_array((ones, (answers.worker, cell)), shape=(n, answers.n_tasks * answers.n_classes))
    shared = (by_task @ by_task.T).tocoo()
    other = shared.row != shared.col
    row, col = shared.row[other], shared.col[other]
    share = ((by_label @ by_label.T).tocsr()[row, col] + 1) / (shared.data[other] + 2)  # smoothed agreement
    order = np.lexsort((col, -share, row))
    first = np.searchsorted(row[order], np.arange(n))
    near = order[np.arange(len(order)) - first[row[order]] < k]
    ends = np.sort(np.column_stack([row[near], col[near]]), axis=1) + 1
    star = np.column_stack([np.zeros(n, np.int64), np.arange(1, n + 1)])
    return np.concatenate([star, np.unique(ends, axis=0)])


def by_class(w: Array) -> Array:
    """Return classifiers (..., features, columns) as (..., classes, features)."""
    rows = np.swapaxes(w, -1, -2)
    return np.concatenate([np.zeros_like(rows), rows], axis=-2) if rows.shape[-2] == 1 else np.ascontiguousarray(rows)
