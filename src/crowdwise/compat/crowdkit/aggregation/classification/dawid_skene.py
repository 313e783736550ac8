"""crowd-kit's Dawid-Skene models: DawidSkene, OneCoinDawidSkene."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import pandas as pd

from crowdwise import errors
from crowdwise._core.validation import require
from crowdwise.answers import Pairs
from crowdwise.answers.encoding import preview
from crowdwise.compat.crowdkit._frames import ProbaAggregator, Table, is_empty, no_labels, read
from crowdwise.truth.base import Array, fix_gold, vote_shares
from crowdwise.truth.kernels.shared import FLOOR
from crowdwise.truth.methods import one_coin
from crowdwise.truth.methods.dawid_skene import DawidSkene as CrowdwiseDawidSkene
from crowdwise.truth.methods.dawid_skene import Parameters, Work, dense_confusion


@dataclass(eq=False)
class DawidSkene(ProbaAggregator):
    """`crowdwise.DawidSkene` without a prior, with crowd-kit's interface: equal posteriors after equally many steps.

    Two things differ, because they are errors in crowd-kit. Its stopping criterion is a bound that counts the class
    prior once per answer, and may decrease. Ours uses the true bound, so it may stop earlier or later; `loss_history_`
    has its values per answer. crowd-kit also discards the workers' history after the first step. With
    `initial_error_strategy="addition"`, ours adds it to the counts of the data in every M-step. In both, "assign" only
    sets the starting point of EM.

    Parameters
    ----------
    n_iter, tol
        Maximum number of iterations, and the increase of the bound per answer below which they stop (0: never).
    initial_error_strategy : {"assign", "addition"}, optional
        How `initial_error` is used.

    Examples
    --------
    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> DawidSkene().fit_predict(data)
    task
    1    x
    2    y
    Name: agg_label, dtype: object
    """

    n_iter: int = 100
    tol: float = 1e-5
    initial_error_strategy: Literal["assign", "addition"] | None = None

    priors_: pd.Series = field(init=False, repr=False)
    errors_: pd.DataFrame = field(init=False, repr=False)

    def fit(
        self, data: pd.DataFrame, true_labels: pd.Series | None = None, initial_error: pd.DataFrame | None = None
    ) -> Self:
        """Infer the truth. `true_labels` (by task) are held fixed; `initial_error` is indexed by (worker, label)."""
        if is_empty(data):
            _set_empty(self)
            return self
        history = None if self.initial_error_strategy is None else initial_error
        if history is not None and list(history.index.names) != ["worker", "label"]:
            message = f"initial_error is indexed by {list(history.index.names)}; index it by worker and label."
            raise errors.FormatError(message)
        table = read(data, true_labels, () if history is None else history.index.unique("label"))
        answers, gold, model = table.answers, table.gold(true_labels), self._model(table, history)
        # crowd-kit reports parameters of one more M-step after the posteriors.
        if self.n_iter:
            proba = model.fit(answers, gold).proba_
            work = model._prepare(answers, gold)
            last = model._estimate(work, work.confusion.count(proba), proba.sum(axis=0), model.prior_)
        else:  # the votes
            proba = fix_gold(vote_shares(answers), gold)
            last = model._initialise(model._prepare(answers, gold), proba)
        rows = table.task_ids.seen if self.n_iter else slice(None)
        self.probas_, self.labels_ = table.probas(proba, rows), table.labels(proba, rows)
        self.priors_ = pd.Series(last.class_prior, index=table.classes, name="prior")
        if isinstance(model, _DawidSkeneFrom):
            self.errors_ = _error_frame(table, last, None) if self.n_iter else _assigned_errors(table, model, history)
        else:
            self.errors_ = _error_frame(table, last, history)
        self.loss_history_ = [bound / answers.n_answers for bound in model.history_] if self.n_iter else []
        return self

    def fit_predict(
        self, data: pd.DataFrame, true_labels: pd.Series | None = None, initial_error: pd.DataFrame | None = None
    ) -> pd.Series:
        """Fit and return `labels_`."""
        return self.fit(data, true_labels, initial_error).labels_

    def fit_predict_proba(
        self, data: pd.DataFrame, true_labels: pd.Series | None = None, initial_error: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Fit and return `probas_`."""
        return self.fit(data, true_labels, initial_error).probas_

    def _model(self, table: Table, history: pd.DataFrame | None) -> CrowdwiseDawidSkene:
        options: dict[str, Any] = {"max_iter": max(self.n_iter, 1), "tol": self.tol}
        if history is None:
            return CrowdwiseDawidSkene(None, "estimated", **options)
        counts = _history_counts(table, history)
        if self.initial_error_strategy == "addition":
            return CrowdwiseDawidSkene(counts, "estimated", **options)
        require(self.initial_error_strategy == "assign", "initial_error_strategy", self.initial_error_strategy,
                "'assign', 'addition' or None")  # fmt: skip
        return _DawidSkeneFrom(_as_confusion(table, history, counts), **options)


@dataclass(eq=False)
class OneCoinDawidSkene(ProbaAggregator):
    """`crowdwise.OneCoin` without a prior, with crowd-kit's interface: equal posteriors after equally many steps.

    The stopping criterion is the true bound, as in `DawidSkene`. `initial_error_strategy` is ignored, as in crowd-kit.

    >>> data = pd.DataFrame({"task": [1, 1, 1, 2, 2, 2], "worker": list("abcabc"), "label": list("xxyyyy")})
    >>> OneCoinDawidSkene().fit(data).skills_.round(3).tolist()
    [1.0, 1.0, 0.5]
    """

    n_iter: int = 100
    tol: float = 1e-5
    initial_error_strategy: Literal["assign", "addition"] | None = None

    priors_: pd.Series = field(init=False, repr=False)
    errors_: pd.DataFrame = field(init=False, repr=False)

    def fit(self, data: pd.DataFrame) -> Self:
        """Infer the truth."""
        if is_empty(data):
            _set_empty(self)
            return self
        table = read(data)
        model = one_coin.OneCoin(None, "estimated", max_iter=max(self.n_iter, 1), tol=self.tol)
        proba = model.fit(table.answers).proba_ if self.n_iter else vote_shares(table.answers)
        last = model._initialise(model._prepare(table.answers, None), proba)  # one more M-step, as in crowd-kit
        rows = table.task_ids.seen if self.n_iter else slice(None)
        self.probas_, self.labels_ = table.probas(proba, rows), table.labels(proba, rows)
        self.priors_ = pd.Series(last.class_prior, index=table.classes, name="prior")
        self.skills_ = table.by_worker(last.skill, "skill", table.worker_ids.seen)
        self.errors_ = _one_coin_errors(table, last.skill)
        self.loss_history_ = [bound / table.answers.n_answers for bound in model.history_] if self.n_iter else []
        return self


def _set_empty(model: DawidSkene | OneCoinDawidSkene) -> None:
    """Set the results of a fit without answers."""
    model.probas_, model.errors_ = pd.DataFrame(), pd.DataFrame()
    model.priors_, model.labels_ = pd.Series(dtype=float, name="prior"), no_labels("float64")
    model.loss_history_ = []


class _DawidSkeneFrom(CrowdwiseDawidSkene):
    """Dawid-Skene whose EM starts from given confusion matrices instead of the votes."""

    def __init__(self, start: Array, **options: Any) -> None:
        super().__init__(None, "estimated", **options)
        self.start = start

    def _initialise(self, work: Work, proba: Array) -> Parameters:
        worker, label = _pairs(work.confusion.pairs)
        return super()._initialise(work, proba)._replace(table=self.start[worker, :, label])


def _pairs(pairs: Pairs) -> tuple[Array, Array]:
    """Return the worker and label of each pair that occurs."""
    return np.repeat(np.arange(len(pairs.worker_starts) - 1), np.diff(pairs.worker_starts)), pairs.label


def _history_counts(table: Table, history: pd.DataFrame) -> Array:
    """Return the history as counts [worker, truth, label]; workers without answers are ignored."""
    worker = table.workers.get_indexer(history.index.get_level_values("worker"))
    label = table.classes.get_indexer(history.index.get_level_values("label"))
    counts = np.zeros((len(table.workers), len(table.classes), len(table.classes)))
    rows = history.reindex(columns=table.classes).fillna(0.0).to_numpy(float)  # (history rows, truth)
    counts[worker[worker >= 0], :, label[worker >= 0]] = rows[worker >= 0]
    return counts


def _as_confusion(table: Table, history: pd.DataFrame, counts: Array) -> Array:
    """Return the confusion matrices for "assign" from counts, or from probabilities that sum to one."""
    seen = pd.MultiIndex.from_frame(table.data[["worker", "label"]]).unique()
    missing = seen.difference(history.index)
    if len(missing):
        message = (
            f"initial_error lacks {len(missing)} rows, such as (worker, label) = {preview(missing.tolist())}. Pass the "
            f"matrix of every worker, or use the strategy 'addition'."
        )
        raise errors.GoldError(message)
    totals = counts.sum(axis=2, keepdims=True)  # (workers, truth, 1)
    if (counts <= 1).all() and not np.allclose(totals, 1):
        message = (
            "The sum of each worker's error matrix in initial_error should be 1.0 in every column (a true class). If "
            "its values are counts, some must be above 1."
        )
        raise errors.ParameterError(message)
    counts = np.maximum(counts, FLOOR)
    return counts / counts.sum(axis=2, keepdims=True)


def _error_frame(table: Table, last: Parameters, history: pd.DataFrame | None) -> pd.DataFrame:
    """Return the error matrices by (worker, label); rows that occur only in the history come last."""
    seen = table.data[["worker", "label"]]
    if history is not None:
        past = history.index.to_frame(index=False)
        seen = pd.concat([seen, past[past["worker"].isin(table.workers)]])
    seen, worker, label = _distinct(table, seen)
    if history is None:
        pair_worker, pair_label = _pairs(table.answers.pairs)
        code = pair_worker * len(table.classes) + pair_label  # increasing
        values = last.table[np.searchsorted(code, worker * len(table.classes) + label)]
    else:
        values = dense_confusion(table.answers, last.table, last.prior, last.totals)[worker, :, label]
    return _errors(table, seen, values)


def _assigned_errors(table: Table, model: _DawidSkeneFrom, history: pd.DataFrame) -> pd.DataFrame:
    """Return the error matrices that EM starts from, in the order of the history."""
    past = history.index.to_frame(index=False)
    seen, worker, label = _distinct(table, past[past["worker"].isin(table.workers)])
    return _errors(table, seen, model.start[worker, :, label])


def _one_coin_errors(table: Table, skill: Array) -> pd.DataFrame:
    seen, worker, label = _distinct(table, table.data[["worker", "label"]])
    right, wrong = one_coin.answer_probability(skill, len(table.classes))
    values = np.repeat(wrong[worker][:, None], len(table.classes), axis=1)  # (rows, truth)
    values[np.arange(len(label)), label] = right[worker]
    return _errors(table, seen, values)


def _distinct(table: Table, seen: pd.DataFrame) -> tuple[pd.DataFrame, Array, Array]:
    """Return the distinct (worker, label) rows in order of first appearance, and their codes."""
    seen = seen.drop_duplicates()
    return seen, table.workers.get_indexer(seen["worker"]), table.classes.get_indexer(seen["label"])


def _errors(table: Table, seen: pd.DataFrame, values: Array) -> pd.DataFrame:
    """Return a frame of P(label | truth) with one row per (worker, label) and one column per true class."""
    return pd.DataFrame(values, index=pd.MultiIndex.from_frame(seen), columns=table.classes.astype(object).rename(None))
