"""crowd-kit's other models of workers over ours: GLAD, MACE, KOS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
import pandas as pd
from scipy.special import digamma

from crowdwise import errors
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import Aggregator, ProbaAggregator, read
from crowdwise.truth.base import Array
from crowdwise.truth.methods import glad, kos, mace


@dataclass(eq=False)
class GLAD(ProbaAggregator):
    """`crowdwise.GLAD` under crowd-kit's names: the same model and priors, fitted to the end.

    crowd-kit stops when its expected log-likelihood falls, which it may do long before EM has settled; ours climbs the
    true bound, which `loss_history_` holds (per answer, up to a constant), until it rises by less than `tol`. Let run,
    both arrive at the same values. Our M-step takes Newton steps, so `m_step_max_iter` and `m_step_tol` are taken and
    ignored, and so is `silent`: there is no bar.

    Parameters
    ----------
    n_iter, tol
        Iterations at most, and the rise of the bound per answer that ends them.
    labels_priors : Series by label, optional
        Share of each class; even when not given.
    alphas_priors_mean, betas_priors_mean : Series by worker and by task, optional
        Prior means of ability and of log-easiness; 1 when not given.

    Examples
    --------
    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> GLAD().fit_predict(data).tolist()
    ['x', 'y']
    """

    n_iter: int = 100
    tol: float = 1e-5
    silent: bool = True
    labels_priors: pd.Series | None = None
    alphas_priors_mean: pd.Series | None = None
    betas_priors_mean: pd.Series | None = None
    m_step_max_iter: int = 25
    m_step_tol: float = 1e-2

    alphas_: pd.Series = field(init=False, repr=False)
    betas_: pd.Series = field(init=False, repr=False)

    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the truth."""
        table = read(data, more=() if self.labels_priors is None else self.labels_priors.index)
        model = glad.GLAD(
            "uniform" if self.labels_priors is None else _aligned("labels_priors", self.labels_priors, table.classes),
            ability_mean=_mean("alphas_priors_mean", self.alphas_priors_mean, table.workers),
            log_easiness_mean=_mean("betas_priors_mean", self.betas_priors_mean, table.tasks),
            max_iter=self.n_iter,
            tol=self.tol,
        ).fit(table.answers)
        self.probas_ = table.probas(model.proba_).rename_axis(columns="variable")
        self.labels_ = table.labels(model.proba_)
        self.alphas_ = table.by_worker(model.ability_, "alpha", table.worker_ids.seen)
        rows = table.task_ids.seen
        self.betas_ = pd.Series(np.log(model.easiness_)[rows], index=table.tasks[rows], name="beta")
        self.loss_history_ = [bound / table.answers.n_answers for bound in model.history_]
        return self


@dataclass(eq=False)
class MACE(ProbaAggregator):
    """`crowdwise.MACE` under crowd-kit's names: the same model and priors.

    crowd-kit's restarts all begin at the same draw, and it mixes up the workers' habits unless workers and labels first
    appear in sorted order; ours begins at the votes, then shakes them, and keeps the best bound. Let run on sorted
    rows, both arrive at the same values. As in crowd-kit, `method="em"` adds 0.01 / classes to each count whatever
    `smoothing` says. `default_noise` and `verbose` are taken and ignored.

    Parameters
    ----------
    n_restarts, n_iter
        Number of starts, and iterations of each.
    method : {"vb", "em"}
        Variational Bayes, or EM with smoothed counts.
    alpha, beta
        Prior counts of spam and of known answers, for "vb".
    random_state
        Seed of the starts.

    Attributes
    ----------
    spamming_ : (workers, 2) array
        Spam and known answers of each worker, in order of first appearance: probabilities, or for "vb" exp(E log) of
        them, which sum to less than one.
    thetas_ : (workers, classes) array
        What each worker says when spamming, likewise.

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
        self.spamming_, thetas = _spam(model)
        self.spamming_, self.thetas_ = self.spamming_[workers], thetas[np.ix_(workers, classes)]
        return self


def _spam(model: mace.MACE) -> tuple[Array, Array]:
    """Spam and known (workers, 2), and labels in the spam (workers, classes), as MACE's E-step takes them."""
    known_prior, spam_prior, label_prior = model._prior(len(model.classes_))
    total = np.diff(model.answers_.worker_starts) + known_prior + spam_prior  # (workers,)
    states = np.stack([1 - model.competence_, model.competence_], axis=1) * total[:, None]
    of_spam = states[:, 0] - spam_prior + label_prior * len(model.classes_)
    labels = model.strategy_ * of_spam[:, None]
    log = digamma if model.method == "vb" else np.log
    return np.exp(log(states) - log(total)[:, None]), np.exp(log(labels) - log(of_spam)[:, None])


@dataclass(eq=False)
class KOS(Aggregator):
    """`crowdwise.KOS` under crowd-kit's names. Two classes are the paper's case; ours takes more.

    The first messages are drawn at random, by another generator than crowd-kit's, so labels may differ on the few tasks
    whose messages nearly cancel. Ours cannot overflow.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyx")})
    >>> KOS().fit_predict(data).tolist()
    ['x', 'y']
    """

    n_iter: int = 100
    random_state: int = 0

    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the truth."""
        table = read(data)
        model = kos.KOS(average=False, max_iter=self.n_iter, tol=0, random_state=self.random_state).fit(table.answers)
        self.labels_ = table.labels(model.proba_)
        return self


def _aligned(name: str, given: pd.Series, ids: pd.Index) -> Array:
    """Values in the order of the ids; every id needs one."""
    values = given.reindex(ids).to_numpy(dtype=float, na_value=np.nan)
    if np.isnan(values).any():
        message = f"{name} has no value for {ids.name} {preview(ids[np.isnan(values)].tolist())}; give one for each."
        raise errors.ParameterError(message)
    return values


def _mean(name: str, given: pd.Series | None, ids: pd.Index) -> float | Array:
    return 1.0 if given is None else _aligned(name, given, ids)
