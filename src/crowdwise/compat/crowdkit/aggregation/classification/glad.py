"""crowd-kit's GLAD."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import ProbaAggregator, read
from crowdwise.truth.base import Array
from crowdwise.truth.methods import glad


@dataclass(eq=False)
class GLAD(ProbaAggregator):
    """`crowdwise.GLAD` with crowd-kit's interface: the same model and priors, fitted until convergence.

    crowd-kit stops when its expected log-likelihood decreases, often long before EM has converged. Ours stops when the
    true bound increases by less than `tol`; `loss_history_` has its values (per answer, up to a constant). With enough
    iterations, both reach the same values. Our M-step uses Newton steps, so `m_step_max_iter` and `m_step_tol` are
    ignored. `silent` is ignored too: there is no progress bar.

    Parameters
    ----------
    n_iter, tol
        Maximum number of iterations, and the increase of the bound per answer below which they stop.
    labels_priors : Series by label, optional
        Share of each class; uniform by default.
    alphas_priors_mean, betas_priors_mean : Series by worker and by task, optional
        Prior means of ability and of log-easiness; 1 by default.

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
        table = read(data, more_classes=() if self.labels_priors is None else self.labels_priors.index)
        model = glad.GLAD(
            "uniform" if self.labels_priors is None else _align("labels_priors", self.labels_priors, table.classes),
            ability_mean=_prior_mean("alphas_priors_mean", self.alphas_priors_mean, table.workers),
            log_easiness_mean=_prior_mean("betas_priors_mean", self.betas_priors_mean, table.tasks),
            max_iter=max(self.n_iter, 1),
            tol=self.tol,
        )
        if self.n_iter:
            proba = model.fit(table.answers).proba_
            ability, log_easiness, history = model.ability_, np.log(model.easiness_), model.history_
        else:  # one E-step with the first parameters
            ability, log_easiness, history = np.ones(len(table.workers)), np.ones(len(table.tasks)), []
            first = glad.Parameters(model._first_class_prior(len(table.classes)), ability, log_easiness)
            proba = model._posterior(model._prepare(table.answers, None), first)
        self.probas_, self.labels_ = table.probas(proba).rename_axis(columns="variable"), table.labels(proba)
        self.alphas_ = table.by_worker(ability, "alpha", table.worker_ids.seen)
        rows = table.task_ids.seen
        self.betas_ = pd.Series(log_easiness[rows], index=table.tasks[rows], name="beta")
        if not self.n_iter:  # crowd-kit names the index in the first M-step
            self.alphas_, self.betas_ = self.alphas_.rename_axis(None), self.betas_.rename_axis(None)
        self.loss_history_ = [bound / table.answers.n_answers for bound in history]
        return self


def _align(name: str, values_by_id: pd.Series, ids: pd.Index) -> Array:
    """Return the values in the order of the ids; a missing value is an error."""
    values = values_by_id.reindex(ids).to_numpy(dtype=float, na_value=np.nan)
    if np.isnan(values).any():
        message = f"{name} has no value for {ids.name} {preview(ids[np.isnan(values)].tolist())}; pass one for each."
        raise errors.ParameterError(message)
    return values


def _prior_mean(name: str, values_by_id: pd.Series | None, ids: pd.Index) -> float | Array:
    return 1.0 if values_by_id is None else _align(name, values_by_id, ids)
