"""The one EM driver, for truth models and learners.

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
    """What the driver asks of a model: two limits and two steps."""

    max_iter: int
    tol: float
    monotone: bool  # whether the bound never falls; where it may, a fall does not mean that EM has settled

    def _e_step(self, work: Any, parameters: Any) -> tuple[Any, float]: ...

    def _m_step(self, work: Any, statistics: Any, parameters: Any) -> Any: ...


def run_em(
    model: EMSteps,
    work: Any,
    parameters: Any,
    n_answers: int,
    callback: Callback | None,
    before: Sequence[float] = (),
    settled: Callable[[], bool] = lambda: False,
) -> tuple[Any, list[float], bool]:
    """EM from one start: the parameters the last bound belongs to, all bounds, and whether they settled.

    A climb that was broken off goes on from its parameters, given the bounds `before` them. Where the bound is no
    measure of progress, the model says itself when it has `settled`; it is asked after each E-step.
    """
    history = list(before)
    for iteration in range(len(history), model.max_iter):
        statistics, bound = model._e_step(work, parameters)
        history.append(bound)
        if callback is not None:
            callback(iteration, bound)
        if model.tol and iteration:
            rise = bound - history[-2]
            if (rise if model.monotone else abs(rise)) < model.tol * n_answers:
                return parameters, history, True
        if settled():
            return parameters, history, True
        if iteration + 1 < model.max_iter:
            parameters = model._m_step(work, statistics, parameters)
    return parameters, history, False


class EMModel(TruthModel):
    """A truth model fitted by EM, or by any alternation that raises a bound.

    The driver calls, for each start,

        parameters = _initialise(work, proba)                 from first posteriors (the votes)
        repeat  statistics, bound = _e_step(work, parameters)
                parameters = _m_step(work, statistics, parameters)
        proba_ = _posterior(work, parameters)                 consistent with the parameters kept

    until the bound rises by less than `tol` per answer. `bound` is the quantity the model maximises and must never
    fall; the tests hold every model to that.
    """

    max_iter: int
    tol: float
    n_init: int
    warm_start: bool
    random_state: int
    monotone: bool = True

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
            del proba  # as large as the result: not kept while EM runs
            parameters, history, converged = run_em(self, work, parameters, answers.n_answers, callback)
            if best is None or history[-1] > best[0]:
                best = history[-1], parameters, history, converged
        assert best is not None
        _, parameters, self.history_, self.converged_ = best
        self.n_iter_ = len(self.history_)
        self.proba_ = fix_gold(self._posterior(work, parameters), gold)
        self._store(work, parameters)
        self._warn_unsettled(answers.n_answers)

    def _first_posteriors(self, answers: Answers, start: int, rng: np.random.Generator) -> Array:
        """Where a start begins: the votes, or what an earlier fit found; later starts are shaken at random."""
        proba = vote_shares(answers)
        if self.warm_start and self._earlier is not None:
            tasks, shape = self._earlier_rows(answers)
            proba[tasks, : shape.shape[1]] = shape
            proba[tasks, shape.shape[1] :] = 0.0
        if start:
            noise = rng.dirichlet(np.ones(answers.n_classes), size=answers.n_tasks)
            proba = 0.5 * proba + 0.5 * noise
        return proba

    # Warm start and partial_fit: EM goes on from the posteriors of the earlier fit.

    _earlier: tuple[Answers, Array] | None = None

    def _earlier_rows(self, answers: Answers) -> tuple[Array, Array]:
        """Rows of the present tasks that an earlier fit knew, and its posteriors for them."""
        assert self._earlier is not None
        import pyarrow.compute as pc

        before, proba = self._earlier
        if not answers.class_ids.slice(0, before.n_classes).equals(before.class_ids):
            return np.empty(0, np.int64), np.empty((0, answers.n_classes))
        position = pc.index_in(answers.task_ids, value_set=before.task_ids)
        rows = np.flatnonzero(position.is_valid().to_numpy(zero_copy_only=False))
        return rows, proba[position.drop_null().to_numpy()]

    def fit(self, answers: Answers, gold: Any = None, *, callback: Callback | None = None) -> Self:
        """Infer the truth; see `TruthModel.fit`."""
        self._earlier = (self.answers_, self.proba_) if self.warm_start and "proba_" in self.__dict__ else None
        try:
            return super().fit(answers, gold, callback=callback)
        finally:
            del self._earlier

    def _refit(self, answers: Answers, gold: Array | None) -> Self:
        warm = self.warm_start
        self.warm_start = True
        try:
            return self.fit(answers, gold)
        finally:
            self.warm_start = warm

    def _warn_unsettled(self, n_answers: int) -> None:
        if not self.converged_ and self.tol > 0:
            message = (
                f"{type(self).__name__} stopped after max_iter={self.max_iter} iterations before its bound settled "
                f"(last rise {self._last_rise() / n_answers:.1e} per answer, tol={self.tol:g}). "
                f"Raise max_iter or tol."
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=4)

    def _last_rise(self) -> float:
        return self.history_[-1] - self.history_[-2] if len(self.history_) > 1 else float("inf")

    # What a model supplies

    @abstractmethod
    def _prepare(self, answers: Answers, gold: Array | None) -> Any:
        """Arrays that every iteration works in."""

    @abstractmethod
    def _initialise(self, work: Any, proba: Array) -> Any:
        """Parameters from first posteriors (tasks, classes)."""

    @abstractmethod
    def _e_step(self, work: Any, parameters: Any) -> tuple[Any, float]:
        """Statistics of the posteriors, and the bound at these parameters."""

    @abstractmethod
    def _m_step(self, work: Any, statistics: Any, parameters: Any) -> Any:
        """Better parameters, given the statistics; the present ones may serve as a start."""

    @abstractmethod
    def _posterior(self, work: Any, parameters: Any) -> Array:
        """Posteriors (tasks, classes) at these parameters."""

    @abstractmethod
    def _store(self, work: Any, parameters: Any) -> None:
        """Set the fitted attributes users read."""
