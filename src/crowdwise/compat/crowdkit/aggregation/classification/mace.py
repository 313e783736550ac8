"""crowd-kit's MACE."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import pandas as pd
from scipy.special import digamma

from crowdwise.compat.crowdkit._frames import ProbaAggregator, read
from crowdwise.truth.base import Array
from crowdwise.truth.methods import mace


@dataclass(eq=False)
class MACE(ProbaAggregator):
    """`crowdwise.MACE` with crowd-kit's interface: the same model and priors.

    crowd-kit's restarts all begin at the same draw, and it mixes up the workers' label preferences unless workers and
    labels first appear in sorted order. Ours starts from the votes, restarts from perturbed votes, and keeps the best
    bound. With enough iterations on sorted rows, both reach the same values. As in crowd-kit, `method="em"` adds
    0.01 / classes to each count for any `smoothing`. `default_noise` and `verbose` are ignored.

    Parameters
    ----------
    n_restarts, n_iter
        Number of starts, and of iterations per start.
    method : {"vb", "em"}
        Variational Bayes, or EM with smoothed counts.
    alpha, beta
        Prior counts of spam and of known answers, for "vb".
    random_state
        Seed of the starts.

    Attributes
    ----------
    spamming_ : (workers, 2) array
        Probabilities that a worker spams, or knows the answer, in order of first appearance; for "vb" exp(E log) of
        them, which sum to less than one.
    thetas_ : (workers, classes) array
        Distribution of each worker's labels when spamming, likewise.

    Examples
    --------
    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> MACE().fit_predict(data).tolist()
    ['x', 'y']
    """

    n_restarts: int = 10
    n_iter: int = 50
    method: Literal["vb", "em"] = "vb"
    smoothing: float = 0.1
    default_noise: float = 0.5
    alpha: float = 0.5
    beta: float = 0.5
    random_state: int = 0
    verbose: int = 0

    spamming_: Array = field(init=False, repr=False)
    thetas_: Array = field(init=False, repr=False)
    theta_priors_: Array = field(init=False, repr=False)
    strategy_priors_: Array = field(init=False, repr=False)
    smoothing_: float = field(init=False, repr=False)

    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the truth."""
        table = read(data)
        n_workers, n_classes = len(table.workers), len(table.classes)
        self.smoothing_ = 0.01 / n_classes
        model = mace.MACE(
            self.method, alpha=self.alpha, beta=self.beta, strategy_prior=10.0, smoothing=0.01,
            n_init=self.n_restarts, max_iter=self.n_iter, tol=0, random_state=self.random_state,
        ).fit(table.answers)  # fmt: skip
        tasks, workers, classes = table.task_ids.seen, table.worker_ids.seen, table.class_ids.seen
        self.probas_ = table.probas(model.proba_, tasks).iloc[:, classes].rename_axis(columns=None)
        self.labels_ = self.probas_.idxmax(axis=1).rename("agg_label")
        self.theta_priors_ = np.tile([self.alpha, self.beta], (n_workers, 1))
        self.strategy_priors_ = np.full((n_workers, n_classes), 10.0)
        self.spamming_, thetas = _spam_parameters(model)
        self.spamming_, self.thetas_ = self.spamming_[workers], thetas[np.ix_(workers, classes)]
        return self


def _spam_parameters(model: mace.MACE) -> tuple[Array, Array]:
    """Return `spamming_` (workers, 2) and `thetas_` (workers, classes), as the E-step of MACE uses them."""
    known_prior, spam_prior, label_prior = model._prior(len(model.classes_))
    total = np.diff(model.answers_.worker_starts) + known_prior + spam_prior  # (workers,)
    states = np.stack([1 - model.competence_, model.competence_], axis=1) * total[:, None]
    spam_total = states[:, 0] - spam_prior + label_prior * len(model.classes_)
    labels = model.strategy_ * spam_total[:, None]
    log = digamma if model.method == "vb" else np.log
    return np.exp(log(states) - log(total)[:, None]), np.exp(log(labels) - log(spam_total)[:, None])
