"""The EM driver that truth models and learners share.

A model supplies the first parameters, an E-step, an M-step and the posteriors.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import numpy as np

from crowdwise.answers import Answers
from crowdwise.errors import ConvergenceWarning
from crowdwise.truth.base import Array, Callback, TruthModel, fix_gold, vote_shares


class EMSteps(Protocol):
    """What the driver needs from a model: two limits and two steps."""

    max_iter: int
    tol: float
    monotone: bool  # True if the bound never falls; if it may fall, a fall does not mean convergence

    def _e_step(self, work: Any, parameters: Any) -> tuple[Any, float]: ...

    def _m_step(self, work: Any, statistics: Any, parameters: Any) -> Any: ...


def run_em(
    model: EMSteps,
    work: Any,
    parameters: Any,
    n_answers: int,
    callback: Callback | None,
    past_bounds: Sequence[float] = (),
    has_converged: Callable[[], bool] = lambda: False,
) -> tuple[Any, list[float], bool]:
    """Run EM from one start.

    Parameters
    ----------
    model : EMSteps
    work : any
        The arrays that the steps work in, passed through to them.
    parameters : any
        Where EM starts.
    n_answers : int
        Number of answers; `model.tol` is the rise of the bound per answer that ends the run.
    callback : callable or None
        Called after each E-step with the iteration and the bound.
    past_bounds : sequence of float
        To resume an interrupted run: the bounds of the iterations before `parameters`.
    has_converged : callable
        Asked after each E-step, for models whose bound does not measure progress.

    Returns
    -------
    parameters : any
        The parameters that the last bound belongs to.
    history : list of float
        The bound of each iteration.
    converged : bool
    """
    history = list(past_bounds)
    for iteration in range(len(history), model.max_iter):
        statistics, bound = model._e_step(work, parameters)
        history.append(bound)
        if callback is not None:
            callback(iteration, bound)
        if model.tol and iteration:
            rise = bound - history[-2]
            if (rise if model.monotone else abs(rise)) < model.tol * n_answers:
                return parameters, history, True
        if has_converged():
            return parameters, history, True
        if iteration + 1 < model.max_iter:
            parameters = model._m_step(work, statistics, parameters)
    return parameters, history, False


class EMModel(TruthModel):
    """A truth model fitted by EM, or by any alternation of steps that raises a bound.

    For each start, the driver calls

        parameters = _initialise(work, proba)                 from first posteriors (the votes)
        repeat  statistics, bound = _e_step(work, parameters)
                parameters = _m_step(work, statistics, parameters)
        proba_ = _posterior(work, parameters)                 consistent with the final parameters

    until the bound rises by less than `tol` per answer. `bound` is the quantity the model maximises and must never
    fall; the tests check this for every model.
    """

    max_iter: int
    tol: float
    n_init: int
    warm_start: bool
    random_state: int
    monotone: bool = True

    converged_: bool
    history_: list[float]
    n_iter_: int
    proba_: Array

    def _fit(
        self,
        answers: Answers,
        gold: Array | None,
        rng: np.random.Generator,
        callback: Callback | None,
    ) -> None:
        work = self._prepare(answers, gold)
        best: tuple[float, Any, list[float], bool] | None = None
        for start in range(self.n_init):
            proba = self._first_posteriors(answers, start, rng)
            parameters = self._initialise(work, fix_gold(proba, gold))
            del proba  # as large as the result, and not needed while EM runs
            parameters, history, converged = run_em(self, work, parameters, answers.n_answers, callback)
            if best is None or history[-1] > best[0]:
                best = history[-1], parameters, history, converged
        assert best is not None
        _, parameters, self.history_, self.converged_ = best
        self.n_iter_ = len(self.history_)
        self.proba_ = fix_gold(self._posterior(work, parameters), gold)
        self._store(work, parameters)
        self._warn_if_not_converged(answers.n_answers)

    def _first_posteriors(self, answers: Answers, start: int, rng: np.random.Generator) -> Array:
        """Return the first posteriors of a start: the vote shares or an earlier fit's; later starts add noise."""
        proba = vote_shares(answers)
        if self.warm_start and self._earlier is not None:
            tasks, earlier_proba = self._earlier_rows(answers)
            proba[tasks, : earlier_proba.shape[1]] = earlier_proba
            proba[tasks, earlier_proba.shape[1] :] = 0.0
        if start:
            noise = rng.dirichlet(np.ones(answers.n_classes), size=answers.n_tasks)
            proba = 0.5 * proba + 0.5 * noise
        return proba

    # Warm start and partial_fit: EM starts from the posteriors of the earlier fit.

    _earlier: tuple[Answers, Array] | None = None

    def _earlier_rows(self, answers: Answers) -> tuple[Array, Array]:
        """Return the rows of the tasks that the earlier fit also had, and its posteriors for them."""
        assert self._earlier is not None
        import pyarrow.compute as pc

        before, proba = self._earlier
        if not answers.class_ids.slice(0, before.n_classes).equals(before.class_ids):
            return np.empty(0, np.int64), np.empty((0, answers.n_classes))
        position = pc.index_in(answers.task_ids, value_set=before.task_ids)
        rows = np.flatnonzero(position.is_valid().to_numpy(zero_copy_only=False))
        return rows, proba[position.drop_null().to_numpy()]

    def fit(self, answers: Any, gold: Any = None, *, callback: Callback | None = None) -> Self:
        """Infer the truth; see `TruthModel.fit`."""
        self._earlier = (self.answers_, self.proba_) if self.warm_start and "proba_" in self.__dict__ else None
        try:
            return super().fit(answers, gold, callback=callback)
        finally:
            del self._earlier

    def _refit(self, answers: Answers, gold: Array | None) -> Self:
        return self._fit_with(answers, gold, warm_start=True)

    def _fit_from_votes(self, answers: Answers, gold: Array | None) -> Self:
        return self._fit_with(answers, gold, warm_start=False)

    def _fit_with(self, answers: Answers, gold: Array | None, *, warm_start: bool) -> Self:
        before = self.warm_start
        self.warm_start = warm_start
        try:
            return self.fit(answers, gold)
        finally:
            self.warm_start = before

    def _warn_if_not_converged(self, n_answers: int) -> None:
        if not self.converged_ and self.tol > 0:
            message = (
                f"{type(self).__name__} stopped after max_iter={self.max_iter} iterations before it converged: "
                f"in the last one its bound rose by {self._last_rise() / n_answers:.1e} per answer (tol={self.tol:g}). "
                f"Raise max_iter or tol."
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _last_rise(self) -> float:
        return self.history_[-1] - self.history_[-2] if len(self.history_) > 1 else float("inf")

    # To be implemented by a model

    @abstractmethod
    def _prepare(self, answers: Answers, gold: Array | None) -> Any:
        """Return the arrays that every iteration works in."""

    @abstractmethod
    def _initialise(self, work: Any, proba: Array) -> Any:
        """Return parameters estimated from first posteriors (tasks, classes)."""

    @abstractmethod
    def _e_step(self, work: Any, parameters: Any) -> tuple[Any, float]:
        """Return statistics of the posteriors, and the bound, at these parameters."""

    @abstractmethod
    def _m_step(self, work: Any, statistics: Any, parameters: Any) -> Any:
        """Return better parameters from the statistics; the present ones may serve as a start."""

    @abstractmethod
    def _posterior(self, work: Any, parameters: Any) -> Array:
        """Return the posteriors (tasks, classes) at these parameters."""

    @abstractmethod
    def _store(self, work: Any, parameters: Any) -> None:
        """Set the public fitted attributes."""
